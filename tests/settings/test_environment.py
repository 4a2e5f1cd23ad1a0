"""Variables: those that set a setting, and those that a value of the file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import ConfigError
from silas.settings.keys import walk
from silas.settings.sources import RESERVED, variable_name
from tests.settings.project import Project


def test_a_variable_sets_a_setting_of_any_type(project: Project) -> None:
    settings = project.load(
        SILAS_OWNER_ID="ada",
        SILAS_CHANNELS__WEB__PORT="9000",
        silas_channels__web__enabled="no",
        SILAS_CONTEXT__EVICTION_THRESHOLD_PCT="0.5",
        SILAS_SEARCH__PROVIDER="null",
        SILAS_AUDIT__RETENTION_DAYS="",
        SILAS_SEARCH__ALLOWED_DOMAINS='["a.org", "b.org"]',
        SILAS_PERSONALITY__CONSTITUTION="[be kind]",
        SILAS_SKILLS__IMPORT__ALLOW_EXTERNAL="off",
        SILAS_LIMITS='{"max_gate_evals_per_turn": 7}',
    ).settings
    assert settings.owner_id == "ada"
    assert settings.channels.web.port == 9000
    assert settings.channels.web.enabled is False
    assert settings.context.eviction_threshold_pct == 0.5
    assert settings.search.provider is None
    assert settings.audit.retention_days is None
    assert settings.search.allowed_domains == ("a.org", "b.org")
    assert settings.personality.constitution == ("be kind",)
    assert settings.skills.import_.allow_external is False
    assert settings.limits.max_gate_evals_per_turn == 7
    assert settings.limits.max_memory_ops_per_turn == 10


def test_every_setting_has_a_variable_of_its_own() -> None:
    names = [variable_name(key) for key, _ in walk()]
    assert len(names) == len(set(names)) > 150


def test_a_text_stays_a_text_even_if_it_looks_like_something_else(project: Project) -> None:
    settings = project.load(SILAS_OWNER_ID="0123", SILAS_PERSONALITY__VOICE__TONE="yes").settings
    assert (settings.owner_id, settings.personality.voice.tone) == ("0123", "yes")


def test_a_variable_changes_one_entry_of_a_map_and_leaves_the_others(project: Project) -> None:
    one = {"SILAS_CONTEXT__PROFILES__CODING__MEMORY_PCT": "0.1"}
    profiles = project.load(**one).settings.context.profiles
    assert profiles["coding"].memory_pct == 0.1
    assert profiles["coding"].workspace_pct == 0.40
    assert profiles["support"].memory_pct == 0.25
    project.write(
        "silas:\n  context:\n    default_profile: Coding\n    profiles:\n"
        "      Coding: {chronicle_pct: 0.1, memory_pct: 0.2, workspace_pct: 0.3}\n"
    )
    loaded = project.load(**one)
    assert {name: each.memory_pct for name, each in loaded.settings.context.profiles.items()} == {
        "Coding": 0.1
    }
    key = ("context", "profiles", "Coding")
    assert str(loaded.origin_of((*key, "memory_pct"))) == next(iter(one))
    assert str(loaded.origin_of((*key, "workspace_pct"))) == "config/silas.yaml:5"


def test_a_variable_fills_a_section_that_the_file_leaves_empty(project: Project) -> None:
    project.write("silas:\n  channels:\n    web:\n")
    assert project.load(SILAS_CHANNELS__WEB__PORT="9000").settings.channels.web.port == 9000


def test_the_deeper_variable_wins(project: Project) -> None:
    web = project.load(
        SILAS_CHANNELS__WEB__PORT="2", SILAS_CHANNELS='{"web": {"port": 1, "host": "::1"}}'
    ).settings.channels.web
    assert (web.port, web.host) == (2, "::1")


def test_a_problem_names_the_variable(project: Project) -> None:
    error = project.fail(
        SILAS_CHANNELS__WEB__PORT="many",
        SILAS_SEARCH__ALLOWED_DOMAINS="[",
        SILAS_CHANNELS__WEB__BOGUS="1",
        SILAS_SUGGESTIONS='{"bogus": 1}',
    )
    assert "  SILAS_CHANNELS__WEB__PORT: channels.web.port: must be a whole number" in error.message
    assert "  SILAS_SEARCH__ALLOWED_DOMAINS: search.allowed_domains: must be JSON" in error.message
    assert "  SILAS_SUGGESTIONS: suggestions.bogus: is not a known key" in error.message
    assert "  Note: The variable SILAS_CHANNELS__WEB__BOGUS sets nothing" in error.message


def test_two_spellings_of_one_variable_must_agree(project: Project) -> None:
    both = {"SILAS_OWNER_ID": "a", "silas_owner_id": "a"}
    assert project.load(**both).settings.owner_id == "a"
    both["silas_owner_id"] = "b"
    assert "also set by SILAS_OWNER_ID" in project.problems(**both)["owner_id"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SILAS_CHANNELS__WEB__PROT", "SILAS_CHANNELS__WEB__PORT"),
        ("SILAS_CHANNELS_WEB_PORT", "SILAS_CHANNELS__WEB__PORT"),
        ("SILAS_OWNER", "SILAS_OWNER_ID"),
        ("SILAS_GATES__SYSTEM__0__NAME", ""),
        ("SILAS___", ""),
        ("SILAS_QQQQQQ", ""),
    ],
)
def test_an_unknown_variable_is_a_warning(project: Project, name: str, meant: str) -> None:
    (warning,) = project.load(**{name: "1"}).warnings
    assert name in warning
    assert meant in warning


def test_names_with_another_purpose_are_known(project: Project) -> None:
    here = {name: str(project.file) for name in RESERVED} | {"_SILAS_COMPLETE": "x", "OTHER": "y"}
    assert project.write("silas: {}").load(**here).warnings == ()


def test_a_well_known_variable_gives_a_secret_that_no_setting_gives(project: Project) -> None:
    variables = {
        "SEARCH_API_KEY": "search-key",
        "SILAS_TELEGRAM_TOKEN": "telegram-token",
        "SILAS_TELEGRAM_OWNER_ID": "4711",
    }
    loaded = project.load(**variables)
    assert loaded.settings.search.web_search_enabled
    telegram = loaded.settings.channels.telegram
    assert telegram.token
    assert telegram.token.get_secret_value() == "telegram-token"
    assert telegram.owner_chat_id == "4711"
    assert str(loaded.origin_of(("search", "api_key"))) == "SEARCH_API_KEY"
    assert not project.set("search.api_key: null").load(**variables).settings.search.api_key


def test_variables_in_the_file_are_expanded(project: Project) -> None:
    project.set(
        'owner_id: "${WHO}-${NUMBER}"\nchannels.web.port: "${PORT}"\nsuggestions.enabled: "${ON}"\n'
        'personality.voice.tone: "costs $$5, $HOME, $${X}, ${DOLLAR}"\n'
        'personality.constitution: ["${WHO}", "b"]\n'
    )
    environ = {"WHO": "ada", "NUMBER": "1", "PORT": "9000", "ON": "false", "DOLLAR": "${WHO} $$"}
    settings = project.load(**environ).settings
    assert settings.owner_id == "ada-1"
    assert settings.channels.web.port == 9000
    assert settings.suggestions.enabled is False
    assert settings.personality.voice.tone == "costs $5, $HOME, ${X}, ${WHO} $$"
    assert settings.personality.constitution == ("ada", "b")


def test_a_variable_that_is_not_set_makes_a_secret_null(project: Project) -> None:
    project.set(
        'search.api_key: "${NOPE}"\nchannels.web.auth_token: "prefix-${NOPE}"\n'
        'channels.telegram.owner_chat_id: "${NOPE}"\ndatabase_url: "${NOPE}"'
    )
    for environ in ({}, {"NOPE": ""}):
        settings = project.load(**environ).settings
        assert settings.search.api_key is None
        assert settings.channels.web.auth_token is None
        assert settings.channels.telegram.owner_chat_id is None
        assert settings.database_url is None


def test_a_variable_that_is_not_set_does_no_harm_in_a_value_that_is_not_in_force(
    project: Project,
) -> None:
    project.set('owner_id: "${NOPE}"\ndata_dir: "${NOPE}"\nchannels.web.port: "${NOPE}"')
    settings = project.load(
        data_dir="$here",
        SILAS_CONFIG=str(project.file),
        SILAS_OWNER_ID="ada",
        SILAS_CHANNELS='{"web": {"port": 9000}}',
        SILAS_PERSONALITY__VOICE__TONE="${HOME} $$",
    ).settings
    assert (settings.owner_id, settings.channels.web.port) == ("ada", 9000)
    assert settings.data_dir == project.directory / "$here"
    assert settings.personality.voice.tone == "${HOME} $$"


def test_a_variable_that_is_not_set_is_an_error_elsewhere(project: Project) -> None:
    project.set(
        'owner_id: "${NOPE}"\nmodels.proxy: "${NOPE}"\nchannels.web.port: "${NOPE}"\n'
        'personality.constitution: ["${NOPE}"]\nskills_dir: "${ }"'
    )
    error = project.fail()
    problems = {each["key"]: each for each in error.details["problems"]}
    for key in ("owner_id", "models.proxy", "channels.web.port", "personality.constitution[0]"):
        assert "names the variable NOPE, which is not set" in problems[key]["message"]
        name = key.rpartition(".")[2].removesuffix("[0]")
        assert problems[key]["line"] == project.line_of(f"{name}:")
    assert "write `${NAME}`" in problems["skills_dir"]["message"]
    assert len(problems) == 5


@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from([variable_name(key) for key, _ in walk()]),
            st.text("ABC_dilnos", max_size=20).map(lambda text: f"SILAS_{text}"),
        ),
        st.one_of(
            st.text(st.characters(blacklist_characters="\0")),
            st.sampled_from(
                ["{}", "[]", "null", "1", "true", "{web: {port: 1}}", "\udcff", "~", "["]
            ),
        ),
        max_size=4,
    )
)
def test_whatever_is_in_the_environment_the_answer_is_settings_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]
) -> None:
    environ.pop("SILAS_CONFIG", None)
    outcome = Project(tmp_path_factory.getbasetemp() / "nothing").outcome(**environ)
    lines = [outcome.message] if isinstance(outcome, ConfigError) else outcome.warnings
    assert all(line.replace("\n", "").isprintable() for line in lines)
