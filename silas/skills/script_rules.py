"""What scripts in other languages than Python give away: shell, PowerShell, JavaScript, Ruby and others.

1. Texts that are put together are joined first: literals that are added up, escapes, a command with
   quotes inside of its name, names that stand for a plain text. Lines keep their numbers.
2. A line marks the names and files that it fills: keys, the whole environment, what was typed
   unseen, the owner's documents, what was downloaded or decoded. Marks go on from line to line.
3. A marked value decides where it ends: private ones that are sent, foreign ones that are executed.
4. A key that a program is only pointed to (`ssh -i`, `--kubeconfig`) is not read.
5. A credential of a known service that is sent to another one is a theft, whoever asked for it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from silas.skills.command_rules import (
    DANGER,
    HARD_SECRETS,
    SOFT_SECRETS,
    URL,
    WARN,
    FindingWeight,
    HostClass,
    LineFinding,
    SkillScope,
    classify,
    command_findings,
    is_taken_by_anybody,
    line_of,
    main_domain,
    set_of_words,
)

SHELL_ENDINGS = frozenset({".sh", ".bash", ".zsh", ".command", ".fish", ""})
_MOST_LINES = 6_000
_MAX_LINE = 2_000

# Texts that are put together (rule 1)

_ADDED_UP = re.compile(r"([\"'])[ \t]*(?:\+|\.(?=[ \t]*[\"']))[ \t]*\1")
_ESCAPED = re.compile(r"\\x([2-7][0-9a-fA-F])|\\u00([2-7][0-9a-fA-F])")
_NUMBERS = re.compile(r"(?:String\.)?fromChar(?:Code|s)?\(((?:\s*\d{2,3}\s*,?){4,400})\)")
_LIST = re.compile(
    r"\[((?:\s*[\"'][^\"'\n]{0,60}[\"']\s*,?){2,60})\]\s*(?:\.join\(\s*[\"']{2}\s*\)|-join\s*[\"']{2})"
)
_JOINED_PATH = re.compile(r"\b(?:[jJ]oin|resolve|file\.path)\([^\n]{0,200}")
# `Command::new("curl").args(["-d", key])` and `exec.Command("curl", "-d", key)`: one line of a shell.
_ARGUMENTS = re.compile(
    r"(?<=\()\s*[\"'](?:/usr/bin/|/bin/)?(?:curl|wget|nc|ncat|bash|sh|scp|powershell|cmd)[\"'](?:[^\n]{0,400}|\)\s*\n?\s*\.args?\([^\n]{0,400})"
)
_TURNED = re.compile(
    r"[\"']([^\"'\n]{4,200})[\"']\.(?:split\([\"']{2}\)\.reverse\(\)\.join\([\"']{2}\)|reverse\b)"
)
_QUOTES_INSIDE = re.compile(r"(?<=[a-z])(?:''|\"\")(?=[a-z])")
_BLANK_NAME = re.compile(r"\$\{?IFS\}?(?:\$\d)?")
_PLAIN_VALUE = re.compile(
    r"""(?m)^[ \t]*(?:(?:export|local|readonly|declare|const|let|var|my|our|set)\s+)?(?P<sign>\$?)(?P<name>[A-Za-z_]\w{0,40})(?:\s*:\s*\w+)?[ \t]*=[ \t]*(?P<quote>["']?)(?P<value>[^"'\s;$`()<>|&]{2,200})(?P=quote)[ \t]*;?[ \t]*$"""
)


def joined(text: str, ending: str) -> str:
    """The text with its literals added up and plain names filled in; every line stays a line."""
    text = _ADDED_UP.sub("", text)
    if ending not in SHELL_ENDINGS:
        text = _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    text = _NUMBERS.sub(_from_numbers, text)
    text = _LIST.sub(_from_list, text)
    text = _JOINED_PATH.sub(lambda found: re.sub(r"[\"']\s*,\s*[\"']", "/", found[0]), text)
    text = _TURNED.sub(lambda found: f"'{found[1][::-1]}'", text)
    if ending in SHELL_ENDINGS:
        text = _BLANK_NAME.sub(" ", _QUOTES_INSIDE.sub("", text))
    elif ending in (".ps1", ".psm1"):
        text = re.sub(r"(?<=\w)`(?=\w)", "", text)
    elif ending in (".bat", ".cmd"):
        text = re.sub(r"(?<=\w)\^(?=\w)", "", text)
    return _filled_in(text)


def _from_numbers(found: re.Match[str]) -> str:
    numbers = [int(each) for each in re.findall(r"\d+", found[1])]
    return "'" + "".join(chr(each) if 31 < each < 127 else "?" for each in numbers) + "'"


def _from_list(found: re.Match[str]) -> str:
    return "'" + "".join(re.findall(r"[\"']([^\"'\n]*)[\"']", found[1])) + "'"


def _filled_in(text: str) -> str:
    """`$tool $address` with what was given to both names; a name with two values stays a name."""
    values: dict[str, set[str]] = {}
    for found in _PLAIN_VALUE.finditer(text):
        values.setdefault(found["name"], set()).add(found["value"])
    plain = {name: next(iter(each)) for name, each in values.items() if len(each) == 1}
    if not plain or len(plain) > 200:
        return text
    names = "|".join(sorted(map(re.escape, plain), key=len, reverse=True))
    text = re.sub(
        rf"\$\{{({names})\}}|\$({names})\b(?![ \t]*=)",
        lambda found: plain[found[1] or found[2]],
        text,
    )
    addresses = {name: each for name, each in plain.items() if URL.fullmatch(each)}
    if not addresses:
        return text
    names = "|".join(map(re.escape, addresses))
    return re.sub(rf"(?<=\()({names})\b(?=[,)])", lambda found: f"'{plain[found[1]]}'", text)


# Marks (rules 2 and 4)

_POINTED_TO = re.compile(
    r"(?:\s-i\s*|IdentityFile[= ]\s*|--(?:key|identity|kubeconfig|private-key|config)\S*[= ]\s*"
    r"|\b(?:KUBECONFIG|GNUPGHOME|AWS_SHARED_CREDENTIALS_FILE)=|privateKey\w*\s*[:=][^\n]{0,60}"
    r"|\b(?:ssh-add|ssh-copy-id|ssh-keygen|ssh|scp|chmod|chown|ls|test|stat|touch|mkdir|source|existsSync\(|exists?\?\()\b[^|;&\n]{0,80}"
    r"|\[\[?\s[^\]\n]{0,60})[^\s|;&]{0,60}\Z"
)
_WHOLE_ENVIRONMENT = re.compile(
    r"\bprocess\.env\b(?!\s*[.\[?]|\s*[;)]?\s*$)|(?:\$\(|`|\|\s*|^\s*|;\s*|&&\s*)(?:env|printenv|export\s+-p|declare\s+-x)\s*(?:\)|`|\||>|$)"
    r"|\bENV\.(?:to_h|to_a|map|each|select|inspect)\b|%ENV\b|\b(?:Get-ChildItem|gci|dir|ls)\s+env:|GetEnvironmentVariables\(|\bos\.Environ\(\)|env::vars\(\)|Sys\.getenv\(\)|System\.getenv\(\)"
)
# Programs that give out what others keep.
_SECRET_COMMANDS = re.compile(
    r"\bkubectl\s+get\s+secrets?\b|\b(?:bw|lpass)\s+export\b|\bop\s+(?:item\s+list|export)\b|\bgcloud\s+auth\s+print|\bgh\s+auth\s+token|\bpass\s+show\b|\bsecretsmanager\s+get-secret|\bcmdkey\s+/list|\bvaultcmd\b|\bgpg\s+[^\n|]{0,60}--export-secret"
)
_TYPED = re.compile(
    r"\bread\s+(?:-\w+\s+)*-\w*s\w*\b|Read-Host\b[^\n]{0,80}-AsSecureString|with\s+hidden\s+answer|\bstty\s+-echo\b"
)
_DOCUMENTS = re.compile(
    r"\b(?:tar|zip|cp|find|rsync|7z|Compress-Archive|Get-ChildItem)\b[^\n|;]{0,160}(?:~|\$\{?HOME\}?|\$env:USERPROFILE)(?:[/\\](?:Documents|Desktop|Downloads|Pictures)?)?[\"']?(?:[\s|;)]|$)",
    re.IGNORECASE,
)
_DOWNLOADED = re.compile(
    r"DownloadString|DownloadData|\b(?:iwr|irm|Invoke-WebRequest|Invoke-RestMethod)\b|\b(?:curl|wget)\b[^\n]{0,200}https?:|(?<![.\w])fetch\(|(?:window|globalThis)\.fetch\(|axios\.get|https?\.get\("
    r"|Net::HTTP\.get|URI\.open|open-uri|HTTP::Tiny|LWP::|\bgot\(|file_get_contents\(\s*[\"']https?:",
    re.IGNORECASE,
)
_DECODED = re.compile(
    r"base64\s+-{1,2}d|base64\s+-D|\batob\(|\bfrom\([^\n]{1,400},\s*[\"'](?:base64|hex)[\"']\s*\)|FromBase64String|decode64|MIME::Base64|decode_base64|\bunpack1?\b|pack\([\"']H|xxd\s+-r|openssl\s+(?:enc\s+)?-?base64"
    r"|\|\s*rev\b|gunzip|gzinflate|base64_decode|str_rot13|inflateSync|printf\s+[\"']?(?:\\[x0-7])|\btr\s+[\"']?[A-Za-z-]{5,}",
)
_SENDING = re.compile(
    r"\bcurl\b(?=[^\n]{0,400}(?:\s-[a-zA-Z]*[dFT]\b|--data|--form|--upload|--json|-X\s*P|[?&][\w-]+=[^\s&\"']{0,40}\$|/\$))|\bwget\b(?=[^\n]{0,400}(?:--post|--body|[?&]\w+=\$|/\$))"
    r"|\|\s*(?:nc|ncat|netcat|socat|telnet)\s|\b(?:nc|ncat)\s+(?:-\w+\s+)*\S+\s+\d+\s*<|>\s*/dev/(?:tcp|udp)/"
    r"|(?:^|[;&|`(]|\bdo\b|\bthen\b)\s*(?:dig|nslookup|host|ping)\s[^\n]{0,200}\$"
    r"|\b(?:UploadString|UploadFile|UploadData|UploadValues)\b|\b(?:Invoke-RestMethod|Invoke-WebRequest|irm|iwr)\b(?=[^\n]{0,300}(?:-Body|-InFile|-Method\s+[\"']?P))"
    r"|(?<![.\w])fetch\s*\(|(?:window|globalThis)\.fetch\(|\baxios\b|https?\.request|XMLHttpRequest|new\s+WebSocket|sendBeacon|net\.(?:connect|createConnection)|\.(?:write|send)\(|\breq\w*\.end\("
    r"|Net::HTTP|TCPSocket|HTTParty|Faraday|RestClient|LWP::|HTTP::Tiny|IO::Socket|HTTP::Request|http\.(?:Post\w*|NewRequest)|net\.Dial|reqwest::|ureq::|TcpStream::|URLSession|HttpClient|httr::|RCurl|\bcurl_exec\b|\bfsockopen\b",
    re.IGNORECASE,
)
_EXECUTING = re.compile(
    r"\beval\b|new\s+Function\b|runIn(?:This|New)Context|\bexecSync\s*\(|(?:(?<![.\w])|\b(?:cp|child_process|childProcess|shell|Kernel|IO)\.)(?:exec|execFile|spawn|spawnSync|system|popen)\s*\(|\b(?:instance_|class_)eval\b"
    r"|\biex\b|Invoke-Expression|scriptblock\]?::Create|Invoke-Command|\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b|\b(?:ba|z|da)?sh\s+-c\b|(?:^|[;&]\s*|\|\|\s*)\$\{?\w+\}?\s+[-\"'$]|\|\s*[\"']?\$\{?\w+\}?[\"']?\s*$",
)
_GIVEN = re.compile(
    r"(?:^|[\s;({,])(?:(?P<first>[A-Za-z_]\w{0,40})\s*,\s*)?[$@%]?(?P<name>[A-Za-z_]\w{0,40})(?:\[[^\]\n]{0,60}\])?(?:\s*:\s*[\w<>\[\]|.]{1,40})?[ \t]*(?:\|\||\+|\.)?(?::?=|<-)(?![=~>])(?P<value>[^\n]+)"
    r"|\b(?:for|foreach)\s*\(?\s*(?:const|let|var|my)?\s*[$@]?(?P<each>\w{1,40})\s+(?:in|of)\s+(?P<all>[^\n]+)"
    r"|(?P<before>[^\n]*)\|\s*while\s+(?:IFS=\S*\s+)?read\s+(?:-\w+\s+)*(?P<read>\w{1,40})"
    r"|\bread\s+(?:-\w+\s+)*-\w*s\w*\s+(?:-\w+\s+(?:[\"'][^\"'\n]*[\"']\s+)?)*(?P<typed>[A-Za-z_]\w{0,40})"
    r"|(?P<owner>\w{1,40})\.(?:push|append|concat)\((?P<more>[^\n]+)"
)
_FILLED = re.compile(
    r"(?:(?<![\d&])>{1,2}|\btee\s+(?:-a\s+)?|\s-(?:o|O|OutFile|DestinationPath)\s|\b(?:cp|mv)\s+(?:-\w+\s+)*\S+\s|\btar\s+-?\w*f\s|\bzip\s+(?:-\w+\s+)*)\s*[\"']?(?P<path>[$\w.~{}/:-]{3,120})"
)
# Something of it stands in every line that gets a mark by itself.
_MARKED = re.compile(
    r"ssh|id_|git|docker|\.aws|gnupg|kube|shadow|history|login|state|cookies|key|data|wallet|exodus|electrum|bitcoin"
    r"|solana|gcloud|env|npm|netrc|pypi|openclaw|clawd|moltbot|hermes|claude|codex|passwd|pgpass|read|hidden|stty|tar\b|zip|\bcp\b"
    r"|find|rsync|7z|get-childitem|download|iwr|irm|invoke-|curl|wget|fetch|\.get|http|open|got|contents|base64|atob|from|pack|xxd"
    r"|rev\b|gunzip|inflate|rot13|printf|\btr\b|decode|nkbih",
    re.IGNORECASE,
)
_PRIVATE_MARKS = ("keys", "environment", "typed", "documents", "settings")
_SHARED_DIRECTORIES = re.compile(r"(?:/var)?/tmp|/dev|~|\$HOME|\.{1,2}")
_WHAT = {
    "keys": "files with keys",
    "environment": "the whole environment",
    "typed": "what was typed unseen",
    "documents": "the owner's documents",
    "settings": "settings",
}


@dataclass
class _Marks:
    """What names and files hold, by the place that filled them."""

    names: dict[str, set[str]] = field(default_factory=dict)
    files: dict[str, set[str]] = field(default_factory=dict)
    directories: dict[str, set[str]] = field(default_factory=dict)

    def of(self, line: str) -> set[str]:
        """What a line reads, itself and through what was filled before it."""
        marks = set[str]()
        if any(not _is_pointed_to(line, each.start()) for each in HARD_SECRETS.finditer(line)):
            marks.add("keys")
        for mark, sign in (
            ("keys", _SECRET_COMMANDS),
            ("settings", SOFT_SECRETS),
            ("environment", _WHOLE_ENVIRONMENT),
            ("typed", _TYPED),
            ("documents", _DOCUMENTS),
            ("downloaded", _DOWNLOADED),
            ("decoded", _DECODED),
        ):
            if sign.search(line):
                marks.add(mark)
        for word in set(re.findall(r"[A-Za-z_]\w*", line)) & self.names.keys():
            if _is_taken(line, word):
                marks |= self.names[word]
        for path, held in self.files.items():
            if path in line:
                marks |= held
        for path, held in self.directories.items():
            if re.search(re.escape(path) + r"/?\*?[\"']?(?:\s|$)", line):
                marks |= held
        return marks

    def is_known_in(self, line: str) -> bool:
        """Whether a line may take something from a name or a file that is marked."""
        held = (*self.names, *self.files, *self.directories)
        return any(each in line for each in held)

    def fill(self, line: str) -> None:
        for found in _GIVEN.finditer(line):
            name = found["name"] or found["each"] or found["read"] or found["owner"]
            value = found["value"] or found["all"] or found["before"] or found["more"] or ""
            if found["typed"]:
                self.names.setdefault(found["typed"], set()).add("typed")
            elif name and (marks := self.of(value)):
                for each in {name, found["first"] or name}:
                    self.names.setdefault(each, set()).update(marks)
        filled = _FILLED.search(line)
        if filled and (marks := self.of(line) - {"downloaded"}):
            path = filled["path"].strip("\"'")
            self.files.setdefault(path, set()).update(marks)
            above = path.rpartition("/")[0]
            if above and not _SHARED_DIRECTORIES.fullmatch(above):
                self.directories.setdefault(above, set()).update(marks)


def _is_pointed_to(line: str, start: int) -> bool:
    return _POINTED_TO.search(line[max(0, start - 160) : start]) is not None


def _is_taken(line: str, name: str) -> bool:
    """Whether a name gives its value: not as the key of a login, not as the name that is filled."""
    return any(
        not _is_pointed_to(line, found.start())
        for found in re.finditer(rf"(?<![\w.\"'-]){re.escape(name)}\b(?!\s*=[^=])", line)
    )


# Findings (rules 3 and 5)


def script_findings(text: str, ending: str, scope: SkillScope) -> Iterator[LineFinding]:
    """What a script does, by its lines; `text` without comments."""
    text = joined(text, ending)
    line = line_of(text)
    for each in command_findings(text, scope):
        yield LineFinding(line(each.start), each.rule, each.weight, each.message)
    yield from _flows(text, scope, is_shell=ending in SHELL_ENDINGS)
    yield from whole_file_findings(text)
    for at, rule, message in _whole_file(text, scope):
        yield LineFinding(line(at), rule, DANGER, message)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that they go on in, and the number of the first one."""
    first, kept = 0, ""
    for number, raw in enumerate(text.split("\n")[:_MOST_LINES], 1):
        first = first or number
        kept += raw.rstrip("\\^").rstrip() + " "
        if raw.endswith(("\\", "|", "&&", "(", ",", "+")) and len(kept) < _MAX_LINE:
            continue
        yield first, kept[:_MAX_LINE]
        first, kept = 0, ""
    if kept:
        yield first, kept[:_MAX_LINE]


# One of them stands in every line that sends or executes something, if it is no shell's.
_END_HINTS = set_of_words(
    "curl wget nc netcat ncat socat telnet /dev/ dig host ping upload invoke- irm iwr fetch axios request websocket"
    " beacon net. write( send( end( http socket faraday restclient lwp io:: fsock eval function runin exec spawn"
    " system popen iex scriptblock reqwest ureq tcpstream urlsession httr rcurl httparty"
)


def _may_end(small: str) -> bool:
    return any(hint in small for hint in _END_HINTS)


def _flows(text: str, scope: SkillScope, *, is_shell: bool) -> Iterator[LineFinding]:
    text = _ARGUMENTS.sub(lambda found: re.sub(r"[\"'\[\],]", " ", found[0]), text)
    marks = _Marks()
    lines = list(_logical_lines(text))
    apart = re.findall(r"\bhost(?:name)?[\"']?\s*[:=]\s*[\"']([\w.-]+\.\w+)[\"']", text)
    all_urls = {*URL.findall(text), *(f"https://{each}" for each in apart)}
    ends = [
        (number, line, _SENDING.search(line), _EXECUTING.search(line))
        for number, line in lines
        if is_shell or _may_end(line.lower())
    ]
    ends = [each for each in ends if each[2] or each[3]]
    for _again in range(2 if ends else 0):
        for _number, line in lines:
            if _MARKED.search(line) or marks.is_known_in(line):
                marks.fill(line)
    for number, line, sends, executes in ends:
        held = marks.of(line)
        urls = set(URL.findall(line)) or all_urls
        host = max((classify(url, scope) for url in urls), default=HostClass.UNKNOWN)
        if sends:
            yield from _sent(number, held, host, urls)
            yield from _credentials_of_others(number, line)
        if executes and (message := _executed(line, held, host)):
            yield LineFinding(number, "runs_hidden_code", DANGER, message)


def _sent(number: int, held: set[str], host: HostClass, urls: set[str]) -> Iterator[LineFinding]:
    for mark in _PRIVATE_MARKS:
        if mark not in held:
            continue
        weight: FindingWeight = WARN
        if mark in ("keys", "environment"):
            weight = DANGER if host > HostClass.KNOWN else WARN
        elif mark in ("typed", "documents"):
            weight = DANGER if host >= HostClass.UNKNOWN and urls else WARN
        elif any(is_taken_by_anybody(url) for url in urls):
            weight = DANGER
        yield LineFinding(number, "steals_secrets", weight, f"sends {_WHAT[mark]} over the network")
        return


def _executed(line: str, held: set[str], host: HostClass) -> str | None:
    if "decoded" in held and not re.search(r"\|\s*(?:jq|tar|docker|kubectl|tee)\b", line):
        return "executes encoded code"
    if "downloaded" in held and host >= HostClass.UNKNOWN and not _DOWNLOADED.search(line):
        return "executes downloaded code"
    return None


# Services whose credentials have names of their own, and the domains that are theirs.
_SERVICES = {
    "GITHUB": ("github", "ghcr", "githubusercontent"),
    "GH": ("github", "ghcr", "githubusercontent"),
    "AWS": ("amazonaws", "aws", "amazon"),
    "NPM": ("npmjs", "github", "npm"),
    "STRIPE": ("stripe",),
    "SLACK": ("slack",),
    "PYPI": ("pypi", "python"),
    "ANTHROPIC": ("anthropic", "claude"),
    "OPENAI": ("openai", "azure"),
}
_OWN_TOKEN = re.compile(
    rf"\$\{{?(?:env:)?({'|'.join(_SERVICES)})_(?:\w{{1,30}}_)?(?:KEY|TOKEN|SECRET|PAT)\b|process\.env\.({'|'.join(_SERVICES)})_(?:\w{{1,30}}_)?(?:KEY|TOKEN|SECRET|PAT)\b"
)
_IN_A_HEADER = re.compile(
    r"(?:-H|--header|-u|--user|-Headers)\s*(?:\"[^\"\n]*|'[^'\n]*)\Z|Authorization"
)


def _credentials_of_others(number: int, line: str) -> Iterator[LineFinding]:
    """The token of one service, in what is sent to another (rule 5)."""
    hosts = {main_domain(urlsplit(url).hostname or "") for url in URL.findall(line)}
    for found in _OWN_TOKEN.finditer(line):
        own = _SERVICES[found[1] or found[2]]
        elsewhere = [each for each in hosts if not any(name in each for name in (*own, "local"))]
        if elsewhere and not _IN_A_HEADER.search(line[: found.start()][-160:]):
            message = "sends the credential of one service to another address"
            yield LineFinding(number, "steals_secrets", DANGER, message)
            return


_STARTS = r"(?:\.bashrc|\.zshrc|\.zshenv|\.bash_profile|\.zprofile|\.profile|/hooks/[a-z-]{3,30}|LaunchAgents/\S{1,80}|/etc/cron\S{0,40}|systemd/user/\S{1,60}|autostart/\S{1,60})"
_HERE_TEXT = re.compile(
    rf"(?:>>?|\btee\b)[^\n]{{0,80}}{_STARTS}[^\n]{{0,40}}<<-?\s*[\"']?(?P<end>\w+)[\"']?\s*\n(?P<planted>.{{0,4000}}?)\n\s*(?P=end)\s*(?:\n|\Z)"
    rf"|<<-?\s*[\"']?(?P<end2>\w+)[\"']?\s*>>?[^\n]{{0,80}}{_STARTS}[^\n]{{0,40}}\n(?P<planted2>.{{0,4000}}?)\n\s*(?P=end2)\s*(?:\n|\Z)",
    re.DOTALL,
)
_SOCKETS = re.compile(
    r"\bTCPSocket\b|\bsocket\s*\(\s*\w+\s*,|IO::Socket|\bfsockopen\b|net\.(?:Socket|connect|createConnection)|Sockets\.TCPClient"
)
_SHELL_STARTED = re.compile(
    r"\b(?:exec|spawn|system|popen|proc_open|IO\.popen|Open3\.\w+)\b[^\n]{0,60}[\"'`](?:/bin/)?(?:(?:ba|z)?sh(?:\s+-i)?|cmd(?:\.exe)?|powershell(?:\.exe)?)[\"'`]|\b(?:iex|Invoke-Expression)\b"
)
_BROWSER_PROFILE = re.compile(
    r"(?:\.config|Application Support|AppData)[\"'\s,/\\]{1,6}\S{0,40}(?:chromium|chrome|brave|edge|firefox|opera|vivaldi)|\.mozilla",
    re.IGNORECASE,
)
_BROWSER_SECRETS = re.compile(
    r"[\"'/\\](?:Cookies|Login Data|Web Data|Local State|logins\.json|cookies\.sqlite)\b"
)
_READS_CLIPBOARD = re.compile(
    r"\bpbpaste\b|Get-Clipboard|xclip\s[^\n]{0,40}-o|clipboard\.readText|clipboardy\.read|pyperclip\.paste"
)
_WRITES_CLIPBOARD = re.compile(
    r"\bpbcopy\b|Set-Clipboard|xclip\s[^\n]{0,40}-i|clipboard\.writeText|clipboardy\.write|pyperclip\.copy"
)
_WALLET_SHAPE = re.compile(
    r"\bbc1[a-z0-9]{20,60}\b|\b0x[0-9a-fA-F]{40}\b|\(?bc1\|?|0x\[(?:0-9)?a-f|\[13\]\[a-",
    re.IGNORECASE,
)
_SETTINGS_FILE = re.compile(
    r"\.(?:claude|codex|cursor|gemini|openclaw|continue)[\"'\s,)/\\]{1,8}(?:settings(?:\.local)?\.json|config\.(?:toml|json)|mcp\.json|openclaw\.json)|claude_desktop_config\.json|\.claude\.json"
)
_LOOSENED = re.compile(
    r"bypassPermissions|danger-full-access|Bash\(\*\)|skipDangerousModePermissionPrompt|approval_policy\W{1,6}never|[\"']?sandbox\w*[\"']?\s*[:=]\s*[\"']?(?:false|off|none)|enableAllProjectMcpServers",
    re.IGNORECASE,
)
_WRITTEN = re.compile(
    r"\bwrite\w*\(|writeFile|>>?\s*[\"']?[$~/.]|\btee\b|\bdump\(|Set-Content|Out-File|File\.write|\bsed\s+-i|\bjq\b"
)
_DISGUISED = re.compile(
    r"(?:chmod\s+(?:\+x|[0-7]*[75][0-7]*)\s+[^\n]{0,120}\.(?:png|jpe?g|gif|dat|bin|txt|json|pdf|ico|woff2?|md)\b"
    r"|\b(?:cp|mv|install|ditto)\s[^\n]{0,120}\.(?:png|jpe?g|gif|dat|pdf|ico|woff2?)[\"']?\s+[^\n]{0,60}(?:/tmp|/var/tmp|/dev/shm|TMPDIR|~|\$HOME)[^\n]{0,60}\n(?:[^\n]{0,160}\n){0,3}?[^\n]{0,20}chmod)"
)


def whole_file_findings(text: str) -> Iterator[LineFinding]:
    """What a script in any language does as a whole: an agent's settings, the clipboard."""
    line = line_of(text)
    settings = _SETTINGS_FILE.search(text)
    loosened = _LOOSENED.search(text) if settings and _WRITTEN.search(text) else None
    if loosened:
        message = "loosens what keeps an agent in check"
        yield LineFinding(line(loosened.start()), "takes_over_agent", DANGER, message)
    browser = _BROWSER_PROFILE.search(text)
    if browser and _BROWSER_SECRETS.search(text) and _SENDING.search(text):
        message = "reads what a browser keeps, and sends data"
        yield LineFinding(line(browser.start()), "steals_secrets", DANGER, message)
    written = _WRITES_CLIPBOARD.search(text)
    if written and _READS_CLIPBOARD.search(text) and _WALLET_SHAPE.search(text):
        message = "puts its own address into the clipboard"
        yield LineFinding(line(written.start()), "payment_order", DANGER, message)


def _whole_file(text: str, scope: SkillScope) -> Iterator[tuple[int, str, str]]:
    for found in _HERE_TEXT.finditer(text):
        planted = found["planted"] or found["planted2"] or ""
        strange = any(classify(url, scope) >= HostClass.UNKNOWN for url in URL.findall(planted))
        if strange:
            yield found.start(), "installs_itself", "plants a command that reaches a stranger"
    socket = _SOCKETS.search(text)
    if socket and _SHELL_STARTED.search(text):
        yield socket.start(), "reverse_shell", "lets somebody run commands over a socket"
    disguised = _DISGUISED.search(text)
    if disguised:
        yield (
            disguised.start(),
            "disguised_program",
            "makes a program of a file that looks like none",
        )
