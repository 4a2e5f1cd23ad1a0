"""Reads what `/bin/sh` is told, as far as that is possible without running it.

The reader knows quotes, expansions, redirections, here-documents and lists of commands. It expands
nothing: the place of an expansion is a `HOLE`, and the commands in a substitution are kept as text.
What it cannot read raises `Unreadable`; the caller decides what that means.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

HOLE = "\ue000"
"""Stands for whatever an expansion gives."""
LAST_STATUS = "\ue001"
"""Stands for what `$?` gives."""

_OPERATOR = re.compile(r"&&|\|\||;;|<<-|<<|>>|<&|>&|<>|>\||[;&|()<>\n]")
_EXPANSION = re.compile(r"\$(?:\?|[A-Za-z_]\w*|[0-9@*#!$-])")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def names(text: str) -> frozenset[str]:
    """The words of a text, for tables of names."""
    return frozenset(text.split())


_KEYWORDS = names("if then elif else fi for while until do done case esac { } ! in function")
_SKIPPED = _KEYWORDS - {"for"}
_SEPARATORS = {"&&", "||", ";", "&", "|", "\n", "(", ")", ";;"}
_MAX_TEXT = 262_144
_MAX_DEPTH = 20


class Unreadable(ValueError):
    """This is beyond the reader."""


@dataclass(frozen=True)
class Word:
    """One word without its quotes."""

    text: str
    substitutions: tuple[str, ...] = ()
    """The commands whose output becomes part of this word."""
    has_wildcards: bool = False

    @property
    def is_constant(self) -> bool:
        return not (self.has_wildcards or HOLE in self.text or LAST_STATUS in self.text)


@dataclass(frozen=True)
class ShellCommand:
    """One simple command. A redirection is its operator, with the descriptor, and its target."""

    words: tuple[Word, ...]
    assignments: tuple[Word, ...] = ()
    redirections: tuple[tuple[str, Word], ...] = ()

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]


@dataclass(frozen=True)
class Pipeline:
    """Commands joined by `|`, and how the whole is joined to what stands before it."""

    joined: str
    commands: tuple[ShellCommand, ...]
    is_negated: bool = False
    is_background: bool = False


@dataclass(frozen=True)
class _Operator:
    text: str


_Token = Word | _Operator


def read_list(text: str) -> list[Pipeline]:
    """The pipelines of a plain list; raises `Unreadable` for compound commands and functions."""
    pipelines: list[Pipeline] = []
    joined, parts = ";", [[]]  # type: tuple[str, list[list[_Token]]]
    for token in [*_tokens(text), _Operator(";")]:
        operator = token.text if isinstance(token, _Operator) else ""
        if operator in ("(", ")", ";;"):
            raise Unreadable("a compound command")
        if operator == "|":
            parts.append([])
        elif operator in _SEPARATORS:
            if any(parts):
                pipelines.append(_pipeline(joined, parts, is_background=operator == "&"))
            elif operator not in (";", "\n"):
                raise Unreadable("an operator without a command")
            joined = operator if operator in ("&&", "||") else (";" if any(parts) else joined)
            parts = [[]]
        else:
            parts[-1].append(token)
    return pipelines


def simple_commands(text: str) -> Iterator[ShellCommand]:
    """Every simple command, whatever stands around it; the words of a loop are one named `for`."""
    tokens: list[_Token] = []
    for token in [*_tokens(text), _Operator(";")]:
        if isinstance(token, _Operator) and token.text in _SEPARATORS:
            while tokens and isinstance(tokens[0], Word) and tokens[0].text in _SKIPPED:
                tokens = tokens[1:]
            if tokens:
                yield _command(tokens)
            tokens = []
        else:
            tokens.append(token)


def _pipeline(joined: str, parts: list[list[_Token]], *, is_background: bool) -> Pipeline:
    first = parts[0]
    negated = bool(first) and isinstance(first[0], Word) and first[0].text == "!"
    if negated:
        parts = [first[1:], *parts[1:]]
    if not all(parts):
        raise Unreadable("a part of a pipeline is empty")
    commands = tuple(_command(part) for part in parts)
    if any(command.words and command.words[0].text in _KEYWORDS for command in commands):
        raise Unreadable("a compound command")
    return Pipeline(joined, commands, negated, is_background)


def _command(tokens: Sequence[_Token]) -> ShellCommand:
    words: list[Word] = []
    assignments: list[Word] = []
    redirections: list[tuple[str, Word]] = []
    left = iter(tokens)
    for token in left:
        if isinstance(token, _Operator):
            target = next(left, None)
            if not isinstance(target, Word):
                raise Unreadable("a redirection without a target")
            redirections.append((token.text, target))
        elif not words and _ASSIGNMENT.match(token.text):
            assignments.append(token)
        else:
            words.append(token)
    return ShellCommand(tuple(words), tuple(assignments), tuple(redirections))


def _tokens(text: str) -> list[_Token]:
    if len(text) > _MAX_TEXT or HOLE in text or LAST_STATUS in text:
        raise Unreadable("more than can be read, or characters that stand for expansions")
    return _Lexer(text).tokens()


@dataclass
class _Lexer:
    """Walks over the text once. `_word` holds the pieces of a word, and is None between words."""

    text: str
    at: int = 0
    _word: list[str] | None = None
    _inner: list[str] = field(default_factory=list)
    _wild: bool = False
    _bracket: bool = False
    _quoted: bool = False
    _found: list[_Token] = field(default_factory=list)
    _documents: list[int] = field(default_factory=list)

    def tokens(self) -> list[_Token]:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self._end_word()
        return self._found

    def _step(self, char: str) -> None:
        if char in " \t\r":
            self._end_word()
            self.at += 1
        elif char == "#" and self._word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif char == "\\":
            self._escaped()
        elif char == "'":
            end = _end_of(self.text, self.at + 1, "'")
            self._add(self.text[self.at + 1 : end], quoted=True)
            self.at = end + 1
        elif char == '"':
            self._double_quoted()
        elif char in "$`":
            self._expansion()
        elif operator := _OPERATOR.match(self.text, self.at):
            self._operator(operator.group())
        else:
            self._wild |= char in "*?" or (char == "]" and self._bracket)
            self._bracket |= char == "["
            self._add(HOLE if char == "~" and self._word is None else char)
            self.at += 1

    def _add(self, text: str, *, quoted: bool = False) -> None:
        self._word = self._word or []
        self._word.append(text)
        self._quoted |= quoted

    def _end_word(self) -> None:
        if self._word is not None:
            self._found.append(Word("".join(self._word), tuple(self._inner), self._wild))
        self._word, self._inner = None, []
        self._wild = self._bracket = self._quoted = False

    def _escaped(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following != "\n":
            self._add(following or "\\", quoted=True)
        self.at += 2

    def _double_quoted(self) -> None:
        self._add("", quoted=True)
        self.at += 1
        while (char := self.text[self.at : self.at + 1]) != '"':
            if not char:
                raise Unreadable('" is missing')
            if char in "$`":
                self._expansion()
            elif char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\"):
                self._add(self.text[self.at + 1])
                self.at += 2
            else:
                self._add(char)
                self.at += 1
        self.at += 1

    def _expansion(self) -> None:
        if self.text.startswith("$(", self.at):
            end = _closing(self.text, self.at + 2)
            self._substitute(self.text[self.at + 2 : end], end)
        elif self.text.startswith("`", self.at):
            end = _end_of(self.text, self.at + 1, "`")
            self._substitute(self.text[self.at + 1 : end], end)
        elif self.text.startswith("${", self.at):
            end = _end_of(self.text, self.at, "}")
            content = self.text[self.at + 2 : end]
            if "$" in content or "`" in content:
                raise Unreadable("an expansion inside an expansion")
            self._add(HOLE)
            self.at = end + 1
        elif variable := _EXPANSION.match(self.text, self.at):
            self._add(LAST_STATUS if variable.group() == "$?" else HOLE)
            self.at = variable.end()
        else:
            self._add("$")
            self.at += 1

    def _substitute(self, commands: str, end: int) -> None:
        self._inner.append(commands)
        self._add(HOLE)
        self.at = end + 1

    def _operator(self, operator: str) -> None:
        descriptor = ""
        if operator[0] in "<>" and not self._quoted and all(map(str.isdigit, self._word or [""])):
            descriptor, self._word = "".join(self._word or []), None
        self._end_word()
        self._found.append(_Operator(descriptor + operator))
        self.at += len(operator)
        if operator.startswith("<<"):
            self._documents.append(len(self._found))
        elif operator == "\n" and self._documents:
            self._read_documents()

    def _read_documents(self) -> None:
        """Put the text of each here-document in the place of the word that ends it."""
        for place in self._documents:
            ending = self._found[place]
            if not isinstance(ending, Word):
                raise Unreadable("a here-document without an end")
            end = re.compile(rf"^\t*{re.escape(ending.text)}$", re.M).search(self.text, self.at)
            if end is None:
                raise Unreadable("a here-document without an end")
            self._found[place] = Word(self.text[self.at : end.start()])
            self.at = min(end.end() + 1, len(self.text))
        self._documents.clear()


def _closing(text: str, start: int, depth: int = 1) -> int:
    """Where the parenthesis ends that was opened before `start`."""
    if depth > _MAX_DEPTH:
        raise Unreadable("too many substitutions inside each other")
    at = start
    while at < len(text):
        char = text[at]
        if char == ")":
            return at
        if char == "\\":
            at += 1
        elif char == "'":
            at = _end_of(text, at + 1, "'")
        elif char == '"':
            at = _end_of_quotes(text, at + 1, depth)
        elif char == "(":
            at = _closing(text, at + 1, depth + 1)
        at += 1
    raise Unreadable(") is missing")


def _end_of_quotes(text: str, start: int, depth: int) -> int:
    at = start
    while at < len(text):
        if text[at] == '"':
            return at
        if text[at] == "\\":
            at += 1
        elif text.startswith("$(", at):
            at = _closing(text, at + 2, depth + 1)
        at += 1
    raise Unreadable('" is missing')


def _end_of(text: str, start: int, wanted: str) -> int:
    end = text.find(wanted, start)
    if end < 0:
        raise Unreadable(f"{wanted} is missing")
    return end
