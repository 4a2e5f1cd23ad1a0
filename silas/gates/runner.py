"""The gate runner: one deterministic checkpoint that no model can argue with. Its rules:

1. Of the gates given, those of the trigger are evaluated: first the policy lane, then the quality
   lane, each in the order in which the gates were given.
2. A provider is given a copy of the context. It changes something only through `modified_context`.
3. Of `modified_context`, only the keys in `ALLOWED_MUTATIONS` survive, with a value of the right
   kind. This is the only place that enforces it. Each dropped key is a `rejected_mutation`.
4. What survives is merged from left to right, and every later gate sees it.
5. A block does not end the lane: the remaining gates still run, so that the log is complete.
6. The quality lane sees the context after all policy gates. Whatever it says besides `continue`,
   and whatever it wants to change, is ignored and logged as `quality_lane_violation`.
7. A gate without a provider blocks, in the policy lane. So does a policy gate whose provider fails,
   whose examples do not hold, or that comes after `max_gate_evals_per_turn`. A quality gate that
   fails or comes too late is left out and logged.
8. The same gates, context and answers give the same bytes of results. Nothing is kept between
   calls but which gates' examples hold; what one conversation said cannot reach another.
9. Every block, question, rewriting and violation is in the audit log before the answer is given.
10. `growing` says which policy gates can judge an answer while it is written, and what they leave
   of its beginning. That is for showing it, decides nothing and is not logged: the whole answer
   passes all gates afterwards.
11. The log repeats no secret and no text that was rewritten: nothing can be taken out of the log
   again, and what somebody has said may have to be forgotten. Of a text it holds the length, and
   the digest of what is left of it without what a guard took out and without secrets.

Loading gates: a gate that could not do its work is found out before it is needed.

A gate loads if its name is used once, its provider is there and can evaluate it, and its examples
hold. Every problem of every gate is told at once, and then none of the gates is loaded.

Examples say what a gate must catch (`match`) and what it must let pass (`not_match`). To catch is
to block, to ask, or to rewrite; to let pass is to continue with nothing changed. An example is the
value that the gate would look at, or a mapping that is the whole context. They are tried once for
each gate and remembered, because the same gate on the same value says the same.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from silas.audit.models import AuditTrail
from silas.gates.errors import GateInputInvalid, GatesNotLoaded
from silas.gates.models import (
    ALLOWED_MUTATIONS,
    Gate,
    GateAction,
    GateCheckProvider,
    GateLane,
    GateProvider,
    GateResult,
    GateTrigger,
    blocks,
)
from silas.gates.providers.guardrails_ai import GuardrailsAiProvider
from silas.kernel import canonical_bytes
from silas.kernel.redaction import REDACTED, redact

_REMEMBERED = 1000
_TEXTS = {
    GateTrigger.EVERY_USER_MESSAGE: "message",
    GateTrigger.EVERY_AGENT_RESPONSE: "response",
    GateTrigger.AFTER_STEP: "response",
}


class ExampleBook:
    """Remembers for which gates the examples hold."""

    def __init__(self) -> None:
        self._tried: dict[bytes, str | None] = {}

    async def problem(self, gate: Gate, provider: GateCheckProvider) -> str | None:
        """Which example does not hold, as a sentence; None if all do, or there is none."""
        if not gate.match and not gate.not_match:
            return None
        key = canonical_bytes(gate.model_dump(mode="json"))
        if key not in self._tried:
            if len(self._tried) >= _REMEMBERED:
                self._tried.clear()
            self._tried[key] = await _first_problem(gate, provider)
        return self._tried[key]


async def _first_problem(gate: Gate, provider: GateCheckProvider) -> str | None:
    for name, number, example in _examples(gate):
        caught = await _caught(gate, example, provider)
        if caught is not (name == "match"):
            happened = "was caught" if caught else "was let pass"
            return f"Example {number} of {name} does not hold: it {happened}."
    return None


def _examples(gate: Gate) -> Iterator[tuple[str, int, Any]]:
    for name in ("match", "not_match"):
        for number, example in enumerate(getattr(gate, name), 1):
            yield name, number, example


async def _caught(gate: Gate, example: Any, provider: GateCheckProvider) -> bool:
    try:
        result = await provider.check(gate, _context(gate, example))
    except Exception:  # noqa: BLE001 - the runner turns it into a block, so it would be caught
        return True
    return result.action is not GateAction.CONTINUE or bool(result.modified_context)


def _context(gate: Gate, example: Any) -> dict[str, Any]:
    if isinstance(example, dict):
        return dict(example)
    if gate.on is not GateTrigger.ON_TOOL_CALL:
        return _nested((gate.extract or _TEXTS[gate.on]).split("."), example)
    if gate.extract is None:
        return {"tool_name": example, "tool_args": {"text": example}}
    path = gate.extract.removeprefix("tool_args.").split(".")
    return {"tool_name": "example", **_nested(["tool_args", *path], example)}


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


class GateProblem(NamedTuple):
    """One thing that is wrong with a gate."""

    gate: str
    sentence: str


async def load_gates(
    gates: Sequence[Gate],
    providers: Mapping[str, GateCheckProvider],
    *,
    examples: ExampleBook | None = None,
) -> tuple[Gate, ...]:
    """The gates, checked; raises `GatesNotLoaded` with everything that is wrong."""
    problems = await gate_problems(gates, providers, examples=examples)
    if problems:
        text = "; ".join(f"{each.gate}: {each.sentence}" for each in problems)
        raise GatesNotLoaded(
            f"These gates cannot be used: {text}",
            problems=[{"gate": each.gate, "problem": each.sentence} for each in problems],
        )
    return tuple(gates)


async def gate_problems(
    gates: Sequence[Gate],
    providers: Mapping[str, GateCheckProvider],
    *,
    examples: ExampleBook | None = None,
) -> list[GateProblem]:
    """Everything that is wrong, in the order of the gates."""
    book = examples or ExampleBook()
    found: list[GateProblem] = []
    names: set[str] = set()
    for gate in gates:
        if gate.name in names:
            found.append(GateProblem(gate.name, "The name is used twice."))
        names.add(gate.name)
        provider = providers.get(gate.provider)
        if provider is None:
            found.append(GateProblem(gate.name, f"No provider: {gate.provider.value}"))
            continue
        problem = provider.problem(gate) or await book.problem(gate, provider)
        if problem:
            found.append(GateProblem(gate.name, problem))
    return found


_LONGEST = 2000
_WHO = ("sender_id", "connection_id", "work_item_id", "tool_name")


class GateEvents:
    """Writes down what the gates of one call did, with who it was about."""

    def __init__(self, audit: AuditTrail, context: dict[str, Any]) -> None:
        self._audit = audit
        self._who = {
            name: _short(context[name]) for name in _WHO if isinstance(context.get(name), str)
        }

    async def decided(self, gate: Gate, result: GateResult, earlier: Sequence[GateResult]) -> None:
        """A block or a question; a second block is logged and not escalated again."""
        if result.action is GateAction.CONTINUE:
            return
        blocked = result.action is GateAction.BLOCK
        again = blocked and any(each.action is GateAction.BLOCK for each in earlier)
        data: dict[str, Any] = {"reason": _short(result.reason), "on_block": gate.on_block}
        if result.taint_sources:
            data["taint_sources"] = result.taint_sources
        if again:
            data["already_blocked"] = True
        await self._log("gate_blocked" if blocked else "gate_approval_required", gate, data)

    async def rewrote(self, gate: Gate, key: str, before: Any, after: Any) -> None:
        """What a gate changed: the value before and after, texts by their digests (rule 11)."""
        shown = _shown(gate, before, after)
        await self._log("gate_mutation", gate, {"key": key, **shown})

    async def rejected(self, gate: Gate, key: str) -> None:
        """A gate wanted to change what no gate may change."""
        await self._log("rejected_mutation", gate, {"key": _short(key)})

    async def overstepped(self, gate: Gate, result: GateResult) -> None:
        """A quality gate wanted to decide or to change something."""
        keys = sorted(map(_short, result.modified_context or {}))
        data = {"action": result.action.value, "keys": keys}
        await self._log("quality_lane_violation", gate, data)

    async def observed(self, gate: Gate, result: GateResult) -> None:
        """Advice that says by itself that it is none."""
        if "llm_error" in result.flags:
            await self._log("quality_gate_failed", gate, {"reason": _short(result.reason)})

    async def failed(self, gate: Gate, error: Exception) -> None:
        """A provider raised; its text may repeat what it was given, so only its kind is told."""
        await self._log("gate_failed", gate, {"error": type(error).__name__})

    async def skipped(self, gate: Gate, reason: str) -> None:
        """A quality gate was left out."""
        await self._log("quality_gate_skipped", gate, {"reason": reason})

    async def _log(self, event: str, gate: Gate, data: dict[str, Any]) -> None:
        about = {"gate": gate.name, "provider": gate.provider.value}
        await self._audit.log(event, **{**self._who, **about, **data})


def _shown(gate: Gate, before: Any, after: Any) -> dict[str, Any]:
    if gate.provider is GateProvider.GUARDRAILS_AI:
        before = _remaining(before, after)
    return {"before": _without_texts(redact(before)), "after": _without_texts(redact(after))}


def _without_texts(value: Any) -> Any:
    if isinstance(value, str):
        said = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"sha256:{said}, {len(value)} characters"
    if isinstance(value, dict):
        return {_short(str(key)): _without_texts(item) for key, item in value.items()}
    return [_without_texts(item) for item in value] if isinstance(value, list) else value


def _remaining(before: Any, after: Any) -> Any:
    """The original without what the new value no longer has, found from both ends."""
    if isinstance(before, str) and isinstance(after, str):
        start = _common(before, after)
        end = _common(before[start:][::-1], after[start:][::-1])
        return f"{before[:start]}{REDACTED}{before[len(before) - end :]}"
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            key: item if after.get(key) == item else _remaining(item, after.get(key))
            for key, item in before.items()
        }
    return REDACTED


def _common(one: str, other: str) -> int:
    """How many characters both start with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_MAX_DEPTH = 100
_UNCHANGING = frozenset([str, int, bool, float, type(None)])


def own_copy(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """A copy whose mappings and lists are nobody else's; texts and numbers cannot change anyway."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if depth == 0:
        raise GateInputInvalid(f"Values nested more than {_MAX_DEPTH} deep are not looked at.")
    if kind is dict:
        return {
            key: item if type(item) in _UNCHANGING else own_copy(item, depth - 1)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _UNCHANGING else own_copy(item, depth - 1) for item in value]
    return copy.deepcopy(value)


Context = dict[str, Any]
_KINDS: Mapping[str, type] = {"message": str, "response": str, "tool_args": dict}
_TOO_MANY = "Too many gates were evaluated in this turn."


@dataclass
class Allowance:
    """How many evaluations are left in a turn."""

    left: int

    def take(self) -> bool:
        """Use one; False if there is none."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True)
class GrowingGates:
    """The policy gates of an answer that is still being written."""

    judging: tuple[tuple[Gate, GuardrailsAiProvider], ...] = ()
    holding: tuple[Gate, ...] = ()
    """Those that want to see all of it first: what they say of its beginning depends on its end."""

    def passed(self, text: str) -> str | None:
        """What every gate leaves of this beginning, whatever comes; None: a gate will block it."""
        if self.holding:
            return ""
        left: str | None = text
        for gate, provider in self.judging:
            if left:
                left = provider.settled(gate, left)
        return left


@dataclass(frozen=True)
class GateRunner:
    """Evaluates gates. Each call is a turn of its own; those of `for_turn()` share one."""

    providers: Mapping[str, GateCheckProvider]
    audit: AuditTrail
    max_gate_evals_per_turn: int = 32
    examples: ExampleBook = field(default_factory=ExampleBook)
    allowance: Allowance | None = None
    watch: Callable[[Gate], None] | None = None
    """Is told which gate is asked next."""

    def for_turn(self, watch: Callable[[Gate], None] | None = None) -> "GateRunner":
        """The same runner for one turn: all its calls together keep to the limit."""
        return replace(self, allowance=Allowance(self.max_gate_evals_per_turn), watch=watch)

    async def growing(self, gates: Sequence[Gate], trigger: GateTrigger) -> GrowingGates:
        """Which of the gates can judge while a text grows, and which want to see all of it."""
        judging, holding = [], []
        for gate in gates:
            if gate.on is not trigger or not self._decides(gate):
                continue
            provider = self.providers.get(gate.provider)
            if (
                isinstance(provider, GuardrailsAiProvider)
                and provider.settles(gate)
                and not await self.examples.problem(gate, provider)
            ):
                judging.append((gate, provider))
            else:
                holding.append(gate)
        return GrowingGates(tuple(judging), tuple(holding))

    async def check_gates(
        self, gates: list[Gate], trigger: GateTrigger, context: Context
    ) -> tuple[list[GateResult], list[GateResult], Context]:
        """The results of the policy lane, of the quality lane, and the context as it is now."""
        turn = self if self.allowance else self.for_turn()
        events = GateEvents(self.audit, context)
        concerned = [gate for gate in gates if _concerned(gate, trigger, context)]
        working = own_copy(context)
        policy: list[GateResult] = []
        for gate in filter(self._decides, concerned):  # 1
            result = await turn._evaluate(gate, working, events)  # noqa: SLF001
            result = await _only_allowed(gate, result, events)  # 3
            working = await _merged(gate, result, working, events)  # 4
            await events.decided(gate, result, policy)  # 5, 9
            policy.append(result)
        quality = [
            await turn._observe(gate, working, events)  # noqa: SLF001
            for gate in concerned
            if not self._decides(gate)
        ]
        return policy, quality, working

    def _decides(self, gate: Gate) -> bool:
        return gate.lane is GateLane.POLICY or gate.provider not in self.providers  # 7

    async def _evaluate(self, gate: Gate, context: Context, events: GateEvents) -> GateResult:
        """The result of a policy gate, with everything that can go wrong turned into a block."""
        provider = self.providers.get(gate.provider)
        if provider is None:
            reason = f"No provider: {gate.provider.value}"
            return blocks(gate, reason).model_copy(update={"lane": GateLane.POLICY})
        if self.allowance is None or not self.allowance.take():
            return blocks(gate, _TOO_MANY)
        if self.watch is not None:
            self.watch(gate)
        try:
            problem = await self.examples.problem(gate, provider)
            if problem:
                return blocks(gate, problem)
            result = await provider.check(gate, own_copy(context))  # 2
        except Exception as error:  # noqa: BLE001 - a guard that breaks must not open the door
            await events.failed(gate, error)
            return blocks(gate, "The gate could not be evaluated.")
        return _signed(gate, result)

    async def _observe(self, gate: Gate, context: Context, events: GateEvents) -> GateResult:
        """The result of a quality gate, with everything that it may not say taken out."""
        if self.allowance is None or not self.allowance.take():
            await events.skipped(gate, _TOO_MANY)
            return _advice(gate, _TOO_MANY, ["not_evaluated"])
        if self.watch is not None:
            self.watch(gate)
        try:
            result = await self.providers[gate.provider].check(gate, own_copy(context))  # 2
        except Exception as error:  # noqa: BLE001 - advice that does not come is no reason to stop
            await events.failed(gate, error)
            return _advice(gate, "The gate could not be evaluated.", ["error"])
        await events.observed(gate, result)
        if result.action is not GateAction.CONTINUE or result.modified_context is not None:  # 6
            await events.overstepped(gate, result)
        kept = {"action": GateAction.CONTINUE, "modified_context": None}
        return _signed(gate, result).model_copy(update=kept)


def _concerned(gate: Gate, trigger: GateTrigger, context: Context) -> bool:
    if gate.on is not trigger:
        return False
    return gate.after_step is None or context.get("step_index", gate.after_step) == gate.after_step


def _signed(gate: Gate, result: GateResult) -> GateResult:
    """Which gate it was and in which lane is not the provider's to say."""
    if result.gate_name == gate.name and result.lane is gate.lane:
        return result
    return result.model_copy(update={"gate_name": gate.name, "lane": gate.lane})


def _advice(gate: Gate, reason: str, flags: list[str]) -> GateResult:
    return GateResult(
        gate_name=gate.name,
        lane=gate.lane,
        action=GateAction.CONTINUE,
        reason=reason,
        flags=flags,
    )


async def _only_allowed(gate: Gate, result: GateResult, events: GateEvents) -> GateResult:
    wanted = result.modified_context
    if wanted is None:
        return result
    kept = {
        key: value
        for key, value in wanted.items()
        if key in ALLOWED_MUTATIONS and isinstance(value, _KINDS[key])
    }
    for key in wanted:
        if key not in kept:
            await events.rejected(gate, key)
    return result.model_copy(update={"modified_context": own_copy(kept) or None})


async def _merged(gate: Gate, result: GateResult, context: Context, events: GateEvents) -> Context:
    changed = result.modified_context or {}
    merged = dict(context)
    for key, value in changed.items():
        before = context.get(key)
        old = before if isinstance(before, dict) else {}
        merged[key] = {**old, **own_copy(value)} if key == "tool_args" else value
        if merged[key] != before:
            await events.rewrote(gate, key, before, merged[key])
    return merged
