"""The executors: what they do, what they refuse, and that they stay where they are."""

import os
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import TaintLevel, strict_loads
from silas.sandbox import SandboxConfig
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.tools import core_tools
from silas.tools.declaration import ArgumentsRefused, ToolOffer, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.tools.tree import matching

REGISTRY = ToolRegistry(core_tools(BubblewrapBackend()))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret").write_text("keys")
    return path


async def call(work: Path, name: str, *, seconds: int = 120, **args: Any) -> ExecutionResult:
    config = args.pop("config", {})
    envelope = ExecutionEnvelope(
        execution_id="e1",
        step_index=0,
        task_description="T",
        action=name,
        args=args,
        timeout_seconds=seconds,
        sandbox_config=SandboxConfig(work_dir=str(work), **config),
    )
    tool = REGISTRY.get(name)
    assert tool is not None
    return await tool.executor.execute(envelope)


async def test_shell_exec_reports_output_exit_code_and_new_files(work: Path) -> None:
    argv = ["sh", "-c", "echo out; echo err >&2; echo 1 > src/new; exit 3"]
    result = await call(work, "shell_exec", argv=argv)
    assert (result.success, result.error) == (False, "The command ended with exit code 3")
    assert result.return_value == "out\nerr\n"
    assert list(result.artifacts) == ["src/new"]
    assert result.metadata["exit_code"] == 3
    assert "metadata" not in result.model_view().model_dump()


async def test_shell_exec_has_no_shell(work: Path) -> None:
    result = await call(work, "shell_exec", argv=["echo", "$HOME; ls *", "`id`"])
    assert result.return_value == "$HOME; ls * `id`\n"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"argv": "ls -l"}, "must be a list of arguments"),
        ({"argv": []}, "argv"),
        ({"argv": ["ls", 1]}, "argv[1]"),
        ({"argv": ["ls"], "shell": True}, "shell: is not a known key"),
        ({}, "argv: is missing"),
    ],
)
async def test_arguments_are_checked_before_anything_runs(
    work: Path, args: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentsRefused, match=told.replace("[", r"\[").replace("]", r"\]")):
        await call(work, "shell_exec", **args)


async def test_a_timeout_keeps_what_was_said(work: Path) -> None:
    argv = ["sh", "-c", "echo a; sleep 600"]
    for seconds in (1, 10, 100):  # on a busy machine, the clock may end it before it began
        result = await call(work, "shell_exec", argv=argv, seconds=seconds)
        assert (result.success, result.error) == (False, f"Timeout after {seconds}s")
        if result.return_value:
            break
    assert result.return_value == "a\n"


async def test_nothing_outside_can_be_seen_or_changed(work: Path) -> None:
    outside = str(work.parent / "secret")
    result = await call(work, "shell_exec", argv=["cat", outside])
    assert not result.success
    assert "keys" not in result.return_value
    await call(work, "shell_exec", argv=["sh", "-c", f"echo x > {outside}"])
    assert Path(outside).read_text() == "keys"


async def test_what_the_approval_covers_is_read_only(work: Path) -> None:
    pinned = {"filesystem_read": [f"{work}/src/a.py"]}
    argv = ["sh", "-c", "echo x > src/a.py"]
    assert not (await call(work, "shell_exec", argv=argv, config=pinned)).success
    for name, args in (
        ("write_file", {"path": "src/a.py", "content": "x"}),
        ("edit_file", {"path": "src/a.py", "old": "one", "new": "x"}),
    ):
        result = await call(work, name, config=pinned, **args)
        assert result.error == "src/a.py is part of what was approved and cannot be changed."
    assert (work / "src" / "a.py").read_text().startswith("one")


async def test_python_exec_runs_code_and_scripts(work: Path) -> None:
    result = await call(work, "python_exec", code="import sys; print(sys.argv[1])", args=["hi"])
    assert result.return_value == "hi\n"
    (work / "job.py").write_text("print('from a file')\n")
    assert (await call(work, "python_exec", script="job.py")).return_value == "from a file\n"
    for wrong in ({}, {"code": "1", "script": "job.py"}, {"script": "-c"}):
        with pytest.raises(ArgumentsRefused):
            await call(work, "python_exec", **wrong)


async def test_taint_follows_the_network(work: Path) -> None:
    inside = await call(work, "shell_exec", argv=["true"])
    outside = await call(
        work, "shell_exec", argv=["true"], config={"network_hosts": ("example.org",)}
    )
    assert (inside.taint, outside.taint) == (TaintLevel.OWNER, TaintLevel.EXTERNAL)


@pytest.mark.parametrize(
    ("held", "old", "told"),
    [
        ('{\n  "volume": 3\n}\n', "volume = 3", 'copy it exactly:\n  "volume": 3'),
        ("one\ntwo\n", "three", "which holds:\none\ntwo\n"),
        ("long\n" * 1000, "three", "Read a.txt and copy it from there exactly."),
        ("x\nx\n", "x", "is there 2 times"),
    ],
)
async def test_an_edit_that_does_not_fit_says_what_would(
    work: Path, held: str, old: str, told: str
) -> None:
    (work / "a.txt").write_text(held)
    edited = await call(work, "edit_file", path="a.txt", old=old, new="y")
    assert not edited.success
    assert told in (edited.error or "")
    assert (work / "a.txt").read_text() == held


async def test_files_are_read_written_and_edited(work: Path) -> None:
    assert (await call(work, "read_file", path="src/a.py")).return_value == "one\ntwo\nthree\n"
    part = await call(work, "read_file", path="src/a.py", first_line=2, max_lines=1)
    assert part.return_value == "two\n"
    written = await call(work, "write_file", path="new/b.txt", content="x\n")
    assert list(written.artifacts) == ["new/b.txt"]
    edited = await call(work, "edit_file", path="src/a.py", old="two", new="2")
    assert edited.success
    assert (work / "src" / "a.py").read_text() == "one\n2\nthree\n"
    twice = await call(work, "edit_file", path="src/a.py", old="e", new="E")
    assert "there 3 times" in (twice.error or "")


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/passwd", "src/../../secret", "./src/a.py", "src//a.py", "a\0b", "~/x", "."],
)
@pytest.mark.parametrize("name", ["read_file", "write_file"])
async def test_paths_stay_in_the_workspace(work: Path, path: str, name: str) -> None:
    content = {"content": "x"} if name == "write_file" else {}
    result = await call(work, name, path=path, **content)
    assert result.success is (path == "~/x" and name == "write_file")
    assert (work.parent / "secret").read_text() == "keys"


async def test_links_pipes_and_devices_are_refused(work: Path) -> None:
    (work / "link").symlink_to(work.parent / "secret")
    (work / "folder").symlink_to(work.parent)
    os.mkfifo(work / "pipe")
    for path in ("link", "folder/secret", "pipe", "src"):
        assert not (await call(work, "read_file", path=path)).success
        assert not (await call(work, "edit_file", path=path, old="k", new="x")).success
    assert not (await call(work, "write_file", path="folder/secret", content="x")).success
    assert (await call(work, "write_file", path="link", content="x")).success
    assert (work.parent / "secret").read_text() == "keys", "the link was replaced, not followed"


@pytest.mark.parametrize("path", [".git/hooks/post-commit", ".vscode/tasks.json", "a/.git/config"])
async def test_what_other_programs_act_on_is_protected(work: Path, path: str) -> None:
    result = await call(work, "write_file", path=path, content="x")
    assert "is protected" in (result.error or "")


async def test_grep_and_glob(work: Path) -> None:
    (work / "src" / "deep").mkdir()
    (work / "src" / "deep" / "b.py").write_text("two\n")
    (work / "bin").write_bytes(b"two\xff")
    found = await call(work, "grep", pattern="^t(wo|hree)$")
    assert found.return_value.splitlines() == [
        "src/a.py:2: two",
        "src/a.py:3: three",
        "src/deep/b.py:1: two",
    ]
    assert (await call(work, "grep", pattern="two", max_matches=1)).return_value.endswith("more]")
    assert (await call(work, "glob", pattern="src/*.py")).return_value == "src/a.py"
    with pytest.raises(ArgumentsRefused):
        await call(work, "grep", pattern="(?=a)b")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**", ["a", "b/a", "b/c/a.py"]),
        ("**/a", ["a", "b/a"]),
        ("*", ["a"]),
        ("b/**", ["b/a", "b/c/a.py"]),
        ("b/**/a.py", ["b/c/a.py"]),
        ("*/a", ["b/a"]),
        ("?", ["a"]),
        ("nothing", []),
    ],
)
def test_patterns(pattern: str, names: list[str]) -> None:
    assert matching(pattern, ["b/c/a.py", "a", "b/a"]) == names


def test_a_nasty_pattern_is_quick() -> None:
    assert matching("/".join(["**"] * 50) + "/x" + "*a" * 100, ["a" * 200 + "/b" * 50]) == []


def test_search_is_there_only_with_somebody_to_ask() -> None:
    assert "web_search" not in REGISTRY.names


@pytest.mark.parametrize("offer", REGISTRY.offers, ids=lambda offer: offer.name)
def test_a_tool_is_offered_with_an_example_that_fits_it(offer: ToolOffer) -> None:
    example = strict_loads(offer.description.partition("Example: ")[2])
    tool = REGISTRY.get(offer.name)
    assert tool is not None
    tool.check(example)
    assert set(example) <= set(offer.parameters["properties"])
    assert "title" not in str(offer.parameters)


def test_the_offers_are_the_tools() -> None:
    assert tuple(offer.name for offer in REGISTRY.offers) == REGISTRY.names
    assert not any(offer.changes_state for offer in REGISTRY.offers)
