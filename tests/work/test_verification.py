"""The verification runner: every predicate, every limit, and nothing that a worker can do to it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from silas.sandbox import CannotContain, SandboxRequest, SandboxResult
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.testing import FakeClock
from silas.testing.work import FakeWorker
from silas.work import VerificationCheck, VerificationResult, WorkItemStatus, verification
from silas.work.verification import VerificationRunner
from tests.egress.loopback import PretendInternetOnLoopback, web_server
from tests.work.shop import Shop, calls, check, script, task


@pytest.fixture
def runner(tmp_path: Path) -> VerificationRunner:
    return VerificationRunner(
        BubblewrapBackend(), verify_dir=tmp_path / "verify", clock=FakeClock()
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    path.mkdir()
    (path / "a.txt").write_text("7\n")
    return path


async def verdict(
    runner: VerificationRunner, work: Path | None, **fields: Any
) -> VerificationResult:
    made = VerificationCheck.model_validate(check(**fields))
    report = await runner.run_checks([made], artifacts=work)
    return report.results[0]


@pytest.mark.parametrize(
    ("run", "expect", "passed"),
    [
        ("exit 3", {"exit_code": 3}, True),
        ("exit 3", {"exit_code": 0}, False),
        ("cat a.txt", {"equals": "7\n"}, True),
        ("cat a.txt", {"equals": "7"}, False),
        ("cat a.txt", {"contains": "7"}, True),
        ("cat a.txt", {"contains": "8"}, False),
        ("cat a.txt", {"regex": r"^\d$"}, True),
        ("cat a.txt", {"regex": r"^\d\d$"}, False),
        ("cat a.txt", {"output_lt": 8}, True),
        ("cat a.txt", {"output_lt": 7}, False),
        ("cat a.txt", {"output_gt": 6.5}, True),
        ("cat a.txt", {"output_gt": 7}, False),
        ("echo nan", {"output_lt": 8}, False),
        ("echo inf", {"output_gt": 8}, False),
        ("echo seven", {"output_gt": 1}, False),
        ("true", {"file_exists": "a.txt"}, True),
        ("true", {"file_exists": "b.txt"}, False),
        ("touch $HOME/report", {"file_exists": "report"}, True),
        ("cat a.txt", {"not_empty": True}, True),
        ("true", {"not_empty": True}, False),
        ("cat a.txt >&2", {"contains": "7"}, False),
    ],
)
async def test_predicates(
    runner: VerificationRunner, work: Path, run: str, expect: dict[str, Any], passed: bool
) -> None:
    assert (await verdict(runner, work, run=run, **expect)).passed is passed


async def test_a_check_that_lacks_modules_says_how_it_finds_them(
    runner: VerificationRunner, work: Path
) -> None:
    (work / "calc.py").write_text("SUM = 3\n")
    (work / "test_calc.py").write_text("import calc\nassert calc.SUM == 3\n")
    lost = await verdict(runner, work, run="python3 test_calc.py", exit_code=0)
    assert not lost.passed
    assert "`PYTHONPATH=.` before the command" in lost.reason
    found = await verdict(runner, work, run="PYTHONPATH=. python3 test_calc.py", exit_code=0)
    assert found.passed


async def test_a_timeout_is_a_failure_and_keeps_what_was_said(
    runner: VerificationRunner, work: Path
) -> None:
    run = "echo ok; sleep 600"
    for seconds in (1, 10, 100):  # on a busy machine, the clock may end it before it began
        result = await verdict(runner, work, run=run, contains="ok", timeout=seconds)
        assert (result.passed, result.reason) == (False, f"Timeout after {seconds}s")
        assert result.exit_code is None
        if result.output:
            break
    assert result.output == "ok\n"


async def test_output_is_cut_and_what_cannot_be_judged_fails(
    runner: VerificationRunner, work: Path
) -> None:
    result = await verdict(runner, work, run="yes | head -c 5000", contains="y")
    assert (result.passed, len(result.output)) == (True, 4000)
    flood = await verdict(runner, work, run="yes | head -c 2000000", contains="y")
    assert (flood.passed, "more output than" in flood.reason) == (False, True)


async def test_what_is_kept_ends_with_the_error_and_has_no_secret(
    runner: VerificationRunner, work: Path
) -> None:
    secret = "sk-proj-" + "a1B2" * 10
    noise = f"seq 1 5000; echo the failure is here; echo '{secret}' >&2; exit 1"
    result = await verdict(runner, work, run=noise, exit_code=0)
    assert result.output.startswith("1\n2\n")
    assert "5000\nthe failure is here\n" in result.output
    assert secret not in result.output


async def test_binary_output_is_safe(runner: VerificationRunner, work: Path) -> None:
    result = await verdict(runner, work, run=r"printf '\377\000x'", contains="x")
    assert result.passed


async def test_the_work_is_read_only_and_so_is_the_rest(
    runner: VerificationRunner, work: Path
) -> None:
    run = "echo 1 > a.txt; rm a.txt; touch b; mkdir /usr/x; cat a.txt"
    assert (await verdict(runner, work, run=run, equals="7\n")).passed
    assert sorted(path.name for path in work.iterdir()) == ["a.txt"]


async def test_the_environment_is_minimal(
    runner: VerificationRunner, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("PYTHONPATH", "/evil")
    result = await verdict(runner, work, run="env", not_empty=True)
    assert "s3cret" not in result.output
    assert "/evil" not in result.output
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in result.output.splitlines()


async def test_a_check_reaches_the_hosts_that_it_lists_and_tells_which(
    work: Path, tmp_path: Path
) -> None:
    count = "tail -n +3 /proc/net/dev | grep -vc '^ *lo:'"
    async with web_server() as served:
        sandbox = BubblewrapBackend(way_out=PretendInternetOnLoopback(served.port))
        runner = VerificationRunner(sandbox, verify_dir=tmp_path / "v", clock=FakeClock())
        for hosts in ([], ["example.org"]):
            assert (await verdict(runner, work, run=count, equals="0\n", network=hosts)).passed
        ask = "curl -fsS http://example.org/"
        reached = await verdict(runner, work, run=ask, equals="hello", network=["example.org"])
        assert [use.host for use in reached.network] == ["example.org:80"]
        assert reached.passed
        assert not (await verdict(runner, work, run=ask, equals="hello")).passed


async def test_a_sandbox_that_cannot_contain_it_is_a_failed_check(
    work: Path, tmp_path: Path
) -> None:
    class Weak:
        async def run(self, request: SandboxRequest, **_: Any) -> SandboxResult:
            assert request.require >= {"network", "filesystem"}
            raise CannotContain("The network cannot be kept out.")

    runner = VerificationRunner(Weak(), verify_dir=tmp_path / "v", clock=FakeClock())
    result = await verdict(runner, work, run="true")
    assert (result.passed, result.reason) == (False, "Not run: The network cannot be kept out.")


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "/home/owner/.ssh/id_rsa"])
async def test_files_elsewhere_are_not_looked_for(
    runner: VerificationRunner, work: Path, path: str
) -> None:
    result = await verdict(runner, work, run="true", file_exists=path)
    assert (result.passed, "outside" in result.reason) == (False, True)


async def test_a_link_is_not_a_file(runner: VerificationRunner, work: Path) -> None:
    (work / "link").symlink_to("/etc/passwd")
    (work / "folder").symlink_to("/etc")
    (work / "pipe").mkdir()
    for name in ("link", "folder/passwd", "pipe"):
        assert not (await verdict(runner, work, run="true", file_exists=name)).passed


async def test_a_home_is_gone_afterwards_and_never_shared(
    runner: VerificationRunner, work: Path, tmp_path: Path
) -> None:
    checks = [
        VerificationCheck.model_validate(check("touch $HOME/x; ls $HOME", name="1", equals="x\n")),
        VerificationCheck.model_validate(check("ls $HOME", name="2", equals="")),
    ]
    report = await runner.run_checks(checks, artifacts=work)
    assert report.all_passed
    assert list((tmp_path / "verify").iterdir()) == []


async def test_without_checks_nothing_was_shown(runner: VerificationRunner, work: Path) -> None:
    assert not (await runner.run_checks([], artifacts=work)).all_passed


HONEST = check("cat result", name="result", equals="42\n")


@pytest.mark.parametrize(
    ("trick", "wanted"),
    [
        (
            "(sleep 2; echo 42 > result) & disown; setsid sh -c 'sleep 1; echo 42 > result' &",
            HONEST,
        ),
        ("printf '#!/bin/sh\\necho 42\\n' > cat; chmod +x cat", HONEST),
        ("mkdir -p bin; printf '#!/bin/sh\\necho 42\\n' > bin/cat; chmod +x bin/cat", HONEST),
        ("export PATH=$PWD:$PATH; echo 'PATH=.:$PATH' > .profile; cp .profile .bashrc", HONEST),
        ("echo 'echo 42' > $HOME/.profile; echo 'echo 42' > /tmp/.profile", HONEST),
        ("ln -s /proc/self/environ result; ln -sf /etc/hostname result", HONEST),
        ("mkdir -p ../verify /verify 2>/dev/null; echo 42 > ../verify/result", HONEST),
        ("echo 42 > /tmp/result; echo 42", HONEST),
        (
            "git init -q . ; mkdir -p .git/hooks; git config core.fsmonitor 'echo 42 >&2'",
            check("git rev-parse --git-dir", name="git", equals=".git\n"),
        ),
        (
            "echo 'print(42)' > json.py; echo 'print(42)' > sitecustomize.py",
            check("python3 -m json < /dev/null; true", name="python", contains="42"),
        ),
        (
            "cd /tmp; echo 'print(42)' > usercustomize.py; echo 'print(42)' > ../conftest.py",
            check("python3 -c 'import conftest'; python3 -c 'import usercustomize'", contains="42"),
        ),
        ("printf '[alias]\\nlog = !echo 42\\n' > .gitconfig", check("git log", contains="42")),
    ],
)
async def test_a_worker_cannot_influence_a_check(
    shop: Shop, trick: str, wanted: dict[str, Any]
) -> None:
    worker = FakeWorker(calls(script(trick), script("true")), claims=["result"])
    result = await shop.run(task(verify=[wanted], budget={"max_attempts": 1}), worker)
    assert result.status is WorkItemStatus.STUCK, result.verification_results


async def test_a_check_that_is_cancelled_removes_nothing_after_its_end(
    runner: VerificationRunner, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = asyncio.Event(), threading.Event()
    loop, clear_name = asyncio.get_running_loop(), verification.clear_name

    def slowly(home: Path) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert may_go_on.wait(60)
        clear_name(home)

    monkeypatch.setattr(verification, "clear_name", slowly)
    checking = asyncio.create_task(verdict(runner, work, run="true", exit_code=0))
    await begun.wait()
    checking.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    ended_too_early = checking.done()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await checking
    assert not ended_too_early, "its files were still being removed"
    assert list((tmp_path / "verify").iterdir()) == []
