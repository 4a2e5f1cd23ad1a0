"""Arguments of tools: declared as frozen models, checked before anything runs."""

from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from silas.kernel.field_problems import dotted, problems_in
from silas.kernel.models import Data

Path = Annotated[str, Field(min_length=1, max_length=1024)]
Timeout = Annotated[int, Field(gt=0, le=3600)]
A = TypeVar("A", bound=Data)


class ArgumentsRefused(ValueError):
    """The arguments do not fit the tool; the text says why, for the worker."""


def checked(model: type[A], args: dict[str, Any]) -> A:
    """The arguments as the tool's own type; raises `ArgumentsRefused` with every problem."""
    try:
        return model.model_validate(args, strict=True)
    except ValidationError as error:
        told = "; ".join(f"{dotted(path)}: {text}" for path, text in problems_in(error))
        raise ArgumentsRefused(told or "these arguments do not fit") from error
