"""Forty skills in the dialects of others, written for the tests after their public formats.

Each has a purpose of its own, and a script or an instruction that can be used offline.
"""

from collections.abc import Iterator

Files = dict[str, str]

_SCRIPTS: dict[str, tuple[str, str, str]] = {
    # name: what for, script, words to call it with
    "word-count": (
        "Count words, lines and characters of texts. Use when the user asks how long a text is.",
        'import argparse\nfrom pathlib import Path\n\nparser = argparse.ArgumentParser()\nparser.add_argument("file", help="The text.")\nparser.add_argument("--lines", action="store_true")\ngiven = parser.parse_args()\ntext = Path(given.file).read_text()\nprint(len(text.splitlines()) if given.lines else len(text.split()))\n',
        "file",
    ),
    "csv-totals": (
        "Add up columns of CSV files. Use when sums of a table are wanted.",
        'import argparse, csv\n\nparser = argparse.ArgumentParser()\nparser.add_argument("file")\nparser.add_argument("--column", required=True)\ngiven = parser.parse_args()\nwith open(given.file, newline="") as rows:\n    print(sum(float(row[given.column]) for row in csv.DictReader(rows)))\n',
        "file",
    ),
    "slug-maker": (
        "Turn titles into addresses. Use when a page needs a readable address.",
        'import re, sys\n\nprint(re.sub(r"[^a-z0-9]+", "-", " ".join(sys.argv[1:]).lower()).strip("-"))\n',
        "words",
    ),
    "json-check": (
        "Say whether a file is valid JSON and where it breaks. Use for broken configuration.",
        'import json, sys\n\ntry:\n    json.load(open(sys.argv[1]))\n    print("valid")\nexcept ValueError as error:\n    print(f"invalid: {error}")\n',
        "words",
    ),
    "date-maths": (
        "Count days between dates. Use when the user asks how long until something.",
        'import argparse\nfrom datetime import date\n\nparser = argparse.ArgumentParser()\nparser.add_argument("--start", required=True)\nparser.add_argument("--end", required=True)\ngiven = parser.parse_args()\nprint((date.fromisoformat(given.end) - date.fromisoformat(given.start)).days)\n',
        "options",
    ),
    "todo-finder": (
        "List what is marked as to be done in a code base. Use before a release.",
        'import argparse, pathlib\n\nparser = argparse.ArgumentParser()\nparser.add_argument("folder", nargs="?", default=".")\nparser.add_argument("--mark", default="FIXME", choices=["FIXME", "XXX"])\ngiven = parser.parse_args()\nfor path in sorted(pathlib.Path(given.folder).rglob("*.py")):\n    for number, line in enumerate(path.read_text().splitlines(), 1):\n        if given.mark in line:\n            print(f"{path}:{number}")\n',
        "folder",
    ),
}
_SHELL = {
    "line-sort": (
        "Sort the lines of a file. Use when a list is to be put in order.",
        '#!/bin/sh\nsort "$1"\n',
    ),
    "head-tail": (
        "Show the first lines of a file. Use when a long file is to be looked at.",
        '#!/bin/bash\nset -eu\nhead -n "$2" "$1"\n',
    ),
    "grep-all": (
        "Search files for words. Use when the user looks for where something is said.",
        '#!/bin/sh\ngrep -n "$@"\n',
    ),
}
_WORDS = {
    "review-style": (
        "Look at changes as a strict reviewer would. Use when a change is to be merged.",
        "Read the whole change first. Name at most five things, the worst first. Say what would be right.",
    ),
    "minutes": (
        "Turn notes of a meeting into minutes. Use after a meeting.",
        "List who took part, what was decided, who does what until when. Leave out small talk.",
    ),
    "plain-words": (
        "Rewrite texts in plain words. Use when a text is hard to read.",
        "One thought in each sentence. Use the words that people use. Keep figures and names as they are.",
    ),
}


def _parts(number: int, mark: str) -> tuple[str, str, str, Files]:
    """Name, description, body and files of the n-th of ten skills; the mark ends names."""
    scripts, shells, words = list(_SCRIPTS.items()), list(_SHELL.items()), list(_WORDS.items())
    if number < len(scripts):
        name, (purpose, source, _call) = scripts[number]
        file = f"{name}{mark}".replace("-", "_")
        body = f"# {name}\n\n- `scripts/{file}.py` - {purpose}\n\nShow the result to the user.\n"
        return f"{name}{mark}", purpose, body, {f"scripts/{file}.py": source}
    if number < len(scripts) + 2 or number == 9:
        name, (purpose, source) = shells[min(number - len(scripts), 2)]
        file = f"{name}{mark}".replace("-", "_")
        body = f"# {name}\n\nRun `scripts/{file}.sh`.\n"
        return f"{name}{mark}", purpose, body, {f"scripts/{file}.sh": source}
    name, (purpose, body) = words[number - len(scripts) - 2]
    return (
        f"{name}{mark}",
        purpose,
        f"# {name}\n\n{body}\n\nSee [more](references/more.md).\n",
        {"references/more.md": f"# More\n\n{body}\n"},
    )


def claude(number: int, mark: str = "") -> tuple[str, Files]:
    name, purpose, body, files = _parts(number, mark)
    extras = [
        "allowed-tools: Bash(git:*) Read Write\n",
        "disable-model-invocation: true\nargument-hint: '[file]'\n",
        "context: fork\nagent: Explore\n",
        "model: opus\neffort: high\n",
        "hooks:\n  PostToolUse:\n    - matcher: Write\n      hooks:\n        - type: command\n          command: ./scripts/after.sh\n",
    ][number % 5]
    inline = "Branch: !`git status --short`\n" if number % 3 == 0 else ""
    text = f"---\nname: {name}\ndescription: {purpose}\n{extras}---\n\n{body}\n{inline}"
    return name, {"SKILL.md": text, **files}


def codex(number: int, mark: str = "") -> tuple[str, Files]:
    name, purpose, body, files = _parts(number, mark)
    title = name.replace("-", " ").title()
    face = f'interface:\n  display_name: "{title}"\n  short_description: "{purpose.split(".")[0]}"\n  icon_small: ./assets/icon.svg\n  brand_color: \'#10a37f\'\n'
    policy = "policy:\n  allow_implicit_invocation: false\n" if number % 2 else ""
    tools = (
        "dependencies:\n  tools:\n    - type: mcp\n      value: docs\n" if number % 3 == 0 else ""
    )
    text = f"---\nname: {name}\ndescription: |\n  {purpose}\nmetadata:\n  short-description: {title}\n---\n\n{body}"
    return name, {
        "SKILL.md": text,
        "agents/openai.yaml": face + policy + tools,
        "assets/icon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        **files,
    }


def openclaw(number: int, mark: str = "") -> tuple[str, Files]:
    name, purpose, body, files = _parts(number, mark)
    key = "clawdbot" if number % 4 == 0 else "openclaw"
    install = '"install":[{"id":"brew","kind":"brew","formula":"jq","bins":["jq"]},{"id":"dl","kind":"download","url":"https://example.org/jq"}],'
    always = '"always":true,' if number % 3 == 0 else ""
    meta = f'metadata: {{"{key}":{{"emoji":"x",{always}{install}"requires":{{"bins":["jq"],"env":["JQ_COLORS"],"config":["browser.enabled"]}},"primaryEnv":"JQ_COLORS"}}}}\n'
    text = f'---\nname: {name.replace("-", "_").title()}\ndescription: "{purpose}"\nhomepage: https://example.org/{name}\n{meta}---\r\n\r\n{body}'
    return name, {"SKILL.md": text, **files}


def hermes(number: int, mark: str = "") -> tuple[str, Files]:
    name, purpose, body, files = _parts(number, mark)
    blueprint = (
        "    blueprint:\n      schedule: '0 9 * * *'\n      deliver: telegram\n"
        if number % 2
        else ""
    )
    env = (
        "required_environment_variables:\n  - name: HERMES_TOKEN\n    prompt: Token\n"
        if number % 3 == 0
        else ""
    )
    text = (
        f"---\nname: {name}\ndescription: {purpose}\nversion: 1.10\nauthor: somebody\nplatforms: [linux, macos]\n{env}"
        f"metadata:\n  hermes:\n    tags: [text, files]\n    related_skills: [plain-words]\n    requires_toolsets: [terminal]\n{blueprint}---\n\n{body}"
    )
    return name, {"SKILL.md": text, **files}


DIALECTS = {"claude": claude, "codex": codex, "openclaw": openclaw, "hermes": hermes}


def all_skills(*, marked: bool = False) -> Iterator[tuple[str, str, Files]]:
    """Dialect, name and files of all forty; marked, no two have a name or a tool in common."""
    for dialect, make in DIALECTS.items():
        for number in range(10):
            yield dialect, *make(number, f"-{dialect}" if marked else "")
