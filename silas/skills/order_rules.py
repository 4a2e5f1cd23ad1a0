"""Orders to a model, read passage by passage: what is asked, of whom, with what, and who may know.

1. A text is cut into passages: paragraphs, lists, blocks of code, comments that no reader sees. Each
   knows the heading that it stands under and the line that introduces it.
2. Each passage gives signs: something private, an act of sending, an address that takes it, words
   that keep it from the owner, words that speak to the model or claim somebody's authority, words
   that switch approval off, a file that an agent takes for its own rules, orders from an address.
3. No sign means anything alone; combinations do (`_COMBINATIONS`). Signs of the passages beside one
   count for what modifies an act (who may know of it), and never for the act itself.
4. What is forbidden ("never send …") is no act. A passage about recognising such things is a mention
   and not an order (`is_mention`); one under a heading about installing is never a mention.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from silas.skills.command_rules import (
    DANGER,
    HARD_SECRETS,
    URL,
    FindingWeight,
    HostClass,
    SkillScope,
    TextFinding,
    classify,
    is_strange,
)
from silas.skills.order_signs import (
    ACTS,
    AGENT_SETTINGS,
    ASKING,
    BLIND_COPY,
    CLAIMS_AUTHORITY,
    CODE,
    CONCEALS,
    CROWN_JEWELS,
    DECODES,
    DISMISSES,
    EXPOSES,
    FETCHING,
    HANDED_OVER,
    HUSHED,
    JEWELS_ASKED_FOR,
    LOOSENS,
    MAIL,
    MODEL_ADDRESS,
    NEGATED,
    NOT_ASKED,
    OBEYING,
    PAGE_NAME,
    PAGES,
    PAYEE,
    PLACE,
    PRIVATE,
    PROMOTES,
    RECURS,
    REPLACES,
    SECRETLY,
    SOURCE_OF,
    SPEAKS_TO_MODEL,
    SWITCHES_OFF,
    TOWARDS,
    TRACES,
    TRANSFERS,
    WEAKENS,
    WRITES_RULES,
    words_of,
)

_MAX_PASSAGES = 4_000
_MAX_PASSAGE_CHARACTERS = 1_600


# Passages (rule 1)

_FENCE = re.compile(
    r"(?m)^[ \t]{0,6}(`{3,}|~{3,})[^\n]*\n(?P<inner>.*?)(?:^[ \t]{0,6}\1[`~]*[ \t]*$|\Z)", re.DOTALL
)
_COMMENT = re.compile(
    r"<!--(?P<inner>.*?)(?:-->|\Z)|^\[(?://|comment|_)[^\]\n]{0,20}\]:\s*#?\s*[(\"'](?P<other>[^\n]*?)[)\"']\s*$",
    re.DOTALL | re.MULTILINE,
)
_UNSEEN = re.compile(
    r"<(\w+)[^>\n]{0,200}(?:display:\s*none|font-size:\s*0|visibility:\s*hidden|color:\s*(?:white|#fff\w*|transparent)|opacity:\s*0|\bhidden\b)[^>\n]{0,200}>(?P<inner>.*?)</\1>",
    re.IGNORECASE | re.DOTALL,
)
_HEADING = re.compile(r"(?m)^#{1,6}[ \t]+([^\n]{1,200})$")


_WRAPPED = re.compile(r"\n(?![ \t]*(?:[-*+|>#]|\d{1,2}[.)])[ \t|])")


# "Sende nichts ab": other languages forbid after the verb.
_NOT_AT_ALL = re.compile(r"\s+(?:nichts|nicht|nie|kein\w*|rien|nada|nulla|ничего)\b")


@dataclass(frozen=True)
class SkillPassage:
    """A stretch of a text that says one thing, with what stands over it."""

    start: int
    text: str
    heading: str = ""
    intro: str = ""
    unseen: bool = False
    code: bool = False

    def has(self, sign: re.Pattern[str]) -> bool:
        return any(not self.is_forbidden(found.start()) for found in sign.finditer(self.text))

    def is_forbidden(self, at: int) -> bool:
        return NEGATED.search(self.text[max(0, at - 70) : at]) is not None

    @cached_property
    def acts(self) -> list[re.Match[str]]:
        return [
            each
            for each in ACTS.finditer(self.text)
            if not self.is_forbidden(each.start())
            and not self._names_a_page(each)
            and not _NOT_AT_ALL.match(self.text[each.end() : each.end() + 16])
        ]

    def _names_a_page(self, act: re.Match[str]) -> bool:
        """Whether it only begins the name of a page ("[streaming](…)") in a list of pages.

        A name that says what is handed over is an order all the same.
        """
        name = PAGE_NAME.match(self.text, act.start() - 1) if act.start() else None
        is_noun = act[0].lower().endswith("ing")
        return bool(name and is_noun and self._lists_pages and not HANDED_OVER.search(name[1]))

    @cached_property
    def _lists_pages(self) -> bool:
        return all(PAGES.match(each) for each in self.text.strip().split("\n"))


def passages(text: str) -> list[SkillPassage]:
    """The passages of a text in their order; what no reader sees comes as passages of its own."""
    found: list[SkillPassage] = []
    position, heading, intro = 0, "", ""
    for block in [*_blocks(text), _Block(len(text), len(text), len(text), "", "end")]:
        for each in _paragraphs(text[position : block.start], position):
            title = _HEADING.match(each.text)
            heading = title[1] if title else heading
            flowing = _WRAPPED.sub(" ", each.text)
            found.append(replace(each, text=flowing, heading=heading, intro=intro))
            last = each.text.rstrip().rpartition("\n")[2]
            intro = last if title or last.endswith(":") else ""
        unseen = block.kind == "unseen"
        parts = (_paragraphs if unseen else _chopped)(block.text, block.inner)
        over = SkillPassage(0, "", heading, intro, unseen=unseen, code=not unseen)
        found.extend(replace(over, start=each.start, text=each.text) for each in parts)
        position = max(position, block.end)
    return found[:_MAX_PASSAGES]


@dataclass(frozen=True)
class _Block:
    """A comment or a block of code: where it stands, and where its text does."""

    start: int
    end: int
    inner: int
    text: str
    kind: str


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    end = 0
    found = sorted(
        (each.start(), kind, each)
        for kind, pattern in (("code", _FENCE), ("unseen", _COMMENT), ("unseen", _UNSEEN))
        for each in islice(pattern.finditer(text), _MAX_PASSAGES)
    )
    for start, kind, each in found:
        inner = each["inner"] or each.groupdict().get("other") or ""
        if start >= end and inner.strip():
            end = each.end()
            blocks.append(_Block(start, end, text.index(inner, start), inner, kind))
    return blocks


def _paragraphs(text: str, offset: int) -> Iterator[SkillPassage]:
    at = 0
    for part in re.split(r"(\n[ \t]*\n|\n(?=#{1,6}[ \t]))", text):
        if part.strip():
            yield from _chopped(part, offset + at)
        at += len(part)


def _chopped(text: str, offset: int) -> Iterator[SkillPassage]:
    at = 0
    while at < len(text):
        end = min(len(text), at + _MAX_PASSAGE_CHARACTERS)
        if end < len(text):
            end = max(text.rfind("\n", at, end), text.rfind(". ", at, end), at + 200) + 1
        yield SkillPassage(offset + at, text[at:end])
        at = end


# Combinations (rule 3)


_INLINE_COMMAND = re.compile(
    r"(?<!`)`([^`]{0,300}?\|\s*(?:curl|wget|nc|ncat|socat)\s[^`]{1,300})`(?!`)"
)
# The target of a link in prose is something to read, unless the sentence leads to it.
_REFERENCE = re.compile(r"(?<!to )(?<!at )(?<!via )(?<!into )\[[^\]\n]{1,100}\]\(\s*<?\Z")


def code_blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Where each fenced block of code begins, what language it says it is in, and what it holds."""
    for block in _blocks(text):
        if block.kind == "code":
            said = text[block.start : block.inner].strip().strip("`~").split()
            yield block.inner, said[0].lower() if said else "", block.text
    for found in _INLINE_COMMAND.finditer(text):
        yield found.start(1), "sh", found[1].replace("\n", " ")


@dataclass(frozen=True)
class _View:
    """A passage with its neighbours, and what the skill is about."""

    here: SkillPassage
    beside: tuple[SkillPassage, ...]
    scope: SkillScope

    def near(self, sign: re.Pattern[str]) -> bool:
        return self.here.has(sign) or any(each.has(sign) for each in self.beside)

    @cached_property
    def conceals(self) -> bool:
        """Whether the owner is not to know; forbidding words belong to the sign itself."""
        around = (self.here, *self.beside)
        return any(CONCEALS.search(each.text) or HUSHED.search(each.text) for each in around)

    @cached_property
    def sink(self) -> HostClass | None:
        """The least known address that something in this passage is sent to; None for none."""
        sinks = [self._class_of(each) for each in self.here.acts]
        known = [each for each in sinks if each is not None]
        return max(known) if known else None

    def _class_of(self, act: re.Match[str]) -> HostClass | None:
        text = self.here.text
        stretch = text[act.start() : act.end() + 320]
        best: HostClass | None = None
        for found in URL.finditer(stretch):
            before = stretch[: found.start()][-60:]
            if _REFERENCE.search(stretch[: found.start()][-120:]):
                continue
            if SOURCE_OF.search(before) or not TOWARDS.search(before):
                continue
            host = classify(found[0], self.scope)
            shared = host is HostClass.UNKNOWN and not is_strange(found[0], self.scope)
            best = max(best or HostClass.KNOWN, HostClass.KNOWN if shared else host)
        if MAIL.search(stretch) or PLACE.search(stretch):
            best = max(best or HostClass.KNOWN, HostClass.UNKNOWN)
        return best

    def sends(self, sign: re.Pattern[str], *, before: int = 320) -> bool:
        """Whether the sign stands before an act that has a sink, or between act and sink."""
        text = self.here.text
        for act in self.here.acts:
            where = self._class_of(act)
            if where is None or where is HostClass.KNOWN:
                continue
            end = act.end() + 60
            for found in URL.finditer(text, act.end(), act.end() + 320):
                end = found.start()
                break
            for found in sign.finditer(
                text, max(0, act.start() - before), max(end, act.end() + 60)
            ):
                if not self.here.is_forbidden(found.start()):
                    return True
        return False

    @property
    def sends_away(self) -> bool:
        return self.sink is not None and self.sink > HostClass.KNOWN

    @property
    def remote_orders(self) -> bool:
        urls = [classify(each, self.scope) for each in URL.findall(self.here.text)]
        strange = any(each > HostClass.KNOWN for each in urls)
        return strange and self.here.has(FETCHING) and self.here.has(OBEYING)


def _exfiltrates(view: _View) -> bool:
    # Lines of code have rules of their own; neighbours in a block have nothing to do with each other.
    return view.sends_away and not view.here.code and view.sends(PRIVATE)


def _exfiltrates_in_secret(view: _View) -> bool:
    if not view.sends_away or view.here.code:
        return False
    stranger = view.sink is not None and view.sink >= HostClass.UNKNOWN
    return (view.conceals or view.sends(SECRETLY, before=60)) and (stranger or view.sends(PRIVATE))


def _handles_private_things_in_secret(view: _View) -> bool:
    """No address is named, and still: something private, sent on, and the owner is not to know."""
    here = view.here
    return bool(here.acts) and here.has(PRIVATE) and CONCEALS.search(here.text) is not None


def _carries_away_unseen(view: _View) -> bool:
    """Commands that are shown to a model, with words beside them that keep them from the owner."""
    if not view.here.code or not TRANSFERS.search(view.here.text):
        return False
    strange = any(is_strange(each, view.scope) for each in URL.findall(view.here.text))
    return strange and any(CONCEALS.search(each.text) for each in view.beside)


def _shows_keys_around(view: _View) -> bool:
    keys = HARD_SECRETS.search(view.here.text)
    if view.here.code or keys is None or view.here.is_forbidden(keys.start()):
        return False
    return view.here.has(FETCHING) and view.here.has(EXPOSES)


def _hides_traces(view: _View) -> bool:
    return (
        not view.here.code
        and view.here.has(TRACES)
        and _OF_ITS_OWN.search(view.here.text) is not None
    )


_OF_ITS_OWN = re.compile(
    r"\bthis\s+(?:skill|step|run|upload|action)|\bso\s+that\b|\bso\s+the\b|\bafter\s+every\s+run\b|\byour\s+(?:tracks|actions)|\bno\s+one\b|\bnobody\b",
    re.IGNORECASE,
)


def _sends_for_the_model_alone(view: _View) -> bool:
    stranger = view.sink is not None and view.sink >= HostClass.UNKNOWN
    return stranger and view.here.has(SPEAKS_TO_MODEL) and not view.here.code


def _redirects_payments(view: _View) -> bool:
    here = view.here
    paid = re.search(PAYEE.pattern, here.text) is not None
    unasked = NOT_ASKED.search(here.text) is not None or view.conceals
    return paid and here.has(REPLACES) and unasked


def _plants_a_back_door(view: _View) -> bool:
    """Code that is to be written weaker than it looks, and the owner is not to know."""
    return not view.here.code and view.here.has(WEAKENS) and view.near(CODE) and view.conceals


def _blind_copies(view: _View) -> bool:
    if view.here.code or not view.here.has(BLIND_COPY):
        return False
    return MAIL.search(view.here.text) is not None


def _misleads_the_owner(view: _View) -> bool:
    return not view.here.code and view.here.has(PROMOTES) and view.conceals


def _follows_what_is_encoded(view: _View) -> bool:
    return not view.here.code and view.here.has(DECODES)


def _asks_for_the_jewels(view: _View) -> bool:
    if view.here.has(JEWELS_ASKED_FOR):
        return True
    asked = view.here.has(CROWN_JEWELS) and view.here.has(ASKING)
    around = (view.here, *view.beside)
    urls = [url for each in around for url in URL.findall(each.text)]
    strange = any(classify(url, view.scope) > HostClass.KNOWN for url in urls)
    return asked and strange and any(each.acts for each in around)


def _orders_unseen(view: _View) -> bool:
    if not view.here.unseen:
        return False
    does = view.here.has(SWITCHES_OFF) or view.here.has(WRITES_RULES) or view.here.has(OBEYING)
    does = (
        does or view.sends_away or view.remote_orders or CONCEALS.search(view.here.text) is not None
    )
    does = does or (view.here.has(SPEAKS_TO_MODEL) and view.here.has(CLAIMS_AUTHORITY))
    does = (
        does or re.search(r"\b(?:curl|wget|bash|powershell|npx)\s+\S", view.here.text) is not None
    )
    return does and (
        view.here.has(SPEAKS_TO_MODEL)
        or view.here.has(CLAIMS_AUTHORITY)
        or re.search(
            r"\byou\s+(?:must|should|will|need)|\balways\b|\bbefore\s+(?:anything|you)|\bfor\s+every\b|^\s*(?:run|execute|ignore|send|read|create)\b",
            view.here.text,
            re.IGNORECASE | re.MULTILINE,
        )
        is not None
    )


def _skips_the_owner(view: _View) -> bool:
    if not view.here.has(SWITCHES_OFF):
        return False
    return (
        view.conceals
        or view.here.has(SPEAKS_TO_MODEL)
        or view.here.has(CLAIMS_AUTHORITY)
        or view.here.has(SECRETLY)
    )


def _writes_itself_into_rules(view: _View) -> bool:
    if not view.near(WRITES_RULES) or not (view.here.has(WRITES_RULES) or view.here.code):
        return False
    return (
        view.near(SWITCHES_OFF)
        or view.conceals
        or view.remote_orders
        or any(_View(each, (), view.scope).remote_orders for each in view.beside)
        or view.sends_away
    )


def _turns_the_agent_over(view: _View) -> bool:
    """The agent's own settings: its model is a stranger's, or its questions are switched off."""
    if not view.near(AGENT_SETTINGS):
        return False
    # A host that is merely named twice is nobody's yet: what the skill is about decides.
    named = replace(view.scope, hosts=frozenset())
    hosts = [classify(each, named) for each in MODEL_ADDRESS.findall(view.here.text)]
    redirected = any(each >= HostClass.UNKNOWN for each in hosts)
    dismissed = view.near(DISMISSES) or view.conceals
    return redirected or (LOOSENS.search(view.here.text) is not None and dismissed)


def _takes_strangers_orders(view: _View) -> bool:
    if not view.here.has(OBEYING):
        return False
    bold = view.here.has(CLAIMS_AUTHORITY) or view.here.has(SPEAKS_TO_MODEL)
    bold = bold or view.here.has(SWITCHES_OFF) or view.conceals
    return (bold and view.here.has(_TREATING)) or (
        (bold or view.near(RECURS)) and view.remote_orders
    )


_TREATING = words_of(r"\b(?:treat|regard|consider|interpret)\b[^.\n]{0,120}\bas\b")

_COMBINATIONS: tuple[tuple[str, str, Callable[[_View], bool]], ...] = (
    ("exfiltration_order", "orders a model to hand something private to an address", _exfiltrates),
    (
        "hidden_exfiltration",
        "orders a model to send something away behind the owner's back",
        _exfiltrates_in_secret,
    ),
    (
        "hidden_exfiltration",
        "orders a model to pass something private on behind the owner's back",
        _handles_private_things_in_secret,
    ),
    (
        "hidden_exfiltration",
        "has commands run that carry something to a stranger behind the owner's back",
        _carries_away_unseen,
    ),
    (
        "exfiltration_order",
        "orders a model to write keys where others read them",
        _shows_keys_around,
    ),
    ("hides_traces", "orders a model to remove what would tell of it", _hides_traces),
    (
        "exfiltration_order",
        "orders a model, past the reader, to send something to a stranger",
        _sends_for_the_model_alone,
    ),
    (
        "payment_order",
        "has payments go to an account that is written in the skill",
        _redirects_payments,
    ),
    (
        "misleads_owner",
        "orders a model to advise the owner for a stranger's profit, unseen",
        _misleads_the_owner,
    ),
    (
        "encoded_order",
        "orders a model to follow a text that is not to be read",
        _follows_what_is_encoded,
    ),
    ("back_door", "orders a model to write a weakness into code, unseen", _plants_a_back_door),
    (
        "blind_copy",
        "sends copies of mail to an address that is written in the skill",
        _blind_copies,
    ),
    (
        "asks_for_keys",
        "asks for the words or keys that open a wallet, and sends them",
        _asks_for_the_jewels,
    ),
    ("hidden_order", "gives orders in a place that no reader of the page sees", _orders_unseen),
    ("skip_approval", "orders a model to act without the owner's yes", _skips_the_owner),
    (
        "memory_write",
        "writes orders into the files that an agent takes for its own rules",
        _writes_itself_into_rules,
    ),
    ("takes_over_agent", "changes the agent's own settings for a stranger", _turns_the_agent_over),
    ("remote_orders", "lets strangers decide what the model does", _takes_strangers_orders),
)


def order_findings(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """What the passages of a text order a model to do, each combination once for a passage."""
    parts = passages(text)
    for number, here in enumerate(parts):
        beside = _beside(parts, number)
        view = _View(here, beside, scope)
        for rule, message, applies in _COMBINATIONS:
            if applies(view) and not is_mention(here):
                yield _finding(here.start, rule, DANGER, message)


def reads_like_an_order(text: str) -> bool:
    """Whether a text that was encoded speaks to a model; nobody encodes what anybody may read."""
    if len(text) < 24 or text.count(" ") < 3:
        return False
    here = SkillPassage(0, text)
    signs = (SPEAKS_TO_MODEL, SWITCHES_OFF, WRITES_RULES, OBEYING, DECODES)
    private = bool(here.acts) and here.has(PRIVATE)
    return private or CONCEALS.search(text) is not None or any(here.has(each) for each in signs)


def _beside(parts: list[SkillPassage], number: int) -> tuple[SkillPassage, ...]:
    """The passages beside one; what stands behind a quotation or a block of code is beside it."""
    end = number + 2
    while end - number < 4 and end <= len(parts) and _is_quoted(parts[end - 1]):
        end += 1
    around = (*parts[max(0, number - 1) : number], *parts[number + 1 : end])
    return tuple(each for each in around if not each.unseen)


def _is_quoted(passage: SkillPassage) -> bool:
    return passage.code or passage.text.lstrip().startswith(">")


def _finding(start: int, rule: str, weight: FindingWeight, message: str) -> TextFinding:
    return TextFinding(start=start, rule=rule, weight=weight, message=message)


# Mentions (rule 4)

_ABOUT_ATTACKS = words_of(
    r"\b(?:malicious|malware|attack(?:er|ers|s)?|adversar\w+|exploit\w*|vulnerab\w+|threats?|phishing|prompt[ -]injection"
    r"|jailbreak\w*|detect(?:s|ion|ing|ed)?|red\s+flags?|suspicious|IOCs?|yara|sigma|pentest\w*|CTF|red[ -]team\w*|payloads?"
    r"|anti-?patterns?|warning\s+signs?|signs?\s+of|look\s+for|watch\s+(?:out\s+)?for|flag(?:ged)?|reject|refuse|forbidden"
    r"|prohibited|blocked|false\s+positives?|test\s+cases?|scam\w*|social\s+engineering|audit\w*|scann\w+|untrusted|unsafe|insecure)\b"
)
_ABOUT_INSTALLING = words_of(
    r"\b(?:install\w*|set-?\s?up|prerequisit\w*|requirements?|getting\s+started|quick\s?start|usage|dependenc\w+|first\s+(?:run|use)|before\s+you)\b"
)


_ORDERED = words_of(
    r"\balways\b[^\n]{0,60}\blike\s+this\b|\b(?:run|execute)\s+(?:these|this|the\s+following)\b|\bno\s+need\s+to\s+ask\b|\bwithout\s+asking\b"
)


def is_mention(passage: SkillPassage, *, security: bool = False) -> bool:
    """Whether a passage speaks about attacks instead of ordering one (rule 4).

    `security`: the whole skill is about security, so that its examples need no word of their own.
    """
    if passage.unseen or _ABOUT_INSTALLING.search(passage.heading):
        return False
    over = f"{passage.heading}\n{passage.intro}"
    if _ORDERED.search(passage.intro):
        return False
    said = {found[0].lower() for found in _ABOUT_ATTACKS.finditer(passage.text)}
    return security or _ABOUT_ATTACKS.search(over) is not None or len(said) >= 2


_SECURITY_WORK = words_of(
    r"\b(?:penetration|pentest\w*|red[ -]team\w*|CTF|capture[- ]the[- ]flag|exploit\w*|malware|detection|forensic\w*|incident|vulnerabilit\w+|threats?|vett?ing|vets?|offensive|security\s+(?:review|audit|scan|test|research|check)\w*|(?:audit|review|scan)\w*\s+[^.]{0,40}(?:skills?|security|packages))\b"
)


def mentions_in(text: str, *, about: str = "") -> Callable[[int], bool]:
    """Tells for each place of a text whether it stands in a passage that is a mention."""
    parts = sorted(passages(text), key=lambda each: each.start)
    starts = [each.start for each in parts]
    security = _SECURITY_WORK.search(about) is not None

    def tell(at: int) -> bool:
        here = parts[max(0, bisect_right(starts, at) - 1)] if parts else None
        return here is not None and is_mention(here, security=security)

    return tell
