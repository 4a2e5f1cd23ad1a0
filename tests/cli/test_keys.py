"""`silas keys`: shown, rotated, recorded."""

import json

from tests.cli.machine import Machine, output_of


def test_rotation_is_published_and_recorded(owner: Machine) -> None:
    before = json.loads(output_of(owner.run("keys", "show", "--json")))["keys"]
    rotation = json.loads(output_of(owner.run("keys", "rotate", "--yes", "--json")))
    after = json.loads(output_of(owner.run("keys", "show", "--json")))["keys"]
    assert len(before) == 1
    assert [key["key_id"] for key in after] == [rotation["new_key_id"], before[0]["key_id"]]
    assert after[0]["retired_at"] is None
    assert after[1]["retired_at"] is not None
    published = (owner.data_dir / "owner.pub").read_text()
    assert rotation["new_public_key"] in published
    tail = output_of(owner.run("audit", "tail", "--json"))
    assert "key_rotation_started" in tail
    assert rotation["endorsement"] in tail


def test_the_log_verifies_across_a_rotation(owner: Machine) -> None:
    owner.run("keys", "rotate", "--yes")
    verified = json.loads(output_of(owner.run("audit", "verify", "--json")))
    assert verified["ok"] is True
    assert len(verified["reports"][0]["key_ids"]) == 2


def test_nobody_is_asked_where_nobody_can_answer(owner: Machine) -> None:
    refused = owner.run("keys", "rotate")
    assert refused.returncode == 2
    assert b"--yes" in refused.stderr


def test_on_a_terminal_it_is_confirmed(owner: Machine) -> None:
    code, _ = owner.type("keys", "rotate", answers=[("[y/N]", "n")])
    assert code == 130
    assert len(json.loads(output_of(owner.run("keys", "show", "--json")))["keys"]) == 1
