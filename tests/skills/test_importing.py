"""Strangers' skills become ours: nothing acts by itself, every change is told, twice is once."""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import skills_ref
from hypothesis import given, settings
from hypothesis import strategies as st

from silas.skills.format import parse_skill
from silas.skills.importing import SkillDialect, import_skill, transform
from silas.skills.inspection import inspect_skill
from silas.skills.sidecar import Activation
from silas.skills.tree import SkillTreeRefused, find_skill, read_tree, unpack_archive
from tests.skills.dialects import Files, all_skills

FORTY = list(all_skills())


def put(root: Path, name: str, files: Files | dict[str, bytes]) -> Path:
    for path, content in files.items():
        target = root / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root / name


@pytest.mark.parametrize(
    ("dialect", "name", "files"), FORTY, ids=[f"{each[0]}-{each[1]}" for each in FORTY]
)
def test_forty_skills_of_four_dialects(
    tmp_path: Path, dialect: str, name: str, files: Files
) -> None:
    source = put(tmp_path / "theirs", name, files)
    first = import_skill(source, tmp_path / "ours")
    assert first.report.dialect == dialect
    assert first.foreign
    assert first.directory.name == name
    skill = parse_skill(first.directory)
    assert skills_ref.validate(first.directory) == []
    assert skills_ref.read_properties(first.directory).description == skill.description
    assert first.report.removed or first.report.translated
    assert not inspect_skill(first.directory).flagged
    scripts = [path for path in files if path.startswith("scripts/")]
    assert bool(skill.sidecar.scripts) == bool(scripts)
    assert all(each.contained for each in skill.sidecar.scripts.values())
    assert not skill.sidecar.hosts

    second = import_skill(first.directory, tmp_path / "again")
    assert second.report.dialect is SkillDialect.SILAS
    assert not second.report.removed
    assert read_tree(second.directory) == skill.tree


def test_what_acts_by_itself_is_not_granted(tmp_path: Path) -> None:
    wanted = {
        "claude": ("hooks", "allowed-tools", "context", "model", "git status"),
        "openclaw": ("install", "always"),
        "hermes": ("blueprint", "required_environment_variables", "requires_toolsets"),
        "codex": ("dependencies",),
    }
    told: dict[str, str] = {}
    for number, (dialect, name, files) in enumerate(FORTY):
        found = import_skill(put(tmp_path / f"{number}", name, files), tmp_path / f"o{number}")
        told[dialect] = told.get(dialect, "") + "\n".join(found.report.not_granted)
        text = (found.directory / "SKILL.md").read_text()
        assert "!`" not in text
        assert "hooks" not in text.split("---")[1]
    for dialect, words in wanted.items():
        for word in words:
            assert word in told[dialect], (dialect, word)


def test_keys_find_their_place(tmp_path: Path) -> None:
    _, name, files = next(each for each in FORTY if each[0] == "hermes")
    hermes = import_skill(put(tmp_path / "a", name, files), tmp_path / "b")
    skill = parse_skill(hermes.directory)
    assert skill.manifest.metadata["version"] == "1.10"
    assert skill.sidecar.composes_with == ("plain-words",)
    assert skill.sidecar.requirements.environment == ("HERMES_TOKEN",)
    _, name, files = next(each for each in FORTY if each[0] == "openclaw")
    claw = parse_skill(import_skill(put(tmp_path / "c", name, files), tmp_path / "d").directory)
    assert claw.sidecar.requirements.programs == ("jq",)
    assert claw.sidecar.requirements.environment == ("JQ_COLORS",)
    _, name, files = [each for each in FORTY if each[0] == "codex"][1]
    codex = parse_skill(import_skill(put(tmp_path / "e", name, files), tmp_path / "f").directory)
    assert codex.sidecar.ui.display_name == "Csv Totals"
    assert codex.sidecar.activation is Activation.MANUAL
    assert "agents/openai.yaml" not in codex.tree.by_path


def test_scripts_get_explicit_arguments_and_still_work(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    _, name, files = FORTY[1]
    skill = parse_skill(import_skill(put(tmp_path / "a", name, files), tmp_path / "b").directory)
    script = skill.sidecar.scripts["scripts/csv_totals.py"]
    call = script.call({"file": str(tmp_path / "numbers.csv"), "column": "b"})
    assert _run(tmp_path / "b" / name / "scripts/csv_totals.py", *call.words) == "6.0\n"

    _, name, files = FORTY[7]
    report = import_skill(put(tmp_path / "c", name, files), tmp_path / "d").report
    (rewritten,) = report.rewritten
    assert rewritten.entry == "scripts/head_tail.py"
    wrapped = parse_skill(tmp_path / "d" / name).sidecar.scripts["scripts/head_tail.py"]
    call = wrapped.call({"word_1": str(tmp_path / "numbers.csv"), "word_2": "1"})
    assert _run(tmp_path / "d" / name / "scripts/head_tail.py", *call.words) == "a,b\n"

    _, name, files = FORTY[9]
    report = import_skill(put(tmp_path / "e", name, files), tmp_path / "f").report
    assert report.rewritten[0].entry is None
    assert "as it is" in report.rewritten[0].how


def _run(script: Path, *words: str) -> str:
    return subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, check=True
    ).stdout


def test_credentials_stay_behind(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    source = put(
        tmp_path,
        "demo",
        {
            "SKILL.md": f"---\nname: demo\ndescription: A demo that is long enough to be one.\n---\nUse {token}.\n",
            ".env": "KEY=1\n",
            "certs/own.pem": "x",
            "scripts/a.py": f"TOKEN = '{token}'\n",
            "references/.env.example": "KEY=\n",
        },
    )
    found = import_skill(source, tmp_path / "ours")
    tree = read_tree(found.directory)
    assert set(tree.by_path) == {
        "SKILL.md",
        "silas.yaml",
        "scripts/a.py",
        "references/.env.example",
    }
    for file in tree.by_path:
        assert token not in (found.directory / file).read_text()
    assert len(found.report.removed) == 4


def test_what_is_ours_stays_as_it_is(tmp_path: Path) -> None:
    text = "---\nname: demo\ndescription: A demo that is long enough.\n---\n\n# Demo\n"
    source = put(tmp_path, "demo", {"SKILL.md": text})
    found = import_skill(source, tmp_path / "ours")
    assert not found.foreign
    assert read_tree(found.directory) == read_tree(source)


def test_the_front_matter_of_the_specification_moves(tmp_path: Path) -> None:
    text = (
        "---\nname: coding\ndescription: Coding work in repositories.\nactivation: auto\n"
        "ui:\n  display_name: Coding\n  short_description: Edit and test\n"
        "script_args:\n  scripts/run_tests.py:\n    path: {type: string, max_length: 300}\n"
        '    marker: {type: string, default: "", max_length: 120}\n---\n\n# Coding\n'
    )
    source = put(tmp_path, "coding", {"SKILL.md": text, "scripts/run_tests.py": "print(1)\n"})
    found = import_skill(source, tmp_path / "ours")
    skill = parse_skill(found.directory)
    assert skill.sidecar.ui.display_name == "Coding"
    arguments = skill.sidecar.scripts["scripts/run_tests.py"].arguments
    assert arguments["path"].max_length == 300
    assert {"ui", "script_args"} <= set(found.report.moved)


@pytest.mark.parametrize(
    "text",
    [
        "# No front matter\n\nThis skill tells how to do something useful.\n",
        "---\nname: Demo Skill!\ndescription: a: b: c\n---\nBody\n",
        "---\nname: demo\ndescription: " + "long " * 400 + "\n---\n",
        "\ufeff---\r\nname: demo\r\ndescription: Windows\r\n---\r\nBody\r\n",
        "---\nname: demo\ndescription: one --- two\n---\nBody\n",
        "---\nname: demo\ndescription: x\nmetadata:\n  deep: {a: [1, {b: 2}]}\n  n: 1.10\n---\n",
        "---\nname: demo\ndescription: x\nhosts: '*'\nui: nonsense\nactivation: perhaps\n---\n",
        "---\nname: [1]\ndescription: {a: b}\n---\n",
        "---\nname: demo\n",
        "",
    ],
)
def test_badly_written_skills_are_taken_in(tmp_path: Path, text: str) -> None:
    source = put(tmp_path, "odd-one", {"SKILL.md": text, "scripts/x.py": "def (:"})
    found = import_skill(source, tmp_path / "ours")
    assert skills_ref.validate(found.directory) == []
    again = import_skill(found.directory, tmp_path / "again")
    assert read_tree(again.directory) == read_tree(found.directory)


def test_a_collection_is_asked_which_one(tmp_path: Path) -> None:
    put(tmp_path, "many/a", {"SKILL.md": "x"})
    assert find_skill(tmp_path / "many") == tmp_path / "many" / "a"
    put(tmp_path, "many/b", {"SKILL.md": "x"})
    with pytest.raises(SkillTreeRefused, match="several"):
        find_skill(tmp_path / "many")
    with pytest.raises(SkillTreeRefused, match="holds no"):
        find_skill(put(tmp_path, "none", {"README.md": "x"}))


def test_a_hint_wins(tmp_path: Path) -> None:
    source = put(tmp_path, "demo", {"SKILL.md": "---\nname: demo\ndescription: x\n---\n"})
    report = transform(source, tmp_path / "ours", "claude", commit="abc", source_name="git:x")
    assert (report.dialect, report.commit, report.source) == ("claude", "abc", "git:x")


# Archives


def zipped(members: dict[str, bytes], *, mode: int = 0o100644) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return packed.getvalue()


def tarred(*members: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    info.size = 1 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "raw",
    [
        zipped({"../evil": b"x"}),
        zipped({"/etc/evil": b"x"}),
        zipped({"a/../../evil": b"x"}),
        zipped({"a\\..\\evil": b"x"}),
        zipped({"C:/evil": b"x"}),
        zipped({"link": b"/etc/passwd"}, mode=0o120777),
        zipped({"./a": b"x", "a": b"y"}),
        zipped({"A": b"x", "a": b"y"}),
        tarred(member("../evil")),
        tarred(member("/evil")),
        tarred(member("link", tarfile.SYMTYPE, "/etc/passwd")),
        tarred(member("hard", tarfile.LNKTYPE, "/etc/passwd")),
        tarred(member("device", tarfile.CHRTYPE)),
        tarred(member("a"), member("a")),
        b"no archive",
        b"",
    ],
    # The bytes of an archive hold the time; an id must not.
    ids=range(16),
)
def test_odd_archives_are_refused_and_leave_nothing(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "in.bin").write_bytes(raw)
    with pytest.raises(SkillTreeRefused):
        unpack_archive(tmp_path / "in.bin", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in.bin"]


def test_a_skill_comes_out_of_an_archive(tmp_path: Path) -> None:
    _, name, files = FORTY[0]
    packed = zipped({f"{name}-main/{path}": text.encode() for path, text in files.items()})
    (tmp_path / "in.zip").write_bytes(packed)
    (tmp_path / "ours").mkdir()
    found = import_skill(tmp_path / "in.zip", tmp_path / "ours")
    assert parse_skill(found.directory).name == name
    assert [path.name for path in (tmp_path / "ours").iterdir()] == [name]


_VALUE = st.recursive(
    st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)
_KEYS = st.sampled_from(
    [
        "name",
        "description",
        "license",
        "metadata",
        "allowed-tools",
        "hooks",
        "install",
        "ui",
        "hosts",
        "type",
        "version",
        "model",
        "requires",
        "script_args",
        "composes_with",
        "activation",
        "user-invocable",
        "platforms",
        "permissions",
        "whatever",
    ]
)


@settings(max_examples=60, deadline=None)
@given(front=st.dictionaries(_KEYS, _VALUE, max_size=6), body=st.text(max_size=80))
def test_importing_twice_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, front: dict[str, object], body: str
) -> None:
    import yaml

    root = tmp_path_factory.mktemp("twice")
    text = f"---\n{yaml.safe_dump(front, allow_unicode=True)}---\n{body}"
    source = put(root, "demo", {"SKILL.md": text.encode("utf-8", "ignore")})
    first = import_skill(source, root / "one")
    second = import_skill(first.directory, root / "two")
    assert read_tree(first.directory) == read_tree(second.directory)
    assert skills_ref.validate(first.directory) == []
