"""Single settings are changed in the file; comments, order and everything else stay."""

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.app.settings import LoadedSettings, load_settings, render_default_config
from silas.app.settings.edit import change_section, with_values
from silas.app.settings.errors import SettingsNotChanged

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


@pytest.mark.parametrize(
    "text",
    [
        "silas: {owner_id: ada, models: {proxy: 'openai:a'}}\n",
        "silas:\n  models: {proxy: 'openai:a'}\n",
        "silas:\n    models:\n        proxy: openai:a\n",
        "silas:\n  models:\n    proxy:\n      openai:a\n",
    ],
)
def test_what_is_written_in_another_way_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = File(tmp_path, text)
    with pytest.raises(SettingsNotChanged, match=r"models\.proxy: .openai:small"):
        file.change(**MODEL)
    assert file.path.read_text() == text


def test_a_value_that_is_refused_leaves_no_file_behind(tmp_path: Path) -> None:
    file = File(tmp_path, None)
    with pytest.raises(SettingsNotChanged):
        file.change(proxy="nobody:small")
    assert not file.path.exists()


@given(st.text(), st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_any_text_can_be_tried(text: str, value: str) -> None:
    assert with_values(text, "models", {"proxy": value}).endswith("\n")
