"""`silas metrics`: figures from the audit log of this machine, for people and for scripts."""

import json

from tests.cli.machine import Machine, output_of


def test_on_a_fresh_machine_there_is_little_to_measure(owner: Machine) -> None:
    found = json.loads(output_of(owner.run("metrics", "--json", "--days", "7")))
    assert found["days"] == 7
    by_name = {metric["name"]: metric for metric in found["metrics"]}
    assert by_name["decline_rate"]["signal"] == "unknown"
    assert by_name["fatigue_triggers"]["value"] == 0
    told = output_of(owner.run("metrics"))
    assert "rate" not in told
    assert "chips" not in told
    assert "What you declined: nothing to measure yet (good is 5-15 %)" in told
    assert "Times that you decided too fast: 0 a week of 0 (good is below 1 a week)" in told
