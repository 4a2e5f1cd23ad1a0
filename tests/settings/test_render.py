"""The file that `silas init` writes, and the schema for editors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.settings.keys import description_of, settings_schema, walk
from silas.settings.write import _EXAMPLES, render_default_config
from tests.settings.project import Project

COMMENTED_SETTING = re.compile(r"^( *)# ((?: *- | *)[a-z_]+:.*| +- .*)$", re.MULTILINE)
FOREIGN = {"NumericRange", "BlockRange", "Expectation"}
HEAVY = ("apsw", "cryptography", "keyring", "click", "asyncio", "pydantic_settings", "pydantic_ai")


def test_the_rendered_file_yields_the_defaults(project: Project) -> None:
    before = project.load().settings
    loaded = project.write(render_default_config()).load()
    assert loaded.file_exists
    assert loaded.settings == before
    assert loaded.warnings == ()
    assert {origin.source for origin in loaded.provenance.values()} == {"default", "file"}


def test_every_commented_line_can_be_uncommented(project: Project) -> None:
    text = render_default_config()
    for example in _EXAMPLES.values():
        text = text.replace(f'"{example}"  # an example; the default is null', "null")
    uncommented, count = COMMENTED_SETTING.subn(r"\1\2", text)
    assert count >= len([key for key, kind in walk() if kind.shape != "section"])
    before = project.load(HOME="/home/me").settings
    assert before.planner.workspace_dir == Path("/home/me/silas-files")
    assert project.write(uncommented).load(HOME="/home/me").settings == before


def test_every_setting_is_there_and_explained() -> None:
    text = render_default_config()
    for key, kind in walk():
        name = rf"{key[-1]}:"
        prefix = "  " * len(key) + ("" if kind.shape == "section" else "# ")
        assert re.search(rf"^{prefix}{name}", text, re.MULTILINE), key
        assert description_of(key).split(" ")[0] in text
    assert all(len(line) <= 110 for line in text.splitlines())


def test_examples_are_valid_settings(project: Project) -> None:
    examples = {".".join(key): value for key, value in _EXAMPLES.items()}
    settings = project.write(render_default_config(examples)).load().settings
    assert settings.models.planner == "openrouter:anthropic/claude-sonnet-4-5"


def test_chosen_values_are_in_force(project: Project) -> None:
    chosen = {"data_dir": ".", "scheduler.timezone": "UTC", "search.allowed_domains": ["a.org"]}
    (project.directory / "silas.yaml").write_text(render_default_config(chosen))
    loaded = project.load(config_file="silas.yaml")
    assert loaded.settings.data_dir == project.directory
    assert loaded.settings.sandbox.verify_dir == project.directory / "verify"
    assert loaded.settings.scheduler.timezone == "UTC"
    assert loaded.settings.search.allowed_domains == ("a.org",)
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["", "nope", "channels.web.prot", "context.profiles.coding"])
def test_only_settings_can_be_chosen(name: str) -> None:
    with pytest.raises(ValueError, match="there is no setting"):
        render_default_config({name: 1})


PROFILE = {"chronicle_pct": 0.1, "memory_pct": 0.2, "workspace_pct": 0.3}
printable = st.text(st.characters(blacklist_categories=["C", "Zl", "Zp", "Zs"]), min_size=1)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "channels.web.port": st.integers(1, 65535),
            "personality.voice.tone": printable,
            "personality.voice.quirks": st.lists(printable),
            "personality.baseline.humor": st.floats(0, 1),
            "suggestions.enabled": st.booleans(),
            "search.provider": st.none(),
            "context.profiles": st.sets(st.sampled_from(["a", "on", "null", "1"])).map(
                lambda names: dict.fromkeys(["conversation", *names], PROFILE)
            ),
        },
    )
)
def test_what_is_rendered_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]
) -> None:
    project = Project(tmp_path_factory.getbasetemp()).write(render_default_config(values))
    loaded = project.load().settings.model_dump(mode="json", by_alias=True)
    for name, value in values.items():
        found = loaded
        for part in name.split("."):
            found = found[part]
        assert found == value


def test_the_schema_describes_every_setting_in_a_sentence() -> None:
    schema = settings_schema()
    sections = [schema["properties"]["silas"], *schema["$defs"].values()]
    ours = [each for each in sections if "properties" in each and each["title"] not in FOREIGN]
    assert len(ours) > 35
    for section in ours:
        assert section["additionalProperties"] is False
        for name, field in section["properties"].items():
            assert re.fullmatch(r"[A-Z`].{4,}[.]", field["description"]), (section["title"], name)


def test_the_schema_has_every_key_under_its_name_in_the_file() -> None:
    schema = settings_schema()

    def keys(definition: dict, around: tuple[str, ...]) -> list[tuple[str, ...]]:
        found = []
        for name, field in definition["properties"].items():
            found.append((*around, name))
            references = [each.get("$ref", "") for each in field.get("anyOf", [])]
            for reference in filter(lambda each: each.endswith("Settings"), references):
                found += keys(schema["$defs"][reference.rpartition("/")[2]], (*around, name))
        return found

    assert keys(schema["properties"]["silas"], ()) == [key for key, _ in walk()]


def test_the_settings_import_nothing_heavy() -> None:
    code = "import sys, silas.settings.load; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"pydantic", "yaml"} <= set(modules)
    assert not [name for name in HEAVY if name in modules]
