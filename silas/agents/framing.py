"""Text on its way into a prompt.

1. Whoever wrote it: characters that nobody sees go, and what looks like the markup of a chat is
   disarmed: special tokens (`<|im_start|>`, `[INST]`), role tags (`<system>`), calls of tools
   (`<tool_call>`). Only their first character is changed, so that they can still be read.
2. Text from outside is scrubbed before (`silas.memory.scrub`): orders, speakers and tool calls are
   taken out of it. Then it is put into a frame that says where it came from.
3. Frames are the library's own. No content can close one, or open another.
"""

import re

from pydantic_ai.framing import neutralize_tags, register_tag, wrap

from silas.agents.toolsets.shown import cut, text_of
from silas.gates.guards import Mode, Subject
from silas.gates.guards.unicode import UnicodeOptions
from silas.gates.guards.unicode import check as check_unicode
from silas.kernel import TaintLevel
from silas.kernel.visible import visible
from silas.memory.scrub import scrub
from silas.work.execution_models import ModelView

# All of them here: a tag that is registered after the first use would change what is cached.
EXTERNAL = register_tag("external")
REQUEST = register_tag("request")
CONVERSATION = register_tag("conversation")
DIRECTIVES = register_tag("directives")
SKILLS = register_tag("skills")
SKILL = register_tag("skill")
FINDINGS = register_tag("findings")

_TAGS = (
    r"system|assistant|developer|user|human|tool|im_start|im_end|start_of_turn|end_of_turn|s|"
    r"tool_calls?|tool_use|tool_response|tool_results?|tools|function_calls?|function_results?|"
    r"function|invoke|parameter|think|thinking|scratchpad"
)
_MARKUP = re.compile(
    rf"<(?=\s*/?\s*(?:[a-z]+:)?(?:{_TAGS})\b[^<>\n]{{0,200}}(?:>|=))"
    r"|<(?=[|\uff5c])"  # <|im_start|>, and the wide bars of other families
    r"|<(?=<\s*/?SYS>)"
    r"|\[(?=/?\s*(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\s*\])",
    re.IGNORECASE,
)
_HARMLESS = {"<": "&lt;", "[": "&#91;"}
_UNICODE = UnicodeOptions(mode=Mode.FIX)


def disarm(text: str) -> str:
    """The text without hidden characters, and with nothing in it that a model takes for markup."""
    return neutralize_tags(_MARKUP.sub(lambda found: _HARMLESS[found[0]], _seen(text)))


def scrubbed(text: str) -> str:
    """Text from outside without orders, speakers and tool calls."""
    return disarm(scrub(text).text)


def frame_external(text: str, source: str) -> str:
    """Text from outside as a model may see it: scrubbed, in a frame that names its source."""
    return wrap(EXTERNAL, scrubbed(text), source=scrubbed(source)[:200])


def frame_result(tool: str, view: ModelView) -> str:
    """What a tool gave, as a model may see it."""
    text = cut(text_of(view))
    return frame_external(text, tool) if view.taint is TaintLevel.EXTERNAL else disarm(text)


def _seen(text: str) -> str:
    verdict = check_unicode(Subject(text), _UNICODE)
    if not verdict.findings:
        return text
    # A text that cannot be mended in a few rounds is shown with every hidden character written out.
    return visible(text) if verdict.fixed_text is None else verdict.fixed_text
