"""What can go wrong between Silas and a model, each with a sentence that says what to do."""

from silas.kernel.errors import LlmError


class ModelKeyRefused(LlmError):
    """The provider does not accept the API key. Set a valid one, and run `silas models test`."""

    code = "E_LLM_KEY"


class ModelCreditGone(LlmError):
    """The account at the provider has no credit left. Top it up, or choose another model."""

    code = "E_LLM_CREDIT"


class ModelTimeout(LlmError):
    """The model took too long. Try again, or raise `models.timeout_seconds`."""

    code = "E_LLM_TIMEOUT"


class ModelBusy(LlmError):
    """The provider takes no more requests for now. Wait a little, or set `models.fallback`."""

    code = "E_LLM_BUSY"


class ModelServerFailed(LlmError):
    """The provider's server failed. Try again later, or set `models.fallback`."""

    code = "E_LLM_SERVER"


class ModelAnswerUnreadable(LlmError):
    """The model's answer cannot be used. Run `silas models test` to see what the model can do."""

    code = "E_LLM_ANSWER"


class ModelUnreachable(LlmError):
    """No connection to the model's server. Check that it runs, and the address in `models`."""

    code = "E_LLM_UNREACHABLE"


class ModelNotUsable(LlmError):
    """This model cannot be used as it is configured. Run `silas models list` to see why."""

    code = "E_LLM_CONFIG"


class ModelRequestRefused(LlmError):
    """The provider refuses this request. Run `silas models test`, or choose another model."""

    code = "E_LLM_REFUSED"


class ModelTlsFailed(LlmError):
    """The server's certificate cannot be trusted. Check the address, and this machine's clock."""

    code = "E_LLM_TLS"


class ModelUnknown(LlmError):
    """The provider does not know this model. Check its name in `models`."""

    code = "E_LLM_UNKNOWN_MODEL"


class ModelResting(LlmError):
    """The model failed several times, so Silas leaves it alone for a while. Try again later."""

    code = "E_LLM_RESTING"


class ModelContextExceeded(LlmError):
    """The request is longer than this model can read. Shorten it, or choose another model."""

    code = "E_LLM_TOO_LONG"


class ModelPackageMissing(LlmError):
    """A package for this provider is not installed. Install it, or choose another provider."""

    code = "E_LLM_PACKAGE"
