"""Everything that the offline brain understands: a list of phrases, each with its examples.

The first phrase that fits the whole text wins. `match` and `not_match` are tested, and `match` is
also what Silas offers when it did not understand. A phrase with a number in `every` or a word that
is not in these patterns is not guessed at: the brain says so instead.

Beside a model, the brain is asked first, and answers what is `exact`: what could mean more than its
pattern is left to the model ("Create primes.py with a function that …" does not wish for these
words in a file).

`chips` are what the page offers to tap.
"""

import re
import shutil
from collections.abc import Iterator

from silas.agents.brain.accounts import ACCOUNT_PHRASES
from silas.agents.brain.files import FILE_PHRASES
from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    Forget,
    Greeting,
    Help,
    Intent,
    ListWatches,
    MakeFile,
    NotUnderstood,
    RecallIntent,
    Remark,
    Remember,
    RunCommand,
    SaveAttachment,
    StopWatching,
    StopWork,
    Thanks,
    UndoLast,
    Watch,
    WatchedKind,
    WhatDidYouDo,
    WhoAmI,
)
from silas.agents.brain.phrases import (
    JOURNAL_PHRASES,
    LEFT_OVER,
    LINE,
    REPEATED,
    Phrase,
    always,
    begins,
    code,
    got,
    is_marked,
    need,
    path_of,
    pattern,
    text_of,
)
from silas.kernel.when import parse_schedule
from silas.personality.feedback import FEEDBACK, spoken_event

_POLITE = re.compile(
    r"(?:(?:hey|hi|hello|ok|okay)\b[ ,!.]*)?(?:silas\b[ ,:!.]*)?"
    r"(?:(?:please|kindly|(?:can|could|would|will) you|i want you to|i'd like you to)\b[ ,]*)*",
    re.IGNORECASE,
)


def _recall(about: str) -> RecallIntent:
    """Who asks about himself asks for everything."""
    about = about.strip()
    return RecallIntent("" if about.casefold() in {"me", "myself"} else about)


def _watch(what: WatchedKind, target: str, often: str) -> Watch | None:
    schedule = parse_schedule(often)
    return Watch(what, target.rstrip(".,"), schedule, often.strip()) if schedule else None


def _stop_watching(found: re.Match[str]) -> StopWatching:
    about = (found["about"] or "").strip()
    return StopWatching("" if about.lower() in ("it", "that", "this") else about)


def _run(found: re.Match[str]) -> Intent:
    """The command; words that name no program, such as "the tests", are none."""
    command = need(found, "command")
    if not (is_marked(found, "command") or _may_be_a_program(command)):
        first = command.split(maxsplit=1)[0]
        unknown = "Which command is that?" if _PROSE.match(command) else f"I know no “{first}”."
        return NotUnderstood(
            lacks=f"{unknown} Say it between backticks, as you would type it. To find out by "
            "myself, I need a model: Settings → Model in the page, or `silas models detect`.",
            instead=(example_of("run a command"), example_of("help")),
        )
    return RunCommand(
        command=command,
        where=got(found, "where"),
        expected=got(found, "expected"),
        check=got(found, "check"),
    )


def _may_be_a_program(command: str) -> bool:
    """Whether it begins like a command line: a program, a file in the folder, a shell's word."""
    first = command.split(maxsplit=1)[0]
    if "/" in first or "=" in first or first in _SHELL_WORDS:
        return True
    return shutil.which(first) is not None


def _make(found: re.Match[str]) -> Intent | None:
    """The file. What is not called one must look like one: `soup` in "make soup" is none."""
    path, named = need(found, "path"), found["file"] is not None
    if not (_is_a_file_name(path) or (named and path.casefold() != "file")):
        return None
    return MakeFile(path, need(found, "content"))


def _append(path: str, content: str) -> AppendToFile | None:
    return AppendToFile(path, content) if _is_a_file_name(path) else None


def _edit(found: re.Match[str]) -> EditFile | None:
    path, old, new = (need(found, name) for name in ("path", "old", "new"))
    return EditFile(path, old, new) if _is_a_file_name(path) and old else None


def _save(path: str, name: str | None) -> SaveAttachment | None:
    return SaveAttachment(path, name) if _is_a_file_name(path) else None


def _is_a_command(found: re.Match[str]) -> bool:
    """Whether it names a program: "run the tests" and "run make for me" leave that open."""
    if is_marked(found, "command"):
        return True
    first, _, rest = need(found, "command").partition(" ")
    return _PROSE.match(rest) is None and shutil.which(first) is not None


def _is_a_file_name(path: str) -> bool:
    """Whether it looks like a file: `soup` in "add salt to the soup" does not."""
    return "." in path or "/" in path


_SAVE = "save an attached file"
_PROSE = re.compile(
    r"(?:a|an|the|all|my|your|our|this|that|it|for|with|to|on|and|until|again|suite|some|every)\b",
    re.IGNORECASE,
)
_SHELL_WORDS = frozenset({"cd", "for", "if", "until", "while", "{", "("})
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
        exact=always,
        near=re.compile(r"\b(?:patch|diff|failing test)\b", re.IGNORECASE),
    ),
    # Before files: "add task …" is not a line for a file, and a mail is no file.
    *ACCOUNT_PHRASES,
    *JOURNAL_PHRASES,
    Phrase(
        name="watch something",
        pattern=pattern(
            r"(?:watch|monitor|keep an eye on|check)\s+(?:that\s+)?(?:the\s+(?:page|site|url)\s+)?"
            r"(?P<address>https?://[^\s`]+?)(?:\s+(?:answers|works|is up|is reachable))?"
            r"\s*,?\s+(?P<often>every\b[^\n]+?|daily|hourly|weekly)"
        ),
        meaning=lambda found: _watch(WatchedKind.ADDRESS, found["address"], found["often"]),
        match=(
            "Watch https://example.org every 15 minutes",
            "check that https://example.org/health works every hour",
        ),
        not_match=("watch https://example.org", "watch https://example.org every now and then"),
        exact=always,
        near=re.compile(r"\b(?:watch|monitor|keep an eye)\b", re.IGNORECASE),
    ),
    Phrase(
        name="watch a command",
        pattern=pattern(
            r"(?:watch|monitor|run|check|keep an eye on)\s+(?:the command\s+)?"
            r"`(?P<command>[^`\n]+)`\s*,?\s+(?P<often>every\b[^\n]+?|daily|hourly|weekly)"
        ),
        meaning=lambda found: _watch(WatchedKind.COMMAND, found["command"], found["often"]),
        match=("Run `test -s backup.tar` every day at 7:30",),
        not_match=("run `ls` every blue moon", "run `ls`"),
        exact=always,
    ),
    Phrase(
        name="list what is watched",
        pattern=pattern(
            r"(?:what\s+(?:are\s+you\s+watching|do\s+you\s+watch|is\s+being\s+watched)|"
            r"(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:(?:my|the|your)\s+)?watches)"
        ),
        meaning=lambda _found: ListWatches(),
        match=("What are you watching?", "list my watches"),
        not_match=("what are you watching on television?",),
        exact=always,
    ),
    Phrase(
        name="stop all watches",
        pattern=pattern(
            r"(?:stop|cancel|end|remove)\s+(?:all\s+(?:(?:my|the|your|of\s+the)\s+)?watches|"
            r"(?:(?:my|the|your)\s+)?watches|watching\s+(?:everything|all\s+of\s+(?:it|them)))"
        ),
        meaning=lambda _found: StopWatching("", everything=True),
        match=("Stop all watches", "stop watching everything"),
        not_match=("stop all clocks",),
        exact=always,
    ),
    Phrase(
        name="stop watching",
        pattern=pattern(
            r"(?:(?:stop|quit)\s+watching|"
            r"(?:stop|cancel|end|remove)\s+(?:the\s+|my\s+|that\s+)?watch\b)"
            r"(?:\s+(?:on|of|for)\b)?(?:\s+`?(?P<about>[^`\n]+?)`?)?"
        ),
        meaning=_stop_watching,
        match=("Stop watching https://example.org", "cancel the watch on backup.tar"),
        not_match=("stop the timer", "watch your step"),
        exact=always,
    ),
    Phrase(
        name="stop what runs",
        pattern=pattern(
            r"(?:stop|halt|abort|cancel)(?:\s+(?:it|that|this|everything|working|the\s+work|"
            r"what\s+you(?:'re|\s+are)\s+doing))?(?:\s+(?:now|at\s+once|immediately))?"
        ),
        meaning=lambda _found: StopWork(),
        match=("Stop", "cancel that"),
        not_match=("stop the timer", "stop the music", "cancel my subscription"),
        exact=always,
    ),
    Phrase(
        name="undo",
        pattern=pattern(
            r"(?:undo(?:\s+(?:it|that|this|(?:the|your|my)\s+last\s+(?:one|thing|step|change|work)|"
            r"what\s+you\s+(?:just\s+)?did(?:\s+last)?))?|(?:take|put)\s+(?:it|that|this)\s+back)"
        ),
        meaning=lambda _found: UndoLast(),
        match=("Undo that", "take it back"),
        not_match=("undo the knot", "take the book back"),
        exact=always,
    ),
    Phrase(
        name="run a command",
        pattern=pattern(
            r"(?:run|execute)\s*:?\s+(?:the\s+(?:command|program|script)\s+)?"
            rf"{code('command')}{_WHERE}{_PRINTS}{_CHECK}"
        ),
        meaning=_run,
        match=(
            "Run `uname -a`",
            "run echo hello and check that it prints hello",
            "Please run `make` in ~/shop and check it with `test -f shop.bin`",
        ),
        not_match=("what happens if I run?", "running is healthy"),
        exact=_is_a_command,
    ),
    Phrase(
        name="make a file",
        pattern=pattern(
            r"(?:create|make|write)\s+(?:a|the)?\s*(?:new\s+)?(?:text\s+)?(?P<file>file\s+)?"
            rf"(?:named\s+|called\s+)?{path_of()}\s*(?:with(?:\s+the)?(?:\s+(?:content|contents|text))?|"
            rf"containing|that says|saying|:)\s*:?\s+{text_of('content')}"
        ),
        meaning=_make,
        match=(
            "Create a file notes/today.txt with buy milk",
            "create ~/notes/list.md:\n```\n- milk\n- bread\n```",
            'write hello.txt saying "Hello there"',
        ),
        not_match=(
            "create a file",
            "make me a sandwich",
            "make a file with my shopping list",
            "make soup with carrots",
        ),
        exact=lambda found: is_marked(found, "content"),
        near=re.compile(r"\b(?:create|make|write)\b.*\bfile\b", re.IGNORECASE),
    ),
    Phrase(
        name=_SAVE,
        pattern=pattern(
            r"(?:save|store|keep|put|write)\s+(?:it|this|that|(?:the\s+|this\s+)?(?:attached\s+)?"
            r"(?:file|attachment|image|picture|photo|document|text)(?:\s+(?P<name>[\w.-]+\.\w+))?)"
            rf"\s+(?:as|to|at|in|into|under)\s+(?:the\s+file\s+)?{path_of()}"
        ),
        meaning=lambda found: _save(need(found, "path"), found["name"]),
        match=("Save it as notes/report.txt", "save the file report.pdf as papers/report.pdf"),
        not_match=("save it for later", "keep it in mind", "put it in the box"),
        exact=always,
    ),
    Phrase(
        name="write into a file",
        pattern=pattern(
            rf"(?:write|save|put)\s+{text_of('content')}\s+(?:to|into|in)\s+(?:the\s+)?(?:file\s+){path_of()}"
        ),
        meaning=lambda found: MakeFile(need(found, "path"), need(found, "content")),
        match=('save "call the bank" to the file notes.txt',),
        not_match=("put the cat into the box",),
        exact=lambda found: is_marked(found, "content"),
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
        exact=lambda found: is_marked(found, "content"),
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
        exact=lambda found: is_marked(found, "old", "new"),
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
        exact=lambda found: is_marked(found, "old", "new"),
    ),
    *FILE_PHRASES,
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
        exact=begins(r"what\s+(?:did|have)\s+you|show"),
    ),
    Phrase(
        name="remember",
        pattern=pattern(
            r"(?:remember|note|keep in mind|don't forget)\b[,:]?\s+(?:that\s+)?(?P<text>.+?)"
        ),
        meaning=lambda found: Remember(found["text"].strip()),
        match=("Remember that the spare key is at the neighbour's", "note: dentist on Friday"),
        not_match=("do you remember me?", "remember"),
        exact=begins(r"remember(?:\s+that\b|:)|note:|keep in mind(?:\s+that\b|:)"),
    ),
    Phrase(
        name="say how to be called",
        pattern=pattern(r"(?P<text>my\s+name\s+is\s+[^\n,.!?]{1,80})"),
        meaning=lambda found: Remember(found["text"].strip()),
        match=("My name is Ada",),
        not_match=("my name is Ada, and I need a cake", "is my name there?"),
        exact=always,
    ),
    Phrase(
        name="say my name",
        pattern=pattern(
            r"(?:what(?:'s|\s+is)\s+my\s+name|who\s+am\s+i|do\s+you\s+(?:know|remember)\s+my\s+name)\s*\??"
        ),
        meaning=lambda _found: WhoAmI(),
        match=("What is my name?", "Who am I?"),
        not_match=("what is my name day?", "who am I talking to?"),
        exact=always,
    ),
    Phrase(
        name="recall",
        pattern=pattern(
            r"(?:what\s+do\s+you\s+(?:know|remember)(?:\s+about)?|do\s+you\s+(?:remember|know)|recall|"
            r"what\s+did\s+i\s+(?:tell|say\s+to)\s+you(?:\s+about)?|where\s+(?:is|are)|when\s+(?:is|are)|"
            r"what(?:'s|\s+(?:is|are))(?=\s+my\s))(?:\s+(?P<about>.+?))?\s*\??"
        ),
        meaning=lambda found: _recall(found["about"] or ""),
        match=(
            "What do you know about the spare key?",
            "Where is the spare key?",
            "What is my name?",
            "What do you know about me?",
        ),
        not_match=("what is the capital of France?",),
        exact=begins(r"what\s+do\s+you\s+(?:know|remember)\s+about\s+(?:me|myself)\W*$"),
    ),
    Phrase(
        name="forget",
        pattern=pattern(r"forget\s+(?:about\s+|everything\s+about\s+|that\s+)?(?P<about>.+?)"),
        meaning=lambda found: Forget(found["about"].strip()),
        match=("Forget about the spare key",),
        not_match=("I forgot my keys", "forget"),
        exact=begins(r"forget\s+about\b"),
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


_BLOCKS = re.compile(r"^```[^`\n]*\n.*?^```", re.DOTALL | re.MULTILINE)
_MOST_PROSE_CHARS, _MOST_BLANKS = 10_000, 300
_WIDE_GAP = re.compile(r"\s{8}")


def _is_a_sentence(text: str) -> bool:
    """Whether patterns may look at it; what is long, or has many blanks, is no request.

    Patterns with several free parts take time that grows with a power of the number of blanks.
    """
    prose = _BLOCKS.sub("", text)
    blanks = sum(each.isspace() for each in prose[: _MOST_PROSE_CHARS + 1])
    short = len(prose) <= _MOST_PROSE_CHARS and blanks <= _MOST_BLANKS
    return short and not _WIDE_GAP.search(prose)


def is_exact(text: str, with_files: bool = False) -> bool:
    """Whether the text says what is to be done to the letter, so that no model has to be asked.

    "Save it as notes.txt" does so only if a file came with it.
    """
    if not _is_a_sentence(text):
        return False
    wish = _wish_of(text.strip())
    understood = next(_meanings(wish), None)
    if understood is None:
        return False
    phrase, found, _ = understood
    return phrase.exact(found) and (with_files or phrase.name != _SAVE)


def understand(text: str) -> Intent:
    """What the text asks for."""
    text = text.strip()
    if not _is_a_sentence(text):
        return NotUnderstood(lacks=_TOO_LONG)
    if _GREETING.fullmatch(text):
        return Greeting()
    event = spoken_event(text)
    if event is not None and event in FEEDBACK:
        return Remark(FEEDBACK[event].wanted)
    wish = _wish_of(text)
    for _, _, meant in _meanings(wish):
        return meant
    near = next((each.name for each in PHRASES if each.near and each.near.search(wish)), None)
    return _lacking(wish) or NotUnderstood(near, instead=() if near else nearest(wish))


_REMIND_ME = re.compile(r"(?:remind\s+me|reminder)\b", re.IGNORECASE)
_REMIND_TO = re.compile(
    r"remind\s+me\s+(?:to|about|of|that)\s+(?P<what>[^\n]+?)\s*[.!?]?", re.IGNORECASE
)
_ON_A_CONDITION = re.compile(
    r"\b(?:when|if|once|unless|as\s+soon\s+as|after|before)\s+(?:i|i'm|we|it|you|he|she|they|the|my)\b",
    re.IGNORECASE,
)
_NEW_TASK = re.compile(
    r"(?:(?:add|create|make|write down)\s+(?:(?:a|the|another)\s+)?(?:new\s+)?|new\s+)"
    r"(?:task|to-?do)\s*:?\s+(?:to\s+)?(?P<title>[^\n`\"]+?)\s*[.!]?",
    re.IGNORECASE,
)
_CALLED = re.compile(r"(?i:call\s+me|i\s+am\s+called|i'm\s+called)\s+(?P<name>[A-Z]\w*)\W*")
_ABOUT_A_TASK = re.compile(r"\b(?:tasks?|to-?do)\b", re.IGNORECASE)
_MISSING = {
    r"\b(?:e-?)?mails?\b|\binbox\b": (
        "I did not understand what to do with your mail. Without a model I find, read and answer "
        "it, once it is connected."
    ),
    r"\bskills?\b": (
        "You find skills under Skills in the page, or with `silas skills list`: there you look at "
        "one and install it. To use one when you ask for something, I need a model."
    ),
    r"\bcalendar\b|\bappointments?\b": (
        "I did not understand what to do with your calendar. Without a model I look at it and move "
        "events."
    ),
    r"\b(?:telegram|whatsapp|slack|sms)\b": "I cannot send messages to other services yet.",
    r"\bweather\b|\bnews\b|\bsearch the (?:web|internet)\b": (
        "I cannot look things up on the internet without a model: Settings → Model."
    ),
}
_REPETITIONS = "every day, every Monday and Thursday, every weekday, every month on the 1st"


_TOO_LONG = (
    "That is too long for me without a model. Say it in a short sentence, with long text between "
    "lines of three backticks (```)."
)


def _lacking(wish: str) -> NotUnderstood | None:
    """What is missing, said in one line, with the nearest things that work."""
    if _REMIND_ME.search(wish):
        return _half_a_reminder(wish)
    if _ABOUT_A_TASK.search(wish):
        return _half_a_task(wish)
    if called := _CALLED.fullmatch(wish):
        example = f"My name is {called['name']}"
        return NotUnderstood(lacks=f"Say “{example}”, and I remember it.", instead=(example,))
    missing = next((says for words, says in _MISSING.items() if re.search(words, wish, re.I)), None)
    return NotUnderstood(lacks=missing, instead=nearest(wish)) if missing else None


def _half_a_reminder(wish: str) -> NotUnderstood:
    repeated = REPEATED.search(wish)
    if repeated:
        lacks = f"I cannot repeat it “{repeated[0]}”. I know {_REPETITIONS}."
        return NotUnderstood(lacks=lacks, instead=(example_of("remind me again and again"),))
    if _ON_A_CONDITION.search(wish):
        lacks = "I can remind you at a time, but not when something happens. At what time?"
        return NotUnderstood(lacks=lacks, instead=(example_of("remind me"),))
    to = _REMIND_TO.fullmatch(wish)
    if to is None:
        return NotUnderstood(
            lacks="Of what shall I remind you, and when?",
            instead=(example_of("remind me"), example_of("list reminders")),
        )
    what = to["what"]
    return NotUnderstood(
        lacks="When shall I remind you?",
        instead=tuple(f"Remind me to {what} {when}" for when in ("at 5pm", "tomorrow morning")),
    )


def _half_a_task(wish: str) -> NotUnderstood | None:
    """A wish is written down whole or not at all: what may be a time is asked back."""
    repeated = REPEATED.search(wish)
    if repeated:
        return NotUnderstood(
            lacks=f"I did not write that down: I cannot repeat it “{repeated[0]}”. I know "
            f"{_REPETITIONS}.",
            instead=("Add task water the plants every Monday",),
        )
    found = _NEW_TASK.fullmatch(wish)
    over = LEFT_OVER.search(found["title"]) if found else None
    if found is None or over is None:
        return None
    title, when = found["title"][: over.start()].strip(" ,"), over["when"]
    return NotUnderstood(
        lacks=f"Is “{when}” when it is due, or part of its name? Nothing is written down yet.",
        instead=(f"Add task {title} due {when}", f'Add task "{found["title"]}"'),
    )


def nearest(wish: str) -> tuple[str, ...]:
    """Examples of what sounds most like a wish; without any, of what is asked for most."""
    words = set(_SOUNDS.findall(wish.lower())) - _COMMON
    scores = {phrase.match[0]: len(words & _words_of(phrase)) for phrase in PHRASES if phrase.match}
    best = sorted((each for each in scores if scores[each]), key=lambda each: -scores[each])
    found = dict.fromkeys([*best[:_MOST_NEAR], *chips()])
    return (*list(found)[: _MOST_NEAR - 1], example_of("help"))


_MOST_NEAR = 3
_SOUNDS = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    _SOUNDS.findall("the and for with you your that this what can please how are was has have")
)


def _words_of(phrase: Phrase) -> set[str]:
    return set(_SOUNDS.findall(" ".join([phrase.name, *phrase.match]).lower())) - _COMMON


def example_of(name: str) -> str:
    """How to say it."""
    return next(phrase.match[0] for phrase in PHRASES if phrase.name == name)


def _meanings(wish: str) -> Iterator[tuple[Phrase, re.Match[str], Intent]]:
    """Every phrase that fits the wish and means something, in order; the first one counts."""
    for phrase in PHRASES:
        found = phrase.pattern.fullmatch(wish)
        meant = phrase.meaning(found) if found else None
        if found and meant is not None:
            yield phrase, found, meant


def _wish_of(text: str) -> str:
    """The text without the polite words before it."""
    found = _POLITE.match(text)
    return text[found.end() :] if found else text


def chips() -> tuple[str, ...]:
    """A few things to tap, if nothing was understood."""
    wanted = (
        "run a command",
        "make a file",
        "list files",
        "look at a day",
        "remember",
        "say what was done",
        "help",
    )
    return tuple(phrase.match[0] for phrase in PHRASES if phrase.name in wanted)
