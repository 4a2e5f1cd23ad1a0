"""What a call cost, from the library's price data; what is not known is said to be unknown."""

from dataclasses import dataclass
from decimal import Decimal

from genai_prices import calc_price
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage

from silas.agents.models.choices import ModelChoice
from silas.agents.models.modes import is_local


@dataclass(frozen=True)
class Cost:
    """Dollars, and whether they are known; an unknown cost is 0 and must be shown as unknown."""

    usd: float
    known: bool


UNKNOWN = Cost(usd=0.0, known=False)
FREE = Cost(usd=0.0, known=True)


def cost_of(choice: ModelChoice, usage: RequestUsage | RunUsage) -> Cost:
    """What the provider reported, else what the price list says; one's own machine is free."""
    if usage.cost is not None:
        return Cost(usd=float(usage.cost), known=True)
    if is_local(choice):
        return FREE
    if choice.base_url is not None or usage.unmeasured_requests:
        return UNKNOWN  # somebody else's server has its own prices
    try:
        price = calc_price(usage, choice.model, provider_id=_price_list_of(choice.provider))
    except (LookupError, ValueError):
        return UNKNOWN
    return Cost(usd=float(price.total_price), known=True)


def use_reported_cost(response: ModelResponse) -> ModelResponse:
    """Let what the provider itself says a call cost (as OpenRouter does) be what it cost."""
    reported = (response.provider_details or {}).get("cost")
    if isinstance(reported, int | float):
        response.usage.cost = Decimal(str(reported))
    return response


def _price_list_of(provider: str) -> str:
    """The price list names makers; several of the library's providers belong to one."""
    return "openai" if provider.startswith("openai") else provider
