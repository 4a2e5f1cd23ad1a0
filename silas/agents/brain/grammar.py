"""Everything that the offline brain understands: a list of phrases, each with its examples.

The first phrase that fits the whole text wins. `match` and `not_match` are tested, and `match` is
also what Silas offers when it did not understand. A phrase with a number in `every` or a word that
is not in these patterns is not guessed at: the brain says so instead.
"""

import re

from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    Forget,
    Greeting,
    Help,
    Intent,
    MakeFile,
    NotUnderstood,
    Recall,
    Remember,
    RunCommand,
    Thanks,
    Watch,
    Watched,
    WhatDidYouDo,
)
from silas.agents.brain.journal_phrases import JOURNAL_PHRASES
from silas.agents.brain.phrase import LINE, Phrase, code, got, need, path_of, pattern, text_of
from silas.agents.brain.schedules import read_schedule

_POLITE = re.compile(
    r"(?:(?:hey|hi|hello|ok|okay)\b[ ,!.]*)?(?:silas\b[ ,:!.]*)?"
    r"(?:(?:please|kindly|(?:can|could|would|will) you|i want you to|i'd like you to)\b[ ,]*)*",
    re.IGNORECASE,
)


def _watch(what: Watched, target: str, often: str) -> Watch | None:
    schedule = read_schedule(often)
    return Watch(what, target.rstrip(".,"), schedule, often.strip()) if schedule else None


def _append(path: str, content: str) -> AppendToFile | None:
    return AppendToFile(path, content) if _is_a_file_name(path) else None


def _edit(found: re.Match[str]) -> EditFile | None:
    path, old, new = (need(found, name) for name in ("path", "old", "new"))
    return EditFile(path, old, new) if _is_a_file_name(path) and old else None


def _is_a_file_name(path: str) -> bool:
    """Whether it looks like a file: `soup` in "add salt to the soup" does not."""
    return "." in path or "/" in path


_WHERE = rf"(?:\s+(?:in|inside|under)\s+(?:the\s+(?:folder|directory)\s+)?{path_of('where')})?"
_PRINTS = (
    r"(?:\s*,?\s+(?:and|then)\s+(?:check|verify|make sure|expect)(?:\s+that)?"
    r"(?:\s+(?:it|the output|this))?\s+(?:to\s+)?(?:prints?|says?|outputs?|shows?|contains?)\s+"
    rf"{text_of('expected', LINE)})?"
)
_CHECK = (
    r"(?:\s*[,.]?\s+(?:(?:and|then)\s+)?(?:check|verify|test)(?:\s+(?:it|that|this))?"
    rf"\s+(?:with|using|by running|by)[:]?\s+{code('check')})?"
)

_PATCH_EXAMPLE = """Fix the failing test in ~/shop with this patch:
```diff
--- a/sum.py
+++ b/sum.py
@@ -1 +1 @@
-x = 1
+x = 2
```
and test it with `python3 test_sum.py`"""

PHRASES: tuple[Phrase, ...] = (
    Phrase(
        name="apply a patch",
        pattern=pattern(
            r"(?:fix|repair|patch|apply)\b[^`\n]*?"
            rf"(?:\s+in\s+(?:the\s+(?:folder|directory)\s+)?{path_of('where')})?"
            r"(?:\s+(?:with|using|by)\b[^`\n]*?)?[:]?\s*```(?:diff|patch)?\n(?P<patch>.*?\n)```"
            rf"\s*(?:and\s+)?(?:check|verify|test)(?:\s+(?:it|that|this))?\s+(?:with|using|by)[:]?\s+"
            rf"{code('check')}"
        ),
        meaning=lambda found: ApplyPatch(
            patch=found["patch"], check=need(found, "check"), where=got(found, "where")
        ),
        match=(_PATCH_EXAMPLE,),
        not_match=("fix the failing test", "apply for the job"),
        near=re.compile(r"\b(?:patch|diff|failing test)\b", re.IGNORECASE),
    ),
    # Before files: "add task …" is not a line for a file.
    *JOURNAL_PHRASES,
    Phrase(
        name="watch something",
        pattern=pattern(
            r"(?:watch|monitor|keep an eye on|check)\s+(?:that\s+)?(?:the\s+(?:page|site|url)\s+)?"
            r"(?P<address>https?://[^\s`]+?)(?:\s+(?:answers|works|is up|is reachable))?"
            r"\s*,?\s+(?P<often>every\b[^\n]+?|daily|hourly|weekly)"
        ),
        meaning=lambda found: _watch(Watched.ADDRESS, found["address"], found["often"]),
        match=(
            "Watch https://example.org every 15 minutes",
            "check that https://example.org/health works every hour",
        ),
        not_match=("watch https://example.org", "watch https://example.org every now and then"),
        near=re.compile(r"\b(?:watch|monitor|keep an eye)\b", re.IGNORECASE),
    ),
    Phrase(
        name="watch a command",
        pattern=pattern(
            r"(?:watch|monitor|run|check|keep an eye on)\s+(?:the command\s+)?"
            r"`(?P<command>[^`\n]+)`\s*,?\s+(?P<often>every\b[^\n]+?|daily|hourly|weekly)"
        ),
        meaning=lambda found: _watch(Watched.COMMAND, found["command"], found["often"]),
        match=("Run `test -s backup.tar` every day at 7:30",),
        not_match=("run `ls` every blue moon", "run `ls`"),
    ),
    Phrase(
        name="run a command",
        pattern=pattern(
            r"(?:run|execute)\s*:?\s+(?:the\s+(?:command|program|script)\s+)?"
            rf"{code('command')}{_WHERE}{_PRINTS}{_CHECK}"
        ),
        meaning=lambda found: RunCommand(
            command=need(found, "command"),
            where=got(found, "where"),
            expected=got(found, "expected"),
            check=got(found, "check"),
        ),
        match=(
            "Run `uname -a`",
            "run echo hello and check that it prints hello",
            "Please run `make` in ~/shop and check it with `test -f shop.bin`",
        ),
        not_match=("what happens if I run?", "running is healthy"),
    ),
    Phrase(
        name="make a file",
        pattern=pattern(
            r"(?:create|make|write)\s+(?:a|the)?\s*(?:new\s+)?(?:text\s+)?(?:file\s+)?"
            rf"(?:named\s+|called\s+)?{path_of()}\s*(?:with(?:\s+the)?(?:\s+(?:content|contents|text))?|"
            rf"containing|that says|saying|:)\s*:?\s+{text_of('content')}"
        ),
        meaning=lambda found: MakeFile(need(found, "path"), need(found, "content")),
        match=(
            "Create a file notes/today.txt with buy milk",
            "create ~/notes/list.md:\n```\n- milk\n- bread\n```",
            'write hello.txt saying "Hello there"',
        ),
        not_match=("create a file", "make me a sandwich"),
        near=re.compile(r"\b(?:create|make|write)\b.*\bfile\b", re.IGNORECASE),
    ),
    Phrase(
        name="write into a file",
        pattern=pattern(
            rf"(?:write|save|put)\s+{text_of('content')}\s+(?:to|into|in)\s+(?:the\s+)?(?:file\s+){path_of()}"
        ),
        meaning=lambda found: MakeFile(need(found, "path"), need(found, "content")),
        match=('save "call the bank" to the file notes.txt',),
        not_match=("put the cat into the box",),
    ),
    Phrase(
        name="add to a file",
        pattern=pattern(
            rf"(?:add|append)\s+{text_of('content')}\s+to\s+(?:the\s+)?(?:end\s+of\s+)?"
            rf"(?:the\s+)?(?:file\s+)?{path_of()}"
        ),
        meaning=lambda found: _append(need(found, "path"), need(found, "content")),
        match=("Add buy bread to notes/today.txt", 'append "done" to the file log.txt'),
        not_match=("add salt to the soup",),
    ),
    Phrase(
        name="change a file",
        pattern=pattern(
            rf"in\s+(?:the\s+file\s+)?{path_of()}\s*,?\s+(?:replace|change)\s+{text_of('old')}"
            rf"\s+(?:with|by|to|into)\s+{text_of('new')}"
        ),
        meaning=_edit,
        match=('In notes/today.txt, replace "milk" with "oat milk"',),
        not_match=("in the end, replace the battery",),
        near=re.compile(r"\b(?:replace|change|edit)\b.*\bfile\b|\bedit\s", re.IGNORECASE),
    ),
    Phrase(
        name="change a passage",
        pattern=pattern(
            rf"(?:replace|change)\s+{text_of('old')}\s+(?:with|by|to|into)\s+{text_of('new')}"
            rf"\s+in\s+(?:the\s+file\s+)?{path_of()}"
        ),
        meaning=_edit,
        match=("change `x = 1` to `x = 2` in settings.py",),
        not_match=("change the subject",),
    ),
    Phrase(
        name="say what was done",
        pattern=pattern(
            r"(?:what\s+(?:did|have)\s+you\s+(?:do|done|been doing|been up to)\b[^\n]*?|"
            r"what\s+(?:has\s+)?happened\b[^\n]*?|"
            r"show\s+(?:me\s+)?(?:(?:the|your)\s+)?(?:activity|log|history))\??"
        ),
        meaning=lambda _found: WhatDidYouDo(),
        match=("What did you do?", "what happened while I slept?", "show me your activity"),
        not_match=("what did you say?",),
    ),
    Phrase(
        name="remember",
        pattern=pattern(
            r"(?:remember|note|keep in mind|don't forget)\b[,:]?\s+(?:that\s+)?(?P<text>.+?)"
        ),
        meaning=lambda found: Remember(found["text"].strip()),
        match=("Remember that the spare key is at the neighbour's", "note: dentist on Friday"),
        not_match=("do you remember me?", "remember"),
    ),
    Phrase(
        name="recall",
        pattern=pattern(
            r"(?:what\s+do\s+you\s+(?:know|remember)(?:\s+about)?|do\s+you\s+(?:remember|know)|recall|"
            r"what\s+did\s+i\s+(?:tell|say\s+to)\s+you(?:\s+about)?|where\s+(?:is|are)|when\s+(?:is|are))"
            r"(?:\s+(?P<about>.+?))?\s*\??"
        ),
        meaning=lambda found: Recall((found["about"] or "").strip()),
        match=("What do you know about the spare key?", "Where is the spare key?"),
        not_match=("what is the capital of France?",),
    ),
    Phrase(
        name="forget",
        pattern=pattern(r"forget\s+(?:about\s+|everything\s+about\s+|that\s+)?(?P<about>.+?)"),
        meaning=lambda found: Forget(found["about"].strip()),
        match=("Forget about the spare key",),
        not_match=("I forgot my keys", "forget"),
    ),
    Phrase(
        name="help",
        pattern=pattern(r"(?:help|what can (?:you|i) (?:do|say|ask)\b[^\n]*?|who are you)\s*\??"),
        meaning=lambda _found: Help(),
        match=("What can you do?", "help"),
        not_match=("help me move house",),
    ),
    Phrase(
        name="thanks",
        pattern=pattern(r"(?:thanks|thank you|great|perfect|cheers|well done)\b[^\n]{0,30}"),
        meaning=lambda _found: Thanks(),
        match=("Thanks!",),
        not_match=("no thanks to you",),
    ),
)

_GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening))\b[ ,]*(?:silas|there)?\s*[.!]?",
    re.IGNORECASE,
)


def understand(text: str) -> Intent:
    """What the text asks for."""
    text = text.strip()
    if _GREETING.fullmatch(text):
        return Greeting()
    wish = text[_polite_length(text) :]
    for phrase in PHRASES:
        found = phrase.pattern.fullmatch(wish)
        meant = phrase.meaning(found) if found else None
        if meant is not None:
            return meant
    near = next((each.name for each in PHRASES if each.near and each.near.search(wish)), None)
    return NotUnderstood(near)


def example_of(name: str) -> str:
    """How to say it."""
    return next(phrase.match[0] for phrase in PHRASES if phrase.name == name)


def _polite_length(text: str) -> int:
    found = _POLITE.match(text)
    return found.end() if found else 0
