"""JSON documents: the one byte sequence for each, or the refusal."""

from typing import Any

_FORMS: dict[str, tuple[str, str]] = {
    "an empty object": ("{}", "{}"),
    "white space goes": (' { "a" : [ 1 , 2 ] } \n', '{"a":[1,2]}'),
    "keys are sorted": ('{"b":1,"a":2}', '{"a":2,"b":1}'),
    "keys are sorted at every depth": ('{"x":{"b":1,"a":2}}', '{"x":{"a":2,"b":1}}'),
    "capital letters come first": ('{"a":1,"B":2}', '{"B":2,"a":1}'),
    # By code points U+FB33 comes before U+1F600; by UTF-16 units it does not.
    "keys are sorted by UTF-16 units": (
        '{"\ufb33":1,"\U0001f600":2}',
        '{"\U0001f600":2,"\ufb33":1}',
    ),
    "escapes that are not needed go": (r'"\u0041\/\u00e9"', '"A/é"'),
    "control characters are escaped short": (r'"\u0008\u000a\u001f"', r'"\b\n\u001f"'),
    "no normalisation: two spellings of é stay two": (
        '["\u00e9","e\u0301"]',
        '["\u00e9","e\u0301"]',
    ),
    "direction marks stay": ('"\u202e"', '"\u202e"'),
    "a pair of surrogates is one character": (r'"\ud83d\ude00"', '"\U0001f600"'),
    "1.0 is 1": ("[1.0]", "[1]"),
    "minus zero is 0": ("[-0.0]", "[0]"),
    "exponents as ECMAScript writes them": ("[1E21,1e-7,0.000001]", "[1e+21,1e-7,0.000001]"),
    "the shortest digits that give the number": ("[0.30000000000000004]", "[0.30000000000000004]"),
    "the largest integer": ("[9007199254740991]", "[9007199254740991]"),
    "a float that is written without a point": ("[1e20]", "[100000000000000000000]"),
    "the smallest float": ("[5e-324]", "[5e-324]"),
    "a text at the top": ('"a"', '"a"'),
    "null at the top": ("null", "null"),
}

_REFUSED: dict[str, bytes] = {
    "a key twice": b'{"a":1,"a":2}',
    "a key twice, once escaped": b'{"a":1,"\\u0061":2}',
    "a key twice, deep inside": b'{"x":[{"a":1,"a":1}]}',
    "NaN": b"[NaN]",
    "infinity": b"[Infinity]",
    "minus infinity": b"[-Infinity]",
    "a number beyond every float": b"[1e400]",
    "an integer that would be rounded": b"[9007199254740993]",
    "a negative integer that would be rounded": b"[-9007199254740993]",
    "half a pair of surrogates": b'"\\ud83d"',
    "half a pair in a key": b'{"\\udc00":1}',
    "the pair the wrong way round": b'"\\ude00\\ud83d"',
    "bytes that are not UTF-8": b'"\xff"',
    "an overlong spelling": b'"\xc0\xaf"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a comma at the end": b"[1,]",
    "a comment": b"[1/*2*/]",
    "single quotes": b"['a']",
    "a key without quotes": b"{a:1}",
    "a raw line feed in a text": b'"\n"',
    "a raw zero byte in a text": b'"\x00"',
    "a leading zero": b"[01]",
    "a leading plus": b"[+1]",
    "a point without digits": b"[1.]",
    "hexadecimal digits": b"[0x10]",
    "two documents": b"{}{}",
    "something behind the end": b"{} x",
    "nothing": b"",
    "a document cut short": b'{"a":',
    "nested a hundred and one deep": b"[" * 101 + b"]" * 101,
}


def cases() -> list[dict[str, Any]]:
    """Every document in hexadecimal digits, with its canonical bytes, or null if it is refused."""
    forms = [
        {"name": name, "document": text.encode().hex(), "canonical": form.encode().hex()}
        for name, (text, form) in _FORMS.items()
    ]
    refused = [
        {"name": name, "document": document.hex(), "canonical": None}
        for name, document in _REFUSED.items()
    ]
    return [*forms, *refused]
