"""The page's files: all of them are served, kept for offline use, and free of markup from text."""

import re
import subprocess
import sys
from importlib import resources

import pytest
from starlette.requests import Request

from silas.web.serving import page_routes

STATIC = resources.files("silas.web").joinpath("static")
FILES = sorted(each.name for each in STATIC.iterdir())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def text_of(name: str) -> str:
    return STATIC.joinpath(name).read_text("utf-8")


async def served(name: str) -> str:
    [route] = [each for each in page_routes() if each.path == f"/{name}"]
    answer = await route.endpoint(Request({"type": "http"}))
    return bytes(answer.body).decode()


async def test_the_offline_shell_is_the_whole_page() -> None:
    listed = re.findall(r'FILES = "([^"]*)"', await served("sw.js"))[0].split()
    pictures = {name for name in FILES if name.endswith(".png")}
    # Visitors have a page of their own: it is no part of the owner's.
    visitors = {"visit.html", "visit.js", "visit.css"}
    assert set(listed) == {
        f"/{name}" for name in set(FILES) - {"index.html", "sw.js"} - pictures - visitors
    } | {"/"}
    assert re.search(r'SHELL = "silas-[0-9a-f]{16}"', await served("sw.js"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
        r"|setHTML|srcdoc|\beval\(|new Function|importScripts|localStorage|sessionStorage"
    )
    assert re.findall(forbidden, text_of(name)) == []


def test_every_import_names_a_file() -> None:
    for name in SCRIPTS:
        for wanted in re.findall(r'from "/([\w.-]+)"', text_of(name)):
            assert wanted in FILES, name


def test_nothing_comes_from_elsewhere() -> None:
    for name in FILES:
        if name.endswith((".js", ".css", ".html", ".json")):
            found = set(re.findall(r"https?://[\w.]+", text_of(name)))
            assert found <= {"http://127.0.0.1", "http://localhost", "http://www.w3.org"}, name


def test_other_commands_do_not_load_the_web() -> None:
    code = (
        "import sys, silas.cli.main, silas.cli.keys, silas.cli.review, silas.cli.status\n"
        "print([name for name in ('fastapi', 'uvicorn', 'starlette', 'websockets')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
