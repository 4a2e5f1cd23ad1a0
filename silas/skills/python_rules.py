"""What Python scripts give away, read as a syntax tree and never imported.

1. Texts that are put together (`"cu" + "rl"`, joined lists, f-strings) are read as one.
2. What is decoded, downloaded, read from files with keys, or the whole environment marks the names
   that it is assigned to, and the functions that return it.
3. Marked values decide: decoded or downloaded ones that are executed, secrets that are sent.
4. What honest scripts do as well (`subprocess`, `eval` of a literal, `requests.post`) weighs little.
5. A script that is no Python is said to be so: nobody can check it.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from silas.skills.command_rules import (
    DANGER,
    HARD_SECRETS,
    INFO,
    SOFT_SECRETS,
    URL,
    WARN,
    FindingWeight,
    HostClass,
    LineFinding,
    SkillScope,
    classify,
    command_findings,
    is_collector,
    is_somebodys_own,
    main_domain,
)

_DECODERS = {
    *("base64.b64decode", "base64.b32decode", "base64.b16decode", "base64.b85decode"),
    *("base64.urlsafe_b64decode", "base64.decodebytes", "base64.a85decode", "bytes.fromhex"),
    *("bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_base64", "codecs.decode"),
    *("zlib.decompress", "bz2.decompress", "lzma.decompress", "gzip.decompress", "marshal.loads"),
    *("b64decode", "unhexlify", "urlsafe_b64decode", "a85decode", "b85decode", "fromhex"),
}
_FETCHERS = {
    *("requests.get", "requests.post", "httpx.get", "urllib.request.urlopen", "urlopen"),
    *("request.urlopen", "requests.request", "urllib.urlopen", "urllib2.urlopen"),
}
_SENDERS = {
    *("requests.post", "requests.put", "requests.request", "requests.get", "requests.patch"),
    *("httpx.post", "httpx.put", "httpx.get", "httpx.request", "urllib.request.urlopen", "urlopen"),
    *("urllib.request.Request", "Request", "request.urlopen", "aiohttp.request"),
    *("session.post", "client.post", "session.put", "s.sendall", "sock.sendall", "sock.send"),
    *("s.send", "socket.send", "socket.sendall", "conn.request", "connection.request"),
    *("smtp.sendmail", "server.sendmail", "server.send_message", "socket.gethostbyname"),
    *("ftp.storbinary", "boto3.client", "session.get", "client.get"),
}
_SEND_METHODS = {
    "post",
    "put",
    "request",
    "sendall",
    "sendto",
    "sendmail",
    "storbinary",
    "upload_file",
}
_RUNNERS = {
    *("os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.Popen", "Popen"),
    *(
        "subprocess.check_output",
        "subprocess.check_call",
        "subprocess.getoutput",
        "commands.getoutput",
    ),
    *("subprocess.getstatusoutput", "pty.spawn", "os.execv", "os.execl", "os.execvp", "os.spawnl"),
    *("asyncio.create_subprocess_shell", "asyncio.create_subprocess_exec", "check_output", "run"),
}
_EVALUATORS = {"exec", "eval", "builtins.exec", "builtins.eval", "compile", "__builtins__.exec"}
_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "asyncio.create_subprocess_shell"}
_CREDENTIAL_NAME = re.compile(
    r"(OPENAI|ANTHROPIC|AWS|GITHUB|GH|GOOGLE|GEMINI|STRIPE|SLACK|NPM|AZURE|HF|PYPI|DISCORD|TELEGRAM|SSH"
    r"|DATABASE|NOTION|VAULT|KUBE)_?(?:\w*_)?(?:KEY|TOKEN|SECRET|PASSWORD|URL|ACCESS_KEY)\b"
)
_MEMORY_CALLS = {"VirtualAlloc", "VirtualAllocEx", "CreateRemoteThread", "WriteProcessMemory"}
_COLLECTS = {"append", "extend", "update", "add", "write", "setdefault"}
_SECRET_SHAPES = re.compile(r"AKIA\[|gh[pousr]_\[|\bsk-\[|xox\[?[bap]|PRIVATE KEY-----|AIza\[")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,60}")
_STARTS_BY_ITSELF = re.compile(
    r"LaunchAgents|\.bashrc|\.zshrc|\.bash_profile|/etc/cron|\.config/systemd|authorized_keys"
    r"|CurrentVersion\\\\?Run|Start Menu.{0,40}Startup|\.git/hooks",
)
_LOGIN_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,40})\s+AAAA[\w+/]{20,}")
_PLANTED = re.compile(
    r"\bcurl\s[^\n]{0,200}\|\s*\w*sh\b|\bnohup\b|base64\s+-{1,2}d|/dev/tcp/|\$\(curl|/tmp/\.\w|LD_PRELOAD"
)
_WATCHES = {
    *("PIL.ImageGrab.grab", "ImageGrab.grab", "pyautogui.screenshot", "pyscreenshot.grab"),
    *("mss.mss", "sounddevice.rec", "pyaudio.PyAudio", "cv2.VideoCapture"),
}
_HOME_OR_DOCUMENTS = re.compile(
    r"(?:~|/home|/Users|C:/Users)/?(?:/?(?:Documents|Desktop|Downloads|Pictures|\{\})/?)?"
)
_NO_PROGRAM = re.compile(r"\.(?:png|jpe?g|gif|ico|pdf|dat|txt|json|md|woff2?|ttf|svg|csv)$")
_OWN_RULES = re.compile(r"\b(?:SOUL|AGENTS|CLAUDE|MEMORY|IDENTITY|HEARTBEAT)\.md\b")


@dataclass
class PythonFacts:
    """What a script does, for rules that look at the whole skill."""

    findings: list[LineFinding] = field(default_factory=list)
    environment: dict[str, int] = field(default_factory=dict)
    """Variables that are read, and where first."""
    network: int = 0
    """The line of the first request; 0: none."""
    takes: int = 0
    """The line where keys or the owner's documents are read; 0: none."""
    hosts: set[HostClass] = field(default_factory=set)
    """Of the addresses in it."""


def python_facts(source: str, scope: SkillScope) -> PythonFacts:
    """Read one script; what cannot be parsed becomes a finding (rule 5)."""
    facts = PythonFacts()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        message = f"is no Python that can be read ({getattr(error, 'msg', None) or error})"
        facts.findings.append(LineFinding(line, "unreadable_script", WARN, message))
        return facts
    try:
        _Reader(facts, scope, source).read(tree)
    except RecursionError:
        message = "is nested too deeply to be read"
        facts.findings.append(LineFinding(1, "unreadable_script", WARN, message))
    return facts


def _dotted(node: ast.AST) -> str:
    """`os.path.join` for the expression that says so; calls inside of it are left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    if isinstance(node, ast.Call):
        return _import_of(node) or _dotted(node.func)
    return ""


def _import_of(call: ast.Call) -> str:
    """`os` for `__import__("os")` and `importlib.import_module("os")`."""
    if _dotted_plain(call.func) in ("__import__", "importlib.import_module") and call.args:
        return folded(call.args[0]) or ""
    return ""


def _dotted_plain(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted_plain(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def folded(node: ast.AST) -> str | None:  # noqa: PLR0911 - one case for each way to spell a text
    """The text that an expression gives as far as it can be seen; None if it gives none."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        return node.value.decode("latin-1") if isinstance(node.value, bytes) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div | ast.Mod):
        left, right = folded(node.left), folded(node.right)
        if left is None and right is None:
            return None
        joint = "/" if isinstance(node.op, ast.Div) else ""
        return f"{left or '{}'}{joint}{right or '{}'}"
    if isinstance(node, ast.JoinedStr):
        return "".join(folded(each) or "{}" for each in node.values)
    if isinstance(node, ast.FormattedValue):
        return folded(node.value)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        step, inner = node.slice.step, folded(node.value)
        backwards = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        return inner[::-1] if inner is not None and backwards else None
    if isinstance(node, ast.Call):
        return _folded_call(node)
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        parts = [folded(each) for each in node.elts]
        return " ".join(part or "{}" for part in parts) if any(parts) else None
    return None


def _folded_call(node: ast.Call) -> str | None:
    name = _dotted_plain(node.func)
    if name == "chr" and node.args and isinstance(node.args[0], ast.Constant):
        value = node.args[0].value
        return chr(value) if isinstance(value, int) and 0 < value < 0x110000 else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
        joint = folded(node.func.value)
        if joint is not None and isinstance(node.args[0], ast.List | ast.Tuple):
            return joint.join(folded(each) or "{}" for each in node.args[0].elts)
    paths = ("os.path.join", "os.path.expanduser", "Path", "pathlib.Path", "Path.home", "join")
    if name in paths or name.endswith((".joinpath", ".expanduser", ".format")):
        parts = [folded(each) for each in node.args]
        if isinstance(node.func, ast.Attribute) and name.endswith(
            (".joinpath", ".expanduser", ".format")
        ):
            parts.insert(0, folded(node.func.value))
        return "/".join(part for part in parts if part) or ("~" if name == "Path.home" else None)
    return None


def _credential(name: str | None) -> set[str]:
    """The mark of a variable that holds somebody's credential; none for any other."""
    found = _CREDENTIAL_NAME.match(name or "")
    return {f"credential of {found[1]}"} if found else set()


def _what_runs(node: ast.Call) -> Iterator[ast.AST]:
    """The parts of a call that are executed: not what a program is merely handed."""
    for each in node.args[:1]:
        if not isinstance(each, ast.List | ast.Tuple):
            yield each
            continue
        before = ""
        for number, word in enumerate(each.elts):
            if number == 0 or before in ("-c", "-e", "-Command", "/c"):
                yield word
            before = folded(word) or ""


def _collecting_name(call: ast.Call) -> ast.Name | None:
    """`found` for `found.append(…)`."""
    match call.func:
        case ast.Attribute(value=ast.Name() as owner, attr=method) if method in _COLLECTS:
            return owner
    return None


def _is_arithmetic_on_letters(node: ast.Call) -> bool:
    """`"".join(chr(ord(c) ^ 7) for c in …)`, `bytes(b ^ 7 for b in …)`, `bytes([112, 114, …])`."""
    raw = _dotted_plain(node.func) in ("bytes", "bytearray")
    joins = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
    if not node.args or not (raw or joins):
        return False
    first = node.args[0]
    if isinstance(first, ast.GeneratorExp | ast.ListComp):
        inner = list(ast.walk(first.elt))
        letters = any(isinstance(each, ast.Call) and _dotted(each) == "chr" for each in inner)
        operators = ast.BitXor | ast.Sub | ast.Add
        counts = any(
            isinstance(each, ast.BinOp) and isinstance(each.op, operators) for each in inner
        )
        return counts and (raw or letters)
    return raw and isinstance(first, ast.List) and len(first.elts) >= 6


class _Reader:
    """Goes through one script: marks first, findings then."""

    def __init__(self, facts: PythonFacts, scope: SkillScope, source: str) -> None:
        self.facts = facts
        self.scope = scope
        self.marks: dict[str, set[str]] = {}
        """By name; names of a function have the function's before them."""
        self.defined: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.functions: dict[ast.AST, str] = {}
        """The function that a node stands in, where that is not the module."""
        self.aliases: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.source = source
        self.authorised: dict[str, set[str]] = {}
        self.sent: list[tuple[ast.Call, set[str], set[str]]] = []
        urls = self.urls = URL.findall(source)
        self.hidden_host = any(is_collector(url) for url in urls) or any(
            classify(url, scope) is HostClass.HIDDEN for url in urls
        )

    def read(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.defined[node.name] = node
                # Inner functions come later, and win.
                self.functions.update(dict.fromkeys(ast.walk(node), f"{node.name}:{node.lineno}:"))
                self.functions.pop(node)
        self._aliases(nodes)
        for _round in range(4):
            before = sum(map(len, self.marks.values()))
            self._mark(nodes)
            if sum(map(len, self.marks.values())) == before:
                break
        self.urls += [url for text in self.texts.values() for url in URL.findall(text)]
        self.urls += [f"https://{host}" for node in nodes for host in self._named_hosts(node)]
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Subscript | ast.Attribute):
                self._environment(node)
        self._remember_what_is_taken(nodes)
        self.facts.hosts = {classify(url, self.scope) for url in self.urls}
        self._secrets_beside_network(nodes)
        self._shells_over_sockets(nodes)
        self._second_addresses()
        self._locks_files_up(nodes)
        self._makes_programs(nodes)

    def _named_hosts(self, node: ast.AST) -> Iterator[str]:
        """`HTTPSConnection("host")`, `create_connection(("host", 80))`."""
        if not isinstance(node, ast.Call) or not node.args:
            return
        if self._name(node).endswith(("Connection", "create_connection", ".connect", "SMTP")):
            first = node.args[0]
            first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
            host = self._text(first) or ""
            if re.fullmatch(r"[\w-]+(?:\.[\w-]+)+", host):
                yield host

    def _note(self, node: ast.AST, rule: str, weight: FindingWeight, message: str) -> None:
        line = getattr(node, "lineno", 1)
        self.facts.findings.append(LineFinding(line, rule, weight, message))

    def _aliases(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.aliases[each.asname or each.name.split(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    self.aliases[each.asname or each.name] = f"{node.module}.{each.name}"

    def _name(self, node: ast.AST) -> str:
        name = _dotted(node)
        first, dot, rest = name.partition(".")
        full = f"{self.aliases.get(first, first)}{dot}{rest}"
        if isinstance(node, ast.Call) and full == "getattr" and len(node.args) > 1:
            return f"{self._name(node.args[0])}.{folded(node.args[1]) or ''}"
        return full.removeprefix("builtins.")

    # Marks (rule 2)

    def _mark(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    self._assign(targets, value)
                case ast.AnnAssign(value=ast.expr() as value) | ast.AugAssign(value=value):
                    self._assign([node.target], value)
                case ast.NamedExpr(target=named, value=value):
                    self._assign([named], value)
                case ast.For() | ast.AsyncFor() | ast.comprehension():
                    self._assign([node.target], node.iter)
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    self._assign([target], value)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._mark_function(node)
                case ast.Call():
                    self._hand_over(node)

    def _hand_over(self, call: ast.Call) -> None:
        """What a function of the script is called with marks its parameters; a list, what it gets."""
        owner = _collecting_name(call)
        if owner is not None:
            for each in call.args:
                self._add(owner, self.marks_of(each))
        if self._name(call) in ("urllib.request.urlretrieve", "urlretrieve", "wget.download"):
            for each in call.args[1:2]:
                for inner in ast.walk(each):
                    if isinstance(inner, ast.Name):
                        self._add(inner, {"downloaded"})
        function = self.defined.get(_dotted_plain(call.func).rpartition(".")[2])
        if function is None:
            return
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] == ["self"] else names
        given = [*zip(names, call.args, strict=False)]
        given += [(each.arg, each.value) for each in call.keywords if each.arg]
        for name, value in given:
            if marks := self.marks_of(value):
                own = f"{function.name}:{function.lineno}:{name}"
                self.marks.setdefault(own, set()).update(marks)

    def _mark_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return | ast.Yield) and inner.value is not None:
                self.marks.setdefault(node.name, set()).update(self.marks_of(inner.value))

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        text = folded(value)
        if text is not None and len(targets) == 1 and isinstance(targets[0], ast.Name):
            self.texts[targets[0].id] = text
        marks = self.marks_of(value)
        for inner in (each for target in targets for each in ast.walk(target)):
            if isinstance(inner, ast.Name):
                self._add(inner, marks)

    def _add(self, name: ast.Name, marks: set[str]) -> None:
        if marks:
            own = f"{self.functions.get(name, '')}{name.id}"
            self.marks.setdefault(own, set()).update(marks)

    def _marks_of_name(self, name: ast.Name) -> set[str]:
        """Its own marks, else those of the module's name; a closure's are the module's too."""
        own = self.marks.get(f"{self.functions.get(name, '')}{name.id}")
        return own if own is not None else self.marks.get(name.id, set())

    def marks_of(self, value: ast.AST) -> set[str]:
        """What the values in an expression are marked with."""
        # `for name in os.environ`: the whole of it, not one variable.
        marks = {"environment"} if self._name(value) == "os.environ" else set[str]()
        for node in ast.walk(value):
            if isinstance(node, ast.Name):
                marks |= self._marks_of_name(node)
            elif isinstance(node, ast.Call):
                marks |= self._marks_of_call(node)
            elif isinstance(node, ast.Subscript) and self._name(node.value) == "os.environ":
                marks |= _credential(folded(node.slice))
            elif isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr):
                text = folded(node)
                if text and HARD_SECRETS.search(text + " "):
                    marks.add("keys")
                elif text and (SOFT_SECRETS.search(text) or _SECRET_SHAPES.search(text)):
                    marks.add("settings")
        return marks

    def _marks_of_call(self, node: ast.Call) -> set[str]:
        name = self._name(node)
        decodes = name in _DECODERS or name.endswith((".b64decode", ".fromhex", ".unhexlify"))
        if decodes or _is_arithmetic_on_letters(node):
            return {"decoded"}
        if name in _FETCHERS or name.endswith(".urlopen"):
            return {"downloaded"}
        whole = name in ("os.environ.items", "os.environ.copy", "os.environ.values")
        if whole or name in ("dict", "str", "repr", "json.dumps", "list", "sorted", "pickle.dumps"):
            whole = whole or any(self._is_environment(each) for each in node.args)
            return {"environment"} if whole else set()
        if name in ("os.getenv", "os.environ.get") and node.args:
            return _credential(folded(node.args[0]))
        text = folded(node)
        private = name == "pyperclip.paste" or name.startswith("browser_cookie3.")
        if private or (text and HARD_SECRETS.search(text + " ")):
            return {"keys"}
        return {"documents"} if self._is_of_the_owner(node, name) else set()

    def _is_of_the_owner(self, node: ast.Call, name: str) -> bool:
        """Whether a search begins in the owner's home, or in the folders that people keep there."""
        if name.rpartition(".")[2] not in ("rglob", "glob", "walk", "iterdir"):
            return False
        where = node.func.value if isinstance(node.func, ast.Attribute) else node
        where = node.args[0] if name in ("os.walk", "glob.glob") and node.args else where
        text = self._text(where) or ""
        return _HOME_OR_DOCUMENTS.fullmatch(text) is not None

    def _is_environment(self, node: ast.AST) -> bool:
        return any(
            self._name(each) == "os.environ"
            for each in ast.walk(node)
            if isinstance(each, ast.Attribute) and not isinstance(node, ast.Subscript)
        )

    # Findings (rules 3 and 4)

    def _call(self, node: ast.Call) -> None:
        name = self._name(node)
        if isinstance(node.func, ast.Subscript) and folded(node.func.slice) in _EVALUATORS:
            self._note(node, "runs_hidden_code", DANGER, "hides which function executes a text")
        arguments = [*node.args, *(each.value for each in node.keywords)]
        self._hidden_call(node, name, arguments)
        if name in _EVALUATORS or name.endswith(".exec_module"):
            self._evaluation(node, name)
        if name in _RUNNERS or name.endswith((".exec_command", "os.system", "os.popen")):
            self._running(node, name)
        if name in ("os.getenv", "os.environ.get") and node.args:
            self._variable(folded(node.args[0]), node)
        if self._sends(node, name):
            self.facts.network = self.facts.network or node.lineno
            self._sending(node, arguments)
        if name in ("open", "Path.write_text") or name.endswith((".write_text", ".open")):
            self._writing(node, name)
        if name.endswith(("shutil.rmtree", "rmtree")) and node.args:
            self._removal(node)
        if name.rpartition(".")[2] in _MEMORY_CALLS:
            self._note(node, "runs_hidden_code", DANGER, "writes code into memory to run it")
        if name in ("pickle.loads", "pickle.load", "marshal.loads", "yaml.unsafe_load"):
            self._note(node, "loads_objects", INFO, "loads objects, which may run code")

    def _hidden_call(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> None:
        """A function that is looked up under a name that nobody can read, and given decoded bytes."""
        looked_up = isinstance(node.func, ast.Subscript) and folded(node.func.slice) is None
        looked_up = looked_up or name == "types.FunctionType"
        if looked_up and any("decoded" in self.marks_of(each) for each in arguments):
            self._note(node, "runs_hidden_code", DANGER, "executes encoded code")

    def _evaluation(self, node: ast.Call, name: str) -> None:
        marks = {mark for each in (*node.args, node.func) for mark in self.marks_of(each)}
        if name == "compile" and not marks & {"decoded", "downloaded"}:
            return
        if marks & {"decoded", "downloaded"} or self._is_spelled_out(node):
            what = "downloaded" if "downloaded" in marks else "encoded"
            self._note(node, "runs_hidden_code", DANGER, f"executes {what} code")
        else:
            self._note(node, "evaluates_text", WARN, f"executes a text as code with {name}")

    @staticmethod
    def _is_spelled_out(node: ast.Call) -> bool:
        """Whether the code is put together out of numbers or turned around."""
        for inner in (each for argument in node.args for each in ast.walk(argument)):
            if isinstance(inner, ast.Call) and _dotted_plain(inner.func) in ("chr", "bytes"):
                return True
            if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Slice):
                return isinstance(inner.slice.step, ast.UnaryOp)
        return False

    def _running(self, node: ast.Call, name: str) -> None:
        text = self._text(node.args[0]) if node.args else None
        by_shell = name in _SHELLS or any(
            each.arg == "shell" and isinstance(each.value, ast.Constant) and each.value.value
            for each in node.keywords
        )
        marks = {mark for each in _what_runs(node) for mark in self.marks_of(each)}
        stranger = any(classify(url, self.scope) >= HostClass.UNKNOWN for url in self.urls)
        if marks & {"decoded"} or ("downloaded" in marks and (by_shell or stranger)):
            self._note(node, "runs_hidden_code", DANGER, "runs a decoded or downloaded command")
        for found in command_findings(text, self.scope) if text else ():
            if found.weight is not INFO:
                self._note(node, found.rule, found.weight, found.message)
        if by_shell and (text is None or "{}" in text):
            self._note(node, "shell_interpolation", WARN, "puts values into a line for the shell")
        elif name not in ("run",) or text:
            self._note(node, "runs_programs", INFO, "runs other programs")

    def _text(self, node: ast.expr) -> str | None:
        """The text of an expression, or of the name that it was given to."""
        return self.texts.get(node.id) if isinstance(node, ast.Name) else folded(node)

    def _sends(self, node: ast.Call, name: str) -> bool:
        if name in _SENDERS:
            return True
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _SEND_METHODS
            and not name.startswith(("self.queue", "queue.", "q.", "cache."))
        )

    def _sending(self, node: ast.Call, arguments: list[ast.expr]) -> None:
        self._remember_where_credentials_go(node)
        body = [
            *node.args,
            *(e.value for e in node.keywords if e.arg not in ("headers", "auth", "cookies")),
        ]
        marks = {mark for each in body for mark in self.marks_of(each)}
        near = {url for each in arguments for url in URL.findall(folded(each) or "")}
        hidden = self.hidden_host or any(
            classify(url, self.scope) >= HostClass.UNKNOWN for url in (near or self.urls)
        )
        if "keys" in marks or "environment" in marks:
            what = "files with keys" if "keys" in marks else "the whole environment"
            self._note(node, "steals_secrets", DANGER, f"sends {what} over the network")
        elif len({mark for mark in marks if mark.startswith("credential of")}) > 1:
            message = "sends credentials of several services to one address"
            self._note(node, "steals_secrets", DANGER, message)
        elif "documents" in marks and any(
            classify(url, self.scope) >= HostClass.UNKNOWN for url in (near or self.urls)
        ):
            self._note(node, "steals_secrets", DANGER, "sends the owner's documents to a stranger")
        elif "settings" in marks and hidden:
            self._note(node, "steals_secrets", DANGER, "sends settings to a hidden address")
        elif "settings" in marks and self._name(node).endswith("gethostbyname"):
            self._note(node, "steals_secrets", DANGER, "hides settings in names that it looks up")
        elif any(is_collector(url) or is_somebodys_own(url) for url in near):
            self._note(
                node, "sends_to_hidden_host", DANGER, "sends data to where anybody may collect it"
            )

    def _remember_where_credentials_go(self, node: ast.Call) -> None:
        hosts = {main_domain(urlsplit(url).hostname or "") for url in self._urls_of(node)}
        for each in node.keywords:
            names = {_dotted(inner) for inner in ast.walk(each.value)} - {""}
            if each.arg == "headers" and "Authorization" in ast.dump(each.value):
                for name in names:
                    self.authorised.setdefault(name, set()).update(hosts)
            elif each.arg in ("json", "data", "params", "files"):
                self.sent.append((node, names, hosts))

    def _urls_of(self, node: ast.Call) -> set[str]:
        return {url for each in node.args[:1] for url in URL.findall(self._text(each) or "")}

    def _second_addresses(self) -> None:
        """What authorises requests to one service is sent to somebody else as well."""
        for node, names, hosts in self.sent:
            for name in names & self.authorised.keys():
                strange = [
                    url
                    for url in self._urls_of(node)
                    if classify(url, self.scope) > HostClass.KNOWN
                ]
                if strange and hosts and not hosts & self.authorised[name]:
                    message = "sends the credential of one service to another address"
                    self._note(node, "steals_secrets", DANGER, message)
                    return

    def _locks_files_up(self, nodes: list[ast.AST]) -> None:
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        ends = {self._name(node).rpartition(".")[2] for node in calls}
        everywhere = bool(ends & {"rglob", "walk"}) and bool(ends & {"home", "expanduser"})
        if everywhere and "encrypt" in ends and ends & {"unlink", "remove"}:
            first = next(each for each in calls if self._name(each).endswith("encrypt"))
            self._note(first, "destroys", DANGER, "encrypts the owner's files and deletes them")

    def _makes_programs(self, nodes: list[ast.AST]) -> None:
        """A file that looks like none, or that is hidden, is made a program and started."""
        calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
        made = {_dotted(each.args[0]) for each in calls if self._name(each) == "os.chmod"}
        made |= {
            _dotted(each.func.value)
            for each in calls
            if isinstance(each.func, ast.Attribute) and each.func.attr == "chmod"
        } - {"os"}
        started = {
            _dotted(inner)
            for each in calls
            if self._name(each) in _RUNNERS
            for inner in ast.walk(each.args[0])
        }
        for name in (made & started) - {""}:
            filled = [
                each
                for each in calls
                if self._name(each).startswith("shutil.copy") and len(each.args) > 1
                if _dotted(each.args[1]) == name
            ]
            hidden = re.search(r"(?:^|/)\.[\w-]+$", self.texts.get(name, "")) is not None
            disguised = any(_NO_PROGRAM.search(self._text(each.args[0]) or "") for each in filled)
            if hidden or disguised:
                first = next(each for each in calls if self._name(each) in _RUNNERS)
                message = "makes a program of a file that looks like none, and starts it"
                self._note(first, "disguised_program", DANGER, message)

    def _writing(self, node: ast.Call, name: str) -> None:
        target = node.func.value if isinstance(node.func, ast.Attribute) else None
        text = self._text(target) if target is not None and name != "os.open" else None
        text = text or (self._text(node.args[0]) if node.args else None)
        at = 0 if name.endswith(".open") else 1
        mode = folded(node.args[at]) if "open" in name and len(node.args) > at else "w"
        if not text or not mode or not set(mode) & set("wax+"):
            return
        if _STARTS_BY_ITSELF.search(text):
            risky = self.hidden_host or self._plants_something(text)
            weight = DANGER if risky else WARN
            self._note(node, "persistence", weight, "writes what starts by itself")
        elif _OWN_RULES.search(text):
            self._note(node, "memory_write", WARN, "writes an agent's own memory or rules")
        elif text.startswith(("/etc/", "/usr/", "/bin/", "/Library/")):
            self._note(node, "writes_outside", WARN, "writes outside of its workspace")

    def _plants_something(self, path: str) -> bool:
        """Whether the script holds somebody's key for a login, or a command that fetches."""
        pattern = _LOGIN_KEY if "authorized_keys" in path else _PLANTED
        return pattern.search(self.source) is not None

    def _removal(self, node: ast.Call) -> None:
        text = folded(node.args[0])
        theirs = text is not None and _HOME_OR_DOCUMENTS.fullmatch(text) is not None
        if theirs or (text is not None and text.rstrip("/") in ("", "/usr", "/etc", "C:\\")):
            self._note(node, "destroys", DANGER, "deletes far more than a skill could be about")

    def _environment(self, node: ast.Subscript | ast.Attribute) -> None:
        if isinstance(node, ast.Subscript) and self._name(node.value) == "os.environ":
            self._variable(folded(node.slice), node)

    def _variable(self, name: str | None, node: ast.AST) -> None:
        if name and _ENV_NAME.fullmatch(name):
            self.facts.environment.setdefault(name, getattr(node, "lineno", 1))

    def _remember_what_is_taken(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.Call) and self._reads(node):
                marks = self.marks_of(node)
                if marks & {"keys", "documents"}:
                    self.facts.takes = self.facts.takes or node.lineno
            elif isinstance(node, ast.comprehension) and self._picks_credentials(node):
                self.facts.takes = self.facts.takes or node.target.lineno

    def _reads(self, node: ast.Call) -> bool:
        name = self._name(node)
        ends = ("read_text", "read_bytes", ".open", "copy", "copy2", "copyfile", "copytree")
        return name == "open" or name.endswith((*ends, "glob", "walk", "sqlite3.connect"))

    def _picks_credentials(self, node: ast.comprehension) -> bool:
        """`for name in os.environ if "TOKEN" in name`: credentials, whoever's they are."""
        texts = [folded(each) or "" for test in node.ifs for each in ast.walk(test)]
        picked = any(
            re.search(r"KEY|TOKEN|SECRET|PASS|CRED", text, re.IGNORECASE) for text in texts
        )
        return picked and "environment" in self.marks_of(node.iter)

    def _secrets_beside_network(self, nodes: list[ast.AST]) -> None:
        """Keys that are read in a script that also sends: no honest skill needs both."""
        if not self.facts.network or any(
            each.rule == "steals_secrets" for each in self.facts.findings
        ):
            return
        for node in nodes:
            if isinstance(node, ast.Call) and self._reads(node) and "keys" in self.marks_of(node):
                self._note(node, "steals_secrets", DANGER, "reads files with keys, and sends data")
                return

    def _shells_over_sockets(self, nodes: list[ast.AST]) -> None:
        names = {self._name(node) for node in nodes if isinstance(node, ast.Call)}
        ends = {name.rpartition(".")[2] for name in names}
        if {"socket.socket", "socket.create_connection"} & names and "connect" in ends | {
            name for name in ends if name == "create_connection"
        } | ({"connect"} if "create_connection" in ends else set()):
            shell = "dup2" in ends or "pty.spawn" in names
            commands = bool(names & _RUNNERS) and "recv" in ends
            if shell or commands:
                call = next(
                    node
                    for node in nodes
                    if isinstance(node, ast.Call) and self._name(node).startswith("socket.")
                )
                self._note(
                    call, "reverse_shell", DANGER, "lets somebody run commands over a socket"
                )
        watches = names & _WATCHES
        if (
            watches
            and self.facts.network
            and any(classify(url, self.scope) >= HostClass.UNKNOWN for url in self.urls)
        ):
            first = next(
                node for node in nodes if isinstance(node, ast.Call) and self._name(node) in watches
            )
            message = "sends pictures or sound of the owner to a stranger"
            self._note(first, "steals_secrets", DANGER, message)
        if "pynput.keyboard.Listener" in names or "keyboard.on_press" in names:
            first = next(node for node in nodes if isinstance(node, ast.Call))
            weight = DANGER if self.facts.network else WARN
            self._note(first, "records_keys", weight, "records what is typed")


def strings_of(source: str) -> Iterator[tuple[int, str]]:
    """The texts in a script with their lines, for rules about hidden commands."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.BinOp) and (text := folded(node)):
            yield node.lineno, text
