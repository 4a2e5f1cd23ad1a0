"""Places: folders and files that the owner has opened to reading. Nothing is changed in them.

1. A place is open because the owner has signed a yes to a question that names it, whole, and who
   would see its text. A row opens nothing without that answer.
2. The owner's workspace, and the directory that the settings name for research, are open from the
   start: they are Silas' own places for the owner's files.
3. A yes holds for those whom the question names. With a model of somebody else's, it is asked anew.
4. Only the owner's own words ask for a place: what a model, a file or a stranger says opens none,
   and asks for none.
5. What is off limits (`silas.work.off_limits`) is never opened, nor what other programs keep in the
   home directory under a name with a dot. Keys and files with passwords are read in no place.
   All of this is looked at again whenever something is read.
6. The request that needed the place stands in the question. After a yes it is answered, without
   being said again; after a no it is not asked again for this request.
7. A place is closed with one word, and asked about anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel, format_timestamp, parse_timestamp, visible
from silas.kernel.models import Data, UtcDatetime
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.storage import Database, Transaction
from silas.stream.errors import PlaceRefused, PlaceUnknown
from silas.stream.folders import Surroundings, repository_of, whole_path

NARROW, NO = "narrow", "decline"
MOST_OPEN_QUESTIONS = 3
_LIFETIME = timedelta(days=7)
_WORKSPACE = "workspace"
_MAX_REQUEST_CHARS = 4_000
_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"),
    *(".env", ".env.*", "*.env", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx"),
    *("*.keystore", "*.jks", "*.ppk", "credentials", "credentials.json", ".htpasswd"),
)
"""Names of what holds keys or passwords in anybody's project."""
_OPEN = """
SELECT question_id, opened_at FROM opened_places
WHERE closed_at IS NULL ORDER BY opened_at, question_id
"""
_INSERT = """
INSERT INTO opened_places (question_id, opened_at) VALUES (?, ?)
ON CONFLICT (question_id) DO NOTHING
"""
_CLOSE = "UPDATE opened_places SET closed_at = ? WHERE question_id = ? AND closed_at IS NULL"


class PlaceKind(StrEnum):
    """What a place is."""

    FOLDER = "folder"
    FILE = "file"


class OpenedPlace(Data):
    """A folder, with what is below it, or one file, that Silas may read."""

    place_id: str
    path: str
    """As it is on the disk: no part of it is a link."""
    shown: str = ""
    """The same as people write it."""
    kind: PlaceKind
    seen_by: list[str]
    """Who sees its text besides this machine."""
    opened_at: UtcDatetime | None = None
    """None: it is open from the start, and cannot be closed."""
    in_force: bool = True
    """False: a model of somebody else's would see the text now, and the owner is asked again."""

    def holds(self, path: Path) -> bool:
        """Whether this path, without links, is in the place."""
        root = Path(self.path)
        return path == root or (self.kind is PlaceKind.FOLDER and path.is_relative_to(root))


class PlaceWish(NamedTuple):
    """What the owner would be asked to open: the whole of it, or only what was named."""

    place: Path
    kind: PlaceKind
    narrower: Path | None = None
    narrower_kind: PlaceKind = PlaceKind.FILE


class PlaceRequest(Data):
    """What the owner said that needs a place; what answers it after a yes."""

    text: str = ""
    folder: str | None = None
    said_in: str | None = None


class AskedPlace(Data):
    """What a question about a place shows; signed with the answer."""

    question: str
    place: str
    kind: PlaceKind
    narrower: str | None
    narrower_kind: PlaceKind
    seen_by: list[str]
    request: PlaceRequest


class AgreedPlace(NamedTuple):
    """A place to which the owner has signed a yes, and the request that needed it."""

    question: Question
    asked: AskedPlace
    path: Path
    kind: PlaceKind


Write = Callable[[Transaction], object]


@dataclass(frozen=True)
class OpenedPlaces:
    """The places of one data directory."""

    database: Database
    questions: QuestionStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str
    around: Surroundings
    seen_by: tuple[str, ...]
    """The providers of models that are told what was read; none if all of it stays here."""
    always: tuple[Path, ...] = ()
    """Open by the settings, besides the workspace."""

    async def listed(self) -> list[OpenedPlace]:
        """What is open: first what always is, then in the order of the answers (rules 1 and 2)."""
        found = self._from_the_start()
        for question_id, opened_at in await self.database.fetch_all(_OPEN):
            agreed = await self.agreed(question_id)
            if agreed is not None:
                found.append(
                    OpenedPlace(
                        place_id=question_id,
                        path=str(agreed.path),
                        shown=self.shown(agreed.path),
                        kind=agreed.kind,
                        seen_by=agreed.asked.seen_by,
                        opened_at=parse_timestamp(opened_at),
                        in_force=set(self.seen_by) <= set(agreed.asked.seen_by),
                    )
                )
        return found

    async def readable(self) -> list[OpenedPlace]:
        """What may be read now (rule 3)."""
        return [each for each in await self.listed() if each.in_force]

    async def close(self, place: str) -> list[OpenedPlace]:
        """Take a place back, by its path or its id; returns what was closed."""
        wanted = whole_path(place, self.around)
        path = str(wanted.resolve()) if wanted is not None else place
        known = [
            each for each in await self.listed() if place == each.place_id or path == each.path
        ]
        closed = [each for each in known if each.opened_at is not None]
        if not closed and known:
            raise PlaceUnknown(
                f"{path} is open by your settings (planner.workspace_dir, planner.research_dir). "
                "Name another folder there to close it."
            )
        if not closed:
            raise PlaceUnknown(f"{place} is not open to Silas. `silas folders list` shows what is.")

        def write(tx: Transaction) -> None:
            for each in closed:
                self._close_in(tx, each)

        await self.database.transaction(write)
        for each in closed:
            await self.questions.take_back(each.place_id, QuestionKind.PLACE)
        return closed

    async def ask(self, path: str) -> Question:
        """Ask whether this may be read, without a request that needs it; returns the question."""
        wanted = whole_path(path, self.around)
        if wanted is None:
            raise PlaceRefused(f"{path} is no whole path. Write it from the beginning, or from ~.")
        real = wanted.resolve()
        if not real.exists():
            raise PlaceRefused(f"There is no {real} on this machine.")
        if any(each.holds(real) for each in await self.readable()):
            raise PlaceRefused(f"{real} is open to Silas already.")
        wish = self.wish_for(real, repository=False)
        question = await self.asking(wish, PlaceRequest())
        if question is None:
            raise PlaceRefused(f"A question about {real} waits for you already.")
        await self.questions.ask(question)
        return question

    def wish_for(self, real: Path, *, repository: bool = True) -> PlaceWish:
        """What to ask for, so that this can be read; raises `PlaceRefused` (rule 5)."""
        self.require_readable(real)
        if real.is_dir():
            whole = repository_of(real, self.around) if repository else real
            narrower = real if whole != real else None
            return PlaceWish(whole, PlaceKind.FOLDER, narrower, PlaceKind.FOLDER)
        folder = repository_of(real.parent, self.around) if repository else None
        if folder is None or self.reason_against(folder) is not None:
            return PlaceWish(real, PlaceKind.FILE)
        return PlaceWish(folder, PlaceKind.FOLDER, real)

    def require_readable(self, real: Path) -> None:
        """Raise `PlaceRefused` for what is never read (rule 5)."""
        reason = self.reason_against(real)
        if real == self.around.home.resolve():
            raise PlaceRefused(
                "Silas does not read your whole home directory: other programs keep their settings "
                "and keys there. Name a folder in it, such as ~/silas-files or ~/Documents."
            )
        if reason is not None:
            raise PlaceRefused(
                f"Silas does not read {visible(str(real))}: {reason}. Name a folder in which "
                "only your own files are, or copy what it should read to your workspace."
            )

    def reason_against(self, real: Path) -> str | None:
        """Why a path is never read; None if nothing speaks against it."""
        home = self.around.home.resolve()
        reason = self.around.off_limits.reason_against(real)
        if reason is not None:
            return reason
        if real.is_relative_to(home) and str(real.relative_to(home)).startswith("."):
            return "names in the home directory that begin with a dot are other programs' settings"
        return secret_in(real)

    async def asking(
        self,
        wish: PlaceWish,
        request: PlaceRequest,
        *,
        scope_id: str | None = None,
        trace_id: str | None = None,
    ) -> Question | None:
        """The question; None if it waits already, or if too many such questions do."""
        waiting = [
            each for each in await self.questions.open() if each.content.kind is QuestionKind.PLACE
        ]
        about = f"place:{wish.place}"
        if len(waiting) >= MOST_OPEN_QUESTIONS or any(each.about == about for each in waiting):
            return None
        now, name = self.clock.now(), self.ids.new(QUESTION)
        return Question(
            question_id=name,
            scope_id=scope_id or self.owner_id,
            trace_id=trace_id or f"trace_{name}",
            about=about,
            content=self._content(wish, request),
            created_at=now,
            expires_at=now + _LIFETIME,
        )

    def _content(self, wish: PlaceWish, request: PlaceRequest) -> QuestionContent:
        shown = self.shown(wish.place)
        folder = wish.kind is PlaceKind.FOLDER
        what = f"the files in {shown}" if folder else shown
        text = visible(" ".join(request.text.split()))[:_MAX_REQUEST_CHARS]
        asked = AskedPlace(
            question=self._explained(wish),
            place=str(wish.place),
            kind=wish.kind,
            narrower=str(wish.narrower) if wish.narrower else None,
            narrower_kind=wish.narrower_kind,
            seen_by=list(self.seen_by),
            request=request,
        )
        narrower = wish.narrower
        return QuestionContent(
            kind=QuestionKind.PLACE,
            intent=f"May Silas read {what}?",
            rationale=f"Your request needs it: “{text}”" if text else "You want to open it.",
            risk=RiskLevel.MEDIUM if self.seen_by else RiskLevel.LOW,
            taint=TaintLevel.OWNER,
            actions=[
                QuestionChoice(value=YES, label=f"Let Silas read {visible(wish.place.name)}"),
                *(
                    [QuestionChoice(value=NARROW, label=f"Only {visible(narrower.name)}")]
                    if narrower
                    else []
                ),
                QuestionChoice(value=NO, label="Do not read it"),
            ],
            body=asked.model_dump(mode="json"),
        )

    def _explained(self, wish: PlaceWish) -> str:
        folder = wish.kind is PlaceKind.FOLDER
        what = "text files there, also in folders below," if folder else "this file"
        return (
            f"Silas reads {what} when you ask something, until you take it back, and changes "
            f"nothing. {self.who_sees()}"
        )

    def who_sees(self) -> str:
        """Where text goes that is read, as a sentence."""
        if self.seen_by:
            return f"What it reads goes to {_listed(self.seen_by)}, whose model answers you."
        return (
            "No model elsewhere is set up: nothing leaves this machine. If you set one up, Silas "
            "asks again. That model is told what the conversation holds by then."
        )

    def shown(self, path: Path) -> str:
        """A path as people write it."""
        home = self.around.home.resolve()
        return visible(f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path))

    async def agreed(self, question_id: str) -> AgreedPlace | None:
        """What the owner has agreed to with this answer; None if he has not (rule 1)."""
        found = await self.questions.answered(question_id)
        if found is None or found.question.content.kind is not QuestionKind.PLACE:
            return None
        try:
            asked = AskedPlace.model_validate(found.question.content.body)
        except ValidationError:
            return None
        if found.value == YES:
            return AgreedPlace(found.question, asked, Path(asked.place), asked.kind)
        if found.value != NARROW or asked.narrower is None:
            return None
        return AgreedPlace(found.question, asked, Path(asked.narrower), asked.narrower_kind)

    async def opening(self, agreed: AgreedPlace) -> Write:
        """What opens the place, in somebody's transaction; an older yes to the same one ends."""
        name, now = agreed.question.question_id, format_timestamp(self.clock.now())
        older = [
            each
            for each in await self.listed()
            if each.path == str(agreed.path) and each.place_id != name and each.opened_at
        ]

        def write(tx: Transaction) -> None:
            for each in older:
                tx.execute(_CLOSE, (now, each.place_id))
            if tx.execute(_INSERT, (name, now)) == 1:
                entry = {"path": str(agreed.path), "seen_by": agreed.asked.seen_by, "card_id": name}
                self.audit.append(tx, "place_opened", entry)

        return write

    def _close_in(self, tx: Transaction, place: OpenedPlace) -> None:
        if tx.execute(_CLOSE, (format_timestamp(self.clock.now()), place.place_id)) == 1:
            entry = {"path": place.path, "card_id": place.place_id}
            self.audit.append(tx, "place_closed", entry)

    def _from_the_start(self) -> list[OpenedPlace]:
        """Rule 2."""
        workspace = [self.around.workspace] if self.around.workspace else []
        return [
            OpenedPlace(
                place_id=_WORKSPACE if number == 0 and workspace else f"settings-{number}",
                path=str(path.resolve()),
                shown=self.shown(path.resolve()),
                kind=PlaceKind.FOLDER,
                seen_by=list(self.seen_by),
            )
            for number, path in enumerate(dict.fromkeys([*workspace, *self.always]))
        ]


def secret_in(path: Path) -> str | None:
    """Why something below a name of this path is not read; None if no name speaks against it."""
    held = next((part for part in path.parts if is_secret_name(part)), None)
    return f"{visible(held)} is a name for keys or passwords" if held else None


def is_secret_name(name: str) -> bool:
    """Whether a file or a folder of this name holds keys or passwords."""
    plain = name.casefold()
    return any(fnmatchcase(plain, each) for each in _SECRETS)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
