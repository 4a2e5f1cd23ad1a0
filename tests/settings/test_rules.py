"""Every rule that must hold before Silas starts, broken once and kept once."""

import sys
import zoneinfo
from pathlib import Path

import pytest

from silas.kernel.loopback import is_loopback
from tests.settings.project import Project


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        # What the specification lists.
        ("channels.web.host: 0.0.0.0", "channels.web.auth_token", "must be set"),
        ("channels.web.host: '::'", "channels.web.auth_token", "must be set"),
        ("channels.web.host: 192.168.1.5", "channels.web.auth_token", "must be set"),
        ("channels.web.host: silas.example.org", "channels.web.auth_token", "must be set"),
        ("channels.web.host: '2130706433'", "channels.web.auth_token", "must be set"),
        ("channels.web.tls_certificate: a.pem", "channels.web.tls_key", "must be set"),
        ("channels.web.tls_key: a.key", "channels.web.tls_certificate", "must be set"),
        (
            "channels.web.tls_certificate: a.pem\nchannels.web.tls_key: a.key",
            "channels.web.public_origins",
            "the https address that the certificate is for",
        ),
        (
            (
                "channels.web.tls_certificate: a.pem\nchannels.web.tls_key: a.key\n"
                "channels.web.public_origins: ['http://silas.example.org']"
            ),
            "channels.web.public_origins",
            "the https address that the certificate is for",
        ),
        (
            "channels.web.public_origins: ['https://example.org/silas']",
            "channels.web.public_origins",
            "nothing behind the name",
        ),
        (
            "channels.web.public_origins: ['https://Silas.example.org']",
            "channels.web.public_origins",
            "no capital letters",
        ),
        (
            "sandbox.verify_dir: data/a\nsandbox.customer_context_dir: data/b/../a",
            "sandbox.verify_dir",
            "must not be the same place",
        ),
        (
            "sandbox.verify_dir: data/a\nsandbox.customer_context_dir: data/a/b",
            "sandbox.verify_dir",
            "must lie side by side",
        ),
        ("sandbox.verify_dir: data", "sandbox.verify_dir", "must not be data_dir"),
        (
            "undo.delay_sending: true\nundo.window_minutes: 30",
            "undo.window_minutes",
            "must be below 30",
        ),
        ("sandbox.verify_dir: /", "sandbox.verify_dir", "must not be data_dir"),
        ("sandbox.customer_context_dir: other", "sandbox.customer_context_dir", "inside data_dir"),
        ("sandbox.customer_context_dir: data", "sandbox.customer_context_dir", "inside data_dir"),
        (
            "sandbox.customer_context_dir: data/../x",
            "sandbox.customer_context_dir",
            "inside data_dir",
        ),
        (
            (
                "context.profiles: {conversation: "
                "{chronicle_pct: 0.5, memory_pct: 0.2, workspace_pct: 0.11}}"
            ),
            "context.profiles.conversation",
            "at most 0.80, not 0.81",
        ),
        (
            (
                "context.profiles: {conversation: "
                "{chronicle_pct: -0.1, memory_pct: 0.2, workspace_pct: 0.1}}"
            ),
            "context.profiles.conversation.chronicle_pct",
            "must be at least 0",
        ),
        ("context.skill_metadata_budget_pct: 0.11", "context.skill_metadata_budget_pct", "0.1"),
        ("context.skill_metadata_budget_pct: -0.01", "context.skill_metadata_budget_pct", "0"),
        ("search.api_key: ''", "search.api_key", "must not be empty"),
        (
            "interaction.default_mode_by_register: {exploration: act_and_report}",
            "interaction.default_mode_by_register",
            "must also say what to do for execution, review, status",
        ),
        (
            "autonomy.widen_correction_rate_max: 0.2",
            "autonomy.widen_correction_rate_max",
            "must be below autonomy.tighten_correction_rate_min",
        ),
        (
            "autonomy.max_batch_review_size: 9",
            "batch_review.default_size",
            "must not be more than autonomy.max_batch_review_size, which is 9",
        ),
        ("scheduler.enabled: false", "suggestions.enabled", "needs scheduler.enabled"),
        (
            "skills.import.require_transform_report: false",
            "skills.import.require_transform_report",
            "must be true as long as",
        ),
        (
            "skills.validation.forbid_undeclared_env: false",
            "skills.validation.forbid_undeclared_env",
            "no skill gets a variable of yours",
        ),
        (
            "skills.validation.description_max_chars: 23",
            "skills.validation.description_min_chars",
            "which is 23",
        ),
        # There is no way to hand the judgement of descriptions to a model.
        ("skills.validation.evaluator: llm", "skills.validation.evaluator", "not a known key"),
        # What anyone would expect.
        ("nonce_store.ttl_minutes: 39", "nonce_store.ttl_minutes", "must be at least 40"),
        ("approval.default_ttl_minutes: 31", "nonce_store.ttl_minutes", "must be at least 41"),
        ("context.default_profile: codng", "context.default_profile", "conversation, coding"),
        ("context.system_max: 180001", "context.system_max", "which is 180000"),
        ("context.max_subscription_tokens: 200000", "context.max_subscription_tokens", "180000"),
        ("context.eviction_threshold_pct: 0.95", "context.eviction_threshold_pct", "0.9"),
        ("personality.directive_tokens_min: 500", "personality.directive_tokens_min", "350"),
        ("batch_review.confidence.high_min: 0.4", "batch_review.confidence.medium_min", "0.4"),
        ("autonomy.min_high_confidence: 0.9", "autonomy.min_high_confidence", "0.85"),
        ("autonomy.min_samples: 51", "autonomy.min_samples", "50"),
        (
            "backpressure.max_pending_turns_per_scope: 501",
            "backpressure.max_pending_turns_per_scope",
            "500",
        ),
        (
            (
                "gates.system: [{name: a, on: on_tool_call, allowed_values: [x]}, "
                "{name: a, on: on_tool_call, allowed_values: [x]}]"
            ),
            "gates.system[1].name",
            "is the name of another gate",
        ),
        ("gates.system: [{name: a, on: after_step}]", "gates.system[0].after_step", "is missing"),
        ("channels.web.port: 0", "channels.web.port", "at least 1"),
        ("channels.web.port: 65536", "channels.web.port", "at most 65535"),
        ("channels.web.port: true", "channels.web.port", "must be a whole number"),
        ("channels.web.port: 80.5", "channels.web.port", "must be a whole number"),
        ("channels.web.port: '80'", "channels.web.port", "must be a whole number"),
        ("channels.web.enabled: perhaps", "channels.web.enabled", "true or false"),
        ("channels.web.host: ''", "channels.web.host", "must be an address"),
        ("channels.web.host: '*'", "channels.web.host", "must be an address"),
        ("channels.web.host: '[::1]'", "channels.web.host", "must be an address"),
        ("channels.web.host: 'a b'", "channels.web.host", "must be an address"),
        ("channels.web.auth_token: 12345678", "channels.web.auth_token", "must be text"),
        ("channels.web.auth_token: 'abc '", "channels.web.auth_token", "spaces at its ends"),
        ("scheduler.timezone: Mars/Olympus", "scheduler.timezone", "must be a time zone"),
        ("scheduler.timezone: Europe/Viena", "scheduler.timezone", "mean `Europe/Vienna`?"),
        ("scheduler.timezone: ../../etc/passwd", "scheduler.timezone", "must be a time zone"),
        ("scheduler.timezone: Europe", "scheduler.timezone", "must be a time zone"),
        ("suggestions.heartbeat_cron: '61 * * * *'", "suggestions.heartbeat_cron", "minute"),
        ("connections.health_check_default: hourly", "connections.health_check_default", "five"),
        ("owner_id: ''", "owner_id", "must be one word"),
        ("owner_id: 'a b'", "owner_id", "must be one word"),
        ("owner_id: 5", "owner_id", "must be text"),
        ("data_dir: ''", "data_dir", "must be the path"),
        ("data_dir: null", "data_dir", "path"),
        ("limits.llm_calls_per_minute_per_scope: 0", "limits.llm_calls_per_minute_per_scope", "1"),
        ("audit.retention_days: 0", "audit.retention_days", "at least 1"),
        ("audit.checkpoint_every: 0", "audit.checkpoint_every", "at least 1"),
        ("approval.max_executions: 0", "approval.max_executions", "at least 1"),
        (
            "approval.auto_approve_risk_levels: [low]",
            "approval.auto_approve_risk_levels",
            "nothing is executed without your signed approval",
        ),
        ("approval.scope_min_strength: {budget: nod}", "approval.scope_min_strength.budget", "tap"),
        (
            "approval.scope_min_strength: {bugdet: tap}",
            "approval.scope_min_strength.bugdet",
            "full",
        ),
        ("sandbox.backend: dokcer", "sandbox.backend", "did you mean `docker`?"),
        ("sandbox.default_memory_mb: 1", "sandbox.default_memory_mb", "at least 16"),
        ("models.proxy: claude", "models.proxy", "must name a provider and a model"),
        ("models.base_url: localhost", "models.base_url", "must be an address"),
        ("models.base_url: 'http://me:pw@host'", "models.base_url", "without a user"),
        ("models.base_url: 'http://['", "models.base_url", "must be an address"),
        ("models.base_url: 'http://host:seven'", "models.base_url", "must be an address"),
        ("database_url: mysql://host/db", "database_url", "postgresql://"),
        ("database_url: postgresql://me@host/silas", "database_url", "SQLite files in data_dir"),
        ("channels.telegram.enabled: true", "channels.telegram.enabled", "no Telegram channel"),
        ("search.allowed_domains: ['https://a.org/']", "search.allowed_domains[0]", "domain"),
        ("search.provider: tavilly", "search.provider", "did you mean `tavily`?"),
        ("search.provider: searxng\nsearch.api_key: abc", "search.api_key", "the address"),
        ("search.allowed_domains: a.org", "search.allowed_domains", "must be a list"),
        ("skills.import.allowed_sources: ", "skills.import.allowed_sources", "must be a list"),
        ("skills.import.allowed_sources: [gitbuh]", "skills.import.allowed_sources[0]", "`github`"),
        ("personality.baseline.humor: 1.1", "personality.baseline.humor", "at most 1"),
        ("personality.contexts: {a: {humour: 0.1}}", "personality.contexts.a.humour", "`humor`"),
        ("personality.contexts: {a: {humor: -1.1}}", "personality.contexts.a.humor", "at least -1"),
        ("personality.presets: {a: {humor: -0.1}}", "personality.presets.a.humor", "at least 0"),
        ("personality.context_words: {a: [b]}", "personality.context_words.a", "not one of"),
        ("personality.preset_voices: {a: {}}", "personality.preset_voices.a", "not one of"),
        ("memory.embedding_dim: 0", "memory.embedding_dim", "at least 1"),
        ("context: 5", "context", "must be a mapping"),
    ],
)
def test_a_broken_rule_is_reported_once_with_its_line(
    project: Project, settings: str, key: str, words: str
) -> None:
    error = project.set(settings).fail()
    problems = [each for each in error.details["problems"] if each["key"] == key]
    assert [each["key"] for each in error.details["problems"]].count(key) == 1
    assert words in problems[0]["message"]
    assert problems[0]["file"] == "config/silas.yaml"
    assert 2 <= problems[0]["line"] <= len(project.file.read_text().splitlines())


def test_a_rule_is_reported_where_something_was_written(project: Project) -> None:
    project.set("owner_id: me\nscheduler.enabled: false")
    (problem,) = project.fail().details["problems"]
    assert problem["key"] == "suggestions.enabled"
    assert problem["line"] == project.line_of("enabled: false")
    (problem,) = (
        Project(project.directory / "x")
        .fail(SILAS_CHANNELS__WEB__HOST="0.0.0.0")
        .details["problems"]
    )
    assert problem["variable"] == "SILAS_CHANNELS__WEB__HOST"


@pytest.mark.parametrize(
    "settings",
    [
        "channels.web.host: 0.0.0.0\nchannels.web.auth_token: a-long-enough-token",
        "channels.web.host: localhost",
        "channels.web.public_origins: ['https://silas.example.org/']",
        (
            "channels.web.tls_certificate: a.pem\nchannels.web.tls_key: a.key\n"
            "channels.web.public_origins: ['https://silas.example.org:8420']"
        ),
        "channels.web.host: '::1'",
        "channels.web.host: 127.9.9.9",
        (
            "context.profiles: {conversation: "
            "{chronicle_pct: 0.45, memory_pct: 0.2, workspace_pct: 0.15}}"
        ),
        "context.skill_metadata_budget_pct: 0.10",
        "autonomy.max_batch_review_size: 10",
        "scheduler.enabled: false\nsuggestions.enabled: false",
        "skills.import.require_transform_report: false\nskills.import.allow_external: false",
        "skills.validation.description_max_chars: 24",
        "approval.default_ttl_minutes: 31\nnonce_store.ttl_minutes: 41",
        "channels.telegram.token: abc\nchannels.telegram.owner_chat_id: -100123",
        "gates.system: []",
        "gates.system: [{name: a, on: after_step, after_step: 0, allowed_values: [x]}]",
        "channels.web.port: 65535",
        "channels.web.enabled: on",
        "scheduler.timezone: UTC",
        "suggestions.heartbeat_cron: '0 8-18/2 1,15 jan-mar mon'",
        "approval.auto_approve_risk_levels: []",
        "sandbox.backend: bubblewrap",
        "models.proxy: 'ollama:llama3.2:8b'\nmodels.base_url: http://localhost:11434/v1",
        "search.allowed_domains: [a.org, b.co.uk]",
        "search.provider: null",
        "personality.contexts: {}",
    ],
)
def test_what_keeps_the_rules_loads_without_a_warning(project: Project, settings: str) -> None:
    assert project.set(settings).load().warnings == ()


def test_search_needs_a_provider_and_a_key(project: Project) -> None:
    def enabled(settings: str, **environ: str) -> bool:
        return project.set(settings).load(**environ).settings.search.web_search_enabled

    assert not enabled("search.max_results: 1")
    assert enabled("search.max_results: 1", SEARCH_API_KEY="key")
    assert enabled("search.api_key: key")
    assert not enabled("search.api_key: key\nsearch.provider: null")


@pytest.mark.parametrize(
    "host", ["", "*", "0", "127.1", "[::1]", "::ffff:127.0.0.1", "localhost.x"]
)
def test_what_is_not_known_to_be_this_machine_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_the_customer_context_must_not_be_writable_by_everyone(project: Project) -> None:
    directory = project.directory / "data" / "customer_context"
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    assert "chmod o-w" in project.problems()["sandbox.customer_context_dir"]
    directory.chmod(0o770)
    project.load()


def test_a_link_does_not_hide_where_a_directory_is(project: Project) -> None:
    data = project.directory / "data"
    data.mkdir()
    (data / "customer_context").symlink_to(project.directory)
    assert "inside data_dir" in project.problems()["sandbox.customer_context_dir"]
    (data / "customer_context").unlink()
    (data / "customer_context").symlink_to("verify")
    assert "same place" in project.problems()["sandbox.verify_dir"]


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(project: Project) -> None:
    error = project.write(
        """silas:
  owner_id: ""
  chanels: {}
  channels:
    web: {host: 0.0.0.0, port: 99999}
  owner_id: twice
  context:
    profiles:
      coding: {chronicle_pct: 0.5, memory_pct: 0.5, workspace_pct: 0.1}
      other: {chronicle_pct: 1.5}
  nonce_store: {ttl_minutes: 35}
  models: {proxy: "${NOPE}"}
  gates: {system: [{name: a, on: never}, {name: b, on: after_step, allowed_values: [x]}]}
"""
    ).fail(SILAS_SCHEDULER__ENABLED="perhaps", SILAS_SKILLS__IMPORT__REQUIRE_TRANSFORM_REPORT="no")
    found = [(each.get("line"), each["key"]) for each in error.details["problems"]]
    assert found == [
        (3, "chanels"),
        (5, "channels.web.port"),
        (5, "channels.web.auth_token"),
        (6, "owner_id"),
        (9, "context.profiles.coding"),
        (10, "context.profiles.other.chronicle_pct"),
        (10, "context.profiles.other.memory_pct"),
        (10, "context.profiles.other.workspace_pct"),
        (11, "nonce_store.ttl_minutes"),
        (12, "models.proxy"),
        (13, "gates.system[0].on"),
        (13, "gates.system[1].after_step"),
        (None, "scheduler.enabled"),
        (None, "skills.import.require_transform_report"),
    ]
    lines = error.message.splitlines()
    assert lines[0] == "The configuration has 14 problems:"
    assert lines[1] == (
        "  config/silas.yaml:3: chanels: is not a known key; did you mean `channels`?"
    )
    assert len(lines) == 16


def test_one_mistake_is_not_reported_as_several(project: Project) -> None:
    assert list(project.set("nonce_store.ttl_minutes: soon").problems()) == [
        "nonce_store.ttl_minutes"
    ]
    assert list(project.set("context.profiles: 5").problems()) == ["context.profiles"]
    assert list(project.set("data_dir: [a]").problems()) == ["data_dir"]


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        ("chanels.web.port: 1", "channels"),
        ("channels.wbe.port: 1", "web"),
        ("channels.web.prot: 1", "port"),
        ("channels.port: 1", "channels.web.port"),
        ("skills.imports: {}", "import"),
        ("gates.system: [{nmae: a, on: on_tool_call}]", "name"),
    ],
)
def test_an_unknown_key_is_an_error_that_says_what_was_meant(
    project: Project, settings: str, meant: str
) -> None:
    assert f"is not a known key; did you mean `{meant}`?" in project.set(settings).fail().message


def test_an_unknown_key_that_is_like_nothing(project: Project) -> None:
    assert project.set("qqqqqqq: 1").problems() == {"qqqqqqq": "is not a known key"}


def test_warnings_about_what_works_but_may_surprise(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set("channels.web.host: 0.0.0.0\nchannels.web.auth_token: short\nactive_goal: no.md")
    project.file.chmod(0o646)
    warnings = project.load().warnings
    assert [warning.split(" ")[0] for warning in warnings] == [
        "config/silas.yaml",
        "config/silas.yaml",
        "channels.web.auth_token",
        "active_goal",
    ]
    assert "chmod o-w config/silas.yaml" in warnings[0]
    assert "channels.web.auth_token" in warnings[1]
    assert "chmod 600" in warnings[1]
    from_environment = project.set('search.api_key: "${KEY}"')
    project.file.chmod(0o644)
    assert from_environment.load(KEY="key").warnings == ()


def test_a_machine_without_time_zones_is_warned_not_stopped(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = zoneinfo.TZPATH
    for name in ["tzdata", *(each for each in sys.modules if each.startswith("tzdata."))]:
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert not zoneinfo.available_timezones()
        assert any("tzdata" in warning for warning in project.load().warnings)
    finally:
        zoneinfo.reset_tzpath(to=before)
        zoneinfo.ZoneInfo.clear_cache()
