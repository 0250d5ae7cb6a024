"""From a span to what it says without secrets: name, attributes, events, links, status, where it comes from.

What says which span it is stays: ids, times, kind, and the header of the vendor's trace state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.attributes import REDACTED
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.record import with_dropped
from otel_kernel_trace.redaction.echoes import Echoes, is_derived, may_be_cut
from otel_kernel_trace.redaction.patterns import is_secret_name, is_secret_option
from otel_kernel_trace.redaction.redactor import FAILED, Redactor, marker

_MAX_DEPTH: Final = 64
"""Values nested deeper are looked through as text."""
_NAMED: Final = "password"
"""What a marker calls a value that is a secret by its name."""

_Item = TypeVar("_Item", Event, Link)


@dataclass(frozen=True, slots=True)
class Unredacted:
    """A text in which a secret was found, as it was."""

    where: str
    """The attribute that had it, or what else of the span."""
    text: str
    counts: Mapping[str, int]


@dataclass(slots=True)
class Secrets:
    """What was taken out of one span."""

    texts: list[Unredacted] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """How many secrets, by kind."""
        total: Counter[str] = Counter()
        for text in self.texts:
            total.update(text.counts)
        return total


class Parts(NamedTuple):
    """What a span says."""

    name: str
    attributes: Mapping[str, AttributeValue]
    events: Sequence[Event]
    links: Sequence[Link]
    status: Status
    resource: Resource
    scope: InstrumentationScope | None


class SpanRedactor:
    """Takes the secrets out of spans. Thread-safe.

    Args:
        redactor: finds them.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        # One each of a provider's and of an instrumentation's life; kept, so that its id stays its own.
        self._resources: Recent[int, tuple[Resource, Resource, Secrets]] = Recent(64)
        self._scopes: Recent[int, tuple[InstrumentationScope, InstrumentationScope, Secrets]] = Recent(256)

    def parts(
        self, span: ReadableSpan, given: Mapping[str, AttributeValue], limit: int | None = None
    ) -> tuple[Parts | None, Secrets]:
        """What a span says, without secrets; None where that is what it says.

        Args:
            span: any span; it stays as it is.
            given: its attributes, or what they were before the SDK's limits.
            limit: the number of characters to which the SDK cut texts; one of that length may end
                in the middle of a secret.
        """
        found = Secrets()
        before = Parts(
            span.name,
            given,
            span.events,
            span.links,
            span.status,
            span.resource,
            span.instrumentation_scope,
        )
        after = Parts(
            self.text(before.name, "name", found),
            self.attributes(given, found, limit),
            self._items(before.events, found, self._event),
            self._items(before.links, found, self._link),
            self._status(before.status, found),
            self._resource(before.resource, found),
            None if before.scope is None else self._scope(before.scope, found),
        )
        after = self._without_echoes(after, found)
        is_same = all(new is old for new, old in zip(after, before, strict=True))
        return (None if is_same else after), found

    def attributes(
        self, given: Mapping[str, AttributeValue], found: Secrets, limit: int | None = None, where: str = ""
    ) -> Mapping[str, AttributeValue]:
        """Attributes without secrets, ``given`` itself where there are none."""
        redact, known = self.redactor.redact, self.redactor.known
        changed: dict[str, AttributeValue] | None = None
        for name, value in given.items():
            kept = name if known(name) else self.text(name, f"{where}name of an attribute", found)
            kind = type(value)
            if kind is int or kind is bool or kind is float or value is None:
                clean = value
            elif kind is str and not is_secret_name(name):
                text = cast("str", value)
                if kept is name and limit is None and known(text):
                    continue
                result = redact(text, is_cut=len(text) == limit or may_be_cut(name, text))
                clean = result.text
                if result.counts:
                    found.texts.append(Unredacted(where + name, text, result.counts))
            else:
                clean = self._value(value, name, where + name, found, 0)
            if clean is not value or kept is not name:
                changed = {} if changed is None else changed
                changed[name] = clean
        if changed is None:
            return given
        clean_given: dict[str, AttributeValue] = {}
        for name, value in given.items():
            kept = redact(name).text
            while kept in clean_given or (kept != name and kept in given):
                kept += "~"  # names that differed in the secret alone
            clean_given[kept] = changed.get(name, value)
        return clean_given

    def text(self, text: str, where: str, found: Secrets) -> str:
        """A text without secrets, the same object where there are none."""
        if type(text) is not str:
            text = str(text)
        elif self.redactor.known(text):
            return text
        result = self.redactor.redact(text)
        if not result.counts:
            return text
        found.texts.append(Unredacted(where, text, result.counts))
        return result.text

    def _value(
        self, value: AttributeValue, name: str, where: str, found: Secrets, depth: int
    ) -> AttributeValue:
        """A value of any type; the same object where it has no secret."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            is_secret = is_secret_name(name) or is_secret_option(name)
            if value and is_secret and value != marker(_NAMED):
                text = str.__str__(value)
                found.texts.append(Unredacted(where, text, {_NAMED: 1}))
                return marker(_NAMED)
            return self.text(value, where, found)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            clean = cast("str", self._value(text, name, where, found, depth))
            return value if clean is text else clean.encode("utf-8", "surrogateescape")
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            fields = {
                self.text(str(key), where, found): self._value(each, str(key), where, found, depth + 1)
                for key, each in value.items()
            }
            return value if _is_same(fields, value) else cast("AttributeValue", fields)
        if depth < _MAX_DEPTH and isinstance(value, Sequence):
            items: list[AttributeValue] = []
            option = name
            for each in value:
                items.append(self._value(each, option, where, found, depth + 1))
                # Of a command line: --password, and then what it is.
                option = each[-64:] if isinstance(each, str) and each.startswith("-") else name
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else cast("AttributeValue", tuple(items))
        text = str(value)
        clean = self.text(text, where, found)
        return value if clean is text else clean

    def _without_echoes(self, parts: Parts, found: Secrets) -> Parts:
        """Without what is left of secrets in texts that were made of those that had them."""
        told = (parts.attributes, *(event.attributes or {} for event in parts.events))
        if not found.texts or not any(is_derived(name) for given in told for name in given):
            return parts
        secrets: dict[str, str] = {}
        for text in found.texts:
            secrets.update(self.redactor.secrets_in(text.text) or {text.text: next(iter(text.counts))})
        echoes = Echoes(secrets)
        clean = _unechoed(parts.attributes, echoes, found, "")
        return parts._replace(
            attributes=clean,
            events=self._items(parts.events, found, lambda event, _: _event_unechoed(event, echoes, found)),
        )

    def _items(
        self,
        items: Sequence[_Item],
        found: Secrets,
        redacted: Callable[[_Item, Secrets], _Item],
    ) -> Sequence[_Item]:
        if not items:
            return items
        clean = [redacted(item, found) for item in items]
        return items if all(new is old for new, old in zip(clean, items, strict=True)) else clean

    def _event(self, event: Event, found: Secrets) -> Event:
        given = event.attributes or {}
        name = self.text(event.name, "name of an event", found)
        clean = self.attributes(given, found, where=f"event {name}: ")
        return event if clean is given and name is event.name else Event(name, clean, event.timestamp)

    def _link(self, link: Link, found: Secrets) -> Link:
        given = link.attributes or {}
        clean = self.attributes(given, found, where="link: ")
        return link if clean is given else Link(link.context, clean)

    def _status(self, status: Status, found: Secrets) -> Status:
        if not status.description:
            return status
        description = self.text(status.description, "status", found)
        return status if description is status.description else Status(status.status_code, description)

    def _resource(self, resource: Resource, found: Secrets) -> Resource:
        known = self._resources.get(id(resource))
        if known is None or known[0] is not resource:
            own = Secrets()
            clean = self.attributes(resource.attributes, own, where="resource: ")
            new = resource if clean is resource.attributes else Resource(clean, resource.schema_url)
            known = self._resources.put(id(resource), (resource, new, own))
            found.texts += own.texts  # once, not with every span
        return known[1]

    def _scope(self, scope: InstrumentationScope, found: Secrets) -> InstrumentationScope:
        given = getattr(scope, "attributes", None)  # SDKs before 1.27 have none
        if not given:
            return scope
        known = self._scopes.get(id(scope))
        if known is None or known[0] is not scope:
            own = Secrets()
            clean = self.attributes(given, own, where="scope: ")
            new = scope
            if clean is not given:
                new = InstrumentationScope(scope.name, scope.version, scope.schema_url, clean)
            known = self._scopes.put(id(scope), (scope, new, own))
            found.texts += own.texts
        return known[1]


def _event_unechoed(event: Event, echoes: Echoes, found: Secrets) -> Event:
    given = event.attributes or {}
    clean = _unechoed(given, echoes, found, f"event {event.name}: ")
    return event if clean is given else Event(event.name, clean, event.timestamp)


def _unechoed(
    given: Mapping[str, AttributeValue], echoes: Echoes, found: Secrets, where: str
) -> Mapping[str, AttributeValue]:
    changed: dict[str, AttributeValue] = {}
    for name, value in given.items():
        if not is_derived(name):
            continue
        texts = (value,) if isinstance(value, str) else value
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            continue
        clean = []
        for text in map(str, texts):
            without, counts = echoes.taken_out(text)
            clean.append(without)
            if counts:
                found.texts.append(Unredacted(where + name, text, counts))
                changed[name] = value
        if name in changed:
            changed[name] = clean[0] if isinstance(value, str) else tuple(clean)
    return {**given, **changed} if changed else given


def _is_same(fields: Mapping[str, AttributeValue], value: Mapping[str, AttributeValue]) -> bool:
    return len(fields) == len(value) and all(value.get(name, fields) is each for name, each in fields.items())


def copy_of(span: ReadableSpan, parts: Parts) -> ReadableSpan:
    """A copy of a span that says something else, and tells as it does how many attributes were dropped."""
    return ReadableSpan(
        parts.name,
        span.context,
        span.parent,
        parts.resource,
        attributes=_limited(span, parts.attributes, None),
        events=with_dropped(parts.events, span.dropped_events),
        links=with_dropped(parts.links, span.dropped_links),
        kind=span.kind,
        status=parts.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=parts.scope,
    )


def replace_in(span: ReadableSpan, parts: Parts, limit: int | None) -> None:
    """Have an ended span say something else, to all who get it from now on.

    The SDK gives every processor the same object, and has no public way to change it. Its fields have
    had these names at least since 1.25.

    Raises:
        AttributeError: it has others now.
    """
    changes = {
        "_name": parts.name,
        "_attributes": _limited(span, parts.attributes, limit),
        "_events": with_dropped(parts.events, span.dropped_events),
        "_links": with_dropped(parts.links, span.dropped_links),
        "_status": parts.status,
        "_resource": parts.resource,
        "_instrumentation_scope": parts.scope,
    }
    missing = changes.keys() - vars(span).keys()
    if missing:
        raise AttributeError(f"the SDK's spans have no {', '.join(sorted(missing))}")
    vars(span).update(changes)


def empty(span: ReadableSpan) -> Parts:
    """What is left of a span that could not be looked through."""
    failed = marker(FAILED)
    return Parts(failed, {REDACTED: 1}, (), (), Status(span.status.status_code), Resource.get_empty(), None)


def with_counts(
    given: Mapping[str, AttributeValue], counts: Mapping[str, int]
) -> Mapping[str, AttributeValue]:
    """Attributes that tell how many secrets were taken out, with those taken out before."""
    if not counts:
        return given
    told = dict(given)
    for name, number in (
        (REDACTED, sum(counts.values())),
        *((f"{REDACTED}.{k}", n) for k, n in counts.items()),
    ):
        before = told.get(name)
        told[name] = number + (before if type(before) is int else 0)
    return told


def _limited(
    span: ReadableSpan, given: Mapping[str, AttributeValue], limit: int | None
) -> Mapping[str, AttributeValue]:
    if limit is None and not span.dropped_attributes:
        return given
    limited = BoundedAttributes(attributes=given, max_value_len=limit)
    limited.dropped = span.dropped_attributes
    return limited
