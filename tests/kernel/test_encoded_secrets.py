"""A known secret is taken out whole, in every spelling, and nothing beside it."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from silas.kernel.redaction import REDACTED, Redactor, redact_text, unquoted

ODD = 'hé said "hi" & it\'s\n/so'
Encode = Callable[[str], str]


@pytest.mark.parametrize(
    "encode",
    [
        str,
        lambda text: json.dumps(text)[1:-1],
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
        lambda text: repr(text)[1:-1],
        lambda text: quote(text, safe=""),
        html.escape,
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
    ],
)
def test_every_spelling_goes_whole(encode: Encode) -> None:
    around = f"x%20{encode(ODD)} y"
    assert Redactor([ODD]).text(around) == f"x%20{REDACTED} y"


@pytest.mark.parametrize("known", [("hunter", "hunter2long"), ("zebra1", "my-zebra1-key")])
def test_of_two_secrets_the_longer_goes_first(known: tuple[str, ...]) -> None:
    for order in (known, known[::-1]):
        assert Redactor(order).text(f"x {known[1]} y {known[0]}") == f"x {REDACTED} y {REDACTED}"


def test_a_lone_surrogate_can_be_secret() -> None:
    assert Redactor(["abc\ud800def"]).text("x abc\ud800def y") == f"x {REDACTED} y"


class TestBase64:
    @pytest.mark.parametrize("before", [b"", b"1", b"12", b"123"])
    @pytest.mark.parametrize("after", [b"", b"1", b"12"])
    @pytest.mark.parametrize("secret", ["k9#Qz", "hunter2", ">>>???pass", "longer-than-that"])
    def test_at_every_offset(self, secret: str, before: bytes, after: bytes) -> None:
        whole = before + secret.encode() + after
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = f"hello {encode(whole).decode()} world"
            assert Redactor([secret]).text(text) == f"hello {REDACTED} world"

    def test_the_shortest_run_that_can_hold_a_format(self) -> None:
        assert redact_text(base64.b64encode(b"password=hunter2ab").decode()) == REDACTED

    def test_the_shortest_run_of_hex(self) -> None:
        assert redact_text(b"password=hunter2-abc".hex()) == REDACTED


def test_what_is_not_encoded_has_no_decoded_form() -> None:
    assert unquoted("100% sure + fine") is None
    assert unquoted("%ff%41+b") == "\ufffdA b"
