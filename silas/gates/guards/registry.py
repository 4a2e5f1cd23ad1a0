"""The guards by name, and the one way to ask them.

A name or an option that is not known is an error, never a pass.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from silas.gates.errors import GuardOptionsInvalid, UnknownGuard
from silas.gates.guards import jailbreak, pii, secrets, toxicity, unicode, urls
from silas.gates.guards.normalise import Subject
from silas.gates.guards.rules import GuardOptions, GuardVerdict, Proof
from silas.kernel.models import dotted, problems_in, quoted


@dataclass(frozen=True)
class Guard:
    """A check of one text: its name, what it takes as options, and the check itself."""

    name: str
    options: type[GuardOptions]
    check: Callable[[Subject, Any], GuardVerdict]
    proof: Proof | None = None
    """What the check holds before its first text; None: the rules proved themselves on loading."""
    settled: Callable[[str], int] | None = None
    """Up to where a text that goes on is judged for good: `check(text[:place])` begins what `check`
    leaves of every longer text. None: the beginning can only be judged with the end."""


class GuardRegistry:
    """Some guards, asked by name."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._guards = {guard.name: guard for guard in guards}

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards."""
        return tuple(self._guards.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._guards)

    def options(self, name: str, config: Mapping[str, Any]) -> GuardOptions:
        """The options of a guard as a gate's `config` gives them, checked."""
        try:
            return self._guard(name).options.model_validate(dict(config))
        except ValidationError as error:
            problems = "; ".join(f"`{dotted(path)}` {words}" for path, words in problems_in(error))
            raise GuardOptionsInvalid(f"Guard {quoted(name)}: {problems}.") from None

    def check(
        self, name: str, text: str | Subject, options: GuardOptions | None = None
    ) -> GuardVerdict:
        """What the guard says about the text; without options, it takes its usual ones.

        A `Subject` made once saves work if several guards look at the same text.
        """
        guard = self._guard(name)
        chosen = self.options(name, {}) if options is None else options
        if not isinstance(chosen, guard.options):
            raise GuardOptionsInvalid(f"These are not options of the guard {quoted(name)}.")
        return guard.check(text if isinstance(text, Subject) else Subject(text), chosen)

    def settled(self, name: str, text: str) -> int | None:
        """Up to where this beginning of a text is judged for good; None: not before its end."""
        settled = self._guard(name).settled
        return None if settled is None else settled(text)

    def prove(self, name: str) -> None:
        """Try the guard's rules on their examples now, so that its first text need not wait."""
        proof = self._guard(name).proof
        if proof is not None:
            proof.hold()

    def _guard(self, name: str) -> Guard:
        guard = self._guards.get(name)
        if guard is None:
            known = ", ".join(self._guards)
            raise UnknownGuard(f"There is no guard {quoted(name)}. There are: {known}.")
        return guard


def built_in_guards() -> GuardRegistry:
    """The guards that Silas ships."""
    return GuardRegistry(
        [
            Guard(jailbreak.NAME, jailbreak.JailbreakOptions, jailbreak.check, jailbreak.PROOF),
            Guard(pii.NAME, pii.PiiOptions, pii.check, pii.PROOF, pii.settled),
            Guard(
                secrets.NAME, secrets.SecretsOptions, secrets.check, secrets.PROOF, secrets.settled
            ),
            Guard(toxicity.NAME, toxicity.ToxicityOptions, toxicity.check),
            Guard(unicode.NAME, unicode.UnicodeOptions, unicode.check),
            Guard(urls.NAME, urls.UrlsOptions, urls.check, urls.PROOF, urls.settled),
        ]
    )
