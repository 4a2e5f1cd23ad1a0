"""The guard `unicode`: characters that hide text, change its order, or pass for others.

In the mode `fix` they are taken out, and letters that pass for Latin ones inside Latin words become
those; in the mode `block` the text is stopped. What a language or an emoji needs stays: joiners in
Arabic, Persian and Indic words, direction marks next to right-to-left text, zero-width spaces in
Thai and Khmer, selectors and joiners of emoji, the flags of England, Scotland and Wales.
"""

import re
from collections.abc import Iterator
from itertools import islice

from silas.gates.guards.normalise import LOOKALIKES, Subject
from silas.gates.guards.rules import (
    GuardFinding,
    GuardOptions,
    GuardRule,
    GuardVerdict,
    Mode,
    proven,
    verdict,
)

NAME = "unicode"


class UnicodeOptions(GuardOptions):
    """Text is mended unless told otherwise."""

    mode: Mode = Mode.FIX


_RIGHT_TO_LEFT = r"\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_JOINING = (
    r"\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\ua8ff\ufb50-\ufdff\ufe70-\ufefc"
)
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_SYMBOLS = r"\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_IDEOGRAPHS = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = r"\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_FLAG = re.compile(
    "(\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|"
    "\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)"
)

RULES = (
    GuardRule(
        name="control-character",
        why="It holds control characters, which a terminal obeys and nobody sees.",
        match=("\x1b[2Jgone", "a\x00b", "\x9b31m", "half \ud800"),
        not_match=("line\r\n\tnext", "naïve", "π ≈ 3.14"),
    ),
    GuardRule(
        name="bidi-override",
        why="It holds marks that change the order in which text is shown.",
        match=("invoice\u202efdp.exe", "\u2066if admin\u2069 { }"),
        not_match=("שלום", "مرحبا world"),
    ),
    GuardRule(
        name="tag-character",
        why="It holds tag characters, which can carry a hidden message.",
        match=("hi\U000e0068\U000e0069", "\U000e0001"),
        not_match=("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🏴"),
    ),
    GuardRule(
        name="zero-width",
        why="It holds characters without width, which split or hide words.",
        match=("ig\u200bnore", "pass\u2060word", "a\u200db", "x\u034fy", "\u3164name", "a\u200eb"),
        not_match=(
            "می\u200cخواهم",
            "क्\u200dष",
            "👩\u200d💻",
            "สวัสดี\u200bครับ",
            "\ufeffstart",
            "א\u200f!",
        ),
    ),
    GuardRule(
        name="stray-selector",
        why="It holds variation selectors where nothing varies; they can carry a hidden message.",
        match=("a\ufe01\ufe02\ufe03", "hi\U000e0101", "😀\U000e0121\U000e0122"),
        not_match=("❤\ufe0f", "1\ufe0f\u20e3", "葛\U000e0100", "☎\ufe0e", "❤\ufe0f\u200d🔥"),
    ),
    GuardRule(
        name="stacked-marks",
        why="Marks are stacked on letters so high that they cover other text.",
        match=("z" + "\u0300\u0323" * 8,),
        not_match=("Việt Nam", "e\u0302\u0323", "שָׁלוֹם"),
    ),
    GuardRule(
        name="lookalike",
        why="Letters of another script pass for Latin letters inside a word.",
        match=("pаypal", "Microsоft", "gοοgle account"),
        not_match=("привет", "αβγ", "Δt", "IT-отдел", "µm", "Ωmega-3", "naïve", "Xбокс"),
    ),
)
_RULE = {rule.name: rule for rule in RULES}


def _hidden_expression(*, right_to_left: bool) -> re.Pattern[str]:
    """One class of suspects, then the conditions under which each kind is out of place.

    The class comes first because the engine then skips to the first suspect quickly; the
    conditions look back over the suspect itself. In right-to-left text, direction marks are at
    home anywhere.
    """
    controls = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
    direction = "" if right_to_left else r"\u200e\u200f\u061c"
    joiners = r"\u200c\u200d"
    invisible = (
        r"\u034f\u115f\u1160\u17b4\u17b5\u180e\u2060-\u2065\u206a-\u206f\u3164\uffa0\ufff9-\ufffb"
    )
    selectors, more_selectors = r"\ufe00-\ufe0f", r"\U000e0100-\U000e01ef"
    bidi, tags = r"\u202a-\u202e\u2066-\u2069", r"\U000e0000-\U000e007f"
    suspects = (
        controls
        + direction
        + joiners
        + invisible
        + selectors
        + more_selectors
        + bidi
        + tags
        + r"\u200b\ufeff"
    )
    conditions = {
        "control-character": rf"(?<=[{controls}])",
        "bidi-override": rf"(?<=[{bidi}])",
        "tag-character": rf"(?<=[{tags}])",
        "zero-width": (
            rf"(?<=[{invisible}{direction}])"
            rf"|(?<=\u200b)(?<![{_UNSPACED}].)(?![{_UNSPACED}])"
            r"|(?<=\ufeff)(?<!\A.)"
            rf"|(?<=[{joiners}])(?<![{_JOINING}{_SYMBOLS}\ufe0f].)"
        ),
        "stray-selector": (
            rf"(?<=[{selectors}])(?<![{_SYMBOLS}{_IDEOGRAPHS}].)(?!\u20e3)"
            rf"|(?<=[{more_selectors}])(?<![{_IDEOGRAPHS}].)"
        ),
    }
    ways = "|".join(
        f"(?P<{name.replace('-', '_')}>{condition})" for name, condition in conditions.items()
    )
    # Marks have one condition only. Apart from the suspects they do not wait for all the others.
    return re.compile(f"[{suspects}](?:{ways})|[{_MARKS}](?P<stacked_marks>(?<=[{_MARKS}]{{6}}))")


_HIDDEN = _hidden_expression(right_to_left=False)
_HIDDEN_AMONG_RIGHT_TO_LEFT = _hidden_expression(right_to_left=True)
_IS_RIGHT_TO_LEFT = re.compile(f"[{_RIGHT_TO_LEFT}]")
# Runs of what is out of place anywhere go in one piece, which is quicker than one by one.
_RUN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]{2,}+|[\u202a-\u202e\u2066-\u2069]{2,}+"
    r"|(?<=\u200b)\u200b+(?=\u200b)"
)
_IN_ASCII = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_OTHER_SCRIPTS = {char: plain for char, plain in LOOKALIKES.items() if "\u0370" <= char <= "\u058f"}
_MIXED = re.compile(f"[{''.join(_OTHER_SCRIPTS)}](?:(?<=[A-Za-z].)|(?=[A-Za-z]))")
_TO_LATIN = str.maketrans(_OTHER_SCRIPTS)
_CAPITALS = str.maketrans(
    {char: plain.upper() if char.isupper() else plain for char, plain in _OTHER_SCRIPTS.items()}
)
_MOST_FINDINGS = 1000
_LONGEST_WORD = 40
_MOST_ROUNDS = 4


def check(subject: Subject, options: UnicodeOptions) -> GuardVerdict:
    """Take hidden characters out and undo lookalikes, or stop the text that holds some."""
    text = subject.text
    if text.isascii() and not _IN_ASCII.search(text):
        return verdict(NAME, [], mode=options.mode)
    findings = [*_hidden(text), *_lookalikes(text)]
    mends = findings and options.mode is Mode.FIX and not _has_too_many_lookalikes(text)
    return verdict(NAME, findings, mode=options.mode, fixed_text=_mended(text) if mends else None)


def _hidden(text: str) -> Iterator[GuardFinding]:
    """The first place of each kind of hidden character."""
    seen: set[str] = set()
    start = 0
    for number, piece in enumerate(_FLAG.split(text)):
        for place in islice(_expression(text).finditer(piece), 0 if number % 2 else _MOST_FINDINGS):
            name = (place.lastgroup or "").replace("_", "-")
            if name not in seen:
                seen.add(name)
                yield _finding(name, start + place.start(), start + place.end())
        start += len(piece)


def _lookalikes(text: str) -> Iterator[GuardFinding]:
    if first := next(_mixed_words(text), None):
        yield _finding("lookalike", *first)


def _has_too_many_lookalikes(text: str) -> bool:
    return any(True for _ in islice(_mixed_words(text), _MOST_FINDINGS, None))


def _mended(text: str) -> str | None:
    """The text without what was found, or None if it cannot be mended in a few rounds."""
    for _ in range(_MOST_ROUNDS):
        if any(_hidden(text)):
            text = _without_hidden(text)
        text = _in_one_script(text)
        if not any(_hidden(text)) and not any(_lookalikes(text)):
            return text
    return None


def _without_hidden(text: str) -> str:
    hidden = _expression(text)
    pieces = _FLAG.split(text)
    pieces[::2] = [hidden.sub("", _RUN.sub("", piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _in_one_script(text: str) -> str:
    parts, place = [], 0
    for start, end in islice(_mixed_words(text), _MOST_FINDINGS):
        parts += [text[place:start], text[start:end].translate(_CAPITALS)]
        place = end
    return "".join([*parts, text[place:]])


def _mixed_words(text: str) -> Iterator[tuple[int, int]]:
    """Words of Latin letters among which are letters of another script that look like them."""
    behind = 0
    for place in _MIXED.finditer(text):
        if place.start() < behind:
            continue
        start = _edge(text, place.start(), -1)
        behind = _edge(text, place.end() - 1, 1) + 1
        word = text[start:behind]
        latin = sum(char.isascii() for char in word)
        if len(word) > 3 and latin > 1 and word.translate(_TO_LATIN).isascii():
            yield start, behind


def _edge(text: str, place: int, step: int) -> int:
    """The last letter of the word in this direction."""
    for _ in range(_LONGEST_WORD):
        following = place + step
        if not 0 <= following < len(text) or not text[following].isalpha():
            break
        place = following
    return place


def _expression(text: str) -> re.Pattern[str]:
    return _HIDDEN_AMONG_RIGHT_TO_LEFT if _IS_RIGHT_TO_LEFT.search(text) else _HIDDEN


def _finding(name: str, start: int, end: int) -> GuardFinding:
    return GuardFinding(rule=name, start=start, end=end, why=_RULE[name].why)


proven(
    RULES, lambda rule, text: rule.name in {f.rule for f in (*_hidden(text), *_lookalikes(text))}
)
