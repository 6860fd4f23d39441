"""Many records at once: which of them are worth a closer look.

Looking at the texts of each record by itself takes longer than reading and sealing it. So the
records are written down one after the other, and the signs of the sieve are looked for in all of
them together; only those in which there is one are walked through.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from satchel.memory.records import Model
from satchel.screen.disguise import may_be_disguised, seen
from satchel.screen.records import can_hold_secret, spoken_members
from satchel.screen.sieve import CARD, RUN, folded, names_in, runs_of, signs_of

_lines = msgspec.json.Encoder().encode_lines
_UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)

_WORDS = (
    *(b"finished_successfully", b"model_editable_context", b"user_editable_context"),
    *(b"function_call_output", b"custom_tool_call_output", b"cache_read_input_tokens"),
    *(b"cache_creation_input_tokens", b"ephemeral_1h_input_tokens", b"ephemeral_5m_input_tokens"),
    *(b"isVisibleInTranscriptOnly", b"sourceToolAssistantUUID"),
)
"""What chat products and coding agents say in every message, as long as a token."""

# What stands alone in a member of its own and is no secret: a UUID, a digest, an id of ours.
_is_identifier = re.compile(
    rb'"(?:(?:blake3:)?[0-9a-f]{32,64}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|%b)"'
    % b"|".join(_WORDS)
).match
_PREFIX = b'"blake3:'
# The digits of a number with a fraction; a quotation mark after a backslash is one in a text.
_fractions = re.compile(rb'(?<=[^\\]":)-?\d\.\d+(?=[,}])').sub


def suspects(drafts: Sequence[Model]) -> list[int]:
    """Return the places of the records that may hold a secret; all others hold none.

    Args:
        drafts: Some hundred record values.
    """
    places = [place for place, draft in enumerate(drafts) if can_hold_secret(draft)]
    try:
        data = _lines([spoken_members(drafts[place]) for place in places])
    except _UNENCODABLE:  # such as a lone surrogate: nobody can write that down
        return places
    if may_be_disguised(data):
        data = seen(data.decode()).text.encode()
    return [places[number] for number in _hit(data)]


def _hit(data: bytes) -> list[int]:
    """Return the numbers of the lines in which there is one of the signs."""
    lines = data.split(b"\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    found = set(_with_runs(data, ends))
    if b"@" in data and b"://" in data:
        found.update(number for number, line in enumerate(lines) if b"@" in line)
    digits = _with_digits(signs_of(data))
    found.update(one for one in digits if CARD in signs_of(_fractions(b"", lines[one])))
    low = folded(data)
    if len(low) != len(data):
        ends = list(accumulate(len(line) + 1 for line in low.split(b"\n")))
    found.update(bisect_right(ends, at) for at in names_in(low))
    return sorted(found)


def _with_digits(signs: bytes) -> Iterator[int]:
    """Yield the numbers of the lines with as many digits as a card's number."""
    at, number, counted = signs.find(CARD), 0, 0
    while at >= 0:
        number += signs.count(b"\n", counted, at)
        yield number
        counted = signs.find(b"\n", at)
        at = signs.find(CARD, counted) if counted >= 0 else -1


def _with_runs(data: bytes, ends: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines with a long run of what a token is made of."""
    runs = runs_of(data)
    at = runs.find(RUN)
    while at >= 0:
        start = at - len(_PREFIX) if data.startswith(_PREFIX, at - len(_PREFIX)) else at - 1
        if _is_identifier(data, start):
            end = runs.find(b" ", at)
        else:
            number = bisect_right(ends, at)
            yield number
            end = ends[number]
        at = runs.find(RUN, end)
