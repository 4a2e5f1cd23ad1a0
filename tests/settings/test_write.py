"""Single settings are changed in the file; comments, order and everything else stay."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.settings.load import LoadedSettings, load_settings
from silas.settings.problems import SettingsNotChanged
from silas.settings.write import change_section, render_default_config, with_values

MODEL = {"proxy": "openai:small", "planner": "openai:small"}


class File:
    def __init__(self, directory: Path, text: str | None) -> None:
        self.path = directory / "silas.yaml"
        self.directory = directory
        if text is not None:
            self.path.write_text(text)

    def load(self) -> LoadedSettings:
        return load_settings(
            data_dir=str(self.directory), config_file=None, environ={}, cwd=self.directory
        )

    def change(self, **values: Any) -> LoadedSettings:
        return change_section(self.load(), "models", values, reload=self.load)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "silas:\n",
        render_default_config(),
        render_default_config({"models.proxy": "openai:other", "owner_id": "ada"}),
        "# mine\nsilas:\n  owner_id: ada # me\n  models:\n    fallback: openai:b # b\n",
        "silas:\n  models: # who thinks\n    # not proxy: x\n    proxy: openai:c\n  owner_id: a\n",
    ],
)
def test_what_is_wanted_is_set_and_nothing_else_changes(tmp_path: Path, text: str | None) -> None:
    file = File(tmp_path, text)
    before = file.load().settings
    after = file.change(**MODEL).settings
    assert after.models.proxy == after.models.planner == "openai:small"
    assert after.model_copy(update={"models": before.models}) == before
    kept = [line for line in (text or "").splitlines() if "#" in line and "er:" not in line]
    written = file.path.read_text().splitlines()
    assert [line for line in kept if "proxy:" not in line and line not in written] == []
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.change(proxy=None).settings.models.proxy is None


OWN_WAYS = {
    "all in braces": "silas: {owner_id: ada, models: {proxy: 'openai:a'}} # mine\n",
    "nothing in braces": "silas: {}\n",
    "a section in braces": "silas:\n  models: {proxy: 'openai:a'} # mine\n  owner_id: ada\n",
    "deeper indentation": (
        "silas:\n    # above\n    models:\n        # why\n        proxy: openai:a # mine\n\n"
        "        # last\n    # next\n    owner_id: ada\n"
    ),
    "empty and deeply indented": "silas:\n      models: # mine\n      owner_id: ada\n",
    "null in words": "silas:\n  models: null # mine\n  owner_id: ada\n",
    "a value on a line of its own": "silas:\n  models:\n    proxy:\n      openai:a # mine\n",
    "a value of several lines": "silas:\n  models:\n    proxy: >-\n      openai:a\n    # mine\n",
    "a key without a value": "silas:\n  models:\n    proxy:\n    # mine\n  owner_id: ada\n",
    "keys in quotes": "'silas':\n  \"models\":\n    'proxy': openai:a # mine\n",
    "lines of another system": "silas:\r\n  models:\r\n    proxy: openai:a # mine\r\n",
    "no end of the last line": "silas:\n  owner_id: ada # mine",
    "nothing but comments": "# mine\n",
}


@pytest.mark.parametrize("text", OWN_WAYS.values(), ids=OWN_WAYS)
def test_a_file_that_the_owner_wrote_in_another_way_is_changed_too(
    tmp_path: Path, text: str
) -> None:
    file = File(tmp_path, text)
    before = file.load().settings
    after = file.change(**MODEL).settings
    assert after.models == before.models.model_copy(update=MODEL)
    assert after.model_copy(update={"models": before.models}) == before
    written = file.path.read_text()
    comments = [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]
    assert [comment for comment in comments if f"# {comment}" not in written] == []
    assert file.change(proxy=None, fallback="openai:b").settings.models.fallback == "openai:b"


def test_a_map_is_replaced_and_the_comment_after_it_stays(tmp_path: Path) -> None:
    text = (
        "silas:\n  models:\n    api_keys:\n      openai: env:MINE\n      # why\n    # next\n"
        "    proxy: openai:a\n"
    )
    file = File(tmp_path, text)
    keys = {"openrouter": "secret:models/openrouter"}
    assert file.change(api_keys=keys).settings.models.api_keys == keys
    assert file.path.read_text() == text.replace(
        "openai: env:MINE", '{ openrouter: "secret:models/openrouter" }'
    )


@pytest.mark.parametrize("text", ["silas:\n  - models\n", "silas: 1\n", "[]\n", "silas: {\n"])
def test_a_file_without_a_place_for_the_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        with_values(text, "models", MODEL)


def test_a_change_that_says_something_else_is_taken_back(tmp_path: Path) -> None:
    text = "silas:\n  models:\n    proxy: openai:a\n"
    file = File(tmp_path, text)
    loaded = file.load()

    def another() -> LoadedSettings:
        (tmp_path / "silas.yaml").write_text("silas:\n  owner_id: eve\n")
        return file.load()

    with pytest.raises(SettingsNotChanged, match=r"models\.proxy: .openai:small"):
        change_section(loaded, "models", MODEL, reload=another)
    assert file.path.read_text() == text


def test_a_value_that_is_refused_leaves_no_file_behind(tmp_path: Path) -> None:
    file = File(tmp_path, None)
    with pytest.raises(SettingsNotChanged):
        file.change(proxy="nobody:small")
    assert not file.path.exists()


@given(st.text(), st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_any_text_can_be_tried(text: str, value: str) -> None:
    with suppress(ValueError):
        assert with_values(text, "models", {"proxy": value}).endswith("\n")
