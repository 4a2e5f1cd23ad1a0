"""From the library's errors to ours: one code and one sentence each, and never a key in them.

The provider's own words are kept as a detail, shortened and with every secret taken out: they may
repeat what was sent to them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
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
from silas.agents.models.resilience import AnswerTooLarge, CircuitOpen
from silas.agents.models.tls import is_tls_failure
from silas.kernel.errors import LlmError
from silas.kernel.redaction import Redactor

_LONGEST_DETAIL = 300
_REQUEST_TIMEOUT = 408
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
