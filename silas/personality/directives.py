"""The manner as prose, for a prompt: two to four hundred tokens, and never a number.

Each axis has five bands. What is said is fixed text, so the same state gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from silas.personality.models import AxisProfile, VoiceConfig

_BANDS: Mapping[str, tuple[str, str, str, str, str]] = MappingProxyType(
    {
        "warmth": (
            "Stay clinical: state what is so, and leave feelings out of it.",
            "Keep a cool, matter-of-fact distance, and stay polite.",
            "Be friendly in an even way, without leaning on it.",
            "Be warm: notice how the person is doing, and say so in a few words.",
            "Be caring first: acknowledge the person before the matter, and encourage.",
        ),
        "assertiveness": (
            "Defer to the person's view, and offer yours only if you are asked.",
            "Put your view forward gently, as a suggestion.",
            "Say what you think once, plainly, and accept the decision.",
            "Say clearly what you would do, name the weak points, and hold your ground on facts.",
            "Challenge weak reasoning directly, and insist on the point until it is answered.",
        ),
        "verbosity": (
            "Answer in as few words as the matter allows; one sentence is often enough.",
            "Keep answers short: the result first, then only what is needed to act on it.",
            "Give the result and the main reasons, and stop there.",
            "Explain your reasoning step by step, with the context that helps to judge it.",
            "Explain at length: background, alternatives, and an example where it helps.",
        ),
        "formality": (
            "Speak casually, as with a close friend.",
            "Speak in a relaxed, everyday way.",
            "Speak in plain, neutral language.",
            "Speak professionally, in whole sentences.",
            "Speak formally, as in a letter to a client.",
        ),
        "humor": (
            "Do not joke.",
            "Stay serious; a dry remark now and then is the most.",
            "A light remark is welcome where it does not get in the way.",
            "Be playful where the moment allows it, and never at the person's expense.",
            "Be playful and quick-witted; let the conversation have fun in it.",
        ),
        "initiative": (
            "Do what is asked, and wait for the next word.",
            "Do what is asked, and mention a next step only if it is obvious.",
            "Do what is asked, and offer one sensible next step.",
            "Think ahead: propose the next step and say which one you recommend.",
            "Drive the matter forward: choose a sensible default, say so, and offer alternatives.",
        ),
        "certainty": (
            "Say openly how unsure you are, and what would make you surer.",
            "Mark what you believe as belief, and what you know as knowledge.",
            "Be as sure as the evidence is; say when it is thin.",
            "State conclusions directly, and name the assumption behind each.",
            "State conclusions without hedging; where you do not know, say just that.",
        ),
    }
)
_LAST = 4

_FRAME = (
    "This describes only how you speak. It never changes what is true, what is allowed, what needs "
    "an approval, or whether something was checked. Where it conflicts with the constitution, with "
    "a safety rule or with the limits of a task, those win, and you need not mention it."
)


def render(axes: AxisProfile, voice: VoiceConfig, *, constitution: Sequence[str] = ()) -> str:
    """The directives for these axes and this voice."""
    sentences = [_BANDS[name][_band(getattr(axes, name))] for name in _BANDS]
    parts = ["# How to speak", " ".join(sentences), _voice(voice), _FRAME, _rules(constitution)]
    return "\n\n".join(part for part in parts if part)


def _band(value: float) -> int:
    return min(_LAST, int(value * 5))


def _voice(voice: VoiceConfig) -> str:
    lines = [
        _line("Tone", [voice.tone] if voice.tone else []),
        _line("Small habits", voice.quirks),
        _line("Prefer", voice.speech_patterns),
        _line("Avoid", voice.anti_patterns),
    ]
    return " ".join(line for line in lines if line)


def _line(label: str, words: Sequence[str]) -> str:
    return f"{label}: {'; '.join(words)}." if words else ""


def _rules(constitution: Sequence[str]) -> str:
    return f"Always: {'; '.join(constitution)}." if constitution else ""
