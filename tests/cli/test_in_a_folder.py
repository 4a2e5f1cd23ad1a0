"""`silas ask` in a repository, with `--in`, and `silas review changes`, with the offline brain."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import Machine, output_of


@pytest.fixture
def repository(owner: Machine, tmp_path: Path) -> Path:
    Path(owner.environ["HOME"]).mkdir(exist_ok=True)
    where = tmp_path / "shop"
    where.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=where, check=True)
    return where


def asked(machine: Machine, *arguments: str, cwd: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(output_of(machine.run(*arguments, "--json", cwd=cwd)))
    return told


def folder_of(machine: Machine, card_id: str) -> str:
    shown = json.loads(output_of(machine.run("review", "show", card_id, "--json")))
    path: str = shown["items"][0]["workspace"]["path"]
    return path


def test_work_lands_in_the_repository_in_which_it_is_asked_for(
    owner: Machine, repository: Path
) -> None:
    inside = repository / "src"
    inside.mkdir()
    card = asked(owner, "ask", "create a file a.txt with hello", cwd=inside)["review_id"]
    assert folder_of(owner, card) == str(repository)


def test_or_in_the_folder_that_is_picked(owner: Machine, repository: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    told = asked(owner, "ask", "--in", str(notes), "create a file a.txt with hello", cwd=repository)
    assert folder_of(owner, told["review_id"]) == str(notes)


def test_a_folder_that_is_off_limits_is_refused_before_anything_is_said(
    owner: Machine, repository: Path
) -> None:
    ran = owner.run("ask", "--in", str(owner.data_dir), "hello", cwd=repository)
    assert ran.returncode != 0
    assert b"is no place to work" in ran.stderr


def test_changes_come_back_as_a_revised_plan(owner: Machine, repository: Path) -> None:
    """Also without a model, where the offline brain understands the words."""
    first = asked(owner, "ask", "create a file a.txt with hello", cwd=repository)
    told = output_of(
        owner.run("review", "changes", first["review_id"], "create a file b.txt with goodbye")
    )
    assert "sent back for changes" in told
    waiting: list[dict[str, Any]] = []
    while not waiting:
        asked(owner, "ask", "hello", cwd=repository)  # a Silas runs for as long as this takes
        waiting = json.loads(output_of(owner.run("review", "list", "--json")))["cards"]
    assert [card["replaces"] for card in waiting] == [first["work_item_id"]]
    revised = json.loads(output_of(owner.run("review", "show", waiting[0]["card_id"], "--json")))
    assert revised["items"][0]["workspace"]["path"] == str(repository)
    assert "b.txt" in revised["items"][0]["body"]
    assert "-title: Write a.txt\n+title: Write b.txt" in revised["difference"]
    people = output_of(owner.run("review", "show", waiting[0]["card_id"]))
    assert "Different from the plan before it:" in people
    listed = output_of(owner.run("work", "list"))
    assert f"{first['work_item_id']} (task): replaced" in listed
    assert "failed" not in listed
    assert owner.run("review", "changes", waiting[0]["card_id"], " ").returncode == 2
