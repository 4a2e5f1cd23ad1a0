"""The commands of the API: functions of Silas that the page and the terminal may call.

1. A command is one function. Its arguments are one model, made from the function's own signature:
   a new parameter is a new field, and what the function does not take is refused.
2. JSON is read strictly: text is not a number, and "no" is not false.
3. What is wrong with a request is one sentence, `InvalidRequest`. It repeats no value of the
   request, which may be a secret in the wrong place.
4. Each command says what a paired browser needs for it (`page`). One that says nothing is for the
   owner at the machine alone.

Nothing here needs the web server: without a running Silas, the command line runs the same commands
on the files itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_json

from silas.kernel import CanonicalError, SilasError
from silas.kernel.models import Data, FieldProblem, dotted, problems_in
from silas.web.errors import InvalidRequest

Read = TypeVar("Read", bound=Data)

_NOT_EXACT = "A number is too large, or a text cannot be written down exactly. Use another one."


class Body(Data):
    """The body of a request. FastAPI wants its schema as soon as there is a route for it."""

    model_config = ConfigDict(defer_build=False)


class PageAccess(StrEnum):
    """What a browser must show for a route."""

    OPEN = "open"
    """Nothing: whoever reaches the address may ask, and the handler checks what it is given."""
    SESSION = "session"
    """The session's cookie: reading."""
    SIGNED = "signed"
    """The session's cookie and the device's signature over the request: a change."""


@dataclass(frozen=True)
class ApiCommand:
    """One function, called with arguments that came as JSON."""

    function: Callable[..., Any]
    page: PageAccess | None = None
    """What a paired browser needs for it; None: it may not ask for this at all (rule 4)."""
    alias: str | None = None
    """Its name, where that is not the function's."""
    without: frozenset[str] = frozenset()
    """Parameters that are not for this command."""
    refusal: type[SilasError] = InvalidRequest
    """What is raised for a request that cannot be understood."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.alias or self.function.__name__

    @cached_property
    def arguments(self) -> type[Body]:
        """What it takes, after the object that it is done with (rule 1)."""
        hints = get_type_hints(self.function, include_extras=True)
        _, *parameters = inspect.signature(self.function).parameters.values()
        fields: dict[str, Any] = {
            each.name: (hints[each.name], ... if each.default is each.empty else each.default)
            for each in parameters
            if each.kind is not each.VAR_KEYWORD and each.name not in self.without
        }
        name = "".join(part.capitalize() for part in self.name.split("_"))
        return create_model(f"{name}Arguments", __base__=Body, **fields)

    @cached_property
    def answers(self) -> Any:
        """The type of its answer."""
        return get_type_hints(self.function, include_extras=True)["return"]

    async def run(self, target: object, arguments: Data, **more: Any) -> Any:
        """Call the function with arguments that were read; raises a `SilasError`.

        A record may be stricter than the signature: what it refuses is the request's fault too.
        """
        given = {name: getattr(arguments, name) for name in arguments.model_fields_set}
        try:
            answer = self.function(target, **given, **more)
            return await answer if isinstance(answer, Awaitable) else answer
        except ValidationError as error:
            raise self.refusal(sentence_of(problems_in(error))) from error
        except CanonicalError as error:
            raise self.refusal(_NOT_EXACT) from error

    def read(self, given: Mapping[str, Any]) -> Body:
        """The arguments, from what is at hand as Python has it; raises the refusal."""
        return read_strictly(self.arguments, given, self.refusal)


def read_strictly(model: type[Read], value: Any, refusal: type[SilasError]) -> Read:
    """What a request carries; raises the refusal (rules 2 and 3).

    A parser of JSON knows no tuples and no dates. Written and read again, everything has the one
    type that JSON gives it.
    """
    try:
        return model.model_validate_json(to_json(value), strict=True)
    except ValidationError as error:
        raise refusal(sentence_of(problems_in(error))) from error
    except PydanticSerializationError as error:
        raise refusal("A text in this request is not Unicode.") from error


def by_name(commands: Iterable[ApiCommand]) -> dict[str, ApiCommand]:
    """The commands by their names."""
    return {each.name: each for each in commands}


def sentence_of(problems: Iterable[FieldProblem]) -> str:
    """What is wrong with a request, for the person who sent it (rule 3)."""
    parts = [f"{dotted(path)} {message}".strip() for path, message in problems]
    return f"This request cannot be understood: {'; '.join(parts)}."
