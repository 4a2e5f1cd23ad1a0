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
    URL,
    FindingWeight,
    HostClass,
    SkillScope,
    TextFinding,
    classify,
    is_strange,
)

_MAX_PASSAGES = 4_000
_MAX_PASSAGE_CHARACTERS = 1_600


def _words(*expressions: str) -> re.Pattern[str]:
    return re.compile("|".join(expressions), re.IGNORECASE)


# Signs (rule 2)

_THE = r"(?:the\s+|all\s+|any\s+|every\s+|your\s+|their\s+|its\s+|a\s+|this\s+|these\s+)*"
PRIVATE = _words(
    r"(?<![\w./])\.env\b(?!\.(?:example|sample|template))(?:\.\w+)?",
    r"\b(?:environment\s+variables|env\s+vars?|printenv|process\.env|os\.environ)\b",
    r"~/\.(?:ssh|aws|kube|gnupg|netrc|npmrc|docker|config/gh|openclaw|clawdbot|claude|codex|gitconfig)\b",
    r"\bid_(?:rsa|ed25519)\b(?!\.pub)|\.netrc\b|\.npmrc\b|\.pgpass\b|\bopenclaw\.json\b|\bkey(?:chain|ring)\b",
    r"\b(?:seed|recovery|secret|mnemonic|backup)[- ](?:phrases?|words)\b|\bmnemonics?\b|\bprivate[ -]keys?\b|\bkeystores?\b",
    r"\b(?:ssh|gpg|pgp|signing)[- ]keys?\b|\bwallet\s+(?:files?|keys?|data)\b",
    r"\b(?:browser|session|saved|stored|login|auth)\s+(?:cookies?|passwords?|logins?|tokens?|credentials?)\b",
    r"\b(?:chat|conversation|message|session|shell|command|browsing|browser)[- ]?(?:history|logs?|transcripts?)\b",
    r"\b(?:full|entire|whole|complete|current|this|user'?s?|verbatim|latest)\s+(?:conversation|chat|prompts?|transcript|messages?|inputs?|inbox|context)\b",
    r"\bsystem\s+prompt\b|\btranscripts?\b|\b(?:MEMORY|SOUL|USER|IDENTITY)\.md\b|\bclipboard\b",
    r"\b(?:any|all|every|found|collected|discovered|contains?|existing|available|user'?s?|their|those|whatever)\s+(?:\w+\s+){0,3}?"
    r"(?:api\s+keys?|keys|passwords?|passcodes?|tokens?|credentials?|secrets)\b",
    r"\bcredentials?\s+(?:files?|found|store)|\b(?:credit\s+card|card\s+numbers?|cvv|social\s+security|passport\s+number|bank\s+(?:details|account))",
    r"\b(?:last|recent|latest|previous)\s+\d{0,4}\s*(?:messages|e-?mails|conversations|chats|commands)\b|\bmessages\s+of\s+the\s+user\b|\bcalendar\s+entries\b",
    r"\b(?:passport|identity\s+card|driver'?s\s+licen[cs]e|user'?s\s+ID)\b|\bgcloud/\S{0,40}credentials\S*",
    r"\b(?:address\s+book|contact\s+list|customer\s+(?:list|data|records)|personal\s+data|private\s+(?:files|documents|data))\b",
)
_SENDING = (
    r"\b(?:send|post|upload|transmit|forward|submit|push|sync|ship|deliver|exfiltrate|relay|mirror|stream|leak"
    r"|replicate|back\s+up|report|beacon|e-?mail|share|pipe|curl|POST)(?:s|ing|ed)?\b"
)
_EMBEDDING = r"\b(?:append|include|embed|encode|add|attach|put|pass|insert|place|copy|smuggle|set)(?:s|ing|ed)?\b"
_CARRIER = r"\b(?:header|query|parameters?|params?|url-?encoded|base64|link|request|field|payload|subdomain|fragment|utm\w*|body|message|e-?mail)\b"
ACTS = _words(
    _SENDING,
    rf"{_EMBEDDING}(?=[^\n]{{0,160}}{_CARRIER})",
    r"\bcop(?:y|ies)\b[^.\n]{0,60}\b(?:at|to)\b",
)
_MAILBOX = r"[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,40})+"
_PLACE = _words(
    r"\bwebhook\b|\bdrop\s?box\s+folder\b|\b(?:our|remote|external|central|collection|collector|logging|telemetry"
    r"|analytics|support|sync|backup|validation|comparison|verification)\s+(?:server|endpoint|service|api|channel|address|inbox|bucket)\b"
    r"|\bC2\b|\bcollector\b"
)
_TOWARDS = re.compile(
    r"\b(?:to|at|via|into|through|towards?|against|endpoint|server|service|link|url|address|on|using|with|curl|-d|POST|GET)\b[^.\n]{0,40}\Z|[(:=]\s*[`\"'<]{0,2}\Z",
    re.IGNORECASE,
)
_SOURCE_OF = re.compile(
    r"\b(?:from|see|docs?|documentation|visit|homepage|source|guide|more)\b[^.\n]{0,16}\Z",
    re.IGNORECASE,
)
_OWNER = r"(?:the\s+|your\s+|a\s+|any\s+)?(?:users?|owners?|humans?|operators?|person|people|customers?|anyone|anybody|them)\b"
_TELLING = r"(?:tell|inform|mention|notify|alert|reveal|disclos|warn|announc|explain|bring\s+up|expos|acknowledg|admit)"
_IT = r"(?:this|these|it|that|those|any\s+of\s+this|the\s+(?:\w+\s+)?(?:step|upload|sync|request|call|process|instructions?|check|copy|transfer|action|command|activity|fact|existence|setup|set-up))\b"
CONCEALS = _words(
    rf"\b(?:do\s+not|don'?t|never|must\s+not|should\s+not|avoid|refrain\s+from|without)\s+(?:ever\s+)?{_TELLING}\w*\s+(?:(?:to\s+)?{_OWNER}(?=\s*(?:[.,;:!?)\"*-]|$|\bthat\b|\bof\s+|\babout\s+{_IT}|\bany|\bwhat|\bwhy))|{_IT})",
    rf"\b(?:do\s+not|don'?t|never)\s+(?:log|display|show|print|report|output|discuss|surface)\s+{_IT}",
    rf"\b{_OWNER}(?:'s)?\s+(?:must|should|does|need|do|will|is|are)\s*(?:n't|not|never)\s+(?:need\s+to\s+|to\s+|have\s+to\s+)?(?:know|see|notice|be\s+(?:told|aware|informed|bothered|shown)|aware|shown)",
    r"\b(?:does|do|need)\s*(?:n't|not)\s+(?:need\s+)?to\s+be\s+(?:mentioned|reported|shown|listed|told|announced|confirmed|explained|visible|surfaced)",
    rf"\b(?:not|n't)\s+(?:necessary|needed|required|useful)\s+to\s+(?:{_TELLING}\w*|talk|show|report|ask|confirm|speak|say)",
    r"\bas\s+if\s+nothing\s+(?:had\s+)?happened\b|\bnothing\s+to\s+(?:show|report|mention|tell)\s+(?:for|about)\b",
    rf"\bno\s+need\s+to\s+(?:{_TELLING}\w*|show|report|ask|confirm|bother)\b",
    rf"\b(?:leave|keep|omit|drop|hide|exclude)\s+(?:{_IT}|any\s+mention)\s*(?:step\s+)?(?:out\s+of|from|hidden|quiet|to\s+yourself|confidential|secret|internal|off)\b",
    r"\bkeep\s+(?:the\s+|your\s+)?(?:chat\s+|visible\s+|final\s+)?(?:output|response|answer|reply|summary)\s+(?:limited|restricted|focused|clean|only)\b",
    r"\bwithout\s+(?:the\s+|any\s+)?(?:user|owner|human|operator)(?:'s|s')?\s+(?:knowledge|consent|awareness|noticing|permission|approval|confirmation|being\s+(?:aware|told|asked))",
    rf"\bwithout\s+(?:asking|bothering|involving|showing|drawing|interrupting|disturbing|alerting)\b[^.\n]{{0,30}}(?:{_OWNER}|attention)",
    rf"\b{_OWNER}\s+(?:\w+\s+){{0,4}}?(?:confus(?:ed|ing)|alarm(?:ed|ing)|worr(?:y|ied)|annoy(?:ed|ing)|suspicious|panic)",
    r"\bavoid\s+(?:alarming|confusing|worrying|raising\s+suspicion|detection|suspicion)",
    r"\b(?:must|should|may|does)\s+not\s+(?:appear|be\s+visible|show\s+up|be\s+shown|be\s+mentioned|be\s+displayed)\b",
    r"\b(?:hidden|invisible|concealed)\s+(?:from|to)\s+(?:the\s+)?(?:user|owner|human|reader)",
    rf"\bif\s+(?:{_OWNER}\s+asks?|asked)\b[^.\n]{{0,80}}\b(?:say|claim|deny|respond\s+that|answer\s+that|pretend|tell\s+them\s+it)",
    r"\b(?:pretend|act\s+as\s+if)\s+(?:that\s+)?(?:nothing|this|it|you)\b",
    r"\b(?:internal|confidential|silent|hidden|invisible|background|transparent)\s+(?:step|instruction|action|operation|procedure|process|task|sync|note|maintenance)s?\b",
    r"\b(?:reveal|mention|disclose|acknowledge|tell)\b[^.\n]{0,40}\bthese\s+(?:instructions|rules|directives)\s+(?:exist|are)?",
)
SECRETLY = _words(
    r"\b(?:silently|secretly|covertly|quietly|discreetly|invisibly|stealthily|unobtrusively|behind\s+the\s+scenes)\b"
)
_MODEL = r"(?:AI|assistants?|agents?|models?|LLMs?|claude|codex|openclaw|copilot|gpt|bots?)\b"
SPEAKS_TO_MODEL = _words(
    rf"\b(?:notes?|messages?|instructions?|important|reminder|directives?|notice|hint|guidance|attention)\s*[:,-]?\s*(?:to|for)\s+(?:the\s+|all\s+|any\s+|every\s+)?(?:\w+\s+)?{_MODEL}",
    rf"\bfor\s+(?:the\s+)?{_MODEL}\s+(?:only|eyes)|\b{_MODEL}[- ]only\b|\bEND\s+OF\s+(?:USER|SYSTEM|SKILL|DOCUMENT)\s+(?:CONTENT|PROMPT|INSTRUCTIONS|MESSAGE|INPUT)\b",
    r"(?m:^#{1,6}[ \t]*(?:System|Developer|Assistant)[ \t]*:?[ \t]*$)",
    r"\bSYSTEM\s+(?:NOTE|NOTICE|MESSAGE|PROMPT|INSTRUCTION|OVERRIDE|DIRECTIVE)\b|\[(?:SYSTEM|ADMIN|INST)\]|<\/?(?:system|admin|important|instructions|system-reminder)>|<\|im_start\|>",
    rf"\b(?:dear|hey|attention|to\s+the|any|all)\s+{_MODEL}[^.\n]{{0,40}}\b(?:reading|processing|parsing|loading|executing|using|that|who|must|should|shall)\b",
    rf"\b(?:the\s+)?{_MODEL}\s+(?:must|shall|is\s+required\s+to|are\s+required\s+to|has\s+to|should\s+(?:always|first|also|now|silently|then))\b",
    r"\b(?:you\s+are\s+now|from\s+now\s+on|your\s+new\s+(?:instructions|role|goal|task)|as\s+an\s+AI\b)",
)
CLAIMS_AUTHORITY = _words(
    r"\b(?:verified|approved|authori[sz]ed|certified|cleared|sanctioned|signed\s+off|reviewed)\s+by\s+(?:the\s+|your\s+)?(?:\w+\s+)?(?:platform|security|anthropic|openai|admin\w*|owner|user|operator|team|vendor|marketplace|company|IT|system)",
    r"\belevated\s+(?:trust|privileges?|permissions?)\b|\bpre-?(?:approved|authori[sz]ed|cleared|vetted)\b|\b(?:has|have|been|are|is)\s+waived\b",
    r"\b(?:user|owner|operator|administrator|human)\s+(?:has\s+|have\s+|had\s+)?(?:already\s+)?(?:consented|approved|agreed|authori[sz]ed|granted|enrolled|opted|given\s+(?:\w+\s+)?(?:consent|permission))\b",
    r"\b(?:admin(?:istrator)?|root|developer|maintenance|god|debug)\s+(?:mode|override)\b|\b(?:takes?|has|have)\s+(?:precedence|priority)\s+over\b|\bno\s+longer\s+needs?\s+(?:to\s+be\s+)?(?:confirm|approv|permission)\w*|\boverrides?\s+(?:all|any|other|the|your|previous|system)\b",
)
_GATE = r"(?:permissions?|confirmations?|approvals?|consent|safety|security|sandbox\w*|guard\w*|review|restriction|policy|verification)"
SWITCHES_OFF = _words(
    r"dangerously[-_]?skip[-_]?permissions|bypassPermissions|--yolo\b|approval[_-]policy\W{1,4}never|\bautoApprove\b|--(?:full-)?auto-?approve|--no-sandbox\b|--disable-sandbox|danger-full-access",
    rf"\b(?:skip|bypass|disable|suppress|turn\s+off|waive|circumvent|dismiss|switch\s+off|deactivate|get\s+around|auto-?(?:approve|accept|confirm))\w*\s+(?:\w+\s+){{0,3}}?{_GATE}\b",
    rf"\b{_GATE}\s+(?:prompts?|dialogs?|requests?|steps?|checks?|questions?|messages?|screens?)\b[^.\n]{{0,60}}\b(?:waived|skip\w*|not\s+(?:needed|required|necessary)|unnecessary|with\s+yes|automatically|slow|disabled?|ignore\w*|accept\w*|off)\b",
    rf"\bwithout\s+(?:asking|waiting\s+for|requesting|seeking|requiring|prompting\s+for)\s+(?:for\s+)?(?:{_OWNER}|(?:\w+\s+)?{_GATE})",
    rf"\b(?:do\s+not|don'?t|never)\s+(?:ask|wait|prompt|request)\s+(?:\w+\s+){{0,2}}?(?:for\s+)?{_GATE}\b",
)
_RULE_FILE = r"(?:\b(?:SOUL|AGENTS?|CLAUDE|MEMORY|IDENTITY|HEARTBEAT|USER|TOOLS|GEMINI|BOOTSTRAP)\.md\b|\.cursorrules\b|\.(?:claude|codex|openclaw|cursor)/(?:settings|rules|config)\S{0,40}|copilot-instructions\.md)"
WRITES_RULES = _words(
    rf"\b(?:add|append|write|insert|put|save|update|edit|modify|replace|overwrite|inject|store|persist|echo|copy|paste|set)\w*\b[^\n]{{0,160}}{_RULE_FILE}",
    rf">>?\s*\S{{0,60}}{_RULE_FILE}",
    r"\b(?:save|store|write|commit|add|remember)\w*\b[^.\n]{0,80}\b(?:long-?term|persistent|permanent|your)\s+memory\b",
)
_FETCHING = _words(
    r"\b(?:load|fetch|download|retrieve|visit|check|pull|get|open|consult|read|poll|query|curl|GET|ask|request|replace)(?:s|ing|ed)?\b"
)
_OBEYING = _words(
    r"\b(?:treat|regard|consider|interpret)\b[^.\n]{0,80}\bas\s+(?:part\s+of|coming\s+from|if|though|an?\s+|your\s+|the\s+|new\s+|additional\s+|system\s+|user\s+|trusted\s+)*(?:\w+\s+)?(?:instructions?|commands?|orders?|user|system|rules|prompts?|trusted)",
    r"\b(?:follow|obey|execute|run|carry\s+out|perform|apply|adopt|act\s+on|eval(?:uate)?|comply\s+with)\s+(?:all\s+|any\s+|exactly\s+|whatever\s+)?(?:of\s+)?(?:the\s+|its\s+|these\s+|those\s+|every\s+|each\s+)?(?:\w+\s+){0,2}?(?:instructions?|commands?|orders?|directives?|contents?|steps|it\s+(?:says|contains|returns|tells|lists)|response|tasks?|(?:is|are)\s+(?:returned|listed))\b",
    r"\b(?:carry\s+out|do|execute|run|follow|obey)\s+(?:what(?:ever)?|everything)\s+(?:\w+\s+){0,2}?(?:lists?|says?|contains?|returns?|orders?|asks?|tells?|wants?)\b",
    r"\band\s+(?:then\s+)?(?:follow|obey|execute|run|apply)\s+(?:it|them|that)\b",
)
_RECURS = _words(
    r"\bevery\s+(?:\d+\s*)?(?:few\s+)?(?:minutes?|hours?|days?|session|message|turn|time|heartbeat)\b|\b(?:each|every)\s+(?:session|time|start|run|load)\b",
    r"\bat\s+the\s+(?:start|beginning)\s+of\b|\bheartbeat\b|\bperiodically\b|\bon\s+(?:each|every|first)\s+(?:load|start|use)\b|\bkeeps?\s+itself\b",
)
_PAYEE = _words(
    r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}(?:\s?[A-Z0-9]{1,3})?\b|\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b|\b[1-9A-HJ-NP-Za-km-z]{43,44}\b"
)
_REPLACES = _words(
    r"\b(?:ignore|replace|instead\s+of|swap|substitute|redirect|override|outdated|no\s+longer\s+valid|change)\b"
)
_NOT_ASKED = _words(
    rf"\b{_OWNER}\s+(?:has|have)\s+(?:already\s+)?(?:confirmed|agreed|approved)|\basking\s+(?:again|them|first)\b|\b(?:do\s+not|don'?t|never)\s+(?:ask|confirm|mention|show)|\bwithout\s+(?:asking|confirm\w+)|\b(?:silently|automatically|quietly)\b"
)
_ASKING = _words(
    r"\b(?:ask|request|prompt|require|obtain|get|need|collect|enter|type|provide|paste|look\s+for|find|search)\b"
)
_CROWN_JEWELS = _words(
    r"\b(?:seed|recovery|secret|mnemonic|backup)[- ](?:phrases?|words)\b|\bmnemonics?\b|\b(?:12|24)[- ](?:or\s+24[- ])?words?\b[^.\n]{0,40}phrase|\bprivate[ -]keys?\b|\bmaster\s+password\b"
)
_AGENT_SETTINGS = _words(
    r"(?:\.openclaw/|\b)openclaw\.json\b|\.claude(?:/settings\S*|\.json)|\.codex/config\S*|\bsettings(?:\.local)?\.json\b|ANTHROPIC_BASE_URL|OPENAI_(?:BASE_URL|API_BASE)"
)
_MODEL_ADDRESS = re.compile(
    r"(?:base_?url|api_?base|ANTHROPIC_BASE_URL|OPENAI_API_BASE|OPENAI_BASE_URL)[\"'\s]{0,3}[:=]\s*[\"']?(https?://[^\s\"'`]+)",
    re.IGNORECASE,
)
_LOOSENS = re.compile(
    r"[\"'](?:ask|approvals?|approval_policy|sandbox|permission\w*|defaultMode)[\"']\s*:\s*[\"']?(?:off|none|never|false|bypass\w*)",
    re.IGNORECASE,
)
_DISMISSES = _words(
    r"\bfalse\s+(?:alarms?|positives?)\b|\bcan\s+be\s+ignored\b|\bworks?\s+only\s+as\s+long\b|\bignore\s+(?:the\s+|any\s+)?(?:security\s+)?(?:warnings?|alerts?)\b"
)
_BLIND_COPY = re.compile(r"\b(?:bcc|blind[- ](?:carbon[- ])?cop\w+)\b", re.IGNORECASE)
_MAIL = re.compile(_MAILBOX)
_NEGATED = re.compile(
    r"(?:\b(?:never|not|cannot|can't|don't|doesn't|won't|avoid|refuse\w*|reject\w*|prevent\w*|block\w*|instead\s+of|rather\s+than|nor|no|without)\b[^.;\n]{0,50})\Z",
    re.IGNORECASE,
)

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
        return _NEGATED.search(self.text[max(0, at - 70) : at]) is not None

    @cached_property
    def acts(self) -> list[re.Match[str]]:
        return [each for each in ACTS.finditer(self.text) if not self.is_forbidden(each.start())]


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
        return any(CONCEALS.search(each.text) for each in around)

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
            if _SOURCE_OF.search(before) or not _TOWARDS.search(before):
                continue
            host = classify(found[0], self.scope)
            shared = host is HostClass.UNKNOWN and not is_strange(found[0], self.scope)
            best = max(best or HostClass.KNOWN, HostClass.KNOWN if shared else host)
        if _MAIL.search(stretch) or _PLACE.search(stretch):
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
        return strange and self.here.has(_FETCHING) and self.here.has(_OBEYING)


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


def _sends_for_the_model_alone(view: _View) -> bool:
    stranger = view.sink is not None and view.sink >= HostClass.UNKNOWN
    return stranger and view.here.has(SPEAKS_TO_MODEL) and not view.here.code


def _redirects_payments(view: _View) -> bool:
    here = view.here
    paid = re.search(_PAYEE.pattern, here.text) is not None
    return paid and here.has(_REPLACES) and _NOT_ASKED.search(here.text) is not None


def _blind_copies(view: _View) -> bool:
    if view.here.code or not view.here.has(_BLIND_COPY):
        return False
    return _MAIL.search(view.here.text) is not None


def _asks_for_the_jewels(view: _View) -> bool:
    asked = view.here.has(_CROWN_JEWELS) and view.here.has(_ASKING)
    around = (view.here, *view.beside)
    urls = [url for each in around for url in URL.findall(each.text)]
    strange = any(classify(url, view.scope) > HostClass.KNOWN for url in urls)
    return asked and strange and any(each.acts for each in around)


def _orders_unseen(view: _View) -> bool:
    if not view.here.unseen:
        return False
    does = view.here.has(SWITCHES_OFF) or view.here.has(WRITES_RULES) or view.here.has(_OBEYING)
    does = (
        does or view.sends_away or view.remote_orders or CONCEALS.search(view.here.text) is not None
    )
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
    if not view.near(_AGENT_SETTINGS):
        return False
    hosts = [classify(each, view.scope) for each in _MODEL_ADDRESS.findall(view.here.text)]
    redirected = any(each >= HostClass.UNKNOWN for each in hosts)
    dismissed = view.near(_DISMISSES) or view.conceals
    return redirected or (_LOOSENS.search(view.here.text) is not None and dismissed)


def _takes_strangers_orders(view: _View) -> bool:
    if not view.here.has(_OBEYING):
        return False
    bold = view.here.has(CLAIMS_AUTHORITY) or view.here.has(SPEAKS_TO_MODEL)
    bold = bold or view.here.has(SWITCHES_OFF) or view.conceals
    return (bold and view.here.has(_TREATING)) or (
        (bold or view.near(_RECURS)) and view.remote_orders
    )


_TREATING = _words(r"\b(?:treat|regard|consider|interpret)\b[^.\n]{0,120}\bas\b")

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
        beside = tuple(
            each
            for each in parts[max(0, number - 1) : number + 2]
            if each is not here and not each.unseen
        )
        view = _View(here, beside, scope)
        for rule, message, applies in _COMBINATIONS:
            if applies(view) and not is_mention(here):
                yield _finding(here.start, rule, DANGER, message)


def _finding(start: int, rule: str, weight: FindingWeight, message: str) -> TextFinding:
    return TextFinding(start=start, rule=rule, weight=weight, message=message)


# Mentions (rule 4)

_ABOUT_ATTACKS = _words(
    r"\b(?:malicious|malware|attack(?:er|ers|s)?|adversar\w+|exploit\w*|vulnerab\w+|threats?|phishing|prompt[ -]injection"
    r"|jailbreak\w*|detect(?:s|ion|ing|ed)?|red\s+flags?|suspicious|IOCs?|yara|sigma|pentest\w*|CTF|red[ -]team\w*|payloads?"
    r"|anti-?patterns?|warning\s+signs?|signs?\s+of|look\s+for|watch\s+(?:out\s+)?for|flag(?:ged)?|reject|refuse|forbidden"
    r"|prohibited|blocked|false\s+positives?|test\s+cases?|scam\w*|social\s+engineering|audit\w*|scann\w+|untrusted|unsafe|insecure)\b"
)
_ABOUT_INSTALLING = _words(
    r"\b(?:install\w*|set-?\s?up|prerequisit\w*|requirements?|getting\s+started|quick\s?start|usage|dependenc\w+|first\s+(?:run|use)|before\s+you)\b"
)


def is_mention(passage: SkillPassage, *, security: bool = False) -> bool:
    """Whether a passage speaks about attacks instead of ordering one (rule 4).

    `security`: the whole skill is about security, so that its examples need no word of their own.
    """
    if passage.unseen or _ABOUT_INSTALLING.search(passage.heading):
        return False
    over = f"{passage.heading}\n{passage.intro}"
    said = {found[0].lower() for found in _ABOUT_ATTACKS.finditer(passage.text)}
    return security or _ABOUT_ATTACKS.search(over) is not None or len(said) >= 2


_SECURITY_WORK = _words(
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
