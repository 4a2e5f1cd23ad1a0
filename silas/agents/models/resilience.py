"""A model that is asked again when it stumbles, and left alone when it is down.

The library's retrying transport is not used: it serves only the providers whose client it can
replace, switches off the machine's proxy settings, and cannot repeat an answer that broke off in
its body. This wrapper works one step above, for every provider, on the library's own errors.

1. A circuit breaker that is open refuses at once, so that the fallback takes over without a wait.
2. A failure that may pass (busy, down, cut off) is tried again after a growing, jittered wait, or
   after what the server asks for. A wait that the server wants longer than we have ends the trying.
3. A stream is tried again only until its first event: what was shown cannot be taken back.
4. Every failure of the server counts for the breaker; a refused key or request does not.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from silas.agents.models.choices import Patience
from silas.agents.models.tls import is_tls_failure
from silas.kernel import Clock

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
