"""Where a tree is sent to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

_PATH: Final = "/v1/traces"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class SendError(Exception):
    """Spans could not be sent; the message says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where spans are sent to."""

    url: str
    """As its exporter takes it."""
    protocol: Literal["http", "grpc"]
    shown: str
    """As it may be shown: without user and password."""

    @classmethod
    def of(cls, text: str) -> Endpoint:
        """An endpoint as a user names it.

        Args:
            text: base of an OTLP/HTTP endpoint, to which ``/v1/traces`` is added, or all of
                it; or ``grpc://host:port``, with TLS ``grpcs://host:port``.

        Raises:
            ValueError: it is none of these.
        """
        try:
            url = urlsplit(text.strip())
            is_complete = bool(url.hostname and (url.port is None or url.port))
        except ValueError:
            is_complete = False
        if not is_complete or url.scheme not in ("http", "https", "grpc", "grpcs"):
            raise ValueError(
                f"an endpoint is a URL, as http://localhost:4318 or grpc://localhost:4317, not {text!r}"
            )
        if url.scheme in ("grpc", "grpcs"):
            if url.path.strip("/") or url.query:
                raise ValueError(f"an endpoint of gRPC is a host and a port, not {text!r}")
            taken = url._replace(scheme="https" if url.scheme == "grpcs" else "http", path="")
            return cls(taken.geturl(), "grpc", _shown(url))
        path = url.path.rstrip("/")
        whole = url._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment="")
        return cls(whole.geturl(), "http", _shown(whole))


def _shown(url: SplitResult) -> str:
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()


def headers_of(given: Iterable[str]) -> dict[str, str]:
    """Headers by name, from texts as ``NAME=VALUE``.

    Raises:
        ValueError: a text is none; its value, which may be a secret, is not told.
    """
    headers = {}
    for text in given:
        name, is_pair, value = (word.strip() for word in text.partition("="))
        if not is_pair or not _HEADER_NAME.fullmatch(name):
            raise ValueError("a header is NAME=VALUE, as authorization='Bearer …'")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of the header {name} can't be sent: it is to be printable ASCII")
        headers[name.lower()] = value
    return headers
