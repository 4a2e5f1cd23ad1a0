"""Checks that the runtime writes for a guided planner."""

import pytest
import re2

from silas.agents.plan_fields import CheckFields, _check


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("port: 9000\n", True),
        ('{"name": "a", "port": 9000}', True),
        ("[server]\nport = 9000\n", True),
        ("port: 9000.5\n", False),
        ("no-port: 9000\n", False),
        ("# port: 9000\nport: 80\n", False),
        ("port: 90001\n", False),
    ],
)
def test_a_setting_is_found_in_any_notation_and_nothing_else_is(text: str, holds: bool) -> None:
    found = _check(CheckFields(file="a.conf", contains="port: 9000"), "a.conf")
    assert found is not None
    assert (re2.search(found["expect"]["regex"], text) is not None) is holds
