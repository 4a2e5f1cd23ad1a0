"""`silas autonomy`: what is in force, and the way back, at the terminal."""

import json

from tests.cli.machine import Machine, output_of


def test_how_much_is_asked_and_the_one_command_back(owner: Machine) -> None:
    found = json.loads(output_of(owner.run("autonomy", "list", "--json")))
    assert [(each["key"], each["value"]) for each in found["thresholds"]] == [
        ("batch_review.default_size", "10"),
        ("batch_review.confidence.high_min", "0.85"),
    ]
    told = output_of(owner.run("autonomy", "list"))
    assert "You corrected 0 of 0 decisions" in told
    done = json.loads(output_of(owner.run("autonomy", "tighten", "--json")))
    told = "There was nothing to take back. The settings hold."
    assert done == {"changes": 0, "grants": 0, "told": told}
    assert json.loads(output_of(owner.run("grants", "list", "--json"))) == {"grants": []}
    for command in ("show", "revoke"):
        assert owner.run("grants", command, "nothing").returncode == 40
    assert owner.run("autonomy", "show", "nothing").returncode == 40
