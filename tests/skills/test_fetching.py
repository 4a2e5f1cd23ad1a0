"""A skill comes from a git repository after one yes to exactly that, and another to its files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from silas.review.questions import Question
from silas.skills.fetching import fetched, is_remote, parse_source
from silas.skills.installing import SkillRefused
from tests.skills.git_server import (
    GitServer,
    commit,
    files_of,
    git,
    git_server,
    make_repository,
)
from tests.skills.place import SkillPlace, make_skill

HERE = "127.0.0.1"


async def ask(place: SkillPlace, server: GitServer, **given: Any) -> Question:
    given = {"address": HERE, "url": server.url(), **given}
    asked = await place.service.fetch(**given)
    return await place.questions.get(asked.card_id)


async def say_yes(place: SkillPlace, question: Question, value: str = "approve") -> None:
    answer = {"selected_value": value}
    await place.questions.answer_with_vault(question.question_id, answer)
    await place.service.fetch_answered(question.about)


async def the_card(place: SkillPlace) -> Question:
    """The card of the skill that was fetched."""
    failed = await place.audited("skill_fetch_failed")
    assert not failed, [json.loads(each)["data"]["reason"][-200:] for each in failed]
    [version] = await place.core.skills.proposed()
    assert version.question_id is not None
    return await place.questions.get(version.question_id)


async def failure(place: SkillPlace) -> str:
    [entry] = await place.audited("skill_fetch_failed")
    assert await place.core.skills.proposed() == []
    return str(json.loads(entry)["data"]["reason"])


async def test_a_skill_is_fetched_shown_with_its_commit_installed_and_updated(
    place: SkillPlace, tmp_path: Path
) -> None:
    bare, first = make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    async with git_server(tmp_path / "srv") as server:
        question = await ask(place, server)
        body = question.content.body
        assert question.content.kind == "skill_source"
        assert question.content.risk == "medium"
        assert body["summary"][0].startswith(
            f"It reaches git.home.arpa:{server.port} at {HERE} (this machine), and nothing else."
        )
        assert server.requests == [], "nothing is asked before the yes"
        await say_yes(place, question)
        card = await the_card(place)
        shown = card.content.body["skill"]
        assert shown["origin"] == {
            "url": server.url(),
            "commit": first,
            "path": "",
            "address": HERE,
        }
        assert f"as of the commit {first}." in "\n".join(card.content.body["summary"])
        assert [each["path"] for each in shown["files"]] == [
            "SKILL.md",
            "scripts/greet.py",
            "silas.yaml",
        ]
        assert await place.digest("greeting") is None, "fetching installs nothing"
        await place.decide(card)
        assert await place.digest("greeting") == shown["digest"]
        details = await place.service.show("greeting")
        assert details.origin is not None
        assert details.origin.commit == first
        assert details.source == server.url()

        asked = len(server.requests)
        await place.service.fetch_answered(question.about)
        assert len(server.requests) == asked, "one yes is one fetch"

        work = bare.with_name("skills.git.work")
        (work / "notes.md").write_text("more\n")
        git(work, "add", "-A")
        second = commit(work)
        again = await place.service.update("greeting")
        await say_yes(place, await place.questions.get(again.card_id))
        newer = await the_card(place)
        assert newer.content.intent == "Update the skill greeting?"
        assert newer.content.body["skill"]["origin"]["commit"] == second
        assert newer.content.body["skill"]["changes"]["added"] == ["notes.md"]
        for _, headers in server.requests:
            assert not {"authorization", "cookie"} & set(headers)


async def test_the_commit_that_the_card_names_is_the_one_that_is_fetched(
    place: SkillPlace, tmp_path: Path
) -> None:
    bare, first = make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    work = bare.with_name("skills.git.work")
    (work / "notes.md").write_text("newer\n")
    git(work, "add", "-A")
    commit(work)
    async with git_server(tmp_path / "srv") as server:
        question = await ask(place, server, commit=first)
        assert first in "\n".join(question.content.body["summary"])
        await say_yes(place, question)
        shown = (await the_card(place)).content.body["skill"]
        assert shown["origin"]["commit"] == first
        assert "notes.md" not in [each["path"] for each in shown["files"]]


async def test_a_commit_that_is_not_there_is_told(place: SkillPlace, tmp_path: Path) -> None:
    make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    async with git_server(tmp_path / "srv") as server:
        await say_yes(place, await ask(place, server, commit="a" * 40))
        assert "does not give out this commit" in await failure(place)


async def test_a_repository_with_longer_ids_is_fetched_by_its_commit(
    place: SkillPlace, tmp_path: Path
) -> None:
    _, first = make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)), sha256=True)
    assert len(first) == 64
    async with git_server(tmp_path / "srv") as server:
        await say_yes(place, await ask(place, server, commit=first))
        assert (await the_card(place)).content.body["skill"]["origin"]["commit"] == first


async def test_one_of_several_skills_is_named_by_its_folder(
    place: SkillPlace, tmp_path: Path
) -> None:
    one = files_of(make_skill(tmp_path), below="skills/greeting/")
    other = {"skills/other/SKILL.md": "---\nname: other\ndescription: Never use it at all.\n---\n"}
    make_repository(tmp_path / "srv", files={**one, **other, "README.md": "Two skills.\n"})
    async with git_server(tmp_path / "srv") as server:
        await say_yes(place, await ask(place, server))
        told = await failure(place)
        assert "several skills: skills/greeting, skills/other" in told
        await say_yes(place, await ask(place, server, path="skills/greeting/"))
        [version] = await place.core.skills.proposed()
        assert version.origin is not None
        assert version.origin.path == "skills/greeting"


async def test_a_no_fetches_nothing(place: SkillPlace, tmp_path: Path) -> None:
    make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    async with git_server(tmp_path / "srv") as server:
        question = await ask(place, server)
        await say_yes(place, question, "decline")
        await place.service.fetch_answered(question.about)
        assert server.requests == []
        assert await place.core.skills.proposed() == []


async def test_a_changed_row_fetches_nothing(place: SkillPlace, tmp_path: Path) -> None:
    make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    make_repository(tmp_path / "srv", "other.git", files=files_of(tmp_path / "greeting"))
    async with git_server(tmp_path / "srv") as server:
        question = await ask(place, server)
        await place.questions.answer_with_vault(question.question_id, {"selected_value": "approve"})
        await place.core.database.execute(
            "UPDATE questions SET content = replace(content, 'skills.git', 'other.git')", ()
        )
        await place.service.fetch_answered(question.about)
        assert server.requests == []


# Hostile repositories: nothing of them takes effect, and the card says what stayed behind.


async def test_what_a_repository_would_do_by_itself_is_not_done(
    place: SkillPlace, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    order = f"touch {traces}"
    bare, _ = make_repository(
        tmp_path / "srv",
        files={
            **files_of(make_skill(tmp_path)),
            ".gitattributes": "* filter=evil diff=evil merge=evil\nSKILL.md ident export-subst\n",
            ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = https://example.org/x.git\n',
            ".gitconfig": f"[core]\n\tfsmonitor = {order}\n",
            "hooks/post-checkout": f"#!/bin/sh\n{order}\n",
            "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 9\n",
        },
        links={"secrets": "/etc/passwd", "scripts/out": "../../../.ssh"},
        executable=["hooks/post-checkout"],
        submodule="x",
    )
    for hook in ("post-upload-pack", "pre-receive", "post-checkout"):
        (bare / "hooks" / hook).write_text(f"#!/bin/sh\n{order}\n")
        (bare / "hooks" / hook).chmod(0o755)
    async with git_server(tmp_path / "srv") as server:
        await say_yes(place, await ask(place, server))
        card = await the_card(place)
    shown = card.content.body["skill"]
    paths = [each["path"] for each in shown["files"]]
    assert "secrets" not in paths
    assert "scripts/out" not in paths
    assert "x" not in paths
    told = "\n".join(card.content.body["summary"])
    assert "secrets: it is a link; it stayed behind" in told
    assert "x: it is another repository (a submodule); it stayed behind" in told
    assert "big.bin: its content is kept elsewhere (git LFS); it stayed behind" in told
    assert not traces.exists()


async def test_a_submodule_that_would_run_a_program_is_refused_with_all_of_it(
    place: SkillPlace, tmp_path: Path
) -> None:
    order = (
        f'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=id\n\tupdate = !touch {tmp_path}/t\n'
    )
    files = {**files_of(make_skill(tmp_path)), ".gitmodules": order}
    make_repository(tmp_path / "srv", files=files, submodule="x")
    async with git_server(tmp_path / "srv") as server:
        with pytest.raises(SkillRefused, match="git calls dangerous or broken"):
            await fetch_alone(place, server, tmp_path)


async def test_a_redirect_is_not_followed(place: SkillPlace, tmp_path: Path) -> None:
    make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    async with git_server(tmp_path / "srv") as server, git_server(tmp_path / "srv") as other:
        for target in (other.url(), server.url("else.git"), "file:///etc", "ext::sh -c id"):
            moved = (
                f"HTTP/1.1 302 Found\r\nLocation: {target}/info/refs\r\nContent-Length: 0\r\n\r\n"
            )
            server.answers = {"/skills.git": moved.encode()}
            server.requests.clear()
            with pytest.raises(SkillRefused, match="another address, which is not followed"):
                await fetch_alone(place, server, tmp_path)
            assert len(server.requests) == 1
        assert other.requests == []


async def fetch_alone(place: SkillPlace, server: GitServer, scratch: Path) -> list[str]:
    source = parse_source(server.url(), address=HERE)
    async with fetched(place.core.sandbox, source, scratch / "scratch") as found:
        return sorted(str(each.relative_to(found.directory)) for each in found.directory.rglob("*"))


async def test_what_is_too_large_or_too_much_is_refused(place: SkillPlace, tmp_path: Path) -> None:
    skill = files_of(make_skill(tmp_path))
    many = {f"data/{number}.txt": f"{number}\n" for number in range(2_100)}
    make_repository(tmp_path / "many", files={**skill, **many})
    async with git_server(tmp_path / "many") as server:
        with pytest.raises(SkillRefused, match="more than 2000 files"):
            await fetch_alone(place, server, tmp_path)
    make_repository(tmp_path / "large", files={**skill, "data.bin": bytes(17 * 1024 * 1024)})
    async with git_server(tmp_path / "large") as server:
        assert "data.bin" not in await fetch_alone(place, server, tmp_path)
    parts = {f"{number}.bin": bytes(12 * 1024 * 1024) + bytes([number]) for number in range(6)}
    make_repository(tmp_path / "sum", files={**skill, **parts})
    async with git_server(tmp_path / "sum") as server:
        with pytest.raises(SkillRefused, match="too large for a skill"):
            await fetch_alone(place, server, tmp_path)
    deep = {f"{'d/' * 14}x.txt": "deep\n"}
    make_repository(tmp_path / "deep", files={**skill, **deep})
    async with git_server(tmp_path / "deep") as server:
        with pytest.raises(SkillRefused, match="12 deep"):
            await fetch_alone(place, server, tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == [], "nothing of it is left"


async def test_a_host_that_gives_something_else_than_asked_for_is_not_believed(
    place: SkillPlace, tmp_path: Path
) -> None:
    make_repository(tmp_path / "srv", files={"README.md": "No skill.\n"})
    async with git_server(tmp_path / "srv") as server:
        with pytest.raises(SkillRefused, match="it is no skill"):
            await fetch_alone(place, server, tmp_path)
        plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        for answer, sentence in (
            (plain, "does not give out"),
            (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no such repository"),
            (
                b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
                "sends no credential",
            ),
            (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "does not answer"),
        ):
            server.answers = {"/skills.git": answer}
            with pytest.raises(SkillRefused, match=sentence):
                await fetch_alone(place, server, tmp_path)


async def test_a_name_that_is_not_public_is_not_reached_without_its_address(
    place: SkillPlace, tmp_path: Path
) -> None:
    source = parse_source("https://localhost.localdomain/skills.git")
    with pytest.raises(SkillRefused):
        async with fetched(place.core.sandbox, source, tmp_path / "scratch"):
            pass


async def test_the_settings_say_from_where(place: SkillPlace) -> None:
    asked = await place.service.fetch("https://GitHub.com/a/b.git")
    assert asked.url == "https://github.com/a/b.git"
    service = replace(place.service, policy=replace(place.service.policy, may_fetch=False))
    with pytest.raises(SkillRefused, match="allowed_sources"):
        await service.fetch("https://git.example.org/a/b.git")


@pytest.mark.parametrize(
    "url",
    [
        *("ext::sh -c id", "ext::sh", "fd::17", "file:///etc", "ssh://git@example.org/x.git"),
        *("git@example.org:x/y.git", "git://example.org/x.git", "ftp://example.org/x", "https:x"),
        *("--upload-pack=touch x", "-c core.sshCommand=id", "https://", "https://example.org"),
        *("https://me:secret@example.org/x.git", "https://token@example.org/x.git"),
        *(
            "https://example.org/x.git?a=b",
            "https://example.org/x.git#main",
            "https://exa mple.org/x",
        ),
        *("https://example.org/../x", "https://example.org/-x/y", "https://example.org/a//b"),
        *("https://example.org/%2e%2e/x", "https://example.org/x\ny", "https://example.org/x\0"),
        *("https://127.0.0.1/x.git", "https://[::1]/x.git", "https://localhost/x.git"),
        *("https://169.254.169.254/x", "http://example.org/x.git", "https://example.org:0/x"),
        *("https://example.org\\@evil.org/x", "https://bücher.example/x", "HTTPS::x", ""),
        *("https://example.org/x;id", "https://example.org/$(id)", "https://example.org/`id`"),
    ],
)
def test_what_is_no_plain_address_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        parse_source(url)
    assert "secret" not in refused.value.message
    assert refused.value.message.endswith(".")


@pytest.mark.parametrize("address", ["169.254.169.254", "93.184.216.34", "0.0.0.0", "evil", "::"])
def test_only_an_address_of_ones_own_can_be_named(address: str) -> None:
    with pytest.raises(SkillRefused, match="your own network"):
        parse_source("https://nas.home.arpa:3000/x.git", address=address)
    with pytest.raises(SkillRefused):
        parse_source("https://nas.home.arpa/x.git", address="192.168.1.20")


@pytest.mark.parametrize(
    "commit_id", ["main", "abc", "A" * 40, "-" * 40, "a" * 41, "a" * 40 + "\n"]
)
def test_a_commit_is_named_by_its_whole_id(commit_id: str) -> None:
    with pytest.raises(SkillRefused, match="whole id"):
        parse_source("https://example.org/x.git", commit=commit_id)


@pytest.mark.parametrize("path", ["../x", "a/../b", ".git", "a/.GIT/hooks", "a\0b", "."])
def test_a_folder_is_one_of_the_repository(path: str) -> None:
    with pytest.raises(SkillRefused, match="folder"):
        parse_source("https://example.org/x.git", path=path)


def test_an_address_is_told_from_a_folder() -> None:
    for text in ("https://example.org/x", "ext::sh", "git@example.org:x", "file:///etc", "ssh://a"):
        assert is_remote(text)
    for text in ("~/skills/pdf", "/a/b.zip", "pdf-forms", "./a@b/c", "a/b"):
        assert not is_remote(text)
