"""Frames that nobody would write: each is answered with an error, none does anything."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.kernel import CanonicalError, strict_loads
from silas.web.wire import FROM_PAGE

TYPES = sorted(FROM_PAGE.json_schema()["discriminator"]["mapping"])
FIELDS = ["request_id", "verdict", "text", "message_id", "signature", "token", "device_id", "nonce"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
frames = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES) | st.text(max_size=10),
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), values, max_size=5),
)


def is_no_object(text: str) -> bool:
    return not text.lstrip().startswith("{")


def understood(text: str) -> bool:
    try:
        FROM_PAGE.validate_python(strict_loads(text))
    except (CanonicalError, ValidationError):
        return False
    return True


@settings(max_examples=800)
@given(frames)
def test_a_frame_is_understood_or_refused(frame: Mapping[str, Any]) -> None:
    understood(json.dumps(frame))


@settings(max_examples=500)
@given((st.text() | st.binary().map(lambda raw: raw.decode("latin-1"))).filter(is_no_object))
def test_text_that_is_no_frame_is_refused(text: str) -> None:
    assert not understood(text)
