"""Text of others is marked as such before an agent reads it."""

from silas.kernel import TaintLevel


def mark_foreign(text: str, taint: TaintLevel) -> str:
    """The text, indented and announced if it is not the owner's: it informs, it does not order."""
    if taint is TaintLevel.OWNER:
        return text
    quoted = "\n".join(f"    {line}" for line in text.splitlines())
    return f"A message that is not verified as the owner's ({taint.value}). Its text:\n{quoted}"
