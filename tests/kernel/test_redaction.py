"""Secrets of every format, in every place, behind every encoding; and what must stay readable."""

import base64
import html
import json
from collections import OrderedDict
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel.redaction import REDACTED, SECRET_FORMATS, Redactor, redact, redact_text

# Put together here, so that no scanner takes this file for a leak.
_B = "Zk3QmW8xTv1RpLs6YbNcHd0JgFa2UeIo9KtXiVuBwM4Dq7S5rCzE"
_PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB-CD\n\n"
    f"MIIE{_B}\n{_B}-{_B}\n-----END RSA PRIVATE KEY-----"
)
# For each format a text that holds it, and the part of it that must not survive.
EXAMPLES: dict[str, tuple[str, str]] = {
    "private key": (_PEM, _B),
    "private key file of PuTTY": (f"Public-Lines: 2\nx\nPrivate-Lines: 1\n{_B}\n", _B),
    "openssh private key": ("b3BlbnNzaC1rZXktdjE" + _B, _B),
    "age key": ("AGE-SECRET-KEY-" + "1QXY7" * 8, "QXY7" * 2),
    "model provider key": ("sk-" + "ant-api03-" + _B, _B),
    "model provider key, other prefixes": ("xai-" + _B, _B),
    "model provider key, prefixes with a low line": ("gsk_" + _B, _B),
    "aws access key": ("AKIA" + "Q3EXAMPLE7KEY9AB", "Q3EXAMPLE7KEY9AB"),
    "github token": ("ghp_" + _B[:36], _B[:36]),
    "github fine-grained token": ("github_pat_" + _B, _B),
    "gitlab token": ("glpat-" + _B[:20], _B[:20]),
    "slack token": ("xoxb-" + "1234567890-" + _B[:24], _B[:24]),
    "webhook address": ("https://hooks.slack.com/services/T0AB/B0CD/" + _B[:24], _B[:24]),
    "stripe key": ("sk_" + "live_" + _B[:24], _B[:24]),
    "google key": ("AIza" + _B[:35], _B[:35]),
    "google oauth secret": ("GOCSPX-" + _B[:28], _B[:28]),
    "google access token": ("ya29." + _B, _B),
    "google refresh token": ("1//0" + _B, _B),
    "telegram bot token": ("123456789:" + "AA" + _B[:33], _B[:33]),
    "sendgrid key": (f"SG.{_B[:22]}.{_B[:43]}", _B[:22]),
    "tavily key": ("tvly-" + _B[:20], _B[:20]),
    "npm token": ("npm_" + _B[:36], _B[:36]),
    "package index token": ("pypi-" + "AgEI" + _B, _B),
    "hugging face token": ("hf_" + _B[:34], _B[:34]),
    "service token": ("shpat_" + _B[:32], _B[:32]),
    "hashicorp vault token": ("hvs." + _B[:24], _B[:24]),
    "atlassian token": ("ATATT3" + _B, _B),
    "databricks token": ("dapi" + "0a1b2c3d" * 4, "0a1b2c3d"),
    "json web token": (f"eyJhbGciOiJIUzI1NiJ9.{_B}.{_B}", _B),
    "authorization header": (f"Authorization: Digest username=a, response={_B}", _B),
    "bearer token": ("Bearer " + _B, _B),
    "credentials in a URL": ("postgres://bob:hunter2@db.local/x", "hunter2"),
    "token in a URL": (f"https://{_B}@example.org/repo.git", _B),
    "assignment": ("password=hunter2", "hunter2"),
    "assignment with a colon": ("passphrase: hunter2", "hunter2"),
    "command line option": ("deploy --access-token hunter2 --now", "hunter2"),
}
TEXTS = pytest.mark.parametrize(("text", "secret"), EXAMPLES.values(), ids=list(EXAMPLES))


def test_every_format_has_an_example() -> None:
    assert set(EXAMPLES) == {each.name for each in SECRET_FORMATS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_hints_of_a_format_let_its_example_through(name: str) -> None:
    text, _ = EXAMPLES[name]
    (each,) = (each for each in SECRET_FORMATS if each.name == name)
    assert each.sign in text
    assert any(hint in text.lower() for hint in each.hints)
    assert each.pattern.search(text)


class TestFormats:
    @TEXTS
    def test_alone(self, text: str, secret: str) -> None:
        assert secret not in redact_text(text)
        assert REDACTED in redact_text(text)

    @TEXTS
    @pytest.mark.parametrize(
        "around",
        [
            "see {} there",
            "x={}",
            "'{}'",
            '"{}"',
            "({})",
            "{},{}",
            "/{}/getMe",
            "_{}",
            "a\n{}\nb",
        ],
    )
    def test_inside_other_text(self, text: str, secret: str, around: str) -> None:
        assert secret not in redact_text(around.format(text, text))

    @TEXTS
    def test_twice(self, text: str, secret: str) -> None:
        assert secret not in redact_text(f"{text} {text}\n{text}")

    @TEXTS
    def test_a_second_pass_finds_nothing_more(self, text: str, secret: str) -> None:
        once = redact_text(text)
        assert redact_text(once) == once

    @TEXTS
    @pytest.mark.parametrize(
        "place",
        [
            lambda t: t,
            lambda t: {"note": t},
            lambda t: {t: 1},
            lambda t: {"a": {"b": [{"c": t}]}},
            lambda t: [[[t]]],
            lambda t: (1, t),
            lambda t: {"urls": [f"https://example.org/?q={t}#frag"]},
            lambda t: {"stderr": f"ValueError: cannot use {t!r}"},
            lambda t: {"body": json.dumps({"x": {"y": t}})},
            lambda t: {"body": json.dumps(json.dumps({"x": t}))},
            lambda t: OrderedDict(a=t),
            lambda t: MappingProxyType({"a": t}),
            lambda t: {"path": PurePosixPath("/tmp") / t},
            lambda t: {"raw": t.encode()},
            lambda t: {"error": ValueError(t)},
            lambda t: {"set": {t}},
        ],
    )
    def test_in_every_place(self, text: str, secret: str, place: Any) -> None:
        assert secret not in json.dumps(redact(place(text)), default=str)

    @TEXTS
    @pytest.mark.parametrize("before", ["", "u:", "us:", "user:", "id/", "path/to/"])
    def test_in_base64(self, text: str, secret: str, before: str) -> None:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode((before + text + " end").encode()).decode()
            assert _hidden_in_base64(encoded, redact_text(f"data={encoded}"))
            assert _hidden_in_base64(encoded, redact_text(f"https://example.org/x/{encoded}"))

    @TEXTS
    def test_in_hex(self, text: str, secret: str) -> None:
        encoded = f"{text} and more text".encode().hex()
        assert encoded not in redact_text(f"0x{encoded}")
        assert encoded.upper() not in redact_text(encoded.upper())

    @TEXTS
    def test_in_url_encoding(self, text: str, secret: str) -> None:
        for safe in ("", "/", "/:@"):
            assert secret not in redact_text(f"next={quote(text, safe=safe)}")


def _hidden_in_base64(encoded: str, redacted: str) -> bool:
    middle = encoded[8 : max(24, len(encoded) - 8)]
    return middle not in redacted


class TestHardCases:
    @pytest.mark.parametrize(
        ("text", "secret"),
        [
            ("https://api.telegram.org/bot123456789:AA" + _B[:33] + "/getMe", _B[:33]),
            ("postgres://bob:p@ss/w@rd@db.local/x", "p@ss"),
            ("postgres://bob:p@ss/w@rd@db.local/x", "w@rd"),
            ("redis://:hunter2@cache:6379/0", "hunter2"),
            ('{"password": "correct horse battery"}', "horse"),
            ('{\\"password\\": \\"correct horse\\", \\"a\\": 1}', "horse"),
            ('{"password":"ab\\"cd-hunter2"}', "hunter2"),
            ("{'api_key': 'hunter2'}", "hunter2"),
            ("DB_PASSWORD=hunter2;next", "hunter2"),
            ("https://x.org/cb?access_token=hunter2&state=1", "hunter2"),
            ("https://x.org/cb?x=1&token=hunter2", "hunter2"),
            ("https://account.blob/x?sv=1&sig=hunter2hunter2", "hunter2"),
            ("AccountKey=hunter2hunter2==;End", "hunter2"),
            ("aws_secret_access_key = hunter2", "hunter2"),
            ("x-api-key: hunter2", "hunter2"),
            ("Cookie: session=hunter2; theme=dark", "hunter2"),
            ('headers={"Authorization": "Negotiate hunter2"}', "hunter2"),
            ("pwd: ab1", "ab1"),
            ("pin=4711", "4711"),
            ("private_key: " + _PEM, _B),
            ("curl -u bob:x --api-key hunter2 https://x.org", "hunter2"),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nComment: a-b\n\n" + _B, _B),
            ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + _B, _B),
            ("-----BEGIN EC PRIVATE KEY-----\\n" + _B + "\\n", _B),
            ("password%3Dhunter2%26x", "hunter2"),
        ],
    )
    def test_text(self, text: str, secret: str) -> None:
        assert secret not in redact_text(text)

    @pytest.mark.parametrize(
        "value",
        [
            {"password": "hunter2"},
            {"Password": "hunter2"},
            {"userPassword": "hunter2"},
            {"dbpassword": "hunter2"},
            {"DB_PASSWORD_2": "hunter2"},
            {"password_confirm": "hunter2"},
            {"X-API-Key": "hunter2"},
            {"APIKey": "hunter2"},
            {"api.key": "hunter2"},
            {"clientSecret": "hunter2"},
            {"secret_key": "hunter2"},
            {"aws_secret_access_key": "hunter2"},
            {"Authorization": "hunter2"},
            {"proxy-authorization": "hunter2"},
            {"Set-Cookie": "hunter2"},
            {"recovery_codes": ["hunter2", "hunter2"]},
            {"totp": "hunter2"},
            {"password": ["hunter2"]},
            {"password": {"value": "hunter2"}},
            {"credentials": {"github": "hunter2", "list": [{"x": "hunter2"}]}},
            {"secrets": {"smtp": ("hunter2", 1)}},
            {"api_tokens": ["hunter2"]},
            {"password": b"hunter2"},
            {"password": PurePosixPath("hunter2")},
            [{"name": "Authorization", "value": "hunter2"}],
            {"key": "SMTP_PASSWORD", "value": "hunter2"},
            {"headers": [("Authorization", "hunter2"), ("Accept", "*/*")]},
            {"headers": [["x-api-key", "hunter2"]]},
            {"argv": ["deploy", "--password", "hunter2"]},
            {"argv": ["deploy", "--access-token", ["hunter2"]]},
            {"argv": ("deploy", "--password=hunter2")},
        ],
    )
    def test_telling_names(self, value: Any) -> None:
        assert "hunter2" not in json.dumps(redact(value), default=str)

    def test_numbers_under_a_telling_name(self) -> None:
        assert redact({"pin": 4711, "otp": 123456.0}) == {"pin": REDACTED, "otp": REDACTED}

    def test_names_that_are_secrets_do_not_become_one(self) -> None:
        tokens = ["ghp_" + _B[:36], "ghp_" + _B[1:37]]
        assert list(redact(dict.fromkeys(tokens, 1)).values()) == [1, 1]

    def test_text_that_calls_itself_something_else(self) -> None:
        class Disguised(str):
            __slots__ = ()

            def __str__(self) -> str:
                return "harmless"

        assert "hunter2" not in json.dumps(redact([Disguised("password=hunter2")]))

    def test_nesting_without_end(self) -> None:
        deep: Any = "password=hunter2"
        for _ in range(5000):
            deep = [deep]
        assert "hunter2" not in repr(redact(deep))


class TestKnownSecrets:
    KNOWN = ("tr0ub4dor & 3/é\"q\\'", "plainvalue", "12", "771199")

    @pytest.mark.parametrize("secret", KNOWN)
    def test_alone(self, secret: str) -> None:
        assert redact({"x": secret}, known=self.KNOWN) == {"x": REDACTED}

    @pytest.mark.parametrize("secret", [KNOWN[0], KNOWN[1]])
    @pytest.mark.parametrize(
        "encode",
        [
            str,
            json.dumps,
            lambda s: json.dumps(s, ensure_ascii=False),
            repr,
            html.escape,
            quote,
            lambda s: quote(s, safe=""),
            lambda s: quote(s, safe="").replace("%2F", "%2f"),
            lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
            lambda s: s.encode().hex(),
            lambda s: s.encode().hex().upper(),
        ],
    )
    def test_inside_text_and_encoded(self, secret: str, encode: Any) -> None:
        written = encode(secret)
        clean = redact_text(f"before {written} after", known=self.KNOWN)
        assert written.strip("\"'") not in clean
        assert clean.startswith("before ")
        assert clean.endswith(" after")

    @given(before=st.binary(max_size=7), after=st.binary(max_size=7))
    def test_in_base64_at_any_offset(self, before: bytes, after: bytes) -> None:
        for secret in self.KNOWN[:2]:
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                encoded = encode(before + secret.encode() + after).decode()
                assert redact_text(f"<{encoded}>", known=self.KNOWN) == f"<{REDACTED}>"

    def test_as_a_number(self) -> None:
        assert redact({"n": 771199}, known=self.KNOWN) == {"n": REDACTED}

    def test_as_a_key(self) -> None:
        assert redact({"plainvalue": 1}, known=self.KNOWN) == {REDACTED: 1}

    def test_a_short_one_does_not_blank_out_ordinary_text(self) -> None:
        assert redact_text("at 12 o'clock", known=["12"]) == "at 12 o'clock"

    def test_an_empty_one_changes_nothing(self) -> None:
        assert redact_text("text", known=["", "  x"]) == "text"

    def test_any_iterable_will_do(self) -> None:
        assert redact_text("a plainvalue", known=iter(["plainvalue"])) == f"a {REDACTED}"

    def test_a_redactor_can_be_used_again(self) -> None:
        redactor = Redactor(["plainvalue"])
        assert [redactor.text("plainvalue") for _ in range(2)] == [REDACTED, REDACTED]
        assert redactor.value(["x", {"y": "plainvalue"}]) == ["x", {"y": REDACTED}]

    @given(
        secret=st.text(min_size=4, max_size=40),
        before=st.text(max_size=10),
        after=st.text(max_size=10),
    )
    def test_whatever_the_secret(self, secret: str, before: str, after: str) -> None:
        clean = redact_text(before + secret + after, known=[secret])
        # The substitute itself, or the text around it, may spell the secret by chance.
        around = REDACTED + before + REDACTED + after
        assert secret not in clean or secret in around


class TestJsonOnly:
    @pytest.mark.parametrize("value", [b"x", {1, 2}, PurePosixPath("x"), object()])
    def test_other_kinds_are_refused(self, value: Any) -> None:
        with pytest.raises(TypeError):
            Redactor(json_only=True).value({"x": [value]})

    def test_json_passes(self) -> None:
        value = {"a": [1, 1.5, None, True, "x", ("y",)]}
        assert Redactor(json_only=True).value(value) == {"a": [1, 1.5, None, True, "x", ["y"]]}


class TestWhatStays:
    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            3,
            1.5,
            "",
            "approved",
            "wi_01jcabcdefghjkmnpqrstvwxyz",
            "0123456789abcdef" * 4,
            "the task-list of the risk-assessment-for-the-whole-department",
            "https://example.org:8443/a/@b?x=1",
            "ssh://git@github.com/x/y.git",
            "https://medium.com/@someone/a-title",
            "2026-01-01T12:00:00.000000Z",
            "He passed the exam: well done",
            "keyboard=us",
            "Authors: A, B",
            "100% of it",
            "compass: north",
            {"tokens": 12, "max_tokens": 5, "input_tokens": 7},
            {"token_id": "tok_1", "key_id": "key_1", "public_key": "abcd", "secret_stored": True},
            {"name": "subject", "value": "x"},
            {"fields": ["password", "email"]},
            {"password": None, "secret": False},
            {"monkey": "x", "passenger": "x", "author": "x", "spinner": "x"},
            [1, [2, {"a": 3}]],
            base64.b64encode(bytes(range(64))).decode(),
        ],
    )
    def test_harmless_values(self, value: Any) -> None:
        assert redact(value) == value

    def test_what_was_there_can_still_be_told(self) -> None:
        assert redact_text("password=hunter2 x") == f"password={REDACTED} x"
        assert redact_text("pg://a:b@h/x") == f"pg://{REDACTED}@h/x"
        assert redact_text("Authorization: Bearer abcdefgh") == f"Authorization: {REDACTED}"

    def test_the_original_is_not_touched(self) -> None:
        value = {"a": ["password=hunter2"]}
        redact(value)
        assert value == {"a": ["password=hunter2"]}

    def test_values_of_other_types_stay_what_they_are(self) -> None:
        path = PurePosixPath("/tmp/x")
        assert redact({"p": path, "b": b"abc"}) == {"p": path, "b": b"abc"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_a_second_pass_changes_nothing(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once


@given(st.text(), st.text())
def test_a_token_is_found_in_any_text(before: str, after: str) -> None:
    token = "ghp_" + _B[:36]
    assert token not in redact_text(before + token + after)
