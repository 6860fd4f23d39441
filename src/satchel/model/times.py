"""Times as the model keeps them: text of exactly 27 characters, UTC, microseconds.

Source: docs/spec/2-records.md. Text, not datetime: a datetime that passes through an encoder
comes back with other digits, and an id would break.
"""

import re
from collections import deque
from datetime import UTC, datetime
from functools import lru_cache

_FRACTION = re.compile(r"[.,](\d+)")
_UTC = "+00:00"
_is_exact = re.compile(
    r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d\.(?!000000)\d{6}\+00:00", re.ASCII
).fullmatch
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_PICTURE = b"0000-00-00T00:00:00.000000Z"

TIME_LENGTH = 27
"""Characters in a canonical time."""


def is_canonical_time(text: str) -> bool:
    """Tell whether ``text`` is a valid date in exactly ``YYYY-MM-DDThh:mm:ss.ffffffZ``."""
    return len(text) == TIME_LENGTH and _is_moment(text)


@lru_cache(512)  # the same few times are looked at when they are read and when they are used
def _is_moment(text: str) -> bool:
    # Newer Pythons read an hour of 24 as the midnight after it.
    if text.encode("utf-8", "replace").translate(_ALIKE) != _PICTURE or text[11:13] == "24":
        return False
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def are_canonical_times(texts: list[str]) -> bool:
    """Tell whether all of many texts of 27 characters are canonical times."""
    joined = "".join(texts)
    if joined.encode("utf-8", "replace").translate(_ALIKE) != _PICTURE * len(texts):
        return False
    try:
        deque(map(datetime.fromisoformat, texts), maxlen=0)
    except ValueError:
        return False
    return "T24" not in joined


def format_time(moment: datetime) -> str:
    """Return an aware ``moment`` as canonical text.

    Raises:
        ValueError: If ``moment`` has no time zone; guessing one would be inventing a fact.
    """
    if moment.tzinfo is None:
        raise ValueError("a time must have a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix(_UTC) + "Z"


def now() -> str:
    """Return the present moment as canonical text."""
    return format_time(datetime.now(UTC))


def read_time(text: str) -> str | None:
    """Return an ISO 8601 text as canonical text, or None where it names no exact moment.

    A date alone counts as its first moment in UTC; a time of day without a zone counts as UTC,
    which is what the products whose exports we read mean by it. Digits beyond microseconds
    cannot be kept, so such a text gives None and the caller keeps the original.
    """
    if text.endswith(_UTC) and is_canonical_time(likely := text.removesuffix(_UTC) + "Z"):
        return likely
    if _finer_than_microseconds(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return format_time(moment)
    except OverflowError:
        return None


def _finer_than_microseconds(text: str) -> bool:
    fraction = _FRACTION.search(text)
    return fraction is not None and fraction[1][6:].strip("0") != ""


def iso_text(text: str) -> str:
    """Return a canonical time as ``datetime.isoformat()`` writes it, with its offset."""
    return text[:19] + text[19:26].removesuffix(".000000") + _UTC


def exact_time(text: str) -> str | None:
    """Return a text as canonical text where ``iso_text`` gives the very same text back."""
    if _is_exact(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return None
        return text[:26] + "Z"
    found = read_time(text)
    return found if found is not None and iso_text(found) == text else None


def to_datetime(text: str) -> datetime:
    """Return a canonical time as an aware datetime."""
    return datetime.fromisoformat(text)
