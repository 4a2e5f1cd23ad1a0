"""`silas ask --new`, `silas conversations` and `silas search`, on the files of a directory."""

import json

import pytest

from silas.stream.conversations import ConversationUnknown
from tests.cli.machine import Machine, failure_of, output_of

pytestmark = pytest.mark.slow


def answer(machine: Machine, *arguments: str):
    return json.loads(output_of(machine.run(*arguments, "--json")))


def test_from_the_first_message_to_the_deletion(owner: Machine) -> None:
    assert answer(owner, "conversations", "list") == {"conversations": []}
    first = answer(owner, "ask", "Remember that the violet umbrella is in the attic")
    assert first["conversation"] == "first"
    new = answer(owner, "ask", "--new", "What can you do?")["conversation"]
    assert new.startswith("conv_")
    assert answer(owner, "ask", "What did you do?")["conversation"] == new  # the last used one
    back = answer(owner, "ask", "--conversation", "Remember that", "What can you do?")
    assert back["conversation"] == "first"
    known = answer(owner, "conversations", "list")["conversations"]
    assert [each["conversation"] for each in known] == ["first", new]
    owner_said = [
        hit
        for hit in answer(owner, "search", "violet", "umbrel", "--kind", "message")["hits"]
        if hit["sender"] == "owner"
    ]
    assert [hit["conversation"] for hit in owner_said] == ["first"]
    assert "silas conversations show first" in output_of(owner.run("search", '"the attic"'))
    assert "at least one letter" in output_of(owner.run("search", "///"))
    assert "Nothing was found" in output_of(owner.run("search", "zebra"))
    assert "It is called “Keys” now." in output_of(
        owner.run("conversations", "rename", "first", "Keys")
    )
    assert "violet umbrella" in output_of(owner.run("conversations", "show", "Keys"))
    gone = owner.run("conversations", "delete", "Keys", "--yes")
    assert "It keeps what came of it" in output_of(gone)
    assert answer(owner, "search", "umbrella")["hits"] == []
    memories = output_of(owner.run("memory", "list"))
    assert "violet umbrella" in memories  # what was asked to be remembered stays


def test_what_is_wrong_is_said(owner: Machine) -> None:
    code, told = failure_of(owner.run("conversations", "show", "nothing"))
    assert code == ConversationUnknown.exit_code
    assert "silas conversations list" in told
    both = owner.run("ask", "--new", "--conversation", "x", "hello")
    assert both.returncode == 2
    assert "either --new or --conversation" in both.stderr.decode()
