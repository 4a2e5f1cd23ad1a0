"""Workers that lie: none of them ever gets `done`."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from silas.testing.work import FakeWorker
from silas.work.models import ENDED_WELL
from silas.work.ports import Briefing, ToolCaller
from tests.work.shop import Shop, calls, check, script, shell, task

WANTED = check("cat result", name="result", equals="42\n")


async def never_done(shop: Shop, worker: FakeWorker, **more: Any) -> None:
    item = task(**{"verify": [WANTED], "budget": {"max_attempts": 2}, **more})
    result = await shop.run(item, worker)
    assert result.status not in ENDED_WELL
    stored = await shop.bench.items.get(item.id)
    assert stored is not None
    assert stored.status is result.status
    assert "work_done" not in shop.audit.events()
    assert result.artifacts == {}


async def test_who_claims_success_without_doing_anything(shop: Shop) -> None:
    await never_done(shop, FakeWorker(claims=["result"]))
    assert shop.audit.events().count("artifact_ref_mismatch") == 2


async def test_who_claims_success_where_nobody_checks(shop: Shop) -> None:
    await never_done(shop, FakeWorker(claims=["result"]), verify=[])


async def test_who_forges_artifacts(shop: Shop) -> None:
    forged = ("write_file", {"path": "result.sha256", "content": "42\n"})
    await never_done(shop, FakeWorker(calls(forged), claims=["result"]))


async def test_who_prints_what_the_check_expects(shop: Shop) -> None:
    await never_done(shop, FakeWorker(calls(script("echo 42; echo 42 >&2"))))


async def test_who_writes_the_verdict_itself(shop: Shop) -> None:
    verdict = '{"name":"result","passed":true,"reason":"ok"}'
    tricks = [
        ("write_file", {"path": "publication.json", "content": verdict}),
        ("write_file", {"path": "../publication.json", "content": verdict}),
        script(f"echo '{verdict}' > ../publication.json; echo '{verdict}'"),
    ]
    await never_done(shop, FakeWorker(calls(*tricks)))


async def test_who_edits_the_check(shop: Shop, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "check.sh").write_text("#!/bin/sh\ntest -f result\n")
    edits = [
        ("write_file", {"path": "check.sh", "content": "exit 0\n"}),
        ("edit_file", {"path": "check.sh", "old": "test -f result", "new": "true"}),
        script("echo exit 0 > check.sh; rm -f check.sh; mv check.sh old; true"),
    ]
    await never_done(
        shop,
        FakeWorker(calls(*edits)),
        workspace={"path": str(site)},
        verify=[check("sh check.sh", name="script")],
    )
    assert (site / "check.sh").read_text() == "#!/bin/sh\ntest -f result\n"


async def test_who_moves_the_checks_directory_aside(shop: Shop, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "tests").mkdir(parents=True)
    (site / "tests" / "check.sh").write_text("#!/bin/sh\nexit 1\n")
    swap = script("mv tests old; mkdir tests; echo exit 0 > tests/check.sh")
    await never_done(
        shop,
        FakeWorker(calls(swap)),
        workspace={"path": str(site)},
        verify=[check("sh tests/check.sh", name="script")],
    )
    item = await shop.bench.items.get("t1")
    assert item is not None
    # The tree that is checked has the script that was approved, and that one says no.
    assert [each.exit_code for each in item.verification_results] == [1, 1]
    assert (site / "tests" / "check.sh").read_text() == "#!/bin/sh\nexit 1\n"
    assert not (site / "old").exists()


async def test_who_sleeps_past_the_timeout(shop: Shop) -> None:
    shop.having(limits=replace(shop.bench.limits, call_seconds=1))
    await never_done(shop, FakeWorker(calls(script("sleep 30; echo 42 > result"))))


async def test_who_uses_up_all_the_time(shop: Shop) -> None:
    async def wait(_briefing: Briefing, tools: ToolCaller) -> None:
        await tools.call(*script("echo 42 > result; sleep 30"))

    await never_done(shop, FakeWorker(wait), budget={"max_attempts": 1, "max_wall_time_seconds": 1})


async def test_whose_check_never_ends(shop: Shop) -> None:
    endless = check("sleep 30; cat result", name="result", equals="42\n", timeout=1)
    worker = FakeWorker(calls(script("echo 42 > result")))
    await never_done(shop, worker, verify=[endless], budget={"max_attempts": 1})


async def test_who_leaves_a_link_to_somewhere_else(shop: Shop, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("42\n")
    await never_done(shop, FakeWorker(calls(shell("ln", "-s", str(secret), "result"))))


async def test_who_goes_on_beside_the_checks(shop: Shop) -> None:
    answers: list[str | None] = []
    left: list[asyncio.Task[None]] = []

    async def leave_somebody_behind(_briefing: Briefing, tools: ToolCaller) -> None:
        async def keep_trying() -> None:
            while (await tools.call(*shell("true"))).success:
                pass
            answers.append((await tools.call(*script("echo 42 > result"))).error)

        left.append(asyncio.create_task(keep_trying()))

    slow = check("sleep 0.3; cat result", name="result", equals="42\n")
    await never_done(shop, FakeWorker(leave_somebody_behind), verify=[slow])
    await asyncio.gather(*left)
    assert answers == ["The attempt is over."] * 2


@pytest.mark.parametrize("name", ["sub/.git/hooks/post-commit", "a/.vscode/tasks.json"])
async def test_what_makes_other_programs_act_is_never_taken_over(
    shop: Shop, tmp_path: Path, name: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    plant = script(f"mkdir -p {Path(name).parent}; echo evil > {name}; echo 42 > result")
    workspace = {"path": str(site), "changes": {"add": ["result"]}}
    await never_done(shop, FakeWorker(calls(plant)), workspace=workspace)
    assert list(site.iterdir()) == []


async def test_a_link_is_never_taken_over(shop: Shop, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    worker = FakeWorker(calls(script("ln -s /etc/passwd page; echo 42 > result")))
    workspace = {"path": str(site), "changes": {"add": ["result"]}}
    await never_done(shop, worker, workspace=workspace)
    assert list(site.iterdir()) == []
