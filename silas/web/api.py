"""The one API of Silas: the page asks over the network address, the owner over a socket.

1. Every route is here once, with the same handler and the same models for both.
2. Who may ask what is decided by `silas.web.access`, before the handler.
3. What cannot be understood is answered with 422 and a sentence; what Silas refuses, with its own
   sentence and code. Whoever sits at the machine also gets the details of an error.
4. Until Silas is open, and while it closes, its process can be asked how it is and told to stop.
   One whose vault is locked also serves the page, which asks for the passphrase.
5. The routes of an open Silas are made when they are asked for first (`RoutesOnDemand`).
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as DependsParam
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

import silas
from silas.approval import Base64Bytes, Device, PublicKey
from silas.kernel import ServerError, SilasError, format_timestamp
from silas.kernel.models import Data, FieldProblem
from silas.proactive.autonomy import AutonomyService, AutonomyShown
from silas.proposals.service import ProposalService
from silas.review.cards import Card
from silas.review.questions import Question
from silas.stream.answering import AnswersInProgress
from silas.stream.metrics import in_words, metrics_of
from silas.stream.places import OpenedPlace, OpenedPlaces
from silas.stream.proposed_work import ProposedWork
from silas.web.access import (
    COOKIE,
    OWNER_SCOPE,
    admission,
    asking_device,
    has_token,
    is_from_here,
    open_alone,
    owner_alone,
    page,
    told_program,
)
from silas.web.attachments import attachment_routes
from silas.web.command_routes import Responses, Routes, RoutesOnDemand, command_routes
from silas.web.commands import ApiCommand, Body, PageAccess, sentence_of
from silas.web.companions import companion_routes
from silas.web.connections import connection_routes, rule_routes
from silas.web.conversations import CONVERSATION_COMMANDS, ConversationApi
from silas.web.errors import InvalidRequest, NotLetIn, PairingRefused
from silas.web.front import Front
from silas.web.hub import Hub
from silas.web.journal import journal_routes
from silas.web.locked import LockedDoor, locked_routes
from silas.web.mcp import mcp_routes
from silas.web.memory import memory_routes
from silas.web.onboarding import setup_routes
from silas.web.owner_socket import LIVE
from silas.web.pairing import PairingLink, make_link, pairing_bytes
from silas.web.passkeys import passkey_routes
from silas.web.pending_secrets import SecretState
from silas.web.persona import persona_routes
from silas.web.refusals import Refusal, refusal_of
from silas.web.serving import page_routes
from silas.web.skills import skill_routes
from silas.web.socket import Conversation
from silas.web.usage import usage_routes
from silas.web.visitors import VISITOR_COMMANDS, visit_routes, visitor_page
from silas.web.wire import CardClosed
from silas.web.work import work_routes
from silas.work.authorisation import revoke_approvals
from silas.work.paused import KeptRun

PlacePath = Annotated[str, Field(min_length=1, max_length=4096)]
Short = Annotated[str, Field(min_length=1, max_length=200)]
_STARTING = "Silas is just starting or stopping. Try again in a moment."
_METRIC_DAYS = 30
REFUSALS: Responses = {422: {"model": Refusal}}
"""How a request that cannot be understood is answered, by every route."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommandGroup:
    """Commands below one path, and what they are done with."""

    prefix: str
    commands: tuple[ApiCommand, ...]
    target: object


class ProcessApi:
    """The API of one process: of the Silas that is open in it, or of the process alone (rule 4)."""

    def __init__(self) -> None:
        self._groups: tuple[CommandGroup, ...] = ()
        self._alone = make_starting_api(())
        self._open: ASGIApp | None = None

    def add(self, group: CommandGroup) -> None:
        """Let these commands be asked for, from now until the end of the process."""
        self._groups = (*self._groups, group)
        self._alone = make_starting_api(self._groups)

    @contextlib.contextmanager
    def opened(self, front: Front, hub: Hub) -> Iterator[None]:
        """Answer for this Silas until the end of the block."""
        self._open = open_api(front, hub, self._groups)
        try:
            yield
        finally:
            self._open = None

    @contextlib.contextmanager
    def locked(self, door: LockedDoor) -> Iterator[None]:
        """Answer for a locked Silas until the end of the block."""
        self._open = make_locked_api(door, self._groups)
        try:
            yield
        finally:
            self._open = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._open or self._alone)(scope, receive, send)


def make_api(
    front: Front, hub: Hub, groups: Iterable[CommandGroup], *, described: Responses | None = None
) -> FastAPI:
    """Every route of an open Silas, made at once.

    Nobody is served their description: it is for tests alone, which name the answers to describe.
    """
    app = _open_app(front, hub)
    _all_routes(front, hub, groups).add_to(
        app, dependencies=[_admitting(front)], responses=described
    )
    return app


def open_api(front: Front, hub: Hub, groups: Iterable[CommandGroup]) -> RoutesOnDemand:
    """The same routes, made when they are asked for."""
    routes = _all_routes(front, hub, groups)
    return RoutesOnDemand(_open_app(front, hub), routes, dependencies=[_admitting(front)])


def _open_app(front: Front, hub: Hub) -> FastAPI:
    """The conversation and the files of the pages, which everybody asks for."""
    app = _app()

    @app.websocket("/ws")
    async def conversation(socket: WebSocket) -> None:
        await Conversation(front, hub, socket).run()

    app.router.routes.extend([*page_routes(), *visitor_page()])
    return app


def _all_routes(front: Front, hub: Hub, groups: Iterable[CommandGroup]) -> Routes:
    routes = make_routes(front, hub)
    for group in groups:
        routes.include(_group_routes(group))
    return routes


def _admitting(front: Front) -> DependsParam:
    admit: DependsParam = Depends(admission(front.sessions, front.devices, front.nonces))
    return admit


def make_starting_api(groups: Iterable[CommandGroup]) -> FastAPI:
    """What can be asked of a process whose Silas is not open (rule 4)."""
    rest = _refusing(lambda: ServerError(_STARTING))
    return _api(owner_alone, [*map(_group_routes, groups), rest])


def make_locked_api(door: LockedDoor, groups: Iterable[CommandGroup]) -> FastAPI:
    """What can be asked of a process whose vault is locked (rule 4)."""
    app = _api(open_alone, [locked_routes(door), *map(_group_routes, groups)])
    app.router.routes.extend(page_routes())
    _refusing(door.refusal).add_to(app)
    return app


def _refusing(reason: Callable[[], SilasError]) -> Routes:
    """Answers whatever nobody else has answered."""
    rest = Routes()

    @rest.route("GET", "POST", path="/{path:path}", include_in_schema=False)
    @page(PageAccess.OPEN)
    async def refuse(path: str) -> None:
        raise reason()

    return rest


def _api(admit: Callable[..., Any], parts: Iterable[Routes]) -> FastAPI:
    app = _app()
    for routes in parts:
        routes.add_to(app, dependencies=[Depends(admit)], responses=REFUSALS)
    return app


def _app() -> FastAPI:
    app = FastAPI(
        title="Silas", version=silas.__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(SilasError, _not_done)
    app.add_exception_handler(Exception, _failed)
    return app


def _group_routes(group: CommandGroup) -> Routes:
    return command_routes(group.prefix, group.commands, lambda: group.target)


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    """What is wrong with a request, without what it said: that may be a secret."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    # The first part of a place is `body` or `path`, which says nothing to the person who reads it.
    problems = [FieldProblem(tuple(each["loc"][1:]), each["msg"]) for each in found]
    return _answer(request, InvalidRequest(sentence_of(problems)))


async def _not_done(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SilasError):
        raise error
    return _answer(request, error)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """A defect: the caller gets an answer without its inner life, the log gets the rest."""
    internal = SilasError()
    _log.error("A request failed (%s)", internal.correlation_id, exc_info=error)
    return _answer(request, internal)


def _answer(request: Request, error: SilasError) -> JSONResponse:
    return refusal_of(error, whole=request.scope.get(OWNER_SCOPE) is True)


class Pair(Body):
    """A browser that wants to become a device."""

    code: Short
    public_key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    name: Short
    signature: Base64Bytes
    token: Annotated[str, Field(max_length=1000)] | None = None


class Paired(Data):
    """It is one now."""

    device_id: str
    name: str


class Ticket(Body):
    """What the socket gave."""

    ticket: Short


class SecretValue(Body):
    """A secret on its way to the vault."""

    value: Annotated[str, Field(min_length=1, max_length=32_000, repr=False)]


class NamedSecret(Body):
    """A secret by its name."""

    ref_id: Short


class Stored(Data):
    """Whether it is in the vault now."""

    stored: bool = True


class Health(Data):
    """Whether Silas is there."""

    status: str = "ok"
    connections: int
    program: str | None = None
    """What to type for `silas`, where that name is not found; for who asks on the machine alone."""
    token: bool | None = None
    """True where pairing asks for `channels.web.auth_token` as well."""


class DecidingShown(Data):
    """How deciding goes: one line for each figure."""

    days: int
    lines: list[str]


class DeviceShown(Data):
    """A device of the owner's."""

    device_id: str
    name: str
    enrolled_at: str
    trusted: bool
    this: bool


class ApprovalShown(Data):
    """An approval that the owner gave."""

    token_id: str
    work_item_id: str
    scope: str
    strength: str
    issued_at: str
    expires_at: str
    used: int
    max_executions: int
    void_reason: str | None


class PlaceAsked(Data):
    """The card that asks the owner about a place."""

    card_id: str
    asks: str


class OpenPlaces(Data):
    """What Silas may read, and where text goes that it reads."""

    places: list[OpenedPlace]
    who_sees: str


class WaitingShown(Data):
    """Everything that waits for the owner's decision."""

    cards: list[Card]
    questions: list[Question]
    runs: list[KeptRun]
    """Runs that stand still until the owner has decided about their calls."""


class RevokedApprovals(Data):
    """The ids of the approvals that were taken back, and of the work that was cancelled so."""

    revoked: list[str]
    stopped: list[str]


_ANSWERS = (ApiCommand(AnswersInProgress.stop),)
"""A page says it over its socket."""


async def _list_waiting(front: Front) -> WaitingShown:
    """What waits, for a command that need not open the vault to show it."""
    return WaitingShown(
        cards=await front.cards.open_cards(),
        questions=await front.calls.questions.open(),
        runs=await front.calls.work.paused.waiting() if front.calls.work.paused else [],
    )


_PROPOSALS = (
    ApiCommand(ProposalService.add_client, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.list_clients, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.show_client, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.ask_rules, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.ask_grant, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.revoke_grant, page=PageAccess.SIGNED),
    ApiCommand(ProposalService.recognise),
    ApiCommand(ProposalService.propose),
    ApiCommand(ProposalService.look),
    ApiCommand(ProposalService.status),
    ApiCommand(ProposalService.result),
    ApiCommand(ProposalService.verify),
    ApiCommand(ProposalService.withdraw),
)
"""What other programs ask: for the owner's socket alone, and with the token of a client. The page
asks who may, and changes that."""
_PROPOSED_WORK = (
    ApiCommand(ProposedWork.remove_client, page=PageAccess.SIGNED),
    ApiCommand(ProposedWork.propose_plan),
    ApiCommand(ProposedWork.propose_command),
    ApiCommand(ProposedWork.look_at_work),
    ApiCommand(ProposedWork.work_result),
    ApiCommand(ProposedWork.withdraw_work),
)
_REVIEW = (ApiCommand(_list_waiting, alias="waiting"),)


def make_routes(front: Front, hub: Hub) -> Routes:
    """The routes of one front."""
    routes = Routes()

    @routes.get("/health", response_model_exclude_none=True)
    @page(PageAccess.OPEN)
    async def health(request: Request) -> Health:
        return Health(
            connections=len(hub.pages),
            program=told_program(request),
            token=True if front.token else None,
        )

    @routes.get(LIVE)
    async def live() -> StreamingResponse:
        return StreamingResponse(hub.live(), media_type="application/x-ndjson")

    routes.include(_entry_routes(front))
    routes.include(_device_routes(front, hub))
    routes.include(_metric_routes(front))
    routes.include(_approval_routes(front))
    routes.include(_secret_routes(front, hub))
    routes.include(attachment_routes(front.attachments))
    routes.include(journal_routes(front))
    routes.include(companion_routes(front), dependencies=[Depends(hub.hear_companion_commands)])
    routes.include(memory_routes(front))
    routes.include(persona_routes(front))
    told = partial(hub.tell_conversations, front)
    conversations = ConversationApi(front.search, told)
    routes.include(
        command_routes("/api/conversations", CONVERSATION_COMMANDS.values(), lambda: conversations)
    )
    routes.include(work_routes(front.calls.work))
    routes.include(usage_routes(front.usage))
    routes.include(visit_routes(front.visits))
    routes.include(command_routes("/api/answers", _ANSWERS, lambda: front.answers))
    routes.include(command_routes("/api/review", _REVIEW, lambda: front))
    routes.include(command_routes("/api/visitors", VISITOR_COMMANDS, lambda: front.visits))
    routes.include(_place_routes(front))
    routes.include(skill_routes(front.skills))
    routes.include(mcp_routes(front.tool_servers))
    work = front.proposals
    routes.include(command_routes("/api/proposals", _PROPOSALS, lambda: work.service))
    routes.include(command_routes("/api/proposals", _PROPOSED_WORK, lambda: work))
    routes.include(connection_routes(front.connections))
    routes.include(rule_routes(front.item_answers))
    routes.include(_autonomy_routes(front))
    routes.include(passkey_routes(front.passkeys))
    routes.include(setup_routes(front.setup, front.memory))
    return routes


async def _open_place(places: OpenedPlaces, path: PlacePath) -> PlaceAsked:
    """Ask whether Silas may read this folder or file. Nothing is open before the owner's yes."""
    question = await places.ask(path)
    return PlaceAsked(card_id=question.question_id, asks=question.content.intent)


async def _close_place(places: OpenedPlaces, place: PlacePath) -> list[OpenedPlace]:
    """Take a folder or file back, by its path or its id. Nothing of it is read any more."""
    return await places.close(place)


async def _list_places(places: OpenedPlaces) -> OpenPlaces:
    """What Silas may read without a plan, and who sees it."""
    return OpenPlaces(places=await places.listed(), who_sees=places.who_sees())


_PLACE_COMMANDS = (
    ApiCommand(_list_places, alias="list"),
    ApiCommand(_open_place, page=PageAccess.SIGNED, alias="open"),
    ApiCommand(_close_place, page=PageAccess.SIGNED, alias="close"),
)


def _place_routes(front: Front) -> Routes:
    """What may be read: the commands, and the list as the page reads it."""
    routes = command_routes("/api/folders", _PLACE_COMMANDS, lambda: front.places)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def folders() -> OpenPlaces:
        return await _list_places(front.places)

    return routes


_AUTONOMY_COMMANDS = (
    ApiCommand(AutonomyService.state, alias="list"),
    ApiCommand(AutonomyService.show),
    ApiCommand(AutonomyService.grants),
    ApiCommand(AutonomyService.grant),
    ApiCommand(AutonomyService.tighten, page=PageAccess.SIGNED),
    ApiCommand(AutonomyService.revoke, page=PageAccess.SIGNED),
)


def _autonomy_routes(front: Front) -> Routes:
    """How much is asked: the commands, and the same as the page reads it."""
    routes = command_routes("/api/autonomy", _AUTONOMY_COMMANDS, lambda: front.autonomy)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def autonomy() -> AutonomyShown:
        return await front.autonomy.state()

    return routes


def _entry_routes(front: Front) -> Routes:
    """For a browser that has no session yet."""
    routes = Routes()

    @routes.post("/api/pair")
    @page(PageAccess.OPEN)
    async def pair(wanted: Pair, request: Request) -> Paired:
        device = await _pair(front, wanted, request.headers.get("origin", ""))
        return Paired(device_id=device.device_id, name=device.name)

    @routes.post("/api/session", status_code=204)
    @page(PageAccess.OPEN)
    async def session(wanted: Ticket, request: Request, response: Response) -> None:
        secret = front.sessions.open(wanted.ticket)
        if secret is None:
            raise HTTPException(403, NotLetIn.sentence())
        response.set_cookie(
            COOKIE,
            secret,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https://"),
        )

    return routes


async def _pair(front: Front, wanted: Pair, origin: str) -> Device:
    """Enrol the browser; every refusal sounds the same."""
    payload = pairing_bytes(
        code=wanted.code, public_key=wanted.public_key, name=wanted.name, origin=origin
    )
    try:
        key = PublicKey.from_hex(wanted.public_key)
        if not key.signed(payload, wanted.signature) or not has_token(front.token, wanted.token):
            raise PairingRefused
        front.pairing.redeem(wanted.code)
        return await front.devices.enrol(key, name=wanted.name)
    except SilasError as error:
        await front.audit.log("pairing_refused", reason=error.code)
        raise HTTPException(403, PairingRefused.sentence()) from error


def _metric_routes(front: Front) -> Routes:
    routes = Routes()

    @routes.get("/api/metrics")
    @page(PageAccess.SESSION)
    async def metrics() -> DecidingShown:
        """How deciding went in the last days, as Activity shows it."""
        outcomes = front.autonomy.calibrator.outcomes
        found = await metrics_of(
            front.audit, front.clock, outcomes, owner_id=front.owner_id, days=_METRIC_DAYS
        )
        return DecidingShown(days=_METRIC_DAYS, lines=list(map(in_words, found)))

    return routes


_INVITED_HERE = (
    "Another device is let in on the machine where Silas runs: open the page there, or run "
    "`silas devices pair`."
)


def _device_routes(front: Front, hub: Hub) -> Routes:
    routes = Routes()

    @routes.get("/api/devices")
    @page(PageAccess.SESSION)
    async def devices(request: Request) -> list[DeviceShown]:
        asking = getattr(request.state, "device", None)
        return [
            DeviceShown(
                device_id=each.device_id,
                name=each.name,
                enrolled_at=each.enrolled_at.isoformat(),
                trusted=each.trusted,
                this=asking is not None and each.device_id == asking.device_id,
            )
            for each in await front.devices.list()
            if each.trusted
        ]

    @routes.post("/api/devices/invite", response_model_exclude_none=True)
    @page(PageAccess.SIGNED)
    async def invite(request: Request, _nothing: dict[str, Any]) -> PairingLink:
        """A link for another device; a device that is stolen later cannot have asked for one."""
        if not is_from_here(request):
            raise HTTPException(403, _INVITED_HERE)
        await front.audit.log("device_invited", device_id=asking_device(request).device_id)
        return make_link(
            front.pairing,
            address=request.headers["origin"],
            public_origins=front.public_origins,
            needs_token=front.token is not None,
        )

    @routes.post("/api/devices/{device_id}/revoke")
    @page(PageAccess.SIGNED)
    async def revoke(device_id: str, _nothing: dict[str, Any]) -> dict[str, bool]:
        await front.devices.revoke(device_id)
        await hub.drop_untrusted(front)
        return {"revoked": True}

    return routes


def _approval_routes(front: Front) -> Routes:
    routes = Routes()

    @routes.get("/api/approvals")
    @page(PageAccess.SESSION)
    async def approvals() -> list[ApprovalShown]:
        tokens = front.calls.work.approvals.tokens
        issued = [await tokens.load(each) for each in await tokens.list_ids()]
        return [
            ApprovalShown(
                token_id=each.token.token_id,
                work_item_id=each.token.work_item_id,
                scope=each.token.scope.value,
                strength=each.token.approval_strength.value,
                issued_at=format_timestamp(each.token.issued_at),
                expires_at=format_timestamp(each.token.expires_at),
                used=each.token.executions_used,
                max_executions=each.token.max_executions,
                void_reason=each.void_reason,
            )
            for each in issued
        ]

    @routes.post("/api/approvals/{name}/revoke")
    @page(PageAccess.SIGNED)
    async def revoke(name: str, _nothing: dict[str, Any]) -> RevokedApprovals:
        work = front.calls.work
        taken = await revoke_approvals(work.approvals, work.items, work.control, name)
        return RevokedApprovals(
            revoked=[each.token_id for each in taken.tokens],
            stopped=[each.id for each in taken.stopped],
        )

    return routes


_NOT_ASKED = "Nobody has asked for this secret, or not any more."


def _secret_routes(front: Front, hub: Hub) -> Routes:
    routes = Routes()

    @routes.post("/secrets/{ref_id:path}")
    @page(PageAccess.SIGNED)
    async def store_secret(ref_id: str, secret: SecretValue) -> Stored:
        state, told = await front.secrets.fulfil(ref_id, secret.value)
        if state is SecretState.UNKNOWN:
            raise HTTPException(404, _NOT_ASKED)
        if state is SecretState.FULFILLED:
            raise HTTPException(409, "This secret is stored already.")
        await front.audit.log("secret_stored", ref_id=ref_id)
        if told:
            await front.memory.note_secret(ref_id, told)
        hub.tell(CardClosed(request_id=f"secret:{ref_id}", state="stored"))
        return Stored()

    @routes.post("/api/secrets/decline")
    @page(PageAccess.SIGNED)
    async def decline_secret(named: NamedSecret) -> Stored:
        if not await front.secrets.decline(named.ref_id):
            raise HTTPException(404, _NOT_ASKED)
        await front.audit.log("secret_declined", ref_id=named.ref_id)
        hub.tell(CardClosed(request_id=f"secret:{named.ref_id}", state="declined"))
        return Stored(stored=False)

    return routes
