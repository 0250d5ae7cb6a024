r"""The secrets that are known by their form, one rule each.

A rule costs nothing where none of its substrings is in a text. Its pattern is tried only
where one is, and is written so that time is linear whatever the text: it begins with a
literal, what may repeat without limit is a single class of characters, which nothing before
it can give back, and everything else is bounded. ``tests/test_redaction_linear.py`` looks.

In JSON a line break is ``\n``, so that a token may stand right after an ``n``; and a quote
is ``\"``. Rules find both.

Forms: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml ,
https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/ ,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids ,
https://api.slack.com/concepts/token-types , https://www.rfc-editor.org/rfc/rfc7519 (JWT),
https://www.rfc-editor.org/rfc/rfc7468 (PEM), https://www.rfc-editor.org/rfc/rfc6750 (Bearer).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Protocol

GROUP: Final = "secret"
"""How the names of groups begin of which one is what is replaced."""

_RAREST: Final = (
    "$?^&Q~\\Z7J!9%586<4@3;+/zjY*`W2H'qKXG}{|U1VBF0#[]MDPOL>CRIESNkA\"wT-vx=,ybh()g:_fdmp.cluarsnt\noei "
)
"""Characters of prompts, code and logs; what is in the fewest of them comes first."""


class Match(Protocol):
    def span(self, group: int, /) -> tuple[int, int]:
        """Where a group is, (-1, -1) where it took no part."""


class Pattern(Protocol):
    """What the two modules have in common of which patterns are made: ``re`` and ``re2``."""

    @property
    def groupindex(self) -> Mapping[str, int]: ...

    def finditer(self, string: str, /) -> Iterator[Match]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret."""

    kind: str
    """What the marker calls it."""
    triggers: tuple[str, ...]
    """Substrings, one of which is in every text with such a secret. Where there are none, any may have it."""
    pattern: Pattern
    """Of its groups whose names begin with ``secret`` the one that took part is the secret; it is the
    whole match where there is no such group, and nothing where none of them took part."""
    is_caseless: bool = False
    """Whether triggers and pattern are for the text in lower case."""
    before: str = ""
    """Characters before what the pattern finds that belong to it, too."""
    reach: int = 0
    """At most so many of them."""
    tail: re.Pattern[str] | None = None
    """For the end of a text that was cut: what may be the beginning of such a secret."""


@cache
def rarest_of(trigger: str) -> str:
    """The character of a substring that is the least likely to be in a text: to look for one is quickest."""
    return min(trigger, key=lambda char: _RAREST.index(char) if char in _RAREST else -1)


def _token(kind: str, prefix: str, body: str, least: int, *triggers: str) -> Rule:
    """A token: a prefix, and at least so many characters of a class. It is no part of a longer word."""
    own = rf"(?:(?<![A-Za-z0-9]{prefix})|(?<=\\[nrt]{prefix}))"
    return Rule(
        kind,
        triggers,
        re.compile(rf"(?P<secret>{prefix}{own}{body}{{{least},}})", re.ASCII),
        tail=re.compile(rf"(?P<secret>{prefix}{own}[\w-]*)\Z", re.ASCII),
    )


# Words are put together with hyphens, too: what has no digit and no capital is no key, unless it is long.
_KEY: Final = r"(?!ant-)(?=[\w-]{0,40}[0-9A-Z]|[a-z]{32})[\w-]"
# A run of characters begins in one place, so that no run is looked through twice.
_JWT: Final = r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))"

_TOKENS: Final = (
    _token("anthropic_key", "sk-ant-", r"[\w-]", 16, "sk-"),
    _token("openai_key", "sk-", _KEY, 20, "sk-"),
    _token("aws_key", "A[KS]IA", "[A-Z0-9]", 16, "AKIA", "ASIA"),
    _token("github_token", "gh[pousr]_", "[A-Za-z0-9]", 20, "gh"),
    _token("github_token", "github_pat_", r"\w", 20, "github_pat_"),
    _token("gitlab_token", "glpat-", r"[\w-]", 16, "glpat-"),
    _token("huggingface_token", "hf_", "[A-Za-z0-9]", 20, "hf_"),
    _token("slack_token", "xox[abeoprs]-", "[A-Za-z0-9-]", 10, "xox"),
    _token("slack_token", "xapp-", "[A-Za-z0-9-]", 20, "xapp-"),
    _token("google_key", "AIza", r"[\w-]", 30, "AIza"),
    _token("nvidia_key", "nvapi-", r"[\w-]", 20, "nvapi-"),
    _token("groq_key", "gsk_", "[A-Za-z0-9]", 20, "gsk_"),
    _token("stripe_key", "sk_(?:live|test)_", "[A-Za-z0-9]", 16, "_live_", "_test_"),
    _token("stripe_key", "rk_(?:live|test)_", "[A-Za-z0-9]", 16, "_live_", "_test_"),
    _token("package_token", "npm_", "[A-Za-z0-9]", 30, "npm_"),
    _token("package_token", "pypi-", r"[\w-]", 30, "pypi-"),
    Rule(
        "jwt",
        ("eyJ",),
        re.compile(rf"(?P<secret>{_JWT}[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*){{0,3}})", re.ASCII),
        tail=re.compile(rf"(?P<secret>{_JWT}[\w.-]*)\Z", re.ASCII),
    ),
)

_HEADERS: Final = (
    Rule(
        "bearer_token",
        ("bearer",),
        re.compile(
            r"bearer(?:(?<![a-z]bearer)|(?<=\\[nrt]bearer))[ \t]{1,4}(?P<secret>[\w.~+/=-]{16,})", re.ASCII
        ),
        is_caseless=True,
        tail=re.compile(r"bearer[ \t]{1,4}(?P<secret>[\w.~+/=-]+)\Z", re.ASCII),
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            r"authorization\\{0,7}[\"']?[ \t]{0,8}[:=,][ \t]{0,8}\\{0,7}[\"']?(?:[a-z]{3,12}[ \t]{1,4})?"
            r"(?P<secret>[^\s\"'`\\,;<>\[\](){}$]{8,})"
        ),
        is_caseless=True,
    ),
)

_NO_CREDENTIALS: Final = r"\s/\"'`<>\\"
_LOGIN: Final = rf":\\?/\\?/[^{_NO_CREDENTIALS}@:]{{0,128}}:(?P<secret>[^{_NO_CREDENTIALS}]{{1,256}})"
_URLS: Final = (
    # A password may have an @ itself: it goes on to the last one before the path.
    Rule(
        "url_credentials",
        ("://", ":\\/\\/"),
        re.compile(rf"{_LOGIN}@"),
        tail=re.compile(rf"{_LOGIN}\Z"),
    ),
    Rule(
        "url_credentials",
        ("://", ":\\/\\/"),
        re.compile(rf":\\?/\\?/(?P<secret>[^{_NO_CREDENTIALS}@:]{{20,256}})@"),
    ),
)

_KEYS: Final = "api|openai|azure|access|private|account|signing|encryption|auth|subscription|service|storage"
_TOKENS_OF: Final = (
    "auth|access|refresh|bearer|session|id|bot|api|hf|github|gitlab|slack|oauth|security|private|deploy"
)
_BETWEEN: Final = r"\\{0,7}[\"'`]?\]?[ \t]{0,8}(?::=|=>|==|[:=])[ \t]{0,8}"
"""Between a name and its value, in JSON, in JSON within JSON, in settings and in code."""
_QUOTED: Final = (
    # In JSON within JSON a quote has backslashes before it, and the text ends at the same.
    r"[bfru]{0,2}(?:\"(?P<secret>(?:[^\"\\\n]|\\[^\n]){LEAST,4096})"
    r"|'(?P<secret_2>(?:[^'\\\n]|\\[^\n]){LEAST,4096})"
    r"|`(?P<secret_3>[^`\n]{LEAST,4096})"
    r"|(?P<quote>\\{1,7}[\"'])(?P<secret_4>(?:(?!(?P=quote))[^\n]){LEAST,4096}))"
)
_NO_VALUE: Final = (
    r"(?!(?:none|null|nil|true|false|undefined|str|string|int|bytes|bool|float|any|optional|required"
    r"|secretstr|getpass|input)(?![\w-])|\$[({a-z_])"
)
"""What code has beside a name: types, constants, variables of a shell."""
_NO_WORD: Final = r"\s\"'`\\,;()\[\]{}<>&|"
# What is called is no value. It is passed over whole, so that nothing is looked at twice.
_BARE: Final = rf"{_NO_VALUE}(?:(?P<secret_5>[^{_NO_WORD}]{{3,}})(?![\[(]|[^{_NO_WORD}])|[^{_NO_WORD}]+)"
_TOKEN_LIKE: Final = (
    r"(?:(?P<secret_5>(?=[a-z_.~+/=-]{0,64}[0-9])[\w.~+/=-]{16,})(?![\[(\w.~+/=-])|[\w.~+/=-]+)"
)


def _named(trigger: str, name: str, least: int = 1, bare: str = _BARE) -> Rule:
    """A value that is given to a name, quoted or not."""
    quoted = _QUOTED.replace("LEAST", str(least))
    return Rule("password", (trigger,), re.compile(rf"{name}{_BETWEEN}(?:{quoted}|{bare})"), is_caseless=True)


def _compound(word: str, firsts: str) -> str:
    """A name by its last word, with which the pattern begins: what stands before it is looked back for."""
    behind = "|".join(rf"(?<={first}{word})|(?<={first}[_ -]{word})" for first in firsts.split("|"))
    return rf"{word}(?={_BETWEEN})(?:{behind})"


_NAMED: Final = (
    _named("passw", "passw(?:or)?ds?"),
    _named("passphrase", "passphrase"),
    _named("pwd", "pwd(?<![a-z]pwd)"),
    _named("secret", "secret(?:[_-]?access)?(?:[_ -]?(?:key|token|value))?"),
    _named("credential", "credentials?"),
    _named("key", _compound("key", _KEYS)),
    _named("token", _compound("token", _TOKENS_OF)),
    # A token alone is a word of language models: only what looks like no code.
    _named("token", "token", 16, _TOKEN_LIKE),
    Rule(
        "password",
        ("--",),
        re.compile(
            r"--(?=[a-z])(?:[a-z0-9]{1,16}-){0,3}(?:passw(?:or)?d|passphrase|secret|token|key)"
            rf"[ \t]{{1,8}}(?P<secret>[^{_NO_WORD}-][^{_NO_WORD}]{{2,}})"
        ),
        is_caseless=True,
    ),
)

_PRIVATE: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?:-----)?"
_PRIVATE_KEYS: Final = (
    # Where the end is missing, up to what can't be of a key. Not quotes: one may end a JSON string.
    # Its lines may be those of a log, [E] MIIE…, or have numbers, 12 | MIIE….
    Rule(
        "private_key",
        ("-----BEGIN ",),
        re.compile(
            rf"(?P<secret>-----BEGIN {_PRIVATE}"
            rf"(?:[A-Za-z0-9+/=\s:,.\[\]|]|\\{{1,7}}[nrt]|-(?!----)){{0,32768}}(?:-----END {_PRIVATE})?)"
        ),
    ),
    # Where the beginning is.
    Rule(
        "private_key",
        ("-----END ",),
        re.compile(rf"(?P<secret>-----END {_PRIVATE})"),
        before="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n\\",
        reach=32768,
    ),
)

_EMAILS: Final = (
    Rule(
        "email",
        ("@",),
        # No matrix product of Python (x@w.transpose(0, 1)), and no repository (git@host.example:…).
        re.compile(
            r"(?P<secret>@(?<=[\w%+-]@)(?:(?<!git@)|(?<=[\w.+-]git@))"
            r"(?:[A-Za-z0-9-]{1,63}\.){1,8}(?:[a-z]{2,24}|[A-Z]{2,24}))(?![\w(\[])",
            re.ASCII,
        ),
        before="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-",
        reach=64,
        tail=re.compile(r"(?P<secret>@(?<=[\w%+-]@)[A-Za-z0-9.-]{0,255})\Z", re.ASCII),
    ),
)

_USER: Final = r"(?P<secret>[\w.-]{1,64})"
_HOMES: Final = (
    Rule(
        "home_folder",
        ("/home/",),
        re.compile(rf"/home/(?:(?<![\w.)-]/home/)|(?<=\\[nrt]/home/)){_USER}"),
    ),
    Rule(
        "home_folder",
        ("/Users/",),
        re.compile(rf"/Users/(?:(?<![\w.)-]/Users/)|(?<=\\[nrt]/Users/)){_USER}"),
    ),
    Rule("home_folder", ("\\Users\\",), re.compile(rf"\\Users\\{{1,4}}{_USER}")),
    Rule("home_folder", ("\\/home\\/", "\\/Users\\/"), re.compile(rf"\\/(?:home|Users)\\/{_USER}")),
)

BUILT_IN: Final[tuple[Rule, ...]] = (*_PRIVATE_KEYS, *_TOKENS, *_HEADERS, *_URLS, *_NAMED, *_EMAILS, *_HOMES)

KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys(rule.kind for rule in BUILT_IN))
"""What can be found, by the names that markers have."""

_SECRET_NAME: Final = re.compile(
    rf"(?:^|[\W_])(?:passw(?:or)?ds?|passphrase|pwd|secret(?:[_-]?access)?(?:[_-]?(?:key|token|value))?|credentials?"
    rf"|(?:{_KEYS})[_-]?key|(?:{_TOKENS_OF})[_-]?token|authorization)\Z",
    re.IGNORECASE,
)


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Whether what has this name, an attribute, a field or an option, is a secret whatever it looks like."""
    return _SECRET_NAME.search(name[-64:]) is not None


_SECRET_OPTION: Final = re.compile(
    r"--(?:[a-z0-9]{1,16}-){0,3}(?:passw(?:or)?d|passphrase|secret|token|key)", re.IGNORECASE
)


@lru_cache(1024)
def is_secret_option(word: str) -> bool:
    """Whether what follows this word of a command line is a secret, as in a text."""
    return _SECRET_OPTION.fullmatch(word) is not None
