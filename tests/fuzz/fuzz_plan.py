"""Coverage-guided fuzzing of the plan parser: `python tests/fuzz/fuzz_plan.py [CORPUS] [-runs=N]`.

Needs `atheris`. Any exception other than `PlanInvalid`, and any input that takes longer than
`-timeout`, is a defect. What is accepted must come back from JSON with the same hash.
"""

import sys

import atheris

with atheris.instrument_imports(include=["silas"]):
    from silas.work import PlanInvalid, WorkItem, decode_plan, parse_plan


def test_one_input(raw: bytes) -> None:
    try:
        plan = parse_plan(decode_plan(raw))
    except PlanInvalid as error:
        if not error.problems:
            raise RuntimeError("refused without a reason") from error
        return
    for item in plan.items:
        again = WorkItem.model_validate_json(item.model_dump_json(), strict=True)
        if again.plan_hash != item.plan_hash or not item.needs_approval:
            raise RuntimeError(f"accepted something that is not a plan: {item!r}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
