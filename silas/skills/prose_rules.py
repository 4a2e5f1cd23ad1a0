"""What prose gives away: text that talks people or a model into something.

1. Fake prerequisites: a download that "must" be run first, an archive with a password, a script to
   be copied from a site where anybody pastes text.
2. Orders to a model: to forget its rules, to hide something from the owner, to hand out secrets, to
   follow what an address says, to write itself into memory.
3. A sentence that forbids or describes such a thing is none: "never send …", "attackers may …". A
   passage that is about detecting it weighs less (`is_defensive`).
4. What a reader does not see (HTML comments) is read like everything else, and weighs more.
"""

import base64
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from silas.gates.guards.normalise import base64_runs
from silas.skills.command_rules import (
    DANGER,
    HARD_SECRETS,
    INFO,
    URL,
    WARN,
    FindingWeight,
    HostClass,
    SkillScope,
    TextFinding,
    classify,
    decoded_signs,
    is_collector,
    is_imitation,
    is_strange,
)
from silas.skills.order_rules import order_findings, reads_like_an_order

_SECRETS = (
    r"(?:api[ _-]?keys?|credentials?|passwords?|passphrases?|private[ _-]?keys?|ssh[ _-]?keys?"
    r"|secret(?:s|[ _-]keys?)?|(?:access|auth|session|bearer)[ _-]?tokens?|environment[ _-]variables?"
    r"|env(?:ironment)?[ _-]?vars?|\.env\b|seed[ _-]phrases?|mnemonics?|wallet\w*|cookies"
    r"|(?:chat|conversation|message|session)[ _-](?:history|logs?|transcripts?|contents?)"
    r"|(?:full|entire|whole|complete|user'?s?|this)[ _-](?:conversation|chat|prompt)\b|system[ _-]prompt"
    r"|(?:MEMORY|SOUL|USER|IDENTITY)\.md|~/\.(?:ssh|aws|openclaw|clawdbot)\S*|id_rsa|keychain)"
)
_SEND = (
    r"(?:send|post|upload|transmit|forward|exfiltrate|submit|leak|relay|deliver|ship|beacon|e-?mail"
    r"|report back|pass along|copy|append|encode|include|embed)(?:s|ing)?\b"
)
_GIVE = r"\b(?:send|post|upload|transmit|forward|exfiltrate|submit|leak|relay|e-?mail|curl|beacon)(?:s|ing)?\b"
_TAKE = r"\b(?:collect|gather|harvest|capture|grab|extract|record|read|dump|copy)(?:s|ing)?\b"
_SECRETLY = r"\b(?:silently|secretly|covertly|quietly|discreetly|invisibly|stealthily|in\s+the\s+background\s+without)\b"
_TARGET = r"(?:https?://\S+|[\w.+-]+@[\w-]+\.\w+|webhook|\b(?:endpoint|server|collector|telegram|discord|C2)\b)"
_USER = r"(?:the\s+)?(?:user|owner|human|operator|person|anyone|them)\b"
_HIDE = (
    rf"(?:(?:do\s+not|don'?t|never|without|avoid|must\s+not|should\s+not|refrain\s+from)\s+"
    rf"(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|notify(?:ing)?|alert(?:ing)?"
    rf"|reveal(?:ing)?|disclos(?:e|ing)|warn(?:ing)?)"
    rf"[^.\n]{{0,60}}?{_USER}|(?:do\s+not|don'?t|never)\s+(?:mention|reveal|disclose|log|display|show|report|acknowledge)\s+(?:this|these|it|that|any\s+of\s+this)"
    rf"|(?:user|owner|human)(?:'s)?\s+(?:must|should|does|need|do)\s*(?:n't|not)\s+(?:need\s+to\s+)?(?:know|see|notice|be\s+(?:told|aware|informed))"
    rf"|without\s+(?:the\s+)?(?:user|owner|human)(?:'s|s')?\s+(?:knowledge|consent|awareness|noticing|permission|approval|confirmation)"
    rf"|hide\s+(?:this|it|the\s+\w+)\s+from)"
)


@dataclass(frozen=True)
class ProseRule:
    """One expression, and what it means where it is found."""

    name: str
    weight: FindingWeight
    message: str
    pattern: re.Pattern[str]


def _rule(name: str, weight: FindingWeight, message: str, expression: str) -> ProseRule:
    return ProseRule(name, weight, message, re.compile(expression, re.IGNORECASE))


PROSE_RULES: tuple[ProseRule, ...] = (
    _rule(
        "password_archive",
        DANGER,
        "wants an archive with a password unpacked: no scanner looks into it",
        r"(?:zip|rar|7z|archive|download|extract|unpack|unzip)[^\n]{0,250}(?:\n[^\n]{0,200}){0,2}?"
        r"(?:extract|unpack|unzip|archive|zip|open|use|using|with|is)[^\n]{0,60}\bpass(?:word|code|wd|phrase)?\b\s*(?:is|:|=|=>|-|`|\"|\*|\()+\s*[`\"'*]{0,3}[^\s`\"'*]{3,40}",
    ),
    _rule(
        "forget_rules",
        DANGER,
        "orders a model to forget its rules",
        r"\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|every\s+)?(?:of\s+)?(?:your\s+|these\s+|those\s+|my\s+)?(?:the\s+)?(?:user'?s?\s+|owner'?s?\s+)?"
        r"(?:previous|prior|above|earlier|preceding|existing|original|system|safety|security|built-in)(?:ly\s+given)?\s+(?:and\s+\w+\s+)?"
        r"(?:instructions?|prompts?|rules?|directives?|guidelines?|constraints?|guardrails?|polic(?:y|ies)|protocols?|restrictions?|measures|checks?|filters?|messages?)"
        r"|\byou\s+are\s+now\s+(?:in\s+)?(?:DAN\b|developer\s+mode|unrestricted|jailbroken|an?\s+unrestricted|god\s+mode|admin(?:istrator)?\s+mode)"
        r"|\b(?:SYSTEM|ADMIN|SECURITY)\s+(?:OVERRIDE|PROMPT\s+OVERRIDE|OVERRIDE\s+NOTICE)\b"
        r"|\b(?:previous|prior|safety|earlier|existing)\s+(?:\w+\s+)?(?:instructions?|rules?|guidelines?|restrictions?|polic(?:y|ies))\s+(?:are|is|have\s+been)\s+(?:void|suspended|disabled|lifted|overridden|null|revoked|cancell?ed|no\s+longer)"
        r"|<\|im_start\|>\s*system|\[SYSTEM\]\s*:?\s*(?:you|ignore|new|from)",
    ),
    _rule(
        "skip_approval",
        DANGER,
        "orders a model to act without the owner's yes",
        r"(?:^|[.!:;\n>*]\s*|\b(?:must|should|always|please|now|then|you|will|and)\s+)(?:skip|bypass|disable|turn\s+off|circumvent|suppress|auto-?(?:approve|accept|confirm))\s+(?:all\s+|any\s+|every\s+|the\s+)*"
        r"(?:user(?:'s)?\s+|owner(?:'s)?\s+|human\s+|security\s+|safety\s+|permission\s+|approval\s+|exec(?:ution)?\s+)+"
        r"(?:approvals?|confirmations?|consent|permissions?|prompts?|checks?|reviews?|dialogs?|requests?|warnings?|gates?|guardrails?|restrictions?|sandbox\w*)"
        r"|\b(?:approve|accept|confirm|grant)\s+(?:all|every|any)\s+(?:\w+\s+)?(?:prompts?|requests?|permissions?|tool\s+calls?|commands?)\s+(?:automatically|without)"
        r"|\b(?:execute|run)\s+(?:any|all|every)\s+(?:\w+\s+)?(?:commands?|scripts?|code)\b[^\n]{0,100}without\s+(?:asking|confirm\w*|approval|permission|hesitation)"
        r"|(?:exec|tools?)[._-]?approvals?\b[^\n]{0,40}\b(?:off|false|disabled?|none|never|full)\b"
        r"|\bthis\s+(?:skill|tool|action|command)\s+(?:is|has\s+been|was)\s+(?:already\s+)?(?:pre-?approved|pre-?authori[sz]ed|verified\s+safe)\b[^.\n]{0,120}(?:no\s+(?:need|confirmation|approval)|without|skip|do\s+not)",
    ),
    _rule(
        "exfiltration_order",
        DANGER,
        "orders a model to hand secrets to an address",
        rf"{_SEND}\s+(?:me\s+|us\s+)?(?:all\s+|any\s+|every\s+|the\s+|their\s+|your\s+|its\s+|a\s+copy\s+of\s+|(?:full\s+)?contents?\s+of\s+|found\s+|collected\s+|user'?s?\s+|owner'?s?\s+|base64\S*\s+|encoded\s+|last\s+\w+\s+)*"
        rf"(?:~/\.(?:ssh|aws|openclaw|clawdbot)\S*|\.env\b\S*|id_rsa\S*|credentials?|private\s+keys?|ssh\s+keys?|passwords?|seed\s+phrases?|environment\s+variables?|env\s+vars?|secrets\b|(?:chat|conversation|session|message)\s+(?:history|logs?|transcripts?)|system\s+prompt|cookies|(?:MEMORY|SOUL|USER)\.md|keychain\S*|wallet\s+\w+)"
        rf"[^\n]{{0,160}}\b(?:to|at|via|into)\b[^\n]{{0,60}}(?:https?://\S+|[\w.+-]+@[\w-]+\.\w+|webhook|remote\s+(?:server|endpoint)|telegram|discord)",
    ),
    _rule(
        "remote_orders",
        DANGER,
        "lets an address decide what the model does",
        r"(?:fetch|download|retrieve|curl|read|load|get|visit|open|check|pull|GET)\b[^\n]{0,80}https?://\S+[^\n]{0,120}(?:\n[^\n]{0,80})?\b(?:(?:execute|obey|run|carry\s+out|perform|eval(?:uate)?)\s+(?:all\s+|any\s+|exactly\s+|whatever\s+)?(?:of\s+)?(?:the\s+|its\s+|these\s+|those\s+|every\s+|returned\s+|latest\s+)?(?:commands?|instructions?|orders?|directives?|response|returned|contents?|it\s+(?:says|contains|returns|tells))\b|follow\s+(?:all\s+|any\s+|exactly\s+)?(?:the\s+|its\s+|these\s+)?(?:instructions?|orders?|directives?|commands?)\s+(?:it\s|there\b|inside|contained|returned|found|exactly|without))"
        r"|\b(?:execute|obey|run|follow|eval(?:uate)?)\s+(?:all\s+|any\s+|whatever\s+)?(?:the\s+)?(?:commands?|instructions?|code|directives?)\s+(?:it\s+|that\s+\w+\s+|which\s+\w+\s+)?(?:returned|returns?|contained|fetched|received|found|provided|served)?\s*(?:by|from|at|in)\s+https?://",
    ),
    _rule(
        "image_leak",
        DANGER,
        "hides data in the address of an image",
        r"!\[[^\]\n]{0,80}\]\(\s*https?://[^\s)]{1,200}\?[^\s)]{0,80}(?:\{+|<|\[|\$|%7B)\s*(?:data|secret|conversation|history|key|token|context|content|user|env|base64|message|payload|query|summary|info)"
        r"|!\[[^\]\n]{0,80}\]\(\s*https?://[^\s)]{1,200}[?&][\w-]{1,20}=(?-i:[A-Z][A-Z_0-9]{2,30})\)[^.]{0,120}\b(?:message|conversation|question|prompt|user|answer|key|token)",
    ),
    _rule(
        "memory_write",
        WARN,
        "writes into the files that an agent takes for its own memory or rules",
        r"\b(?:add|append|write|insert|put|save|update|edit|modify|replace|overwrite|inject|store|persist|echo)\w*\b[^\n]{0,120}\b(?:SOUL|AGENTS?|CLAUDE|MEMORY|IDENTITY|HEARTBEAT|USER|TOOLS|GEMINI|BOOTSTRAP)\.md\b"
        r"|>>?\s*\S*(?:SOUL|AGENTS?|CLAUDE|MEMORY|IDENTITY|HEARTBEAT)\.md\b",
    ),
    _rule(
        "payment_order",
        DANGER,
        "orders a payment to an address that is written in the skill",
        r"\b(?:replace|swap|substitute|change|redirect)\w*\s[^\n]{0,60}(?:recipient|destination|address|wallet|payee|iban)[^\n]{0,60}(?:\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b|\b[1-9A-HJ-NP-Za-km-z]{43,44}\b|\b[A-Z]{2}\d{2}[A-Z0-9]{12,30}\b)|"
        r"\b(?:send|transfer|pay|swap|deposit|route|forward|donate)\w*\s[^\n]{0,100}(?:\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b|\b[1-9A-HJ-NP-Za-km-z]{43,44}\b)[^\n]{0,160}(?:without|automatically|silently|before|first|do\s+not|never|fee|always)"
        r"|(?:without|automatically|silently|always|first|before\s+any)\b[^\n]{0,120}\b(?:send|transfer|pay|swap|deposit|route|forward)\w*\s[^\n]{0,80}(?:\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b)",
    ),
)
_GIVE_PATTERN, _TAKE_PATTERN, _SECRETS_PATTERN, _TARGET_PATTERN, _HIDE_PATTERN = (
    re.compile(each, re.IGNORECASE) for each in (_GIVE, _TAKE, _SECRETS, _TARGET, _HIDE)
)
_SECRETLY_PATTERN = re.compile(_SECRETLY, re.IGNORECASE)
_NEGATED = re.compile(
    r"(?:\b(?:never|not|cannot|can't|don't|doesn't|won't|must\s+not|should\s+not|avoid|refuse\w*|reject\w*|prevent\w*|block\w*|instead\s+of|rather\s+than|no)\b[^.\n]{0,60})\Z",
    re.IGNORECASE,
)
_DEFENSIVE = re.compile(
    r"\b(?:malicious|malware|attack(?:er|s)?|adversar\w+|exploit\w*|vulnerab\w+|CVE-|threats?|phishing"
    r"|prompt[ -]injection|injection|jailbreak\w*|detect\w*|red\s+flags?|suspicious|dangerous|unsafe|insecure"
    r"|scan(?:ner|s|ning)?|forensic\w*|incident|blocklist|denylist|blocked|forbidden|prohibited|bad\s+example"
    r"|anti-?pattern|warning\s+signs?|IOCs?|yara|pentest\w*|CTF|red\s+team\w*|rule\s+id|false\s+positives?"
    r"|untrusted|do\s+not|never|reject|refuse)\b",
    re.IGNORECASE,
)
_INSISTS = re.compile(
    r"\b(?:must|required?|mandatory|critical|important|necessary|essential|won'?t\s+work|will\s+not\s+(?:work|function|run)|does\s+not\s+work\s+without|cannot\s+(?:be\s+used|function|run)|before\s+(?:using|you|proceeding|continuing|anything|first)|prerequisites?|first|needed)\b",
    re.IGNORECASE,
)
_RUNS = re.compile(
    r"\b(?:run|execut\w+|launch|start|double-?click|install\w*|paste|copy|open|enter)\b",
    re.IGNORECASE,
)
_PASTE_INTO = re.compile(
    r"(?:\u7c98\u8d34|\u7ec8\u7aef|\u590d\u5236)|\b(?:paste|copy|enter|type)\b[^\n]{0,100}\b(?:terminal|command\s+prompt|powershell|console|shell)\b|\bin(?:to)?\s+(?:your\s+|a\s+|the\s+)?terminal\b",
    re.IGNORECASE,
)
_PROGRAM_FILE = re.compile(
    r"\.(?:exe|msi|dmg|pkg|scr|bat|cmd|ps1|vbs|zip|rar|7z|jar|apk|command|app|hta|lnk|iso|tar\.gz|tgz)(?:[?#)\s]|\Z)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--(.{0,4000}?)-->", re.DOTALL)
_IN_COMMENT = re.compile(
    rf"\b(?:(?:AI|assistant|agent|model|LLM|claude|codex|openclaw)s?\b[^\n]{{0,80}}\b(?:must|should|run|execute|send|ignore|read|always|do\s+not)"
    rf"|ignore\s+(?:all|the|previous)|curl\s|wget\s|{_HIDE}|(?:run|execute)\s+(?:the\s+following|this)|you\s+must)",
    re.IGNORECASE,
)
_NEAR_CHARACTERS = 350
_MOST_HITS = 20
_MOST_PLACES = 3_000


def prose_findings(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """What the rules say about a text that people or models read."""
    for rule in PROSE_RULES:
        for count, found in enumerate(rule.pattern.finditer(text)):
            if count >= _MOST_HITS:
                break
            if rule.weight is DANGER and _is_negated(text, found.start()):
                continue
            weight = rule.weight
            near = text[max(0, found.start() - 200) : found.end() + 300]
            if rule.name == "memory_write" and _HIDE_PATTERN.search(near):
                weight = DANGER
            yield TextFinding(
                start=found.start(), rule=rule.name, weight=weight, message=rule.message
            )
    yield from _behind_the_back(text, scope)
    yield from _prerequisites(text, scope)
    yield from _comments(text)
    yield from _orders_with_secrets(text, scope)
    yield from order_findings(text, scope)


def _behind_the_back(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """Secrets that are to be taken or handed out, close to words that hide it from the owner.

    Each kind of words is looked for by itself and their distances are compared: one expression for
    all of them would take very long on a text that was made for that.
    """
    acts = sorted(_places(_GIVE_PATTERN, text) + _places(_TAKE_PATTERN, text))
    if not acts:
        return
    gives = {start for start, _end in _places(_GIVE_PATTERN, text)}
    secrets = [each for each in _places(_SECRETS_PATTERN, text) if not _is_kept_out(text, each[0])]
    targets = _places(_TARGET_PATTERN, text)
    hides = _places(_HIDE_PATTERN, text)
    adverbs = _places(_SECRETLY_PATTERN, text)
    for start, end in acts:
        behind = _between(secrets, end, end + 160)
        if start in gives and behind is None:
            behind = _between(targets, end, end + 160)
            if behind is not None and not _is_sent_away(text, end, behind, scope):
                continue
        if behind is None or text.count("\n", end, behind[0]) > 1:
            continue
        hidden = _between(hides, start - 320, behind[1] + 260)
        # "Do not tell the user: send …" forbids telling, and not sending.
        forbids = _is_negated(text, start) and _between(hides, start - 80, start) is None
        if forbids:
            continue
        secretly = _between(adverbs, start - 40, start) or _between(adverbs, end, behind[1] + 60)
        if hidden or secretly:
            first = min(start, hidden[0] if hidden else start)
            yield TextFinding(
                start=first,
                rule="hidden_exfiltration",
                weight=DANGER,
                message="orders a model to do something with secrets behind the owner's back",
            )
            return


_KEPT_OUT = re.compile(
    r"\b(?:keep|leave|strip|remove|redact|mask|exclude|omit|without|no|never|not)\b[^.]{0,30}\Z",
    re.IGNORECASE,
)


def _is_kept_out(text: str, start: int) -> bool:
    return _KEPT_OUT.search(text[max(0, start - 50) : start]) is not None


def _is_sent_away(text: str, start: int, target: tuple[int, int], scope: SkillScope) -> bool:
    """Whether what is sent goes to this place, and nobody knows who is behind it."""
    if not re.search(r"\b(?:to|at|via|into)\b", text[start : target[0]]):
        return False
    address = text[target[0] : target[1]]
    return not address.startswith("http") or is_strange(address, scope)


def _places(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    return [found.span() for found in islice(pattern.finditer(text), _MOST_PLACES)]


def _between(places: list[tuple[int, int]], low: int, high: int) -> tuple[int, int] | None:
    """The first place that begins in this stretch."""
    at = bisect_left(places, (low, 0))
    return places[at] if at < len(places) and places[at][0] <= high else None


def _is_negated(text: str, start: int) -> bool:
    return _NEGATED.search(text[max(0, start - 80) : start]) is not None


_PRESSES = re.compile(
    r"\b(?:will\s+not|won'?t|cannot|does\s+not|do\s+not|nothing\s+will)\s+(?:\w+\s+){0,2}?(?:work|start|function|run|respond|load)\b|\bmust\s+be\s+(?:installed|running|executed|present|run|completed)"
    r"|\b(?:IMPORTANT|CRITICAL|MANDATORY|REQUIRED)\b|\bhas\s+to\s+be\s+(?:present|installed|run)|\b[Bb]efore\s+(?:first\s+use|using\s+this|the\s+first|proceeding|anything)"
    r"|\bon\s+behalf\s+of\s+the\s+user|\bagents?\s+(?:should|must|will)\b|>\s*/dev/null\s+2>&1|\bnohup\b"
)


def is_pressed(text: str, start: int, scope: SkillScope) -> bool:
    """Whether a command that runs a download is urged upon people, or fetches from nobody's address.

    An installer of a project that nobody here knows, merely shown, is what honest skills have too.
    """
    line = text[start : start + 500].partition("\n")[0]
    urls = URL.findall(line)
    plain = not urls or any(
        url.lower().startswith("http://") or classify(url, scope) is HostClass.HIDDEN
        for url in urls
    )
    imitated = any(is_imitation(url) for url in urls)
    return plain or imitated or is_urged(text, start) or "secrets." in line or "TOKEN" in line


def is_urged(text: str, start: int) -> bool:
    """Whether the words around a command press people to run it."""
    near = text[max(0, start - _NEAR_CHARACTERS) : start + _NEAR_CHARACTERS]
    return _PRESSES.search(near) is not None


def is_defensive(text: str, start: int) -> bool:
    """Whether a passage is about recognising or forbidding such a thing (rule 3)."""
    near = text[max(0, start - 300) : start + 160]
    return len({found.lower() for found in _DEFENSIVE.findall(near)}) >= 2


def _prerequisites(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """Links to programs and to pasted scripts that somebody is told to run (rule 1)."""
    for found in URL.finditer(text):
        near = text[max(0, found.start() - _NEAR_CHARACTERS) : found.end() + _NEAR_CHARACTERS]
        host = classify(found[0], scope)
        if host in (HostClass.KNOWN, HostClass.RELATED) or not _RUNS.search(near):
            continue
        pasted = _PASTE_INTO.search(near) is not None
        program = _PROGRAM_FILE.search(found[0]) is not None
        insists = _INSISTS.search(near) is not None
        if host is HostClass.HIDDEN and (
            pasted or (insists and (program or is_collector(found[0])))
        ):
            weight = DANGER
        elif program and insists and re.search(r"\b(?:download|get|grab)", near, re.IGNORECASE):
            # Two systems, one stranger's archive each: nobody builds from source, and all must run.
            both = re.search(r"\bwindows\b", near, re.IGNORECASE) and re.search(
                r"\bmac\s?os\b", near, re.IGNORECASE
            )
            weight = (
                DANGER if both or re.search(r"\.(?:exe|scr|bat|vbs|hta|lnk)\b", found[0]) else WARN
            )
        else:
            continue
        yield TextFinding(
            start=found.start(),
            rule="fake_prerequisite",
            weight=weight,
            message="tells people to run a program of a stranger first",
        )


def _comments(text: str) -> Iterator[TextFinding]:
    for found in _COMMENT.finditer(text):
        if _IN_COMMENT.search(found[1]):
            yield TextFinding(
                start=found.start(),
                rule="hidden_order",
                weight=DANGER,
                message="gives orders in a comment that no reader of the page sees",
            )


_READS = re.compile(
    r"\b(?:read|cat|open|collect|gather|copy|include|load|extract|grab|locate|find|search\s+for|dump|check)\w*\b[^\n]{0,80}\Z",
    re.IGNORECASE,
)
_SENDS = re.compile(_SEND + r"[^\n]{0,200}" + _TARGET, re.IGNORECASE)


def _orders_with_secrets(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """Files with keys that a text tells somebody to read; worse if an address is near."""
    for count, found in enumerate(HARD_SECRETS.finditer(text)):
        if count >= _MOST_HITS:
            break
        start = found.start()
        before = text[max(0, start - 120) : start].rpartition("\n")[2]
        if not _READS.search(before) or _is_negated(text, start):
            continue
        near = text[max(0, start - 400) : found.end() + 400]
        hidden = any(classify(url, scope) > HostClass.RELATED for url in URL.findall(near))
        sends = _SENDS.search(near) is not None and hidden
        yield TextFinding(
            start=start,
            rule="reads_keys",
            weight=DANGER if sends else INFO,
            message="speaks of reading files with keys" + (" and of sending them" if sends else ""),
        )


# What a reader does not see (rule 4)

_FLAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,6}\U000e007f")
_TAGS = re.compile("[\U000e0001-\U000e007f]{3,}")
_OVERRIDES = re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2069]")
_ZERO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\u2061-\u2064\ufeff\u180e]{6,}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_FEW = re.compile("[\u200b\u2060\u2061-\u2064\u00ad]")


def hidden_characters(text: str, *, is_prose: bool) -> Iterator[TextFinding]:
    """Letters that carry a text which nobody sees, or that change how one is read."""
    if text.isascii():
        return
    text = _FLAGS.sub(lambda found: " " * len(found[0]), text)
    for pattern, weight, message in (
        (_TAGS, DANGER, "holds a text in characters that nobody sees"),
        (_ZERO_WIDTH, DANGER, "holds a run of characters without width, which can carry a text"),
        (_SELECTORS, DANGER, "holds a run of invisible selectors, which can carry a text"),
        (_OVERRIDES, DANGER if not is_prose else WARN, "changes the order of letters"),
        (_FEW, INFO, "holds a character without width"),
    ):
        found = pattern.search(text, 1)
        if found:
            yield TextFinding(
                start=found.start(), rule="hidden_characters", weight=weight, message=message
            )


_SHORT_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/]{20,31}={0,2}(?![A-Za-z0-9+/_-])")
_HEX = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}){12,}|(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2}){24,2000}(?![0-9a-fA-F])"
)


def hidden_commands(text: str) -> Iterator[TextFinding]:
    """Encoded texts that are commands, or orders to a model."""
    for found in (*base64_runs(text), *_SHORT_BASE64.finditer(text[:200_000])):
        plain = _from_base64(found[0])
        if decoded_signs(plain) or reads_like_an_order(plain):
            yield _hidden_command(found.start())
    for found in _HEX.finditer(text[:400_000]):
        digits = found[0].replace("\\x", "")
        if decoded_signs(bytes.fromhex(digits).decode("latin-1")):
            yield _hidden_command(found.start())


def _hidden_command(start: int) -> TextFinding:
    return TextFinding(
        start=start, rule="encoded_command", weight=DANGER, message="holds an encoded command"
    )


def _from_base64(letters: str) -> str:
    plain = letters.rstrip("=")[:8000]
    raw = (
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=False)
        if len(plain) % 4 != 1
        else b""
    )
    for encoding in ("ascii", "utf-16-le"):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if text.isprintable() or "\n" in text:
            return text
    return ""
