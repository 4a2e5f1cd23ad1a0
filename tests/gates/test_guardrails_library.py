"""Validators of guardrails-ai by name; its interface is stood in for, because it is 470 MB.

`make test-guardrails` runs `tests/with_guardrails` against the library itself.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from silas.gates import Gate, GateAction
from silas.gates.errors import GuardrailsUnavailable
from silas.gates.guards.registry import built_in_guards
from silas.gates.providers.guardrails_ai import (
    AllValidators,
    GuardrailsAiProvider,
    library_classes,
    register_guards,
)


@dataclass
class Result:
    outcome: str
    error_message: str = ""
    fix_value: Any = None


class Short:
    """A validator as the library makes them: fails texts over `length`, and can cut them."""

    def __init__(self, length: int = 5, **more: Any) -> None:
        if more:
            raise TypeError(more)
        self._length = length

    def validate(self, value: str, metadata: dict[str, Any]) -> Result:
        if len(value) <= self._length:
            return Result("pass")
        return Result("fail", f"{value} is too long", value[: self._length])


class NoFix(Short):
    def validate(self, value: str, metadata: dict[str, Any]) -> Result:
        return Result("fail")


def find(name: str) -> Callable[..., Any] | None:
    return {"acme/short": Short, "acme/no_fix": NoFix}.get(name)


def provider(*, installed: bool = True) -> GuardrailsAiProvider:
    embedded = built_in_guards()
    library = find if installed else None
    return GuardrailsAiProvider(AllValidators(embedded, names=embedded.names, library=library))


def gate(check: str, **config: Any) -> Gate:
    fields = {"name": "g", "on": "every_user_message", "provider": "guardrails_ai"}
    return Gate.model_validate({**fields, "check": check, "config": config})


@pytest.mark.parametrize(
    ("wanted", "text", "action", "changed"),
    [
        (gate("acme/short"), "short", GateAction.CONTINUE, None),
        (gate("acme/short"), "longer", GateAction.BLOCK, None),
        (gate("acme/short", length=6), "longer", GateAction.CONTINUE, None),
        (gate("acme/short", mode="fix"), "longer", GateAction.CONTINUE, {"message": "longe"}),
        (gate("acme/short", on_fail="fix"), "longer", GateAction.CONTINUE, {"message": "longe"}),
        (gate("acme/short", on_fail="exception"), "longer", GateAction.BLOCK, None),
        (gate("acme/no_fix", mode="fix"), "qq", GateAction.BLOCK, None),
        (gate("acme/unheard"), "qq", GateAction.BLOCK, None),
        (gate("acme/short", on_fail="noop"), "qq", GateAction.BLOCK, None),
        (gate("jailbreak"), "What is for dinner?", GateAction.CONTINUE, None),
    ],
)
async def test_validators_by_name(
    wanted: Gate, text: str, action: GateAction, changed: dict[str, str] | None
) -> None:
    result = await provider().check(wanted, {"message": text})
    assert (result.action, result.modified_context) == (action, changed)
    assert text not in result.reason


def test_without_the_library_its_validators_cannot_be_used() -> None:
    problem = provider(installed=False).problem(gate("acme/short"))
    assert "pip install 'silas[guardrails]'" in (problem or "")
    assert "There is no guard" in (provider(installed=False).problem(gate("unheard")) or "")
    assert provider(installed=False).problem(gate("jailbreak")) is None


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "guardrails", None)
    assert library_classes() is None
    with pytest.raises(GuardrailsUnavailable, match=r"silas\[guardrails\]"):
        register_guards(built_in_guards())


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with the modules of the library that are used."""
    for name in [name for name in sys.modules if name.split(".")[0] == "guardrails"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "guardrails"
    (package / "utils").mkdir(parents=True)
    for name in ("__init__.py", "utils/__init__.py"):
        (package / name).write_text("")
    (package / "validator_base.py").write_text("def get_validator_class(name): return name\n")
    (package / "settings.py").write_text(
        "from types import SimpleNamespace\n"
        "settings = SimpleNamespace(rc=SimpleNamespace(enable_metrics=True))\n"
    )
    (package / "utils/hub_telemetry_utils.py").write_text(
        "class HubTelemetry:\n"
        "    one = None\n"
        "    def __new__(cls, enabled=None):\n"
        "        cls.one = cls.one or super().__new__(cls)\n"
        "        return cls.one\n"
        "    _tracer = 'reports'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "guardrails"]:
        del sys.modules[name]


def test_the_library_is_found_if_it_is_there_and_reports_to_nobody(stand_in: Path) -> None:
    found = library_classes()
    assert found is not None
    assert found("acme/short") == "acme/short"
    assert sys.modules["guardrails.settings"].settings.rc.enable_metrics is False
    assert sys.modules["guardrails.utils.hub_telemetry_utils"].HubTelemetry()._tracer is None


def test_a_library_whose_reports_cannot_be_switched_off_is_not_used(stand_in: Path) -> None:
    (stand_in / "utils/hub_telemetry_utils.py").unlink()
    assert library_classes() is None
