"""No secret of the configuration is ever shown: not by `show`, repr, JSON, errors or warnings."""

import json

import pytest

from silas.settings.keys import walk
from silas.settings.load import shown_settings, shown_values
from tests.settings.project import Project

SECRET = "correct-horse-battery-staple"
SECRET_KEYS = [".".join(key) for key, kind in walk() if kind.is_secret]


def test_these_are_the_secrets() -> None:
    assert SECRET_KEYS == [
        "database_url",
        "search.api_key",
        "channels.web.auth_token",
        "channels.telegram.token",
    ]


@pytest.mark.parametrize("key", [key for key in SECRET_KEYS if key != "database_url"])
def test_a_secret_is_in_force_and_nowhere_to_be_seen(project: Project, key: str) -> None:
    secret = SECRET
    variable = "SILAS_" + key.replace(".", "__").upper()
    for loaded in (
        project.set(f"{key}: '{secret}'").load(),
        project.set(f'{key}: "${{IT}}"').load(IT=secret),
        Project(project.directory / "empty").load(**{variable: secret}),
    ):
        in_force = loaded.settings
        for part in key.split("."):
            in_force = getattr(in_force, part)
        assert in_force.get_secret_value() == secret
        shown = [
            repr(loaded),
            str(loaded.settings),
            loaded.settings.model_dump_json(),
            str(loaded.settings.model_dump()),
            json.dumps(shown_values(loaded)),
            str(list(shown_settings(loaded))),
            str(loaded.provenance),
            str(loaded.warnings),
        ]
        assert not [text for text in shown if SECRET in text]
        (line,) = [each for each in shown_settings(loaded) if each.name == key]
        assert line.value == "[redacted]"


@pytest.mark.parametrize(
    "settings",
    [
        f"search.api_key: ['{SECRET}']",
        f"search.api_key: ' {SECRET}'",
        f"search.api_key: {{{SECRET}: 1}}",
        f"search: {SECRET}",
        f"channels.web: ['{SECRET}']",
        f"channels.web.port: {SECRET}",
        f"channels.web.enabled: {SECRET}",
        f"channels.web.auth_tokn: {SECRET}",
        f"channels.web.auth_token: *{SECRET}",
        f"channels.web.auth_token: &{SECRET}",
        f"channels.web.auth_token: !{SECRET} x",
        f"channels.web.auth_token: !{SECRET}! x",
        f"channels.web.auth_token: %{SECRET}",
        f"channels.web.auth_token: @{SECRET}",
        f"channels.web.auth_token: '{SECRET}",
        f'channels.web.auth_token: "\\q{SECRET}"',
        f"database_url: mysql://me:{SECRET}@host",
        f"database_url: postgresql://me:{SECRET}@host/db",
        f"models.proxy: {SECRET}",
        f"models.base_url: http://me:{SECRET}@host",
        f"scheduler.timezone: {SECRET}",
        f"suggestions.heartbeat_cron: {SECRET}",
        f"sandbox.backend: {SECRET}",
        f"gates.system: [{{name: {SECRET}, on: {SECRET}}}]",
        f"context.profiles: {SECRET}",
        f"owner_id: '{SECRET} '",
        f"data_dir: ['{SECRET}']",
    ],
)
def test_an_error_does_not_repeat_the_value(project: Project, settings: str) -> None:
    error = project.set(settings).fail()
    assert SECRET not in json.dumps(error.explain())
    assert SECRET not in repr(error)


def test_an_error_does_not_repeat_a_variable(project: Project) -> None:
    project.set('channels.web.port: "${IT}"\nsandbox.backend: "${IT}"\nowner_id: "${IT} "')
    error = project.fail(
        IT=SECRET,
        SILAS_LIMITS=SECRET,
        SILAS_CHANNELS__TELEGRAM=f'{{"token": "{SECRET}"',
        SILAS_SCHEDULER__TIMEZONE=SECRET,
    )
    assert len(error.details["problems"]) == 6
    assert SECRET not in json.dumps(error.explain())


def test_a_secret_that_was_copied_elsewhere_is_not_shown_there(project: Project) -> None:
    loaded = project.set(
        f"search.api_key: {SECRET}\npersonality.voice.tone: 'say {SECRET}'\n"
        "gates.system: [{name: a, on: on_tool_call, provider: custom, check: x, "
        f"config: {{password: other-secret, note: {SECRET}}}}}]"
    ).load()
    shown = json.dumps(shown_values(loaded))
    assert SECRET not in shown
    assert "other-secret" not in shown
    assert loaded.settings.personality.voice.tone == f"say {SECRET}"


def test_what_is_no_secret_is_shown_as_it_is(project: Project) -> None:
    loaded = project.load()
    plain = loaded.settings.model_dump(mode="json", by_alias=True)
    assert shown_values(loaded) == plain


def test_each_setting_is_shown_with_where_it_comes_from(project: Project) -> None:
    loaded = project.set("channels.web.port: 9000\npersonality.presets: {a: {humor: 0.5}}").load(
        SILAS_OWNER_ID="ada", data_dir="elsewhere", SILAS_CONFIG=str(project.file)
    )
    shown = {each.name: (each.value, str(each.origin)) for each in shown_settings(loaded)}
    assert shown["channels.web.port"] == (9000, f"config/silas.yaml:{project.line_of('port')}")
    assert shown["channels.web.host"] == ("127.0.0.1", "default")
    assert shown["personality.presets.a.humor"] == (0.5, "config/silas.yaml:6")
    assert shown["owner_id"] == ("ada", "SILAS_OWNER_ID")
    assert shown["data_dir"] == (str(project.directory / "elsewhere"), "--data-dir")
    assert shown["sandbox.verify_dir"][1] == "default"
    assert shown["search.allowed_domains"] == ([], "default")
    assert len(shown) > 150
