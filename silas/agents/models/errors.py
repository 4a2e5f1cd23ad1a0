"""What can go wrong between Silas and a model, each with a sentence that says what to do."""

from silas.kernel.errors import LlmError


class ModelKeyRefused(LlmError):
    """The provider does not accept the API key. Set a valid one, and run `silas models test`."""

    code = "E_LLM_KEY"
    exit_code = 111


class ModelCreditGone(LlmError):
    """The account at the provider has no credit left. Top it up, or choose another model."""

    code = "E_LLM_CREDIT"
    exit_code = 112


class ModelTimeout(LlmError):
    """The model took too long. Try again, or raise `models.timeout_seconds`."""

    code = "E_LLM_TIMEOUT"
    exit_code = 113


class ModelBusy(LlmError):
    """The provider takes no more requests for now. Wait a little, or set `models.fallback`."""

    code = "E_LLM_BUSY"
    exit_code = 114


class ModelServerFailed(LlmError):
    """The provider's server failed. Try again later, or set `models.fallback`."""

    code = "E_LLM_SERVER"
    exit_code = 115


class ModelAnswerUnreadable(LlmError):
    """The model's answer cannot be used. Run `silas models test` to see what the model can do."""

    code = "E_LLM_ANSWER"
    exit_code = 116


class ModelUnreachable(LlmError):
    """No connection to the model's server. Check that it runs, and the address in `models`."""

    code = "E_LLM_UNREACHABLE"
    exit_code = 117


class ModelNotUsable(LlmError):
    """This model cannot be used as it is configured. Run `silas models list` to see why."""

    code = "E_LLM_CONFIG"
    exit_code = 118


class ModelRequestRefused(LlmError):
    """The provider refuses this request. Run `silas models test`, or choose another model."""

    code = "E_LLM_REFUSED"
    exit_code = 119


class ModelTlsFailed(LlmError):
    """The server's certificate cannot be trusted. Check the address, and this machine's clock."""

    code = "E_LLM_TLS"
    exit_code = 240


class ModelUnknown(LlmError):
    """The provider does not know this model. Check its name in `models`."""

    code = "E_LLM_UNKNOWN_MODEL"
    exit_code = 241


class ModelResting(LlmError):
    """The model failed several times, so Silas leaves it alone for a while. Try again later."""

    code = "E_LLM_RESTING"
    exit_code = 242


class ModelContextExceeded(LlmError):
    """The request is longer than this model can read. Shorten it, or choose another model."""

    code = "E_LLM_TOO_LONG"
    exit_code = 243


class ModelPackageMissing(LlmError):
    """A package for this provider is not installed. Install it, or choose another provider."""

    code = "E_LLM_PACKAGE"
    exit_code = 244
