"""What a page may send in one field, and how much of it."""

from typing import Annotated

from pydantic import Field

MAX_TEXT = 32_000
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Number = Annotated[int, Field(ge=0, le=2**53 - 1)]
