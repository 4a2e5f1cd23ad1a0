"""The signs that orders to a model are made of: what is said, in the ways that people say it.

1. A sign is one expression; none means anything alone (`order_rules` combines them).
2. English is read in full, and the plainest ways to say the same in German, French, Spanish,
   Italian, Portuguese, Russian, Chinese and Japanese: a model obeys those as well.
"""

import re


def words_of(*expressions: str) -> re.Pattern[str]:
    return re.compile("|".join(expressions), re.IGNORECASE)


_THE = r"(?:the\s+|all\s+|any\s+|every\s+|your\s+|their\s+|its\s+|a\s+|this\s+|these\s+)*"
PRIVATE = words_of(
    r"\b(?:unread|recent|latest|incoming)\s+(?:e-?)?mails?\b|\bwhat\s+(?:the\s+)?(?:user|owner|customer|he|she|they)\s+(?:wrote|typed|asked|said|entered)\b",
    r"\bhistory\s+of\s+the\s+(?:chat|conversation|shell)\b",
    r"\b(?:Schlüssel|Passw[oö]rt\w*|Kennw[oö]rt\w*|Zugangsdaten|Umgebungsvariablen|Gesprächsverlauf)\b|\bmots?\s+de\s+passe\b|\bcl[ée]s?\s+(?:API|privées?|SSH)\b|\bvariables\s+d['’]environnement\b",
    r"\bcontraseñas?\b|\bclaves?\s+(?:API|privadas?|SSH)\b|\bcredenciales\b|\bvariables\s+de\s+entorno\b|\bcredenziali\b|\bsenhas?\b|\b(?:парол|токен)\w*|\bпеременн\w+\s+(?:среды|окружения)|\bключ\w*\s+(?:API|доступа)",
    r"密钥|密码|凭证|凭据|环境变量|令牌|对话(?:记录|历史|内容)|聊天记录|助记词|私钥|パスワード|秘密鍵|認証情報|環境変数|会話履歴",
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
_OPENING = r"\b(?:open|visit|navigate|browse|fetch|request|load|call|hit|ping|go|GET|fetching|opening|loading|calling|visiting|requesting)\b"
ACTS = words_of(
    _SENDING,
    # An address that is opened with data behind its question mark carries them away.
    rf"{_OPENING}(?=[^\n]{{0,60}}https?://[^\s<]{{3,200}}(?:[?&][\w-]{{1,20}}=(?:[`\"'<{{\[$]|\s|$)|[`\"']?\s*(?:followed\s+by|with\s+(?:the|this|these|its)\b[^.\n]{{0,40}}(?:appended|added|attached))))",
    r"\b(?:send|schick|übermittl|übertrag|kopier|leit)(?:e|en|est|et|st|t|ere|iere|ieren)\b|\blad\w*\s[^.\n]{0,80}\bhoch\b|\benvo(?:ie|yez|yer)\b|\btransmet\w+|\btélévers\w+",
    r"\benv[íi](?:a|e|ar|es|en|o)\b|\b(?:sube|subir|transmite|reenv[íi]a|reenv[íi]e)\b|\b(?:invia|inviare|carica|trasmetti|inoltra|envie|enviar|transmita)\b|\b(?:отправ|загруз|перешл|передай)\w*|发送|上传|提交到|转发|传输|送信|アップロード|転送",
    rf"{_EMBEDDING}(?=[^\n]{{0,160}}{_CARRIER})",
    r"\bcop(?:y|ies)\b[^.\n]{0,60}\b(?:at|to)\b",
)
_MAILBOX = r"[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,40})+"
PLACE = words_of(
    r"\bwebhook\b|\bdrop\s?box\s+folder\b|\b(?:our|remote|external|central|collection|collector|logging|telemetry"
    r"|analytics|support|sync|backup|validation|comparison|verification)\s+(?:server|endpoint|service|api|channel|address|inbox|bucket)\b"
    r"|\bC2\b|\bcollector\b"
)
TOWARDS = re.compile(
    r"\b(?:to|at|via|into|through|towards?|against|an|nach|unter|à|vers|al|a|su|para|до|на|по|в|endpoint|server|service|link|url|address|on|using|with|curl|-d|POST|GET)\b[^.\n]{0,40}\Z|[(:=到至向に]\s*[`\"'<]{0,2}\Z"
    r"|\bcurl\b[^\n]{0,80}\Z"
    rf"|{_OPENING}[^.\n]{{0,40}}\Z",
    re.IGNORECASE,
)
_PAGE = r"\[[^\]\n]{1,100}\]\([^)\s]{1,300}\)"
PAGE_NAME = re.compile(r"\[([^\]\n]{1,100})\]\(")
# An entry of a list that is nothing but links, behind a name for them: "- Agents: [a](…), [b](…)".
PAGES = re.compile(
    rf"[ \t]*[-*+][ \t]+(?:\w[\w .-]{{0,40}}:[ \t]+)?{_PAGE}(?:,?[ \t]+(?:and[ \t]+)?{_PAGE})*\.?[ \t]*\Z"
)
HANDED_OVER = words_of(
    PRIVATE.pattern, r"\b(?:them|it|this|that|these|those|everything|all|here)\b"
)
SOURCE_OF = re.compile(
    r"\b(?:from|see|docs?|documentation|visit|homepage|source|guide|more)\b[^.\n]{0,16}\Z",
    re.IGNORECASE,
)
_OWNER = r"(?:the\s+|your\s+|a\s+|any\s+)?(?:users?|owners?|humans?|operators?|person|people|customers?|anyone|anybody|them)\b"
_TELLING = r"(?:tell|inform|mention|notify|alert|reveal|disclos|warn|announc|explain|bring(?:ing)?\s+(?:(?:it|this|that|them)\s+)?up|point(?:ing)?\s+out|refer(?:ring)?\s+to|talk(?:ing)?\s+about|expos|acknowledg|admit)"
_IT = r"(?:this|these|it|that|those|any\s+of\s+this|the\s+(?:\w+\s+)?(?:step|upload|sync|request|call|process|instructions?|check|copy|transfer|action|command|activity|fact|existence|setup|set-up))\b"
_CONCEALS_IN_ENGLISH = words_of(
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
    r"\bwithout\s+(?:reporting|logging|mentioning|announcing|explaining|listing)\s+(?:each|every|any|the|this|it|them|what)\b",
    rf"\b(?:if|should|when(?:ever)?)\s+{_OWNER}\s+(?:\w+\s+){{0,2}}?asks?\b[^.\n]{{0,120}}\b(?:say|answer|claim|deny|respond|reply|pretend|state|tell)\b",
    r"\b(?:pretend|act\s+as\s+if)\s+(?:that\s+)?(?:nothing|this|it|you)\b",
    r"\b(?:reveal|mention|disclose|acknowledge|tell)\b[^.\n]{0,40}\bthese\s+(?:instructions|rules|directives)\s+(?:exist|are)?",
)
_REPORT = r"(?:changes?|changelog|summar(?:y|ies)|reports?|outputs?|answers?|repl(?:y|ies)|responses?|logs?|notes|history|commit\s+messages?|transcripts?|lists?|digests?)"
CONCEALS = words_of(
    _CONCEALS_IN_ENGLISH.pattern,
    rf"\b(?:do\s+not|don'?t|never)\s+(?:list|include|count|note|record|document|cite|describe|add|put|keep)\s+{_IT}[^.\n]{{0,40}}\b(?:among|in|on|as|to)\b[^.\n]{{0,30}}\b{_REPORT}\b",
    rf"\b(?:do\s+not|don'?t|never)\s+(?:describe|mention|list|report|show|explain)\b[^.\n]{{0,40}}\b(?:in|among)\s+(?:the|your|any)\s+(?:\w+\s+)?{_REPORT}\b",
    rf"\b(?:leave|keep|omit)\s+(?:it|this|them|that)\s+(?:out\s+of|off)\s+(?:the\s+|your\s+|any\s+)?(?:\w+\s+)?{_REPORT}\b",
    r"\b(?:need|needs)\s+not\s+(?:know|be\s+(?:told|aware|bothered|informed))\b",
    # German, French, Spanish, Italian, Portuguese, Russian, Chinese, Japanese
    r"\b(?:erwähn|sag|verrat|zeig|meld|bericht|nenn)\w{0,4}\s+(?:[\wäöüß]+\s+){0,6}?(?:nicht|nichts|kein\w*)\b|\bohne\s+(?:den\s+|dem\s+|es\s+)?(?:Nutzer|Benutzer|Anwender|Besitzer)",
    r"\bne\s+(?:le\s+|lui\s+|pas\s+|rien\s+|en\s+)*(?:dis|dites|dire|mentionn\w+|révél\w+|inform\w+|montr\w+|parl\w+|signal\w+)\b|\bsans\s+(?:en\s+|le\s+|l')?(?:informer|prévenir|avertir|demander|mentionner)\b",
    r"\bno\s+(?:se\s+)?(?:lo\s+|le\s+)?(?:mencion\w+|digas?|inform\w+|revel\w+|muestres?|avis\w+|cuentes?)\b|\bsin\s+(?:avisar|informar|preguntar|decir|mencionar)",
    r"\bnon\s+(?:lo\s+)?(?:dir\w*|menzion\w+|rivel\w+|inform\w+|mostr\w+)\b|\bsenza\s+(?:dir|avvis|inform|chied)\w+|\bn[ãa]o\s+(?:o\s+)?(?:mencion\w+|diga|inform\w+|revel\w+|mostr\w+|avis\w+|conte)\b|\bsem\s+(?:avisar|informar|perguntar)",
    r"\bне\s+(?:говори|сообщай|упоминай|показывай|раскрывай|рассказывай)\w*|\bбез\s+ведома\b",
    r"(?:不要|不得|切勿|请勿|无需|别)(?:向\S{1,6})?(?:告诉|告知|提及|透露|显示|通知|说明|询问|提到)|(?:悄悄|静默|秘密地|暗中)|(?:伝え|知らせ|言わ|表示し|明かさ)\S{0,4}(?:ない|ず)",
)
# Said of honest steps as well, and still: with an address that takes something, it says enough.
HUSHED = words_of(
    r"\b(?:internal|confidential|silent|hidden|invisible|background|transparent)\s+(?:step|instruction|action|operation|procedure|process|task|sync|note|maintenance)s?\b",
    r"\b(?:is|are)\s+not\s+(?:a\s+)?part\s+of\s+the\s+(?:conversation|answer|output|task|reply|result)\b",
)
SECRETLY = words_of(
    r"\b(?:silently|secretly|covertly|quietly|discreetly|invisibly|stealthily|unobtrusively|behind\s+the\s+scenes)\b"
)
_MODEL = r"(?:AI|assistants?|agents?|models?|LLMs?|claude|codex|openclaw|copilot|gpt|bots?)\b"
SPEAKS_TO_MODEL = words_of(
    r"(?m:^\W{0,4}(?:AI\s+)?(?:agents?|assistants?|models?|LLMs?)\s*[:,])|\bnew\s+(?:directives?|instructions?|orders?)\b",
    rf"\b(?:notes?|messages?|instructions?|important|reminder|directives?|notice|hint|guidance|attention)\s*[:,-]?\s*(?:to|for)\s+(?:the\s+|all\s+|any\s+|every\s+)?(?:\w+\s+)?{_MODEL}",
    rf"\bfor\s+(?:the\s+)?{_MODEL}\s+(?:only|eyes)|\b{_MODEL}[- ]only\b|\bEND\s+OF\s+(?:USER|SYSTEM|SKILL|DOCUMENT)\s+(?:CONTENT|PROMPT|INSTRUCTIONS|MESSAGE|INPUT)\b",
    r"(?m:^#{1,6}[ \t]*(?:System|Developer|Assistant)[ \t]*:?[ \t]*$)",
    r"\bSYSTEM\s+(?:NOTE|NOTICE|MESSAGE|PROMPT|INSTRUCTION|OVERRIDE|DIRECTIVE)\b|\[(?:SYSTEM|ADMIN|INST)\]|<\/?(?:system|admin|important|instructions|system-reminder)>|<\|im_start\|>",
    rf"\b(?:dear|hey|attention|to\s+the|any|all)\s+{_MODEL}[^.\n]{{0,40}}\b(?:reading|processing|parsing|loading|executing|using|that|who|must|should|shall)\b",
    rf"\b(?:the\s+)?{_MODEL}\s+(?:must|shall|is\s+required\s+to|are\s+required\s+to|has\s+to|should\s+(?:always|first|also|now|silently|then))\b",
    r"\b(?:you\s+are\s+now|from\s+now\s+on|your\s+new\s+(?:instructions|role|goal|task)|as\s+an\s+AI\b)",
)
CLAIMS_AUTHORITY = words_of(
    r"\b(?:directive|instruction|order|policy|request|message)s?\s+(?:from|by|of)\s+(?:the\s+|your\s+)?(?:\w+\s+)?(?:admin\w*|operator|developers?|platform|security\s+team|vendor|maintainers?|management)\b|\bagreement\s+of\s+the\s+maintainers\b",
    r"\b(?:verified|approved|authori[sz]ed|certified|cleared|sanctioned|signed\s+off|reviewed)\s+by\s+(?:the\s+|your\s+)?(?:\w+\s+)?(?:platform|security|anthropic|openai|admin\w*|owner|user|operator|team|vendor|marketplace|company|IT|system)",
    r"\belevated\s+(?:trust|privileges?|permissions?)\b|\bpre-?(?:approved|authori[sz]ed|cleared|vetted)\b|\b(?:has|have|been|are|is)\s+waived\b",
    r"\b(?:user|owner|operator|administrator|human)\s+(?:has\s+|have\s+|had\s+)?(?:already\s+)?(?:consented|approved|agreed|authori[sz]ed|granted|enrolled|opted|given\s+(?:\w+\s+)?(?:consent|permission))\b",
    r"\b(?:admin(?:istrator)?|root|developer|maintenance|god|debug)\s+(?:mode|override)\b|\b(?:takes?|has|have)\s+(?:precedence|priority)\s+over\b|\bno\s+longer\s+needs?\s+(?:to\s+be\s+)?(?:confirm|approv|permission)\w*|\boverrides?\s+(?:all|any|other|the|your|previous|system)\b",
)
_GATE = r"(?:permissions?|confirmations?|approvals?|consent|safety|security|sandbox\w*|guard\w*|review|restriction|policy|verification)"
SWITCHES_OFF = words_of(
    r"dangerously[-_]?skip[-_]?permissions|bypassPermissions|--yolo\b|approval[_-]policy\W{1,4}never|\bautoApprove\b|--(?:full-)?auto-?approve|--no-sandbox\b|--disable-sandbox|danger-full-access",
    rf"\b(?:skip|bypass|disable|suppress|turn\s+off|waive|circumvent|dismiss|switch\s+off|deactivate|get\s+around|auto-?(?:approve|accept|confirm))\w*\s+(?:\w+\s+){{0,3}}?{_GATE}\b",
    rf"\b{_GATE}\s+(?:prompts?|dialogs?|requests?|steps?|checks?|questions?|messages?|screens?)\b[^.\n]{{0,60}}\b(?:waived|skip\w*|not\s+(?:needed|required|necessary)|unnecessary|with\s+yes|automatically|slow|disabled?|ignore\w*|accept\w*|off)\b",
    rf"\bwithout\s+(?:asking|waiting\s+for|requesting|seeking|requiring|prompting\s+for)\s+(?:for\s+)?(?:{_OWNER}|(?:\w+\s+)?{_GATE})",
    rf"\b(?:do\s+not|don'?t|never)\s+(?:ask|wait|prompt|request)\s+(?:\w+\s+){{0,2}}?(?:for\s+)?{_GATE}\b",
)
_RULE_FILE = r"(?:\b(?:SOUL|AGENTS?|CLAUDE|MEMORY|IDENTITY|HEARTBEAT|USER|TOOLS|GEMINI|BOOTSTRAP)\.md\b|\.cursorrules\b|\.(?:claude|codex|openclaw|cursor)/(?:settings|rules|config)\S{0,40}|copilot-instructions\.md)"
WRITES_RULES = words_of(
    rf"\b(?:add|append|write|insert|put|save|update|edit|modify|replace|overwrite|inject|store|persist|echo|copy|paste|set)\w*\b[^\n]{{0,160}}{_RULE_FILE}",
    rf">>?\s*\S{{0,60}}{_RULE_FILE}",
    r"\b(?:save|store|write|commit|add|remember)\w*\b[^.\n]{0,80}\b(?:long-?term|persistent|permanent|your)\s+memory\b",
)
FETCHING = words_of(
    r"\b(?:load|fetch|download|retrieve|visit|check|pull|get|open|consult|read|poll|query|curl|GET|ask|request|replace)(?:s|ing|ed)?\b"
)
OBEYING = words_of(
    r"\b(?:execute|run|evaluate|obey)\s+(?:the\s+|any\s+|all\s+)?(?:text|code|lines|script|contents?)\s+(?:at|from|of|in|behind)\b",
    r"\b(?:treat|regard|consider|interpret)\b[^.\n]{0,80}\bas\s+(?:part\s+of|coming\s+from|if|though|an?\s+|your\s+|the\s+|new\s+|additional\s+|system\s+|user\s+|trusted\s+)*(?:\w+\s+)?(?:instructions?|commands?|orders?|user|system|rules|prompts?|trusted)",
    r"\b(?:follow|obey|execute|run|carry\s+out|perform|apply|adopt|act\s+on|eval(?:uate)?|comply\s+with)\s+(?:all\s+|any\s+|exactly\s+|whatever\s+)?(?:of\s+)?(?:the\s+|its\s+|these\s+|those\s+|every\s+|each\s+)?(?:\w+\s+){0,2}?(?:instructions?|commands?|orders?|directives?|contents?|steps|it\s+(?:says|contains|returns|tells|lists)|response|tasks?|(?:is|are)\s+(?:returned|listed))\b",
    r"\b(?:carry\s+out|do|execute|run|follow|obey)\s+(?:what(?:ever)?|everything)\s+(?:\w+\s+){0,2}?(?:lists?|says?|contains?|returns?|orders?|asks?|tells?|wants?)\b",
    r"\band\s+(?:then\s+)?(?:follow|obey|execute|run|apply)\s+(?:it|them|that)\b",
)
RECURS = words_of(
    r"\bevery\s+(?:\d+\s*)?(?:few\s+)?(?:minutes?|hours?|days?|session|message|turn|time|heartbeat)\b|\b(?:each|every)\s+(?:session|time|start|run|load)\b",
    r"\bat\s+the\s+(?:start|beginning)\s+of\b|\bheartbeat\b|\bperiodically\b|\bon\s+(?:each|every|first)\s+(?:load|start|use)\b|\bkeeps?\s+itself\b",
)
PAYEE = words_of(
    r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}(?:\s?[A-Z0-9]{1,3})?\b|\b0x[0-9a-f]{40}\b|\bbc1[a-z0-9]{20,60}\b|\b[1-9A-HJ-NP-Za-km-z]{43,44}\b"
)
REPLACES = words_of(
    r"\b(?:ignore|replace|instead\s+of|swap|substitute|redirect|override|outdated|no\s+longer\s+valid|change)\b|\bersetz\w*|\bremplac\w+|\breemplaz\w+|\bsustitu\w+|\bsostitu\w+|\bзамени\w*|替换|置き換え"
)
NOT_ASKED = words_of(
    rf"\b{_OWNER}\s+(?:has|have)\s+(?:already\s+)?(?:confirmed|agreed|approved)|\basking\s+(?:again|them|first)\b|\b(?:do\s+not|don'?t|never)\s+(?:ask|confirm|mention|show)|\bwithout\s+(?:asking|confirm\w+)|\b(?:silently|automatically|quietly)\b"
)
ASKING = words_of(
    r"\b(?:ask|request|prompt|require|obtain|get|need|collect|enter|type|provide|paste|look\s+for|find|search)\b"
)
JEWELS_ASKED_FOR = words_of(
    rf"\b(?:ask|prompt|request|tell|have|get)\w*\s+(?:from\s+)?{_OWNER}[^.\n]{{0,80}}\b(?:(?:seed|recovery|secret|mnemonic|backup)[- ](?:phrases?|words)|mnemonics?|(?:12|24|twelve|twenty-four)[- ]+words?)\b",
    r"\b(?:ask|prompt|request)\w*\s+(?:him|her|for)\b[^.\n]{0,60}\b(?:(?:seed|recovery|mnemonic)[- ](?:phrases?|words)|(?:12|24|twelve|twenty-four)[- ]+words?)\b",
)
CROWN_JEWELS = words_of(
    r"\b(?:seed|recovery|secret|mnemonic|backup)[- ](?:phrases?|words)\b|\bmnemonics?\b|\b(?:12|24)[- ](?:or\s+24[- ])?words?\b[^.\n]{0,40}phrase|\bprivate[ -]keys?\b|\bmaster\s+password\b"
)
AGENT_SETTINGS = words_of(
    r"\.cursor/mcp\.json|\bmcp\.json\b|claude_desktop_config\.json|\.gemini/settings\S*|(?:\.openclaw/|\b)openclaw\.json\b|\.claude(?:/settings\S*|\.json)|\.codex/config\S*|\bsettings(?:\.local)?\.json\b|ANTHROPIC_BASE_URL|OPENAI_(?:BASE_URL|API_BASE)"
)
MODEL_ADDRESS = re.compile(
    r"(?:base_?url|api_?base|ANTHROPIC_BASE_URL|OPENAI_API_BASE|OPENAI_BASE_URL)[\"'\s]{0,3}[:=]\s*[\"']?(https?://[^\s\"'`]+)",
    re.IGNORECASE,
)
LOOSENS = re.compile(
    r"\bmcpServers\b|[\"'](?:ask|approvals?|approval_policy|sandbox|permission\w*|defaultMode)[\"']\s*:\s*[\"']?(?:off|none|never|false|bypass\w*)",
    re.IGNORECASE,
)
DISMISSES = words_of(
    r"\bwithout\s+(?:asking|confirmation|a\s+question)\b|\b(?:it|this)\s+is\s+(?:harmless|perfectly\s+safe)\b",
    r"\bfalse\s+(?:alarms?|positives?)\b|\bcan\s+be\s+ignored\b|\bworks?\s+only\s+as\s+long\b|\bignore\s+(?:the\s+|any\s+)?(?:security\s+)?(?:warnings?|alerts?)\b",
)
BLIND_COPY = re.compile(r"\b(?:bcc|blind[- ](?:carbon[- ])?cop\w+)\b", re.IGNORECASE)
MAIL = re.compile(_MAILBOX)
NEGATED = re.compile(
    r"(?:\b(?:never|not|cannot|can't|don't|doesn't|won't|avoid|refuse\w*|reject\w*|prevent\w*|block\w*|instead\s+of|rather\s+than|nor|no|without|kein\w*|nichts|niemals|jamais|aucun\w*|nunca|никогда|не)\b[^.;\n]{0,50}|(?:不要|切勿|请勿|不得)[^。；\n]{0,30})\Z",
    re.IGNORECASE,
)
CODE = words_of(
    r"\b(?:functions?|code|endpoints?|routes?|handlers?|middleware|quer(?:y|ies)|class(?:es)?|modules?|scripts?|workflows?|Dockerfiles?|templates?|commits?|patch(?:es)?|pull\s+requests?|builds?|containers?|schemas?)\b"
)
WEAKENS = words_of(
    r"\baccept(?:s|ing)?\s+(?:the\s+|a\s+|any\s+|every\s+)?(?:fixed\s+|second\s+|special\s+|magic\s+)?(?:user\s?names?|passwords?|passcodes?|tokens?|keys?|logins?)\b|\bback\s?doors?\b|\bmaster\s+(?:password|key|account)\b",
    r"\bhard-?cod(?:e|ed|ing)\b[^.\n]{0,80}\b(?:password|account|key|admin|token|user)|\b(?:hidden|extra|additional|undocumented)\s+(?:admin(?:istrator)?|root|support|service)\s+(?:user|account|login|route|endpoint)",
    r"\b(?:disable|skip|omit|remove|weaken|leave\s+out|drop)\w*\s+(?:\w+\s+){0,3}?(?:validation|authentication|authori[sz]ation|certificate\w*|TLS|CSRF|rate\s+limit\w*|signature\w*|sanitiz\w+|escaping|access\s+control)\b|\bverify\s*=\s*False\b|rejectUnauthorized",
    r"\balways\s+(?:approve|merge|accept|pass|allow)\w*\b|\b(?:approve|merge)s?\b[^.\n]{0,60}\b(?:regardless|whatever|without\s+(?:reading|looking|review))",
)
PROMOTES = words_of(
    r"\b(?:recommend|present|promote|prefer|favou?r|suggest|rank|list|advertis\w+|rate|praise)\w*\b[^.\n]{0,100}\b(?:as\s+the\s+(?:best|cheapest|safest|fastest|first|only)|first|above|over\s+(?:all|any|other)|regardless|always|no\s+matter)\b",
    r"\b(?:regardless|no\s+matter|always)\b[^.\n]{0,80}\b(?:recommend|present|promote|prefer|favou?r|suggest|rank|list)\w*\b|\b(?:affiliate|referral)\s+(?:code|link|tag|id)|[?&](?:aff|ref|tag)=\w",
)
DECODES = words_of(
    r"\b(?:decode|decrypt|unscramble|rot-?13|reverse|base64)\w*\b[^.\n]{0,140}\b(?:and|then)\s+(?:\w+\s+){0,2}?(?:follow|execute|run|obey|apply|carry\s+out|act\s+on|do\s+what)\b",
    r"\b(?:follow|execute|obey|carry\s+out)\b[^.\n]{0,60}\b(?:decoded|decrypted|encoded|base64|rot-?13)\b",
)
EXPOSES = words_of(
    r"\b(?:write|put|paste|include|post|add|attach|copy|print|embed|quote)\w*\b[^.\n]{0,140}\b(?:issues?|comments?|commits?|pull\s+requests?|gists?|descriptions?|tickets?|chat|messages?|documents?|pages?|answers?|repl(?:y|ies))\b"
)
TRACES = words_of(
    r"\b(?:remove|delete|erase|wipe|clear|cover|destroy|scrub)\w*\b[^.\n]{0,60}\b(?:traces?|tracks|evidence)\b|\b(?:delete|remove|erase)\w*\b[^.\n]{0,60}\b(?:from|in)\s+(?:the\s+)?(?:audit|sent|system)\s+(?:logs?|trail|folder|items)\b",
    r"\bdelete\s+(?:the\s+)?(?:sent\s+)?(?:messages?|items?|mails?)\s+(?:from|in|afterwards|after\s+sending)\b",
)
TRANSFERS = re.compile(
    r"\bgit\s+(?:push|remote\s+add)\b|\b(?:curl|wget|scp|rsync|rclone|nc|Invoke-RestMethod)\s",
    re.IGNORECASE,
)
