"""How much is written of each component of a pipeline: levels, and the directives that set them.

``KERNEL_TRACE_LEVEL=info,verifier=debug,designer=off`` is read in the manner of env_logger:
https://docs.rs/env_logger/latest/env_logger/#enabling-logging
Directives stand between commas. ``info`` is the level of whatever has none of its own,
``verifier=debug`` that of a component, and ``verifier`` alone its most verbose. Of
directives for the same thing the last counts; one for a component counts before one for
all. The case of letters and space around words do not matter. Where env_logger would turn
off what no directive names, here it stays at the default, so that nothing is lost by
naming something else.

A component is ``designer``, ``coder``, ``verifier``, ``conductor``, ``stage``, ``builder``,
an agent of the program's own by its name, or one type of action (``FIX_CODER``), which
counts before its agent. Stages, builder lines and model calls inside an action are at
that action's level unless they are named.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, TypeVar

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of

LEVEL_VARIABLE: Final = "KERNEL_TRACE_LEVEL"

STAGE: Final = "stage"
BUILDER: Final = "builder"
_CONDUCTOR: Final = Agent.CONDUCTOR.value
_VERIFIER: Final = Agent.VERIFIER.value

_Value = TypeVar("_Value", bound=AttributeValue)

_logger = logging.getLogger("otel_kernel_trace")
_told: set[str] = set()
"""Bad directives that were logged: a process may make several exporters of one environment."""


class Level(IntEnum):
    """How much is written, from nothing to all."""

    OFF = 0
    ERROR = 1
    """What failed."""
    WARN = 2
    """And every verdict and judgement."""
    INFO = 3
    """And all that was asked, thought and answered: the whole tree."""
    DEBUG = 4
    """And what commands that succeeded printed, and verbose lines of builders."""


PRESETS: Final[Mapping[str, Level]] = {
    "development": Level.DEBUG,
    "production": Level.INFO,
    "serving": Level.WARN,
}
"""Levels for all components by what the program is there for; to be overridden as any other."""

_LEVELS: Final[Mapping[str, Level]] = {
    **{level.name.lower(): level for level in Level},
    # As Python's logging, RUST_LOG and TensorRT call them.
    "warning": Level.WARN,
    "trace": Level.DEBUG,
    "verbose": Level.DEBUG,
}

_PART_RESULT: Final = attributes.PART_PREFIX + attributes.RESULT
_PART_ERROR_LOG: Final = attributes.PART_PREFIX + attributes.ERROR_LOG
_OUTPUTS = frozenset({attributes.STAGE_STDOUT, attributes.STAGE_STDERR})


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of every component."""

    default: Level = Level.INFO
    """Of what is not named."""
    by_name: Mapping[str, Level] = field(default_factory=dict, hash=False)
    """By case-folded name."""

    def of(self, *names: str) -> Level:
        """The level of the first of ``names`` that has one of its own: the most specific stands first."""
        if self.by_name:
            for name in names:
                level = self.by_name.get(name.casefold())
                if level is not None:
                    return level
        return self.default

    def of_action(self, action_type: str) -> Level:
        """The level of an action by its type, or the name of the program's own agent."""
        if self.by_name:
            for key in _keys_of(action_type):
                level = self.by_name.get(key)
                if level is not None:
                    return level
        return self.default

    def enabled(self, component: str, level: Level, *within: str) -> bool:
        """Whether something of that level is written.

        Args:
            component: as ``stage`` or ``builder``.
            level: of the thing.
            within: names of the action that it happens in, as of :func:`names_of`.
        """
        return self.of(component, *within) >= level

    @property
    def highest(self) -> Level:
        """That of the most verbose component; OFF where nothing at all is written."""
        return max(self.default, *self.by_name.values()) if self.by_name else self.default


def enabled(component: str, level: Level, *within: str) -> bool:
    """Whether this process's environment has something of that level written: :meth:`Levels.enabled`.

    Looks at the environment every time. What asks for every line of a log keeps the levels
    that :func:`read_levels` gives.
    """
    return read_levels(None).enabled(component, level, *within)


def read_levels(argument: str | None) -> Levels:
    """Levels from an argument, else from the environment, else the default.

    A bad directive of the environment is logged once and ignored: the program did not write it.

    Raises:
        ValueError: a directive in the argument can't be.
        TypeError: the argument is no text.
    """
    if argument is None:
        levels, bad = parse(os.environ.get(LEVEL_VARIABLE, ""))
        for directive in bad:
            if directive not in _told:
                _told.add(directive)
                _logger.error("%.100r in %s is ignored: %s", directive, LEVEL_VARIABLE, _EXPECTED)
        return levels
    if not isinstance(argument, str):
        raise TypeError(f"a level is a text such as 'info,verifier=debug', not {argument!r}")
    levels, bad = parse(argument)
    if bad:
        raise ValueError(f"a level can't be {bad[0][:100]!r}: {_EXPECTED}")
    return levels


_EXPECTED: Final = (
    "it is a level (off, error, warn, info, debug), a preset (development, production, serving), "
    "or component=level"
)


_KNOWN: Final = frozenset(
    name.casefold() for name in (*(agent.value for agent in Agent), *ActionType.__members__, STAGE, BUILDER)
)
"""Components that may stand alone; a program's own agents have to be given a level."""


@lru_cache(maxsize=64)
def parse(text: str) -> tuple[Levels, tuple[str, ...]]:
    """The levels that directives set, and the directives that can't be. Never raises; linear time."""
    default = Level.INFO
    by_name: dict[str, Level] = {}
    bad: list[str] = []
    for directive in text.split(","):
        name, equals, value = (word.strip() for word in directive.partition("="))
        level = _LEVELS.get(value.lower())
        if not (name or equals):
            continue
        if not name or not directive.strip().isprintable():
            bad.append(directive)
        elif equals and not value:  # as "verifier=", which is all that there is of it
            by_name[name.casefold()] = max(Level)
        elif not equals:
            of_all = _LEVELS.get(name.lower(), PRESETS.get(name.lower()))
            if of_all is not None:
                default = of_all
            elif name.casefold() in _KNOWN:
                by_name[name.casefold()] = max(Level)
            else:  # a level that is not spelt right, as a rule
                bad.append(directive)
        elif level is None:
            bad.append(directive)
        else:
            by_name[name.casefold()] = level
    return Levels(default, by_name), tuple(bad)


def names_of(action_type: str) -> tuple[str, ...]:
    """What directives may call an action, the most specific first."""
    agent = agent_of(action_type)
    return (action_type,) if agent is None else (action_type, agent.value)


@lru_cache(maxsize=256)
def _keys_of(action_type: str) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names_of(action_type))


def component_of(action_type: str) -> str:
    """Whose an action is: the agent, or the program's own by its name."""
    return names_of(action_type)[-1]


# --- What each level writes ---------------------------------------------------------------------


def from_start(component: str) -> Level:
    """The level from which on an action has a span from its start.

    Below it, one that turns out to fail gets its span then. How a verification or a stage
    ends is not known before, and what happens inside is to be found under it.
    """
    return Level.ERROR if component in (_VERIFIER, STAGE) else when_done(component, failed=False)


def when_done(component: str, *, failed: bool) -> Level:
    """The level from which on an action, a stage or a model call of a component is written."""
    if failed:
        return Level.ERROR
    return Level.WARN if component in (_VERIFIER, _CONDUCTOR) else Level.INFO


FOR_TASKS: Final = Level.WARN
"""The level of any component from which on a task itself, which is no action, is written."""


def for_attribute(component: str, attribute: str, *, failed: bool) -> Level:
    """The level from which on one attribute is written of an action, stage or model call that is."""
    if attribute.startswith(attributes.PART_PREFIX):
        if attribute == _PART_ERROR_LOG:
            return Level.ERROR
        return Level.WARN if attribute == _PART_RESULT and component == _CONDUCTOR else Level.INFO
    if attribute.startswith(attributes.VERIFY_SOURCE_PREFIX):
        return Level.ERROR if failed else Level.INFO
    if attribute in _OUTPUTS:
        return Level.ERROR if failed else Level.DEBUG
    return Level.INFO if attribute.startswith(attributes.MESSAGE_PREFIXES) else Level.ERROR


def kept(component: str, level: Level, given: Mapping[str, _Value], *, failed: bool) -> dict[str, _Value]:
    """The attributes among ``given`` that are written at ``level``."""
    return {
        name: value for name, value in given.items() if level >= for_attribute(component, name, failed=failed)
    }


def has_failed(component: str, given: Mapping[str, AttributeValue], *, is_error: bool) -> bool:
    """Whether an action failed: its span says so, its verdict is no pass, or it has an error log.

    Args:
        component: whose it is.
        given: its attributes.
        is_error: whether the status of its span is ERROR.
    """
    verdict = given.get(attributes.VERIFY_RESULT)
    if is_error or (verdict is not None and not attributes.has_passed(verdict)):
        return True
    # A verification may pass with warnings in its log.
    return bool(given.get(_PART_ERROR_LOG)) and (component != _VERIFIER or verdict is None)


def level_in(given: Mapping[str, AttributeValue]) -> Level:
    """The level at which a span was made, as its attributes say."""
    value = given.get(attributes.LEVEL)
    return _LEVELS.get(value, Level.DEBUG) if isinstance(value, str) else Level.DEBUG


def marked(level: Level) -> dict[str, str]:
    """What says of a span that texts were left out of it; nothing where none was."""
    return {} if level >= Level.INFO else {attributes.LEVEL: level.name.lower()}
