"""The file itself: where it is, what can be wrong with it, and on which line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import ConfigError
from silas.settings.keys import walk
from tests.settings.project import Project


def test_a_default_file_may_be_missing_but_a_named_one_may_not(project: Project) -> None:
    assert not project.load().file_exists
    for error in (project.fail(config_file="other.yaml"), project.fail(SILAS_CONFIG="other.yaml")):
        assert (error.code, error.exit_code) == ("E_CFG_MISSING", 10)
        assert error.message.startswith("other.yaml: ")


def test_the_file_is_the_named_one_then_the_variable_then_the_data_dir(project: Project) -> None:
    for name in ("option.yaml", "variable.yaml", "silas.yaml"):
        (project.directory / name).write_text(f"silas: {{owner_id: {name}}}\n")
    project.set("owner_id: project")
    here = str(project.directory)

    def owner(**options: str) -> str:
        return project.load(**options).settings.owner_id

    assert owner() == "project"
    assert owner(data_dir=here) == "silas.yaml"
    assert owner(SILAS_DATA_DIR=here) == "silas.yaml"
    assert owner(data_dir=here, SILAS_CONFIG="variable.yaml") == "variable.yaml"
    assert owner(config_file="option.yaml", SILAS_CONFIG="variable.yaml") == "option.yaml"


def test_the_file_of_a_named_data_dir_may_be_missing(project: Project) -> None:
    loaded = project.set("owner_id: project").load(data_dir="elsewhere")
    assert loaded.settings.owner_id == "owner"
    assert loaded.paths.config_file == project.directory / "elsewhere" / "silas.yaml"
    assert loaded.paths.data_dir == project.directory / "elsewhere"


def test_relative_paths_start_from_the_project(project: Project) -> None:
    settings = project.set("data_dir: ./d\nactive_goal: goals/a.md").load().settings
    assert settings.data_dir == project.directory / "d"
    assert settings.active_goal == project.directory / "goals" / "a.md"
    assert settings.skills_dir == project.directory / "silas" / "skills"
    other = project.directory / "deep" / "other.yaml"
    other.parent.mkdir()
    other.write_text("silas: {data_dir: d}\n")
    settings = project.load(config_file="deep/other.yaml").settings
    assert settings.data_dir == project.directory / "deep" / "d"


def test_paths_from_outside_the_file_start_from_the_current_directory(project: Project) -> None:
    other = project.directory / "deep" / "other.yaml"
    other.parent.mkdir()
    other.write_text("silas: {}\n")
    loaded = project.load(
        config_file="deep/other.yaml", data_dir="here", SILAS_SKILLS_DIR="skills", HOME="/home/me"
    )
    assert loaded.settings.data_dir == project.directory / "here"
    assert loaded.settings.skills_dir == project.directory / "skills"
    tilde = project.set("data_dir: ~/silas").load(HOME="/home/me")
    assert tilde.settings.data_dir == Path("/home/me/silas")


def test_the_sandbox_directories_follow_the_data_dir(project: Project) -> None:
    for loaded in (
        project.load(data_dir="elsewhere"),
        project.load(SILAS_DATA_DIR="elsewhere"),
        project.set("data_dir: elsewhere").load(),
    ):
        sandbox = loaded.settings.sandbox
        assert sandbox.verify_dir == project.directory / "elsewhere" / "verify"
        assert sandbox.customer_context_dir == project.directory / "elsewhere" / "customer_context"


def test_the_command_line_goes_before_the_environment_before_the_file(project: Project) -> None:
    project.set("data_dir: file\nchannels.web.port: 1")
    assert project.load().settings.data_dir.name == "file"
    loaded = project.load(SILAS_DATA_DIR="variable", SILAS_CONFIG=str(project.file))
    assert loaded.settings.data_dir.name == "variable"
    assert str(loaded.origin_of(("data_dir",))) == "SILAS_DATA_DIR"
    loaded = project.load(
        data_dir="option", SILAS_DATA_DIR="variable", SILAS_CONFIG=str(project.file)
    )
    assert loaded.settings.data_dir.name == "option"
    assert str(loaded.origin_of(("data_dir",))) == "--data-dir"
    assert project.load(SILAS_CHANNELS__WEB__PORT="2").settings.channels.web.port == 2


@pytest.mark.parametrize(
    "text",
    ["", "\n# nothing\n", "silas:\n", "silas: {}\n", "\ufeffsilas:\n  channels:\n    web:\n"],
)
def test_a_file_that_says_nothing_means_defaults(project: Project, text: str) -> None:
    loaded = project.write(text).load()
    assert loaded.file_exists
    assert loaded.settings.channels.web.port == 8420


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        (b"silas:\n  a: [1\n", "E_CFG_SYNTAX", "config/silas.yaml:3:1: "),
        (b"silas:\n\tsearch: 1\n", "E_CFG_SYNTAX", "config/silas.yaml:2:1: "),
        (b'silas: "a\n', "E_CFG_SYNTAX", "config/silas.yaml:"),
        (b"silas:\n  owner_id: \xff\n", "E_CFG_ENCODING", "config/silas.yaml:2: "),
        ("silas: {}".encode("utf-16"), "E_CFG_ENCODING", "config/silas.yaml:1: "),
        (b"#" * 1_000_001, "E_CFG_TOO_LARGE", "config/silas.yaml: "),
        (b"silas:\n  owner_id: \0\n", "E_CFG_BINARY", "config/silas.yaml:2: "),
    ],
)
def test_a_broken_file_gives_one_sentence(
    project: Project, content: bytes, code: str, place: str
) -> None:
    error = project.write(content).fail()
    assert (error.code, error.exit_code) == (code, 10)
    assert error.message.startswith(place)
    assert "\n" not in error.message


def test_a_directory_in_place_of_the_file(project: Project) -> None:
    project.file.mkdir(parents=True)
    error = project.fail()
    assert (error.code, error.exit_code) == ("E_CFG_NOT_A_FILE", 10)


def test_a_file_that_cannot_be_read(project: Project) -> None:
    project.file.parent.mkdir()
    project.file.symlink_to("silas.yaml")  # a link to itself: unreadable even for root
    error = project.fail()
    assert (error.code, error.exit_code) == ("E_CFG_UNREADABLE", 10)


def test_a_name_that_no_file_can_have(project: Project) -> None:
    for name in ("a\0b", "x" * 5000):
        error = project.fail(config_file=name)
        assert (error.code, error.exit_code) == ("E_CFG_UNREADABLE", 10)
        assert error.message.isprintable()


@pytest.mark.parametrize(
    ("text", "key", "words", "line"),
    [
        (
            "silas:\n  owner_id: a\n  owner_id: b\n",
            "owner_id",
            "appears twice (first in line 2)",
            3,
        ),
        ("silas:\n  owner_id: &a b\n", "owner_id", "anchors", 2),
        ("silas:\n  owner_id: *a\n", "owner_id", "aliases", 2),
        ("silas:\n  owner_id: !!str b\n", "owner_id", "tags", 2),
        ("silas:\n  search: !!python/object:os.system {}\n", "search", "tags", 2),
        ("silas:\n  <<: {}\n", "<<", "merge keys", 2),
        ("silas: {}\n---\nsilas: {}\n", "", "one document", 2),
        ("silas: 5\n", "", "must be a section", 1),
        ("5\n", "", "must begin with `silas:`", 1),
        ("- silas\n", "", "must begin with `silas:`", 1),
        ("other: {owner_id: *a}\n", "", "aliases", 1),
        ("owner_id: me\n", "", "`owner_id` belongs under `silas:`", 1),
        ("silas: {}\n\nsilsa: {}\n", "", "did you mean `silas`?", 3),
    ],
)
def test_a_file_with_a_wrong_shape(
    project: Project, text: str, key: str, words: str, line: int
) -> None:
    error = project.write(text).fail()
    problem = error.details["problems"][0]
    assert (problem["key"], problem["line"]) == (key, line)
    assert words in problem["message"]
    assert f"config/silas.yaml:{line}: " in error.message


def test_a_bomb_costs_nothing(project: Project) -> None:
    nested = "silas: " + "[" * 100_000
    assert project.write(nested).fail().exit_code == 10
    bomb = "silas:\n  a0: &a0 x\n" + "".join(
        f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
    )
    assert project.write(bomb).fail().exit_code == 10


def test_the_name_of_an_alias_is_not_told_because_it_may_be_a_password(project: Project) -> None:
    error = project.write("silas: {channels: {web: {auth_token: *hunter2secret }}}\n").fail()
    assert "hunter2secret" not in str(error.explain())


FRAGMENTS = [
    "silas:", "\n  ", "\n    ", "channels:", "web:", "port:", "data_dir:", "gates:", "system:",
    "- ", "name: a", "on: after_step", "{", "}", "[", "]", '"', "'", "&a", "*a", "!!str", "null",
    "~", "1", "1e999", ".nan", "${HOME}", "${", "$$", "\\ud800", '"\\ud800"', '"\\0"',
    "profiles:", "config:", "timezone: ../x", "heartbeat_cron: '* *'", "host: '::'",
    "active_goal: /", "import:", "%", "---", "? ", ": ", "|", ">", "#", "owner_id: 1",
    "retention_days: 99999999999999999999",
]  # fmt: skip


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS)).map(" ".join), st.binary()))
def test_whatever_the_file_holds_the_answer_is_settings_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    outcome = Project(tmp_path_factory.getbasetemp()).write(raw).outcome(HOME="/h")
    if isinstance(outcome, ConfigError):
        assert outcome.exit_code == 10
        assert outcome.message.replace("\n", "").isprintable()
    else:
        assert outcome.settings.data_dir.is_absolute()


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(blacklist_categories=["C", "Zl", "Zp"])),
        st.sampled_from(["${HOME}", "${NOPE}", "${", "0.0.0.0", "* * * * *", "UTC", "a", "~/x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([key for key, _ in walk()]), VALUES, max_size=6))
def test_whatever_a_setting_is_set_to_every_problem_has_a_line(
    tmp_path_factory: pytest.TempPathFactory, values: dict[tuple[str, ...], object]
) -> None:
    content: dict[str, Any] = {}
    for key, value in sorted(values.items(), key=lambda item: len(item[0])):
        section = content
        for part in key[:-1]:
            section = section.setdefault(part, {})
            section = section if isinstance(section, dict) else {}
        section[key[-1]] = value
    text = json.dumps({"silas": content}, indent=1, ensure_ascii=False)
    project = Project(tmp_path_factory.getbasetemp()).write(text)
    outcome = project.outcome(HOME="/h")
    if isinstance(outcome, ConfigError):
        assert outcome.code == "E_CFG_INVALID"
        lines = [problem["line"] for problem in outcome.details["problems"]]
        assert all(2 <= line <= text.count("\n") + 1 for line in lines)
        assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("settings", "variable", "words"),
    [
        ("channels.cli.enabled: true", "SILAS_CHANNELS__CLI__ENABLED", "`silas chat`"),
        ("personality.scope_mode: shared", "SILAS_PERSONALITY__SCOPE_MODE", "mood of its own"),
    ],
)
def test_a_setting_of_the_past_is_named_with_what_is_so_instead(
    project: Project, settings: str, variable: str, words: str
) -> None:
    (warning,) = project.set(settings).load().warnings
    assert settings.partition(".enabled")[0].partition(":")[0] in warning
    assert "config/silas.yaml:" in warning
    assert words in warning
    (said,) = Project(project.directory / "empty").load(**{variable: "x"}).warnings
    assert variable in said
    assert words in said
