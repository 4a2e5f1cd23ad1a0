"""When something happens again, in words: "every 15 minutes", "every Monday at 9:00"."""

import re

_DAYS = {
    name: number
    for number, names in enumerate(
        (
            ("sunday", "sundays"),
            ("monday", "mondays"),
            ("tuesday", "tuesdays"),
            ("wednesday", "wednesdays"),
            ("thursday", "thursdays"),
            ("friday", "fridays"),
            ("saturday", "saturdays"),
        )
    )
    for name in names
}
_CLOCK = r"(?:\s+at\s+(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm)?)?"
_EVERY_N = re.compile(r"every\s+(?:(?P<count>\d+)\s+)?(?P<unit>minutes?|hours?)")
_EVERY_DAY = re.compile(rf"(?:every\s+(?:day|morning|evening)|daily){_CLOCK}")
_EVERY_WEEKDAY = re.compile(rf"every\s+(?P<day>{'|'.join(_DAYS)}){_CLOCK}")
_WORKDAYS = re.compile(rf"every\s+(?:weekday|working day){_CLOCK}")
_FIXED = {"hourly": "0 * * * *", "every hour": "0 * * * *", "weekly": "0 9 * * 1"}
_NINE = (9, 0)


def read_schedule(words: str) -> str | None:
    """The cron expression for these words, None if they are not understood exactly."""
    said = " ".join(words.lower().strip(" .!").split())
    if said in _FIXED:
        return _FIXED[said]
    if found := _EVERY_N.fullmatch(said):
        return _interval(int(found["count"] or 1), found["unit"].rstrip("s"))
    for pattern, days in ((_EVERY_DAY, "*"), (_WORKDAYS, "1-5"), (_EVERY_WEEKDAY, None)):
        if found := pattern.fullmatch(said):
            clock = _clock(found, evening="evening" in said)
            day = days or str(_DAYS[found["day"]])
            return f"{clock[1]} {clock[0]} * * {day}" if clock else None
    return None


def _interval(count: int, unit: str) -> str | None:
    """Only what divides evenly: cron would start anew at each full hour or day."""
    whole = 60 if unit == "minute" else 24
    if count == 0 or whole % count:
        return None
    if unit == "minute":
        return "0 * * * *" if count == whole else f"*/{count} * * * *"
    return "0 0 * * *" if count == whole else f"0 */{count} * * *"


def _clock(found: re.Match[str], *, evening: bool) -> tuple[int, int] | None:
    if found["hour"] is None:
        return (18, 0) if evening else _NINE
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None
