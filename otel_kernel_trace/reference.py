"""Where a text is that is not at hand, and what it must be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from opentelemetry.util.types import AttributeValue

PATH: Final = ".path"
SHA256: Final = ".sha256"
SIZE: Final = ".size"
OFFSET: Final = ".offset"
URL: Final = ".url"
"""What is added to an attribute's name for the attributes that say where its text is."""


class Reference(NamedTuple):
    """A text on disk."""

    path: str
    """Of the file, below ``log_dir``, with ``/`` between folders."""
    sha256: str
    """Of the text's bytes, in hexadecimal."""
    size: int
    """In bytes."""
    offset: int | None = None
    """Where the text begins, None where it is the whole file."""

    @classmethod
    def to_file(cls, folder: tuple[str, ...], name: str, content: bytes) -> Reference:
        return cls("/".join((*folder, name)), hashlib.sha256(content).hexdigest(), len(content))

    def attributes(self, name: str) -> dict[str, str | int]:
        """What says of the attribute ``name`` where its text is."""
        given: dict[str, str | int] = {
            name + PATH: self.path,
            name + SHA256: self.sha256,
            name + SIZE: self.size,
        }
        if self.offset is not None:
            given[name + OFFSET] = self.offset
        return given


def references_in(attributes: Mapping[str, AttributeValue]) -> dict[str, Reference]:
    """References among attributes, by the name of the attribute whose text they are of."""
    found = {}
    for key, sha256 in attributes.items():
        if key.endswith(SHA256) and isinstance(sha256, str):
            name = key[: -len(SHA256)]
            path, size, offset = (attributes.get(name + mark) for mark in (PATH, SIZE, OFFSET))
            if isinstance(path, str) and type(size) is int:
                found[name] = Reference(path, sha256, size, offset if type(offset) is int else None)
    return found


def without_references(
    attributes: Mapping[str, AttributeValue], names: Mapping[str, Reference]
) -> dict[str, AttributeValue]:
    """Attributes but for the references of ``names``."""
    marks = {name + mark for name in names for mark in (PATH, SHA256, URL)}
    numbers = {name + mark for name in names for mark in (SIZE, OFFSET)}
    return {
        key: value
        for key, value in attributes.items()
        if key not in marks and not (key in numbers and type(value) is int)
    }


class InPlace(NamedTuple):
    """A file of an action that is in place."""

    reference: Reference
    text: str
    """What it holds; the same object as the attribute's value, as a rule."""
    is_as_given: bool
    """Whether it holds the attribute's text as it was given."""


class Begun(NamedTuple):
    """What is on disk of an action that has begun."""

    step: int
    copy: int
    """Which of the judgements of its step a Conductor's action is."""
    files: Mapping[str, InPlace] = MappingProxyType({})
    """By the attribute whose text they hold."""


class Written(NamedTuple):
    """What is on disk of an action that has ended."""

    step: int
    references: Mapping[str, Reference]
    """To the files, by the attribute whose text they hold."""
    identity: Mapping[str, AttributeValue] = MappingProxyType({})
    """The attributes that say which action it is, whatever the SDK's limits left of them."""
