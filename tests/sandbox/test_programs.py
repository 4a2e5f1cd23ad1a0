"""Which programs Silas starts outside the sandbox: all of them are listed, with the reason."""

import ast
import os
import re
from pathlib import Path

import pytest

import silas
from silas.cli import start

SOURCE = Path(silas.__file__).parent
DOCUMENT = SOURCE.parent / "docs" / "sandbox.md"
STARTS = re.compile(
    r"(subprocess|multiprocessing|webbrowser|pty|runpy|pexpect)\.\w+"
    r"|os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawnp?)"
    r"|asyncio\.create_subprocess_\w+|loop\.subprocess_\w+"
    r"|click\.(edit|launch|echo_via_pager)|ctypes\.util\.find_library"
    r"|(concurrent\.futures\.)?ProcessPoolExecutor|Popen"
)
NO_PROGRAM = {"subprocess.TimeoutExpired", "subprocess.CalledProcessError"}


def _calls(path: Path) -> set[str]:
    called = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call))
    names = {ast.unparse(node.func) for node in called}
    return {name for name in names if STARTS.fullmatch(name)} - NO_PROGRAM


def test_every_module_that_starts_programs_is_listed_with_its_reason() -> None:
    section = DOCUMENT.read_text().partition("## Programs that Silas starts outside the sandbox")[2]
    table = section.partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+/[\w/]+\.py)`", table)) - {"tests/sandbox/test_programs.py"}
    modules = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    # What the scripts of skills start is inside the sandbox.
    modules = {name: path for name, path in modules.items() if "skills/bundled/" not in name}
    found = {name for name, path in modules.items() if _calls(path)}
    assert found == listed
    assert not re.search(r"\bgit\b", table)


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    lines = ["subprocess.run([])", "os.posix_spawn('', [], {})", "os.execv('', [])", "Popen([])"]
    for line in lines:
        (tmp_path / "x.py").write_text(line)
        assert _calls(tmp_path / "x.py")


def test_no_browser_is_looked_for_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = []
    monkeypatch.setenv("PATH", ":.:bin:/usr/bin::/bin:")
    monkeypatch.setattr("webbrowser.open", lambda _link: searched.append(os.environ["PATH"]))
    start._open_browser("http://127.0.0.1:1/")
    assert searched == ["/usr/bin:/bin"]
