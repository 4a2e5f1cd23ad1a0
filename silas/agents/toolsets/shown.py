"""What a model sees of a result: the channels that are meant for it, cut to a sane size."""

from pydantic_core import to_json

from silas.work.execution_models import ModelView

MOST_CHARS = 32_000
"""About 9,000 tokens. Who needs more reads it in parts."""


def plain(_tool: str, view: ModelView) -> str:
    """The result as it is."""
    return cut(text_of(view))


def text_of(view: ModelView) -> str:
    """What a result says."""
    said = view.return_value or (to_json(view.content).decode() if view.content else "")
    if view.success:
        return said or "Done. There was no output."
    return f"Did not work: {view.error or 'nobody knows why.'}" + (f"\n{said}" if said else "")


def cut(text: str, most: int = MOST_CHARS) -> str:
    """The beginning and the end of a text that is too long: errors tend to stand at the end."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most // 2]}\n[{left_out} characters left out]\n{text[-(most // 2) :]}"
