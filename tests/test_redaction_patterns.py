"""What is a secret, and what only looks like one."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.redaction import KINDS, Redactor, marker
from tests.secrets import BY_KIND, PEM

_redactor = Redactor()
_EVERY = [(kind, secret) for kind, secrets in BY_KIND.items() for secret in secrets]


def _kinds(text: str) -> set[str]:
    return set(_redactor.redact(text).counts)


# --- Secrets by their own form -------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "secret"), _EVERY)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "the key is {}",
        "{} is the key",
        "({})",
        "a\n{}\nb",
        "KEY: {};",
        '"{}"',
        "`{}`",
        "密钥{}是",
        "{},{}",
    ],
)
def test_a_secret_is_taken_out_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    found = _redactor.redact(around.replace("{}", secret))
    assert found.text == around.replace("{}", marker(kind))
    assert found.counts == {kind: around.count("{}")}


@pytest.mark.parametrize(("kind", "secret"), _EVERY)
@pytest.mark.parametrize("times", [1, 2])
def test_also_in_json_which_stays_json(kind: str, secret: str, times: int) -> None:
    text: object = [{"role": "user", "content": f'a "word"\n{secret}\n\\ and more'}]
    for _ in range(times):
        text = json.dumps(text)
    assert isinstance(text, str)
    redacted = _redactor.redact(text)
    assert secret not in redacted.text
    back: object = redacted.text
    for _ in range(times):
        assert isinstance(back, str)
        back = json.loads(back)
    assert back == [{"role": "user", "content": f'a "word"\n{marker(kind)}\n\\ and more'}]


@pytest.mark.parametrize(("kind", "secret"), _EVERY)
def test_json_escapes_do_not_hide_it(kind: str, secret: str) -> None:
    hidden = secret[:3] + f"\\u{ord(secret[3]):04x}" + secret[4:]
    assert json.loads(f'"{hidden}"') == secret
    redacted = _redactor.redact(f'{{"content": "{hidden}"}}')
    assert json.loads(redacted.text) == {"content": marker(kind)}


@pytest.mark.parametrize(("kind", "secret"), [each for each in _EVERY if each[0] != "stripe_key"])
def test_the_beginning_of_one_at_the_end_of_a_text_that_was_cut(kind: str, secret: str) -> None:
    for size in range(secret.index("@") + 2 if kind == "email" else 12, len(secret)):
        left = _redactor.redact(f"some words {secret[:size]}", is_cut=True).text
        assert left.startswith("some words [redacted:"), secret[:size]


@pytest.mark.parametrize(
    "text",
    [
        "task-specific-attention-kernels-for-2024-and-later",
        "the disk-based-cache-of-all-the-tiles",
        "sk-learn-compatible-estimator",
        "hf_hub_download(repo_id)",
        "AKIA and ASIA",
        "ghp_short",
        "xox-ray",
        "eyJust a word. another word",
        "@triton.jit",
        "@torch.compile(mode='max')",
        "y = x@w.transpose(0, 1)",
        "y = x @ w.T",
        "git@github.com:triton-lang/triton.git",
        "the bearer of bad news",
        "/home/ is where users are",
        "https://example.com/home/about",
        "http://localhost:8080/a@b",
        "https://example.com:443/x",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "max_tokens = 4096",
        "next_token = logits.argmax(-1)",
        "tokens: list[int]",
        "key = query @ value",
        "api_key: str",
        "api_key: str | None = None",
        "password = getpass()",
        "password = os.environ['PASSWORD']",
        "password=$DB_PASSWORD",
        "password=${DB_PASSWORD}",
        "f'password={password}'",
        "if password is None:",
        "secret_sauce",
        "--tokens 512",
        "--key-value-heads 8",
        "acc = tl.dot(a, b, acc)",
        "0x7f8a2b3c4d5e6f70",
        "d41d8cd98f00b204e9800998ecf8427e",
        "",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert _redactor.redact(text) == (text, {})


# --- Secrets by what stands before them -----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "password=S3kret",
        "password = S3kret",
        "PASSWORD: S3kret",
        "db_password='S3kret'",
        'passwd="S3kret"',
        "passphrase: S3kret",
        "pwd=S3kret;",
        '{"password": "S3kret"}',
        '{\\"password\\": \\"S3kret\\"}',
        '{"api_key": "S3kret"}',
        "apikey=S3kret",
        "API-KEY: S3kret",
        "x-api-key: S3kret",
        "OPENAI_API_KEY=S3kret",
        "export AWS_SECRET_ACCESS_KEY=S3kret",
        "aws_secret_access_key = S3kret",
        "client_secret: S3kret",
        "access_token=S3kret&x=1",
        "refresh-token: S3kret",
        "HF_TOKEN=S3kret",
        'os.environ["API_KEY"] = "S3kret"',
        "api_key=b'S3kret'",
        "password := 'S3kret'",
        "{'password' => 'S3kret'}",
        "mysql --password S3kret --host x",
        "tool --api-key S3kret",
        "tool --password=S3kret",
        "postgres://user:S3kret@db.example/x",
        "https://user:S3kret@host",
        "redis://:S3kret@host:6379",
        "credentials=S3kret",
    ],
)
def test_the_value_is_taken_out_and_the_name_stays(text: str) -> None:
    redacted = _redactor.redact(text)
    assert "S3kret" not in redacted.text
    assert sum(redacted.counts.values()) == 1
    kind = next(iter(redacted.counts))
    assert redacted.text == text.replace("S3kret", marker(kind))


@pytest.mark.parametrize("value", ["two words", "with 'quotes'", 'a\\"b', "a=b:c@d/e", "ünï", "x"])
def test_a_quoted_value_is_taken_out_whole(value: str) -> None:
    assert (
        _redactor.redact(f'password = "{value}"  # comment').text
        == 'password = "[redacted:password]"  # comment'
    )


def test_a_password_in_a_url_of_json() -> None:
    redacted = _redactor.redact('["https:\\/\\/user:S3kret@host"]').text
    assert json.loads(redacted) == ["https://user:[redacted:url_credentials]@host"]


def test_a_password_with_an_at_sign_in_a_url() -> None:
    assert _redactor.redact("https://u:p@ss:w@host/x").text == "https://u:[redacted:url_credentials]@host/x"


@pytest.mark.parametrize(
    "header", ["Authorization: Bearer {}", '"authorization": "bearer {}"', "AUTHORIZATION: {}"]
)
def test_an_authorization_header(header: str) -> None:
    token = "0123456789abcdefXYZ"
    assert token not in _redactor.redact(header.format(token)).text
    assert token not in _redactor.redact(header.format(token[:16]).replace("Bearer", "Basic")).text


# --- Private keys ----------------------------------------------------------------------------------


def test_a_private_key_is_taken_out_whole() -> None:
    assert _redactor.redact(f"before\n{PEM}\nafter").text == "before\n[redacted:private_key]\nafter"


@pytest.mark.parametrize("label", ["", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
def test_of_any_kind(label: str) -> None:
    assert _redactor.redact(PEM.replace("RSA ", label)).text == "[redacted:private_key]"


def test_one_in_json() -> None:
    text = json.dumps({"key": PEM, "next": "field"})
    assert json.loads(_redactor.redact(text).text) == {"key": "[redacted:private_key]", "next": "field"}


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_one_of_which_the_end_is_missing(lines: int) -> None:
    begun = "\n".join(PEM.split("\n")[:lines])
    assert _redactor.redact(f"x {begun}").text == "x [redacted:private_key]"
    assert json.loads(_redactor.redact(json.dumps([begun, "next"])).text) == [
        "[redacted:private_key]",
        "next",
    ]


@pytest.mark.parametrize("prefix", ["[E] ", "  12 | "])
def test_one_in_the_lines_of_a_log(prefix: str) -> None:
    lines = PEM.split("\n")
    text = "\n".join(prefix + line for line in lines)
    assert not any(line and line in _redactor.redact(text).text for line in lines[1:-1])


def test_one_of_which_the_beginning_is_missing() -> None:
    assert _redactor.redact(PEM[60:]).text == "[redacted:private_key]"


# --- Home folders ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ada/x.py:3", "/home/{}/x.py:3"),
        ('File "/home/ada.l/x.py"', 'File "/home/{}/x.py"'),
        ("/Users/ada/x", "/Users/{}/x"),
        ("file:///home/ada/x", "file:///home/{}/x"),
        ("C:\\Users\\ada\\x", "C:\\Users\\{}\\x"),
        ('"C:\\\\Users\\\\ada\\\\x"', '"C:\\\\Users\\\\{}\\\\x"'),
        ("/home/张伟/x", "/home/{}/x"),
    ],
)
def test_whose_home_it_is_is_taken_out(text: str, left: str) -> None:
    assert _redactor.redact(text).text == left.format("[redacted:home_folder]")


def test_this_processs_own_home_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/ada")
    redact = Redactor().redact
    assert redact("/data/people/ada/x").text == "[redacted:home_folder]/x"
    assert redact("in /data/people/ada").text == "in [redacted:home_folder]"
    assert redact("/data/people/adam/x").text == "/data/people/adam/x"


@pytest.mark.parametrize("home", ["/", "", "/x"])
def test_a_home_that_is_everywhere_is_none(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("HOME", home)
    assert Redactor().redact("/x/y/z").text == "/x/y/z"


# --- Any text --------------------------------------------------------------------------------------

_pieces = st.one_of(
    st.sampled_from([secret for _, secret in _EVERY]),
    st.sampled_from(
        ["password=", '"api_key": "', "Bearer ", "://", "@", "\n", "\\n", '"', "/home/", PEM[:70]]
    ),
    st.sampled_from(list(map(marker, KINDS))),
    st.text(max_size=20),
)


@given(st.lists(_pieces, max_size=8).map("".join))
def test_what_is_redacted_stays_as_it_is(text: str) -> None:
    once = _redactor.redact(text)
    assert _redactor.redact(once.text) == (once.text, {})
    assert bool(once.counts) == (once.text != text)


@given(st.lists(_pieces, max_size=8).map("".join))
def test_no_secret_is_left_in_any_text(text: str) -> None:
    left = _redactor.redact(text).text
    for kind, secrets in BY_KIND.items():
        if kind != "email":
            assert not any(f" {secret} " in left for secret in secrets)


@given(st.text(st.characters(codec=None), max_size=200))
def test_texts_of_any_characters(text: str) -> None:
    assert _redactor.redact(text).text.count("[redacted:") >= 0


def test_the_same_whether_it_was_looked_through_before_or_not() -> None:
    lines = "".join(f"line {n} of a kernel\n" for n in range(2000))
    secret = BY_KIND["openai_key"][0]
    fresh, used = Redactor(), Redactor()
    assert used.redact(lines).text is lines
    for at in range(0, len(lines), 997):
        text = lines[:at] + f" {secret} " + lines[at:]
        assert fresh.redact(text) == used.redact(text)
        assert secret not in used.redact(text).text
        assert used.redact(lines).text is lines


def test_home_of_this_test_is_what_it_is_elsewhere() -> None:
    assert os.path.expanduser("~") not in _redactor.redact(f"{os.path.expanduser('~')}/kernels").text
