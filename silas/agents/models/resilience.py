"""A model that is asked again when it stumbles, and left alone when it is down.

The library's retrying transport is not used: it serves only the providers whose client it can
replace, switches off the machine's proxy settings, and cannot repeat an answer that broke off in
its body. This wrapper works one step above, for every provider, on the library's own errors.

1. A circuit breaker that is open refuses at once, so that the fallback takes over without a wait.
2. A failure that may pass (busy, down, cut off) is tried again after a growing, jittered wait, or
   after what the server asks for. A wait that the server wants longer than we have ends the trying.
3. A stream is tried again only until its first event: what was shown cannot be taken back.
4. Every failure of the server counts for the breaker; a refused key or request does not.

`llm_error` turns the library's errors into ours: one code and one sentence each, and never a
key in them. The provider's own words are kept as a detail, shortened and with every secret taken
out: they may repeat what was sent to them.
"""

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from silas.agents.models.choices import Patience
from silas.agents.models.errors import (
    ModelAnswerUnreadable,
    ModelBusy,
    ModelContextExceeded,
    ModelCreditGone,
    ModelKeyRefused,
    ModelNotUsable,
    ModelRequestRefused,
    ModelResting,
    ModelServerFailed,
    ModelTimeout,
    ModelTlsFailed,
    ModelUnknown,
    ModelUnreachable,
)
from silas.kernel import Clock
from silas.kernel.errors import LlmError
from silas.kernel.redaction import Redactor


def is_tls_failure(error: BaseException) -> bool:
    """Look through the causes for a certificate or handshake that did not hold."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(current):
            return True
        current = current.__cause__ or current.__context__
    return False


Sleep = Callable[[float], Awaitable[None]]
Jitter = Callable[[], float]
"""A number from 0 to 1: how much of the wait is drawn by lot."""

LARGEST_ANSWER = 2_000_000
"""Characters."""
_REQUEST_TIMEOUT = 408
_CONFLICT = 409
_PASSING = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelServerError,
    ModelConnectionError,
)


class CircuitOpen(ModelUnavailableError):
    """The breaker of a model is open: the fallback is asked instead."""


class AnswerTooLarge(UnexpectedModelBehavior):
    """The answer is longer than anything that is needed."""


class CircuitBreaker:
    """Counts failures in a row; at the limit it opens, and after a rest it lets one request try."""

    def __init__(self, *, failures: int, rest_seconds: float, clock: Clock) -> None:
        self._limit = failures
        self._rest = rest_seconds
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None
        self._trying = False

    @property
    def state(self) -> str:
        """`closed`, `open` or `half-open`."""
        if self._opened_at is None:
            return "closed"
        return "half-open" if self._rested() else "open"

    def admit(self) -> bool:
        """Whether a request may go out now; half-open lets a single one through."""
        if self._opened_at is None:
            return True
        if not self._rested() or self._trying:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        """The model answered: everything is as new."""
        self._failures, self._opened_at, self._trying = 0, None, False

    def failed(self) -> None:
        """The model failed; from half-open this opens the breaker again."""
        self._failures += 1
        self._trying = False
        if self._failures >= self._limit:
            self._opened_at = self._clock.monotonic()

    def released(self) -> None:
        """A request ended without a word about the model's health: it was cancelled or refused."""
        self._trying = False

    def _rested(self) -> bool:
        opened = self._opened_at
        return opened is not None and self._clock.monotonic() - opened >= self._rest


def _of_sane_size(response: ModelResponse) -> ModelResponse:
    """Nothing that a person or a plan needs is that long: it would only fill memory and disks."""
    size = sum(len(str(getattr(part, "content", ""))) for part in response.parts)
    size += sum(len(call.args_as_json_str()) for call in response.tool_calls)
    if size > LARGEST_ANSWER:
        raise AnswerTooLarge(f"the answer is too large: {size} characters")
    return response


def may_pass(error: ModelAPIError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ModelHTTPError):
        if error.provider_retry_hint is not None:
            return error.provider_retry_hint
        if error.status_code in (_REQUEST_TIMEOUT, _CONFLICT):
            return True
    if isinstance(error, CircuitOpen) or is_tls_failure(error):
        return False
    # Neither a category nor a status: an answer that broke off or cannot be decoded.
    return isinstance(error, _PASSING) or type(error) is ModelAPIError


def speaks_of_health(error: ModelAPIError) -> bool:
    """Whether the failure says something about the server, rather than about what was asked."""
    asked_wrong = isinstance(error, ModelRequestRejectedError | ModelQuotaExceededError)
    return may_pass(error) or isinstance(error, ModelRequestTimeout) or not asked_wrong


class ResilientModel(WrapperModel):
    """One model with its own breaker and its own patience."""

    def __init__(
        self,
        wrapped: Model,
        *,
        patience: Patience,
        breaker: CircuitBreaker,
        sleep: Sleep,
        jitter: Jitter,
    ) -> None:
        super().__init__(wrapped)
        self.breaker = breaker
        self._patience = patience
        self._sleep = sleep
        self._jitter = jitter

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        attempt = 0
        while True:
            try:
                async with self._watched():
                    response = await self.wrapped.request(
                        messages, model_settings, model_request_parameters
                    )
                    return _of_sane_size(response)
            except ModelAPIError as error:
                await self._wait_or_raise(error, attempt)
            attempt += 1

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        attempt = 0
        while True:
            opened = False
            try:
                async with (
                    self._watched(),
                    self.wrapped.request_stream(
                        messages, model_settings, model_request_parameters, run_context
                    ) as stream,
                ):
                    opened = True
                    yield stream
                    return
            except ModelAPIError as error:
                if opened:
                    raise
                await self._wait_or_raise(error, attempt)
            attempt += 1

    @asynccontextmanager
    async def _watched(self) -> AsyncGenerator[None]:
        """One try, told to the breaker, however it ends."""
        if not self.breaker.admit():
            raise CircuitOpen(self.model_name, "the circuit breaker is open")
        try:
            yield
        except ModelAPIError as error:
            if speaks_of_health(error):
                self.breaker.failed()
            else:
                self.breaker.released()
            raise
        except BaseException:
            self.breaker.released()
            raise
        self.breaker.succeeded()

    async def _wait_or_raise(self, error: ModelAPIError, attempt: int) -> None:
        wait = self._wait(error, attempt)
        if attempt >= self._patience.max_retries or wait is None:
            raise error
        await self._sleep(wait)

    def _wait(self, error: ModelAPIError, attempt: int) -> float | None:
        """Seconds until the next try; None if there is no use in one."""
        if not may_pass(error):
            return None
        longest = self._patience.longest_wait_seconds
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= longest else None
        grown: float = min(longest, self._patience.backoff_seconds * 2**attempt)
        return grown * (1 + self._jitter()) / 2


_LONGEST_DETAIL = 300
_SERVER_ERROR = 500

Translated = (ModelAPIError, UnexpectedModelBehavior, FallbackExceptionGroup, UserError)
"""What the library raises when a model does not do what was asked."""

# In this order: the first that fits is the most telling one.
_KINDS: tuple[tuple[type[Exception], type[LlmError]], ...] = (
    (CircuitOpen, ModelResting),
    (ModelRequestTimeout, ModelTimeout),
    (ModelTimeoutError, ModelTimeout),
    (ModelContextWindowExceededError, ModelContextExceeded),
    (ModelAuthenticationError, ModelKeyRefused),
    (ModelNotFoundError, ModelUnknown),
    (ModelQuotaExceededError, ModelCreditGone),
    (ModelRateLimitError, ModelBusy),
    (ModelUnavailableError, ModelServerFailed),
    (ModelServerError, ModelServerFailed),
    (ModelConnectionError, ModelUnreachable),
    (ModelRequestRejectedError, ModelRequestRefused),
    (UnexpectedModelBehavior, ModelAnswerUnreadable),
    (UserError, ModelNotUsable),
)


def llm_error(error: Exception, *, name: str, redactor: Redactor | None = None) -> LlmError:
    """The same failure as one of our errors. `name` is what people call the model."""
    if isinstance(error, FallbackExceptionGroup):
        if len(error.exceptions) == 1:
            return llm_error(error.exceptions[0], name=name, redactor=redactor)
        return _of_group(error, name=name, redactor=redactor)
    kind = _kind_of(error)
    sentence = kind.sentence()
    if isinstance(error, AnswerTooLarge):
        sentence = "The answer is too large to be used. Ask for less, or choose another model."
    details: dict[str, Any] = {"model": name}
    if isinstance(error, ModelHTTPError):
        details["status"] = error.status_code
    if isinstance(error, ModelAPIError) and error.retry_after is not None:
        details["retry_after_seconds"] = error.retry_after
    if said := _said(error, redactor or Redactor()):
        details["said"] = said
    return kind(f"{name}: {sentence}", **details)


@contextmanager
def translated(name: str, *, redactor: Redactor | None = None) -> Iterator[None]:
    """Let nothing but our own errors out of whatever talks to a model."""
    try:
        yield
    except Translated as error:
        # Without its cause: a traceback would repeat what the provider said, perhaps with the key.
        raise llm_error(error, name=name, redactor=redactor) from None


def _kind_of(error: Exception) -> type[LlmError]:
    if isinstance(error, ModelHTTPError) and error.status_code == _REQUEST_TIMEOUT:
        return ModelTimeout
    if isinstance(error, ModelConnectionError) and is_tls_failure(error):
        return ModelTlsFailed
    for theirs, ours in _KINDS:
        if isinstance(error, theirs):
            return ours
    if isinstance(error, ModelHTTPError):
        return ModelServerFailed if error.status_code >= _SERVER_ERROR else ModelRequestRefused
    return ModelAnswerUnreadable


def _of_group(group: FallbackExceptionGroup, *, name: str, redactor: Redactor | None) -> LlmError:
    """When model and fallback both failed, what the first one said leads; both are listed."""
    failures = [
        llm_error(each, name=getattr(each, "model_name", name), redactor=redactor)
        for each in group.exceptions
        if isinstance(each, Exception)
    ]
    first = failures[0]
    sentences = " ".join(failure.message for failure in failures)
    return type(first)(sentences, model=name, tried=[each.explain() for each in failures])


def _said(error: Exception, redactor: Redactor) -> str:
    body = getattr(error, "body", None)
    text = _message_in(body) or getattr(error, "message", "") or str(error)
    return redactor.text(text)[:_LONGEST_DETAIL]


def _message_in(body: object) -> str:
    """The sentence in an error body as providers write it, else the body as it is."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        return message if isinstance(message, str) else json.dumps(body, default=str)
    return body if isinstance(body, str) else ""
