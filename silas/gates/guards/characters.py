"""Tables of characters: what looks like what, what is not seen at all, what is in which script."""

LOOKALIKES: dict[str, str] = dict(
    zip(
        # Cyrillic, small and capital
        "аеорсухіѕјһԁԛԝӏкмтвнѵүԍ" + "АВЕЅІЈКМНОРСТУХҺѴҮԌ"
        # Greek, small and capital
        "αβειικνορτυχηωζ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
        # Latin letters that no decomposition turns into plain ones
        "ıɑɡɩʟꜱᴀʙᴄᴅᴇꜰɢʜɪᴊᴋᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢøłđß"
        # Armenian
        "օոսցհ",
        "aeopcyxisjhdqwlkmtbhvyg" + "abesijkmhopctyxhvyg"
        "abeiiknoptuxnwz" + "abezhikmnoptyx"
        "iagilsabcdefghijkmnoprtuvwyzolds"
        "onugh",
        strict=True,
    )
)
"""Characters that a reader takes for a plain Latin letter, with that letter in small."""

SPACERS = "“”„«»‹›–—‐•·。、"
"""Marks outside ASCII that separate words."""

APOSTROPHES = "'’‘ʼ"
"""Marks inside words that are left out when words are compared."""

LEET: dict[str, str] = dict(zip("013457@$", "oieastas", strict=True))
"""Digits and signs that stand for letters in disguised words."""

NEVER_LATIN = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u1cff\u1dc0-\u1dff\u20d0-\u20ff\u2ce5-\u2dff"
    r"\u302a-\u302f\u3099\u309a\ua66f-\ua6ff\ua800-\uab2f\uabe3-\uabff\ufb1e\ufe20-\ufe2f"
    r"\U000101fd-\U0001077f\U000107c0-\U0001cfff\U0001d165-\U0001d1ad\U0001d242-\U0001d244"
    r"\U0001dfff-\U0001e94f"
)
"""All combining marks, and scripts none of whose letters is ever read as a Latin one.

It is a class for expressions. Long runs of combining marks would take the normalisation quadratic
time, so they are dropped before it.
"""
