"""The execution of a task: the door, attempts, retries, what is kept, and what is never done."""

import pytest

from silas.testing.work import FakePlanner, FakeWorker
from silas.work import WorkItemStatus
from silas.work.errors import PlanInvalid
from silas.work.plan import parse_plan
from tests.work.shop import YES, Shop, calls, check, script, shell, task

DONE, STUCK, BLOCKED = WorkItemStatus.DONE, WorkItemStatus.STUCK, WorkItemStatus.BLOCKED
UNCHECKED = WorkItemStatus.UNCHECKED


async def test_a_plan_with_blocks_is_executed_checked_and_done(shop: Shop) -> None:
    body = "Say hello.\n\n```file path=hello.sh\necho hello\n```\n\n```run\nsh hello.sh\n```\n"
    result = await shop.run(task(body, verify=[check("cat hello.sh", equals="echo hello\n")]))
    assert (result.status, result.last_error) == (DONE, None)
    assert [each.proves for each in result.verification_results] == [True]
    assert list(result.artifacts) == ["hello.sh"]
    item = await shop.bench.items.get("t1")
    assert item is not None
    assert (item.status, item.attempts, item.budget_used.executor_runs) == (DONE, 1, 2)
    assert await shop.bench.attempts.list_open() == []
    assert "work_done" in shop.audit.events()
    assert not list((shop.root / "work" / "attempts").rglob("files"))


async def test_a_check_that_runs_what_the_worker_wrote_shows_nothing(shop: Shop) -> None:
    body = "```file path=hello.sh\necho hello\n```"
    declared = {"changes": {"add": ["hello.sh"]}}
    shown = [check("sh hello.sh", equals="hello\n")]
    result = await shop.run(task(body, verify=shown, workspace=declared))
    assert (result.status, result.last_error) == (UNCHECKED, None)
    assert [each.influenced_by for each in result.verification_results] == [["hello.sh"]]


async def test_without_an_approval_nothing_runs(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true")))
    item = await shop.bench.items.save(task(verify=[check("true")]))
    result = await shop.having(agent=worker).execute(item)
    assert (result.status, worker.briefings) == (BLOCKED, [])
    assert shop.reasons("execution_blocked_no_approval") == ["There is no approval."]


async def test_an_approval_that_was_not_verified_is_none(shop: Shop) -> None:
    item = await shop.bench.items.save(task())
    token = await shop.engine.issue_token(item, YES)
    item = await shop.bench.items.save(item.model_copy(update={"approval_token": token}))
    assert (await shop.execute(item)).status is BLOCKED
    assert shop.reasons("execution_blocked_no_approval") == ["The token has not been verified"]


async def test_an_expired_approval_is_none(shop: Shop) -> None:
    item = await shop.approve(await shop.bench.items.save(task()))
    shop.clock.advance(hours=1)
    assert (await shop.execute(item)).last_error == "The token has expired"


async def test_a_token_for_something_else_is_none(shop: Shop) -> None:
    item = await shop.approve(await shop.bench.items.save(task()))
    other = await shop.bench.items.save(
        task(id="t2").model_copy(update={"approval_token": item.approval_token})
    )
    assert (await shop.execute(other)).last_error == "The token is for another work item"


async def test_without_a_worker_it_is_blocked(shop: Shop) -> None:
    result = await shop.having(agent=None).run(task())
    assert result.status is BLOCKED


async def test_a_failed_check_leads_to_another_attempt_with_the_details(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true")), calls(script("echo 42 > answer")))
    wanted = check("cat answer; cat answer >&2", name="answer", equals="42\n")
    result = await shop.run(task("Find it.", verify=[wanted]), worker)
    assert result.status is DONE
    first, second = (briefing.instructions for briefing in worker.briefings)
    assert first == "Find it."
    assert second.startswith("Find it.\n\n# Previous attempt 1 failed\n\n")
    assert "- answer: equals: not as expected" in second
    outcomes = [each.outcome for each in await shop.bench.attempts.list_of("t1")]
    assert outcomes == ["failed", "passed"]


async def test_every_attempt_starts_afresh(shop: Shop) -> None:
    worker = FakeWorker(calls(script("echo x >> log")))
    wanted = check("wc -l < log", output_gt=1)
    result = await shop.run(task(verify=[wanted], budget={"max_attempts": 3}), worker)
    assert result.status is STUCK
    assert [each.output.strip() for each in result.verification_results] == ["1"]


async def test_the_budget_is_reached_and_then_it_is_stuck(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true")), tokens=60)
    budget = {"max_tokens": 120, "max_attempts": 9}
    result = await shop.run(task(verify=[check("false")], budget=budget), worker)
    assert (result.status, len(worker.briefings)) == (STUCK, 2)
    assert worker.briefings[1].limits.tokens == 60
    assert result.budget_used.tokens == 120


async def test_after_three_attempts_the_planner_is_asked(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true")), tokens=1)
    planner = FakePlanner("Try it with less.", tokens=10)
    shop.having(planner=planner)
    budget = {"max_attempts": 5}
    result = await shop.run(task(verify=[check("false")], budget=budget), worker)
    assert result.status is STUCK
    assert planner.asked == [("check",)] * 3
    guided = [b.instructions.endswith("Try it with less.") for b in worker.briefings]
    assert guided == [False, False, False, True, True]
    assert (result.budget_used.planner_calls, result.budget_used.tokens) == (3, 35)


async def test_the_planner_is_not_asked_if_the_plan_does_not_say_so(shop: Shop) -> None:
    planner = FakePlanner("x")
    shop.having(planner=planner)
    await shop.run(task(verify=[check("false")], on_stuck="report"), FakeWorker())
    assert planner.asked == []


async def test_a_worker_that_throws_is_a_failed_attempt(shop: Shop) -> None:
    async def throw(_briefing, _tools) -> None:
        raise RuntimeError("out of ideas")

    worker = FakeWorker(throw, calls(script("touch x")))
    result = await shop.run(task(verify=[check("test -f x")]), worker)
    assert result.status is DONE
    assert "out of ideas" in worker.briefings[1].instructions


async def test_without_checks_something_must_have_been_done(shop: Shop) -> None:
    result = await shop.run(task(budget={"max_attempts": 1}), FakeWorker())
    assert (result.status, result.last_error) == (STUCK, "The worker did nothing.")


async def test_without_checks_the_last_call_must_have_worked(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true"), shell("false")), calls(shell("true")))
    result = await shop.run(task(), worker)
    assert (result.status, len(worker.briefings)) == (UNCHECKED, 2)
    assert result.summary.startswith("Done, not checked: the plan has no checks.")


async def test_what_is_done_is_not_done_again(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("touch", "made")))
    await shop.run(task(verify=[check("test -f made")]), worker)
    item = await shop.bench.items.get("t1")
    assert item is not None
    assert (await shop.execute(item)).status is DONE
    assert len(worker.briefings) == 1


async def test_what_is_done_and_not_checked_is_not_done_again(shop: Shop) -> None:
    worker = FakeWorker(calls(shell("true")))
    await shop.run(task(), worker)
    item = await shop.bench.items.get("t1")
    assert item is not None
    result = await shop.execute(item)
    assert (result.status, result.summary) == (UNCHECKED, "This was done before, not checked.")
    assert len(worker.briefings) == 1


async def test_artifacts_are_kept_and_a_follow_up_gets_them(shop: Shop) -> None:
    await shop.run(task("```file path=a/b.txt\nhello\n```", verify=[check("test -f a/b.txt")]))
    follow = task(
        "```run\ncp a/b.txt c.txt\n```",
        id="t2",
        follow_up_of="t1",
        input_artifacts_from=["a/b.txt"],
        verify=[check("cat c.txt", equals="hello\n")],
    )
    assert (await shop.run(follow)).status is DONE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"input_artifacts_from": ["nothing.txt"]},
            "These artifacts are missing in t1: nothing.txt.",
        ),
        ({"follow_up_of": "t0"}, "t0 is pending, not done."),
    ],
)
async def test_a_follow_up_of_nothing_is_blocked(shop: Shop, change, reason: str) -> None:
    await shop.run(task("```file path=a.txt\nhello\n```", verify=[check("test -f a.txt")]))
    await shop.bench.items.save(task(id="t0"))
    follow = {"id": "t2", "follow_up_of": "t1", "input_artifacts_from": ["*"], **change}
    result = await shop.run(task(**follow))
    assert (result.status, result.last_error) == (BLOCKED, reason)
    assert shop.reasons("execution_blocked_linkage") == [reason]


async def test_a_follow_up_of_what_nothing_has_shown_is_blocked_unless_it_says_so(
    shop: Shop,
) -> None:
    await shop.run(task("```file path=a.txt\nhello\n```", verify=[check("true")]))
    follow = {"follow_up_of": "t1", "input_artifacts_from": ["a.txt"]}
    body = "```run\ncp a.txt b.txt\n```"
    shown = [check("cat b.txt", equals="hello\n")]
    result = await shop.run(task(body, id="t2", verify=shown, **follow))
    assert result.status is BLOCKED
    assert (result.last_error or "").startswith("t1 was done, but nothing has shown it.")
    accepting = task(body, id="t3", verify=shown, accepts_unchecked=True, **follow)
    assert (await shop.run(accepting)).status is DONE


async def test_a_script_is_carried_out_as_it_is_written_and_no_model_takes_part(shop: Shop) -> None:
    liar = FakeWorker(calls(script("touch other")))
    item = task("```file path=a.txt\none\n```", script=True, verify=[check("cat a.txt")])
    result = await shop.run(item, liar)
    assert result.status is WorkItemStatus.DONE
    assert liar.briefings == []


@pytest.mark.parametrize(
    ("fields", "body", "said"),
    [
        ("script: true", "Write a poem.", "the body has no block to be executed"),
        ("script: true", "```run\nls | wc\n```", "the body cannot be executed"),
        (
            "script: true\nverify: [{name: up, run: ./up, expect: {exit_code: 0}}]",
            "x",
            "tasks only",
        ),
    ],
)
def test_a_script_without_steps_is_no_plan(fields: str, body: str, said: str) -> None:
    kind = "goal" if "verify" in fields else "task"
    with pytest.raises(PlanInvalid) as refused:
        parse_plan(f"---\nid: t\ntype: {kind}\ntitle: T\n{fields}\n---\n{body}\n")
    assert any(
        problem.field == "script" and said in problem.message for problem in refused.value.problems
    ), refused.value.problems
