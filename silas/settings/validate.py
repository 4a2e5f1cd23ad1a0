"""From a draft to settings: every value checked, then the rules between them, then advice.

`validate` checks each value and notes every problem with its place. `violations` are the rules
between settings that must hold before Silas starts:

1. Nobody but the owner: listening beyond this machine needs `channels.web.auth_token`.
2. `sandbox.verify_dir` and `sandbox.customer_context_dir` are different places, neither in the
   other, and checks do not run where Silas keeps its own data.
3. `sandbox.customer_context_dir` lies inside `data_dir`, and not everyone may write to it.
4. The default context profile exists.
5. All four registers have an interaction mode.
6. `autonomy.widen_correction_rate_max` is below `autonomy.tighten_correction_rate_min`.
7. `autonomy.max_batch_review_size` is not below `batch_review.default_size`.
8. Suggestions need the scheduler.
9. External skills need the transform report, and no skill gets a variable of the owner's.
10. Nonces outlive approvals, with ten minutes to spare: a forgotten nonce could be used again.
11. Lower bounds are not above upper bounds.
12. What does not exist yet is refused, never ignored: a PostgreSQL server, the Telegram channel.
13. Gates have different names.
14. No setting approves anything: `approval.auto_approve_risk_levels` is empty (INV-01).
15. A letter that waits leaves while its approval is valid.
16. A certificate has its key and the https address that it is for; a public address is an origin.

The settings themselves see to the rest: ranges, what the shares of a context profile add up to,
that a gate after a step names the step, that a search without a key is no search
(`SearchSettings.web_search_enabled`), and that descriptions of skills are judged by fixed rules:
there is no setting that hands this to a model. `advice_on_settings` and `advice_on_file` are
warnings: what is allowed, but should be known.
"""

import os
import re
import stat
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from silas.agents.models.providers import PROVIDERS
from silas.kernel.loopback import is_loopback
from silas.kernel.models import FieldProblem, dotted, problems_in
from silas.settings.conversation import Register
from silas.settings.fields import TIME_ZONE_ERROR, is_time_zone
from silas.settings.keys import ValueKind, children, default_of, kind_at, walk
from silas.settings.models import Settings
from silas.settings.paths import Location, presentable
from silas.settings.problems import KeyPath, SettingsDraft, did_you_mean
from silas.settings.services import PROVIDER_ERROR

_MAX_ROUNDS = 20
_CHOICE = re.compile(r"'([^']*)'")


def validate(draft: SettingsDraft) -> Settings | None:
    """The settings; what is wrong is noted in the draft, and the default stands in for it.

    Stand-ins let the rules between settings be checked as well, so that a person sees all problems
    at once. None if not even that is possible.
    """
    for problem in draft.problems:
        draft.remove(problem.key)
    for _ in range(_MAX_ROUNDS):
        try:
            return Settings.model_validate(draft.values)
        except ValidationError as error:
            problems = problems_in(error)
            hints = {_key_of(each): _hint(draft, each) for each in error.errors(include_url=False)}
        _note(draft, problems, hints)
        for key in {_removable(draft, problem.path) for problem in problems}:
            draft.remove(key)
    return None


def _removable(draft: SettingsDraft, key: KeyPath) -> KeyPath:
    """What has to go if this is wrong: the value, or what it is missing from."""
    while key and not draft.has(key):
        key = key[:-1]
    return key


def _note(
    draft: SettingsDraft, problems: Iterable[FieldProblem], hints: dict[KeyPath, str]
) -> None:
    fresh = [problem for problem in problems if not draft.is_doubtful(problem.path)]
    for problem in fresh:
        draft.complain(problem.path, problem.message + hints.get(problem.path, ""))


def _key_of(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != "[key]")


def _hint(draft: SettingsDraft, error: ErrorDetails) -> str:
    """What the person probably meant, where that can be told."""
    key, kind = _key_of(error), error["type"]
    if kind == "extra_forbidden":
        return _other_key(key)
    value = error["input"]
    if not isinstance(value, str) or key in draft.concealed:
        return ""
    if kind in ("literal_error", "enum"):
        return did_you_mean(value, _CHOICE.findall(error["ctx"]["expected"]))
    if kind == PROVIDER_ERROR:
        return did_you_mean(value.partition(":")[0], PROVIDERS)
    return did_you_mean(value, zoneinfo.available_timezones()) if kind == TIME_ZONE_ERROR else ""


def _other_key(key: KeyPath) -> str:
    siblings = children(kind_at(key[:-1]) or ValueKind("value", None))
    near = did_you_mean(str(key[-1]), siblings)
    if near:
        return near
    elsewhere = [dotted(known) for known, _ in walk() if known[-1] == key[-1]]
    return f"; did you mean `{elsewhere[0]}`?" if elsewhere else ""


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


def _tls_is_whole(settings: Settings) -> Iterator[Violation]:
    web = settings.channels.web
    certificate, key = _key("channels.web.tls_certificate"), _key("channels.web.tls_key")
    if web.tls_certificate and not web.tls_key:
        yield Violation(key, "must be set, because channels.web.tls_certificate is", (certificate,))
    elif web.tls_key and not web.tls_certificate:
        yield Violation(certificate, "must be set, because channels.web.tls_key is", (key,))
    elif web.tls_certificate and not any(map(_is_https, web.public_origins)):
        yield Violation(
            _key("channels.web.public_origins"),
            "must name the https address that the certificate is for, such as "
            f"`https://silas.example.org:{web.port}`",
            (certificate,),
        )


def _public_origins_are_origins(settings: Settings) -> Iterator[Violation]:
    for origin in settings.channels.web.public_origins:
        parts = urlsplit(origin)
        if parts.path.strip("/") or parts.query or parts.fragment or origin != origin.lower():
            yield Violation(
                _key("channels.web.public_origins"),
                "must have nothing behind the name and the port, and no capital letters, such as "
                "`https://silas.example.org`: the page is at the top of its address",
            )


def _is_https(origin: str) -> bool:
    return origin.startswith("https://")


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
    if not settings.skills.validation.forbid_undeclared_env:
        yield Violation(
            _key("skills.validation.forbid_undeclared_env"),
            "must be true: no skill gets a variable of yours, and one that expects some is told so "
            "on its card; remove it",
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


def _letters_leave_in_time(settings: Settings) -> Iterator[Violation]:
    most = settings.approval.default_ttl_minutes
    if settings.undo.delay_sending and settings.undo.window_minutes >= most:
        yield Violation(
            _key("undo.window_minutes"),
            f"must be below {most} (approval.default_ttl_minutes) as long as undo.delay_sending is "
            "true: a letter leaves when these minutes are over, and needs its approval then",
            (_key("undo.delay_sending"), _key("approval.default_ttl_minutes")),
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


def _search_has_its_address(settings: Settings) -> Iterator[Violation]:
    search = settings.search
    if search.provider == "searxng" and search.api_key is not None:
        address = search.api_key.get_secret_value()
        if not address.startswith(("http://", "https://")):
            yield Violation(
                _key("search.api_key"),
                "must be the address of your SearXNG, such as `http://localhost:8888`, because "
                "search.provider is searxng",
                (_key("search.provider"),),
            )


def _manners_are_known(settings: Settings) -> Iterator[Violation]:
    manner = settings.personality
    for key, named, known in (
        ("context_words", manner.context_words, manner.contexts),
        ("preset_voices", manner.preset_voices, manner.presets),
    ):
        where = "contexts" if key == "context_words" else "presets"
        own = _key(f"personality.{key}")
        for name in sorted(named.keys() - known.keys() - default_of(own).keys()):
            message = f"is not one of personality.{where} ({', '.join(known) or 'there is none'})"
            yield Violation((*own, name), message, (_key(f"personality.{where}"),))


def _nothing_absent_is_wanted(settings: Settings) -> Iterator[Violation]:
    if settings.channels.telegram.enabled:
        yield Violation(
            _key("channels.telegram.enabled"),
            "must be false: this version has no Telegram channel; talk to Silas in its page or "
            "with `silas chat`",
        )
    if settings.database_url is not None:
        yield Violation(
            _key("database_url"),
            "must be null: this version keeps everything in SQLite files in data_dir and would "
            "not use a PostgreSQL server; remove it",
        )


def _no_setting_approves(settings: Settings) -> Iterator[Violation]:
    if settings.approval.auto_approve_risk_levels:
        yield Violation(
            _key("approval.auto_approve_risk_levels"),
            "must be empty: nothing is executed without your signed approval, whatever its risk; "
            "for work that repeats, give a goal a standing approval",
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
    _tls_is_whole,
    _public_origins_are_origins,
    _directories_are_apart,
    _customer_context_is_inside,
    _default_profile_exists,
    _registers_are_complete,
    _autonomy_can_settle,
    _suggestions_need_the_scheduler,
    _imports_show_what_changed,
    _nonces_outlive_approvals,
    _letters_leave_in_time,
    _bounds_are_in_order,
    _nothing_absent_is_wanted,
    _gates_are_distinct,
    _no_setting_approves,
    _manners_are_known,
    _search_has_its_address,
)


_GOOD_TOKEN_LENGTH = 16


def advice_on_settings(settings: Settings) -> Iterator[str]:
    """Settings that work, but perhaps not as their owner expects."""
    web = settings.channels.web
    if web.public_origins and not any(map(_is_https, web.public_origins)):
        yield (
            "channels.web.public_origins has no https address, so no phone and no other machine "
            "can be paired: browsers make keys on https alone (docs/web.md)."
        )
    token = web.auth_token.get_secret_value() if web.auth_token else ""
    if not is_loopback(web.host) and len(token) < _GOOD_TOKEN_LENGTH:
        yield (
            "channels.web.auth_token is short enough to be guessed by others on the network; "
            f"use at least {_GOOD_TOKEN_LENGTH} characters."
        )
    if not is_time_zone(settings.scheduler.timezone):
        yield "This machine has no time zone data; install the system's `tzdata` package."
    if settings.active_goal and not settings.active_goal.is_file():
        goal = presentable(str(settings.active_goal), longest=400)
        yield f"active_goal names a file that does not exist: {goal}"


def advice_on_file(location: Location, mode: int, draft: SettingsDraft) -> Iterator[str]:
    """Who may read and change the file."""
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        yield f"{location.shown} can be changed by everyone; run `chmod o-w {location.shown}`."
    secrets = [dotted(key) for key, kind in walk() if kind.is_secret and _is_in_file(draft, key)]
    if secrets and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield (
            f"{location.shown} contains {', '.join(secrets)} and can be read by others; "
            f"run `chmod 600 {location.shown}`."
        )


def _is_in_file(draft: SettingsDraft, key: tuple[str, ...]) -> bool:
    written = key in draft.origins and draft.origins[key].source == "file"
    return written and key not in draft.concealed and draft.find(key) is not None
