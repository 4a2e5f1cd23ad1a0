"""Which sentences tell a secret, what it is called, and what is left of the text."""

import pytest

from silas.kernel.told_secrets import asked_secret, told_secret, without_told_secrets

KEY = "sk-abcdefghijklmnopqrstuvwxyz123"


@pytest.mark.parametrize(
    ("text", "name", "left"),
    [
        ("my wifi password is hunter2pass", "wifi-password", "my wifi password is [redacted]"),
        ("Remember that the door code is 4711", "door-code", None),
        ("remember my API key is sk-abc", "api-key", "remember my API key is [redacted]"),
        (f"remember my API key is {KEY}", "api-key", None),
        (f"remember that {KEY} is for work", "secret", "remember that [redacted] is for work"),
        (KEY, "secret", "[redacted]"),
        ("wifi password: hunter2pass", "wifi-password", "wifi password: [redacted]"),
        ("The PIN for my card is 1234.", "card-pin", "The PIN for my card is [redacted]"),
        ("my passphrase is correct horse battery staple", "passphrase", None),
        ("Please note that Anna's alarm code is 99 12", "alarm-code", None),
        ("the password for netflix is 'a b c'", "netflix-password", None),
        ("Hi. My pin is 1234\nBuy milk", "pin", "Hi. My pin is [redacted]\nBuy milk"),
        ("My Netflix password is now Foo!bar baz", "netflix-password", None),
        ("password is swordfish", "password", "password is [redacted]"),
    ],
)
def test_a_secret_that_is_told(text: str, name: str, left: str | None) -> None:
    told = told_secret(text)
    assert told is not None
    assert told.name == name
    assert left is None or told.text == left
    for value in ("hunter2pass", "4711", "sk-ab", "1234", "staple", "99 12", "a b c", "Foo!"):
        assert value not in told.text
    again = told_secret(told.text)
    assert again is None or again.text == told.text
    assert without_told_secrets(told.text) == told.text


@pytest.mark.parametrize(
    "text",
    [
        "Remember that the spare key is at the neighbour's",
        "my password is too long",
        "the wifi password is on the fridge",
        "My wifi password is in the vault, under the name wifi-password.",
        "Is my password secure?",
        "What password is best?",
        "My token is expired",
        "Create a file notes.txt with password: hunter2",
        "Run `mysql --password=abc`",
        "Add task change the wifi password due tomorrow",
        "note: dentist on Friday",
        "my secret is that I love cats",
        "The zip code is 10115",
        "x" * 5000,
    ],
)
def test_what_tells_none(text: str) -> None:
    assert told_secret(text) is None
    assert without_told_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("what is my wifi password?", "wifi password"),
        ("What's the password for netflix?", "netflix password"),
        ("Do you know my wifi password?", "wifi password"),
        ("tell me the door code", "door code"),
        ("what is my name?", None),
        ("where is the spare key?", None),
        ("what is a password manager good for?", None),
    ],
)
def test_what_is_asked_for(text: str, label: str | None) -> None:
    assert asked_secret(text) == label
