"""Which names a server answers to. Pure functions.

A page of somebody else's may let its own name point at this machine (DNS rebinding), and
would then be let read what the server sends. The name in the Host header tells.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80


def allowed_hosts(host: str, port: int, others: Iterable[str] = ()) -> frozenset[str]:
    """Values of the Host header that a server at ``host`` and ``port`` answers to.

    Args:
        host: what it is bound to.
        port: likewise.
        others: further values, as a proxy or a forwarded port makes them: ``localhost:9000``.
    """
    names = {*_LOCAL, _in_url(host)}
    if is_wildcard(host):
        names.add(socket.gethostname())
    allowed = {f"{name}:{port}".lower() for name in names}
    if port == _HTTP_PORT:
        allowed.update(name.lower() for name in names)
    return frozenset({*allowed, *(other.lower() for other in others)})


def is_allowed(header: str, allowed: frozenset[str], host: str, port: int) -> bool:
    """Whether a request with this Host header is meant for a server at ``host`` and ``port``.

    One that is bound to all addresses can't know them; a name that is an address needs no
    DNS, and so can't be pointed elsewhere.
    """
    value = header.strip().lower()
    if value in allowed:
        return True
    if not is_wildcard(host):
        return False
    name, _, given = value.rpartition(":")
    if given != str(port):
        return False
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def url_of(host: str, port: int) -> str:
    """Where a browser on this machine finds the server."""
    return f"http://{'127.0.0.1' if is_wildcard(host) else _in_url(host)}:{port}/"


def is_wildcard(host: str) -> bool:
    """Whether a host stands for all addresses."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
