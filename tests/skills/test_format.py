"""`SKILL.md` and `silas.yaml`: read strictly, written so that every reader agrees."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from silas.gates.risk import ActionKind
from silas.skills.format import (
    SkillInvalid,
    SkillManifest,
    _difference,
    parse_sidecar,
    parse_skill,
    skill_text,
    split_skill,
    write_skill,
)
from silas.skills.sidecar import ScriptArgument, ScriptDeclaration, SkillSidecar
from silas.skills.tools import script_command
from silas.tools.declaration import ArgumentsRefused

PLAIN = "---\nname: demo\ndescription: Use it when a demo is wanted.\n---\n\n# Demo\n"
SIDECAR = """\
activation: manual
ui: {display_name: Demo, icon: ./assets/icon.svg}
requirements: {programs: [git], environment: [DEMO_TOKEN]}
composes_with: [coding]
hosts: [api.example.org]
scripts:
  scripts/place_order.py:
    tool: place_order
    description: Places an order.
    action: change
    reversibility: reversible
    inverse: cancel_order
    arguments:
      isin: {type: string, max_length: 12, position: 1}
      amount: {type: number, minimum: 1}
      dry_run: {type: boolean, default: false}
      note: {type: string, optional: true}
      tags: {type: array, default: []}
      side: {type: string, enum: [buy, sell]}
    examples:
      - {isin: X, amount: 2, side: buy}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo" / "scripts").mkdir(parents=True)
    (tmp_path / "demo" / "assets").mkdir()
    (tmp_path / "demo" / "SKILL.md").write_text(PLAIN)
    (tmp_path / "demo" / "assets" / "icon.svg").write_text("<svg/>")
    (tmp_path / "demo" / "scripts" / "place_order.py").write_text("print(1)\n")
    return tmp_path / "demo"


def problems(folder: Path, text: str | bytes, file: str = "SKILL.md") -> str:
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SkillInvalid) as caught:
        parse_skill(folder)
    return caught.value.message


def test_a_skill_is_read(folder: Path) -> None:
    (folder / "silas.yaml").write_text(SIDECAR)
    skill = parse_skill(folder)
    assert (skill.name, skill.body) == ("demo", "# Demo")
    assert skill.sidecar.tools == {"place_order": "scripts/place_order.py"}
    assert skill.scripts == ("scripts/place_order.py",)
    assert skill.digest == skill.tree.digest
    declared = skill.sidecar.scripts["scripts/place_order.py"]
    tool = declared.declaration("scripts/place_order.py")
    assert tool.effect is not None
    assert tool.effect.action is ActionKind.CHANGE
    assert tool.offer.parameters["properties"]["isin"] == {"maxLength": 12, "type": "string"}


def test_arguments_become_words_and_never_options(folder: Path) -> None:
    declared = parse_sidecar(SIDECAR).scripts["scripts/place_order.py"]
    call = declared.call({"isin": "X", "amount": 2.5, "side": "buy", "dry_run": True, "note": "-r"})
    assert call.words == ("--amount=2.5", "--dry-run", "--note=-r", "--side=buy", "X")
    for bad in (
        {"isin": "--evil", "amount": 1.0, "side": "buy"},
        {"isin": "X", "amount": 0.5, "side": "buy"},
        {"isin": "X", "amount": 1.0, "side": "hold"},
        {"isin": "X", "amount": 1.0, "side": "buy", "more": 1},
        {"isin": 3, "amount": 1.0, "side": "buy"},
        {"amount": 1.0, "side": "buy"},
    ):
        with pytest.raises(ArgumentsRefused):
            declared.call(bad)
    as_json = declared.model_copy(update={"passes": "json"})
    assert as_json.call({"isin": "X", "amount": 1.0, "side": "buy"}).stdin.startswith('{"isin"')


def test_a_script_says_nothing_of_itself_unless_it_is_declared() -> None:
    plain = ScriptDeclaration(description="Does something.")
    tool = plain.declaration("scripts/Do-It now.py")
    assert (tool.name, tool.effect, tool.contained) == ("do_it_now", None, False)
    assert ScriptDeclaration(description="x").tool_name("scripts/7z.sh") == "script_7z"


def test_one_script_can_be_several_tools(folder: Path) -> None:
    (folder / "silas.yaml").write_text(
        "scripts:\n  scripts/place_order.py buy: {description: Buys.}\n"
        "  scripts/place_order.py sell: {description: Sells.}\n"
    )
    skill = parse_skill(folder)
    assert set(skill.sidecar.tools) == {"place_order_buy", "place_order_sell"}
    assert skill.scripts == ("scripts/place_order.py",)
    started = script_command(folder, skill.sidecar.tools["place_order_sell"])
    assert started[-2:] == (str(folder / "scripts/place_order.py"), "sell")
    spaced = script_command(folder, "scripts/do it.py")
    assert spaced[-1] == str(folder / "scripts/do it.py")
    wrong = "scripts:\n  scripts/other.py buy: {description: Buys.}\n"
    assert "is no file of the skill" in problems(folder, wrong, "silas.yaml")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Demo\n", "first line"),
        ("--- \nname: demo\n---\n", "first line"),
        ("\ufeff" + PLAIN, "control character"),
        (PLAIN.replace("\n", "\r\n"), "\\r"),
        ("---\nname: demo\ndescription: x\n", "not closed"),
        ("---\nname: demo\ndescription: x\n --- \n---\n", "inside of the front matter"),
        ("---\nname: demo\ndescription: one --- two\n---\n", "other readers"),
        ("---\nname: demo\ndescription: a\n...\n---\n", "ends a YAML document"),
        ("---\nname: demo\nname: demo\ndescription: x\n---\n", "twice"),
        ("---\nname: demo\ndescription: yes\n---\n", "put it in quotes"),
        ("---\nname: demo\ndescription: 2026-01-02\n---\n", "put it in quotes"),
        ("---\nname: demo\ndescription: &a x\n---\n", "anchors"),
        ("---\nname: demo\ndescription: x\nhooks: {}\n---\n", "no key of the standard"),
        ("---\nname: demo\ndescription: x\nactivation: auto\n---\n", "silas.yaml"),
        ("---\nname: other\ndescription: x\n---\n", "as the directory is called"),
        ("---\nname: De_mo\ndescription: x\n---\n", "lower-case"),
        ("---\nname: demo\n---\n", "description: is missing"),
        ("---\nname: demo\ndescription: ''\n---\n", "must not be empty"),
        (f"---\nname: demo\ndescription: {'x' * 1025}\n---\n", "1024"),
        ("---\nname: demo\ndescription: x\nmetadata: {version: 1.0}\n---\n", "must be text"),
        ("---\n- name\n---\n", "must be a mapping"),
        (b"---\nname: demo\ndescription: \xff\n---\n", "not UTF-8"),
        ("---\nname: demo\ndescription: x\n---\n\x00", "control character"),
    ],
)
def test_refused_with_the_reason(folder: Path, text: str | bytes, reason: str) -> None:
    assert reason in problems(folder, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("activation: sometimes\n", "activation: must be one of"),
        ("more: 1\n", "not a known key"),
        ("hosts: ['*.example.org']\n", "host name"),
        ("hosts: true\n", "list of hosts"),
        ("auth_strategy: device_code\n", "type: connection"),
        ("type: connection\n", "type: connection"),
        ("ui: {icon: nowhere.svg}\n", "no file of the skill"),
        ("scripts: {../x.py: {description: x}}\n", "no file of the skill"),
        (SIDECAR.replace("    inverse: cancel_order\n", ""), "undoes it"),
        (
            SIDECAR.replace("    inverse: ", "    uses: {imap: [FETCH]}\n    inverse: "),
            "belongs to",
        ),
        (SIDECAR.replace("    reversibility: reversible\n", ""), "comes with"),
        (SIDECAR.replace("position: 1", "position: 2"), "positions"),
        (SIDECAR.replace("amount: 2", "amount: 0"), "does not fit"),
        (SIDECAR.replace("default: false", "default: maybe"), "default"),
        (SIDECAR.replace("max_length: 12", "minimum: 12"), "limits no argument"),
        (SIDECAR.replace("max_length: 12", "pattern: '('"), "do not go together"),
        ("composes_with: [on]\nactivation: off\n", "readers of YAML disagree"),
    ],
)
def test_a_sidecar_is_refused_with_the_reason(folder: Path, text: str, reason: str) -> None:
    assert reason in problems(folder, text, "silas.yaml")


def test_two_scripts_do_not_become_one_tool() -> None:
    with pytest.raises(SkillInvalid, match="two scripts become"):
        parse_sidecar("scripts: {a/x.py: {description: x}, b/x.py: {description: y}}\n")


def test_there_is_no_skill_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(SkillInvalid, match="no such file"):
        parse_skill(tmp_path)


def test_what_is_written_is_read_as_it_was_meant(tmp_path: Path) -> None:
    manifest = SkillManifest(
        name="demo",
        description="Use --- when:\n yes # no \u00e9 'x' \"y\"",
        metadata={"on": "1.10", "a---b": "---"},
        license="Apache-2.0",
    )
    sidecar = parse_sidecar(SIDECAR.replace("icon: ./assets/icon.svg", "short_description: x"))
    skill = write_skill(
        tmp_path / "demo",
        manifest,
        body="\n# Demo\n\n---\n\nmore",
        sidecar=sidecar,
        files={"scripts/place_order.py": b""},
    )
    assert (skill.manifest, skill.sidecar) == (manifest, sidecar)
    assert skill.body == "# Demo\n\n---\n\nmore"
    with pytest.raises(SkillInvalid, match="as the directory is called"):
        write_skill(tmp_path / "other", manifest, body="")


_TEXT = st.text(
    alphabet=st.characters(
        blacklist_categories=["Cc", "Cs"], blacklist_characters="\u2028\u2029\ufeff\ufffe\uffff"
    ),
    min_size=1,
    max_size=40,
)


@given(_TEXT, _TEXT, st.dictionaries(_TEXT, _TEXT, max_size=3), _TEXT)
def test_every_reader_agrees_about_what_is_written(
    description: str, license_name: str, metadata: dict[str, str], body: str
) -> None:
    manifest = SkillManifest(
        name="demo", description=description, license=license_name, metadata=metadata
    )
    text = skill_text(manifest, body)
    split = split_skill(text)
    values = yaml.safe_load(split.front_matter)
    assert values["description"] == description
    assert values.get("metadata", {}) == metadata
    assert text.split("---", 2)[1].strip() == split.front_matter.strip()
    assert split.body == body.strip("\n")


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_values_differ_or_are_the_same(one: Any, other: Any) -> None:
    assert _difference(one, one) is None
    if one != other:
        assert _difference(one, other) is not None


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    for parse in (split_skill, parse_sidecar):
        with contextlib.suppress(SkillInvalid):
            parse(text)


def test_an_empty_sidecar_is_none() -> None:
    assert parse_sidecar("") == SkillSidecar()
    assert ScriptArgument(type="string").is_required  # type: ignore[arg-type]
