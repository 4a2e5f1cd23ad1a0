"""The rules between settings that must hold before Silas starts.

1. Nobody but the owner: listening beyond this machine needs `channels.web.auth_token`.
2. `sandbox.verify_dir` and `sandbox.customer_context_dir` are different places, neither in the
   other, and checks do not run where Silas keeps its own data.
3. `sandbox.customer_context_dir` lies inside `data_dir`, and not everyone may write to it.
4. The default context profile exists.
5. All four registers have an interaction mode.
6. `autonomy.widen_correction_rate_max` is below `autonomy.tighten_correction_rate_min`.
7. `autonomy.max_batch_review_size` is not below `batch_review.default_size`.
8. Suggestions need the scheduler.
9. External skills need the transform report.
10. Nonces outlive approvals, with ten minutes to spare: a forgotten nonce could be used again.
11. Lower bounds are not above upper bounds.
12. A channel that is enabled has what it needs.
13. Gates have different names.

The settings themselves see to the rest: ranges, what the shares of a context profile add up to,
that a gate after a step names the step, that a search without a key is no search
(`SearchSettings.web_search_enabled`), and that descriptions of skills are judged by fixed rules:
there is no setting that hands this to a model.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from silas.app.settings.conversation import Register
from silas.app.settings.models import Settings
from silas.app.settings.origin import KeyPath
from silas.kernel.loopback import is_loopback

_NONCE_BUFFER_MINUTES = 10


class Violation(NamedTuple):
    """A rule that does not hold: where to say so, what to say, and what else it looked at."""

    key: KeyPath
    message: str
    involved: tuple[KeyPath, ...] = ()

    @property
    def keys(self) -> tuple[KeyPath, ...]:
        """Every setting that could be changed to make the rule hold."""
        return (self.key, *self.involved)


Rule = Callable[[Settings], Iterator[Violation]]


def violations(settings: Settings) -> Iterator[Violation]:
    """Every rule that does not hold."""
    for rule in RULES:
        yield from rule(settings)


def _key(path: str) -> KeyPath:
    return tuple(path.split("."))


def _listening_needs_a_token(settings: Settings) -> Iterator[Violation]:
    web = settings.channels.web
    if not is_loopback(web.host) and web.auth_token is None:
        yield Violation(
            _key("channels.web.auth_token"),
            "must be set, because channels.web.host can be reached from other machines; "
            "set it, or listen on 127.0.0.1",
            (_key("channels.web.host"),),
        )


def _directories_are_apart(settings: Settings) -> Iterator[Violation]:
    verify, customer = settings.sandbox.verify_dir, settings.sandbox.customer_context_dir
    key, involved = _key("sandbox.verify_dir"), (_key("sandbox.customer_context_dir"),)
    real_verify, real_customer = _canonical(verify), _canonical(customer)
    if _canonical(settings.data_dir).is_relative_to(real_verify):
        message = "must not be data_dir or a directory around it"
        yield Violation(key, message, (_key("data_dir"),))
    elif real_verify == real_customer:
        yield Violation(key, "must not be the same place as sandbox.customer_context_dir", involved)
    elif real_verify in real_customer.parents or real_customer in real_verify.parents:
        yield Violation(key, "and sandbox.customer_context_dir must lie side by side", involved)


def _customer_context_is_inside(settings: Settings) -> Iterator[Violation]:
    key = _key("sandbox.customer_context_dir")
    directory, data_dir = _canonical(settings.sandbox.customer_context_dir), settings.data_dir
    if _canonical(data_dir) not in directory.parents:
        yield Violation(key, "must lie inside data_dir", (_key("data_dir"),))
    elif _is_world_writable(directory):
        yield Violation(key, "must not be writable by everyone; run `chmod o-w` on it")


def _canonical(path: Path) -> Path:
    """The place itself, behind all links; as much of it as there is."""
    return Path(os.path.realpath(path))


def _is_world_writable(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False  # not there yet; `silas init` makes it for the owner alone


def _default_profile_exists(settings: Settings) -> Iterator[Violation]:
    context = settings.context
    if context.default_profile not in context.profiles:
        names = ", ".join(context.profiles) or "there is none yet"
        yield Violation(
            _key("context.default_profile"),
            f"must be one of context.profiles ({names})",
            (_key("context.profiles"),),
        )


def _registers_are_complete(settings: Settings) -> Iterator[Violation]:
    given = settings.interaction.default_mode_by_register
    if missing := [register for register in get_args(Register) if register not in given]:
        key = _key("interaction.default_mode_by_register")
        yield Violation(key, f"must also say what to do for {', '.join(missing)}")


def _autonomy_can_settle(settings: Settings) -> Iterator[Violation]:
    autonomy = settings.autonomy
    if autonomy.widen_correction_rate_max >= autonomy.tighten_correction_rate_min:
        yield Violation(
            _key("autonomy.widen_correction_rate_max"),
            "must be below autonomy.tighten_correction_rate_min, or proposals would go to and fro",
            (_key("autonomy.tighten_correction_rate_min"),),
        )


def _suggestions_need_the_scheduler(settings: Settings) -> Iterator[Violation]:
    if settings.suggestions.enabled and not settings.scheduler.enabled:
        yield Violation(
            _key("suggestions.enabled"),
            "needs scheduler.enabled; enable the scheduler, or turn suggestions off",
            (_key("scheduler.enabled"),),
        )


def _imports_show_what_changed(settings: Settings) -> Iterator[Violation]:
    imports = settings.skills.import_
    if imports.allow_external and not imports.require_transform_report:
        yield Violation(
            _key("skills.import.require_transform_report"),
            "must be true as long as skills.import.allow_external is",
            (_key("skills.import.allow_external"),),
        )


def _nonces_outlive_approvals(settings: Settings) -> Iterator[Violation]:
    least = settings.approval.default_ttl_minutes + _NONCE_BUFFER_MINUTES
    if settings.nonce_store.ttl_minutes < least:
        yield Violation(
            _key("nonce_store.ttl_minutes"),
            f"must be at least {least}: approval.default_ttl_minutes and "
            f"{_NONCE_BUFFER_MINUTES} minutes more, so that nothing can be replayed",
            (_key("approval.default_ttl_minutes"),),
        )


_BOUNDS = (
    ("skills.validation.description_min_chars", "skills.validation.description_max_chars"),
    ("personality.directive_tokens_min", "personality.directive_tokens_max"),
    ("context.system_max", "context.total_tokens"),
    ("context.max_subscription_tokens", "context.total_tokens"),
    ("context.eviction_threshold_pct", "context.scorer_threshold_pct"),
    ("batch_review.default_size", "autonomy.max_batch_review_size"),
    ("batch_review.confidence.medium_min", "batch_review.confidence.high_min"),
    ("autonomy.min_high_confidence", "batch_review.confidence.high_min"),
    ("autonomy.min_samples", "autonomy.window_actions"),
    ("backpressure.max_pending_turns_per_scope", "backpressure.max_pending_turns_total"),
)


def _bounds_are_in_order(settings: Settings) -> Iterator[Violation]:
    for lower, upper in _BOUNDS:
        low, high = _number_at(settings, lower), _number_at(settings, upper)
        if low > high:
            message = f"must not be more than {upper}, which is {high:g}"
            yield Violation(_key(lower), message, (_key(upper),))


def _number_at(settings: Settings, path: str) -> float:
    value: object = settings
    for name in path.split("."):
        value = getattr(value, name)
    return float(value) if isinstance(value, int | float) else 0.0


def _telegram_is_complete(settings: Settings) -> Iterator[Violation]:
    telegram = settings.channels.telegram
    for name, value in (("token", telegram.token), ("owner_chat_id", telegram.owner_chat_id)):
        if telegram.enabled and value is None:
            yield Violation(
                _key(f"channels.telegram.{name}"),
                "must be set, because channels.telegram.enabled is true",
                (_key("channels.telegram.enabled"),),
            )


def _gates_are_distinct(settings: Settings) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, gate in enumerate(settings.gates.system):
        if gate.name in seen:
            key = (*_key("gates.system"), index, "name")
            yield Violation(key, "is the name of another gate; choose a different one")
        seen.add(gate.name)


RULES: tuple[Rule, ...] = (
    _listening_needs_a_token,
    _directories_are_apart,
    _customer_context_is_inside,
    _default_profile_exists,
    _registers_are_complete,
    _autonomy_can_settle,
    _suggestions_need_the_scheduler,
    _imports_show_what_changed,
    _nonces_outlive_approvals,
    _bounds_are_in_order,
    _telegram_is_complete,
    _gates_are_distinct,
)
