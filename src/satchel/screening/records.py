"""Secrets in a record: every text it holds is looked at, keys included.

What identifies a record or whose it is (ids, scope, actors, paths, the ends of an edge) is
reported and left as it is, since another text there would be another identity; so is what a
signature covers.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import msgspec

from satchel.errors import LimitError
from satchel.model.records import TIMES, Bank, Blob, Config, Embedding, Model, Receipt, Token
from satchel.model.values import Origin, Part
from satchel.screening.prefilter import (
    CARD,
    RUN,
    folded,
    is_identifier,
    may_be_disguised,
    may_hold_secret,
    names_in,
    runs_of,
    signs_of,
    visible_text,
)
from satchel.screening.secrets import (
    RedactionTokens,
    Secret,
    find_secrets,
    is_distinctive,
    value_of,
)

_FIXED = frozenset(
    ("id", "nonce", "at", "parent_ids", "source_event_ids", "signatures", "owner_keys", *TIMES)
)
"""Members whose shape leaves no room for a secret."""

_IDENTIFYING = frozenset(
    ("scope", "sources", "session", "parent", "path", "source", "target", "actor", "signer", "role")
)
_SIGNED = (Token, Receipt, Config)
_NOT_TEXT = (Blob, Embedding)
_CARRIED = frozenset(("$int", "$float", "$bytes"))
"""Values of foreign files in their reversible form (docs/spec/1-canonical-bytes.md)."""

_SMALLEST_CARD = 10**13
_DEEPEST = 200
_Named = tuple[str, str | None]
"""A text, and the name it is the value of."""

_SHORT, _LONG = 32, 71  # lengths of a bare digest and of an id


class SecretFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret in a record; never the secret itself, nor anything it could be guessed from."""

    kind: str
    field: str
    """JSON pointer of the value, or of the member whose key it is in."""

    number: int
    """The same value has the same number within a record; the one its token has."""

    kept: bool = False
    """It is in what identifies or is signed, so scrubbing leaves it there."""


def screened(draft: Model) -> list[SecretFinding]:
    """Return the secrets in a record, in the order of its members.

    Raises:
        LimitError: If its JSON values are nested more than 200 deep.
    """
    return scrubbed(draft)[1] if _worth_a_look(draft) else []


def scrubbed(draft: Model) -> tuple[Model, list[SecretFinding]]:
    """Return a record with tokens in the places of secrets, and what was found.

    The same value has the same token in all members, ``origin.as_written`` among them. A record
    that changes loses its id and nonce: with the nonce, the values could be guessed from the id.

    Returns:
        The record itself when nothing in it has to change.

    Raises:
        LimitError: If its JSON values are nested more than 200 deep.
    """
    if not _worth_a_look(draft):
        return draft, []
    found = list(_found(draft))
    if not found:
        return draft, []
    walk = _Walk(draft, dict.fromkeys(pair for pair in found if is_distinctive(pair[1])))
    changed = walk.struct(draft, "", kept=isinstance(draft, _SIGNED))
    if changed is not draft:
        changed = msgspec.structs.replace(changed, id=None, nonce=None)
    return changed, walk.findings


def can_hold_secret(draft: Model) -> bool:
    """Tell whether a record is of a kind that holds texts."""
    return not isinstance(draft, _NOT_TEXT)


def _worth_a_look(draft: Model) -> bool:
    """Tell whether one of the texts may hold a secret: a single look at all of them together."""
    if not can_hold_secret(draft):
        return False
    texts = [
        text
        for text, _ in _texts(draft)
        if len(text) < _SHORT or len(text) > _LONG or not is_identifier(text)
    ]
    return may_hold_secret(visible_text("\n".join(texts)).text)


def _found(draft: Model) -> Iterator[tuple[str, str]]:
    """Yield kind and value of each secret that is found by itself."""
    for text, name in _texts(draft):
        for secret in find_secrets(text, name):
            yield secret.kind, value_of(secret, text)


def _texts(draft: Model) -> list[_Named]:
    """Return every text in a record, keys included, each with the name it is the value of."""
    texts: list[_Named] = []
    _gather(draft, None, 0, texts)
    return texts


def _gather(value: Any, name: str | None, depth: int, into: list[_Named]) -> None:
    kind = type(value)
    if kind is str:
        into.append((value, name))
    elif kind is dict:
        _gather_members(value, _deeper(depth), into)
    elif kind is list or kind is tuple:
        depth = _deeper(depth)
        for part in value:
            _gather(part, name, depth, into)
    elif isinstance(value, msgspec.Struct):
        for part in spoken_members(value):
            _gather(part, None, depth + 1, into)
    elif kind is int and value >= _SMALLEST_CARD:
        into.append((str(value), name))


def _gather_members(value: dict[str, Any], depth: int, into: list[_Named]) -> None:
    if _is_carried(value):
        return
    for key, part in value.items():
        into.append((key, None))
        _gather(part, _name_of(key, value), depth, into)


def spoken_members(value: msgspec.Struct) -> list[Any]:
    """Return the values of the members in which a secret could be, without what says nothing."""
    return [*filter(None, _getter(value.__class__)(value))]


@cache
def _getter(cls: type[msgspec.Struct]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gets all members of a class in which a secret could be."""
    return attrgetter(*_members(cls))


@cache
def _members(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(
        name for name in cls.__struct_fields__ if name not in _FIXED or issubclass(cls, Part)
    )


def _deeper(depth: int) -> int:
    if depth >= _DEEPEST:
        raise LimitError(f"a value is nested more than {_DEEPEST} deep")
    return depth + 1


def _is_carried(value: dict[str, Any]) -> bool:
    return len(value) == 1 and not _CARRIED.isdisjoint(value)


def _name_of(key: str, whole: dict[str, Any]) -> str:
    """Return what a member's value is the value of; ``{"name": ..., "value": ...}`` says it so."""
    if key == "value":
        for other in ("name", "key"):
            if isinstance(name := whole.get(other), str):
                return name
    return key


class _Walk:
    """One way through a record, in which secrets are replaced and noted."""

    def __init__(self, draft: Model, known: Collection[tuple[str, str]]) -> None:
        self.findings: list[SecretFinding] = []
        self._known = known
        self._tokens = RedactionTokens(text for text, _ in _texts(draft))

    def struct(self, value: Any, at: str, *, kept: bool) -> Any:
        changes = {}
        for member in _members(value.__class__):
            before = getattr(value, member)
            held = kept or _identifies(value, member)
            after = self._value(before, f"{at}/{member}", None, kept=held)
            if after is not before:
                changes[member] = after
        return msgspec.structs.replace(value, **changes) if changes else value

    def _value(self, value: Any, at: str, name: str | None, *, kept: bool) -> Any:
        if type(value) is str:
            return self._text(value, at, name, kept=kept)
        if isinstance(value, dict):
            return value if _is_carried(value) else self._object(value, at, kept=kept)
        if isinstance(value, list | tuple):
            parts = [
                self._value(part, f"{at}/{place}", name, kept=kept)
                for place, part in enumerate(value)
            ]
            same = all(map(_is, parts, value))
            return value if same else type(value)(parts)
        if isinstance(value, msgspec.Struct):
            return self.struct(value, at, kept=kept)
        if type(value) is int and value >= _SMALLEST_CARD:
            before = str(value)
            after = self._text(before, at, name, kept=kept)
            return value if after is before else after
        return value

    def _object(self, value: dict[str, Any], at: str, *, kept: bool) -> dict[str, Any]:
        out = {}
        for key, part in value.items():
            new, secrets = self._found(key, None)
            place = f"{at}/{new.replace('~', '~0').replace('/', '~1')}"
            self._note(secrets, key, place, kept=kept)
            after = self._value(part, place, _name_of(key, value), kept=kept)
            out[key if kept else new] = after
        same = all(map(_is, chain(out, out.values()), chain(value, value.values())))
        return value if same else out

    def _text(self, text: str, at: str, name: str | None, *, kept: bool) -> str:
        new, secrets = self._found(text, name)
        self._note(secrets, text, at, kept=kept)
        return text if kept else new

    def _found(self, text: str, name: str | None) -> tuple[str, list[Secret]]:
        secrets = find_secrets(text, name, self._known)
        return (self._tokens.replace(text, secrets) if secrets else text), secrets

    def _note(self, secrets: list[Secret], text: str, at: str, *, kept: bool) -> None:
        self.findings += [
            SecretFinding(
                kind=secret.kind, field=at, number=self._tokens.number(secret, text), kept=kept
            )
            for secret in secrets
        ]


def _identifies(value: Any, member: str) -> bool:
    """Tell whether a member says which record this is, or whose."""
    if isinstance(value, Origin):
        return member != "as_written"
    return member in _IDENTIFYING or (member == "name" and isinstance(value, Bank))


def _is(one: Any, other: Any) -> bool:
    return one is other


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
        data = visible_text(data.decode()).text.encode()
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


class SecretScreener:
    """Looks at records one by one.

    Args:
        scrub: Whether secrets are replaced by tokens; those in what identifies a record stay.
    """

    def __init__(self, *, scrub: bool = False) -> None:
        self.scrub = scrub
        self._found = Counter[str]()
        self.kept = 0
        """How many were found and stay where they are."""

    def __call__(self, draft: Model) -> Model:
        """Return a record as it is to go on."""
        if self.scrub:
            draft, findings = scrubbed(draft)
        else:
            findings = screened(draft)
        for one in findings:
            self._found[one.kind] += 1
            self.kept += one.kept or not self.scrub
        return draft

    def many(self, drafts: Sequence[Model]) -> list[Model]:
        """Return some hundred records as they are to go on."""
        looked_at = list(drafts)
        for place in suspects(drafts):
            looked_at[place] = self(drafts[place])
        return looked_at

    @property
    def found(self) -> dict[str, int]:
        """How many secrets there were of each kind."""
        return dict(sorted(self._found.items()))
