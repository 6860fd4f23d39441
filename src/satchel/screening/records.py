"""Secrets in a record: all of its texts are screened, including keys of objects.

Members that identify a record or its owner (IDs, scope, actors, paths, the ends of an edge) are
reported but not changed, since that would change the identity; so are members that a signature
covers.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain
from operator import attrgetter, is_
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
"""Members whose form excludes secrets."""

_IDENTIFYING = frozenset(
    ("scope", "sources", "session", "parent", "path", "source", "target", "actor", "signer", "role")
)
_SIGNED = (Token, Receipt, Config)
_NOT_TEXT = (Blob, Embedding)
_CARRIED = frozenset(("$int", "$float", "$bytes"))
"""Encoded values of foreign files (docs/spec/1-canonical-bytes.md)."""

_SMALLEST_CARD = 10**13
_DEEPEST = 200
_Named = tuple[str, str | None]
"""A text, and the name of the member it is the value of."""

_SHORT, _LONG = 32, 71  # lengths of a bare digest and of an ID


class SecretFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret in a record, without the secret or anything that reveals it."""

    kind: str
    field: str
    """JSON pointer of the value, or of the member whose key contains it."""

    number: int
    """Number of the value within the record; equal values have the same, as in their token."""

    kept: bool = False
    """Whether it stays, because its member identifies the record or is signed."""


def screened(draft: Model) -> list[SecretFinding]:
    """Return the secrets in a record, in the order of its members.

    Raises:
        LimitError: If its JSON values are nested more than 200 levels deep.
    """
    return scrubbed(draft)[1] if _may_hold_secret(draft) else []


def scrubbed(draft: Model) -> tuple[Model, list[SecretFinding]]:
    """Return a record with tokens instead of secrets, and the findings.

    Equal values get the same token in all members, including ``origin.as_written``. A changed
    record loses its ID and nonce, from which the values could be guessed.

    Returns:
        The record itself if nothing changes.

    Raises:
        LimitError: If its JSON values are nested more than 200 levels deep.
    """
    if not _may_hold_secret(draft):
        return draft, []
    secrets = list(_secrets_in(draft))
    if not secrets:
        return draft, []
    walk = _SecretPass(draft, dict.fromkeys(pair for pair in secrets if is_distinctive(pair[1])))
    changed = walk.struct(draft, "", is_kept=isinstance(draft, _SIGNED))
    if changed is not draft:
        changed = msgspec.structs.replace(changed, id=None, nonce=None)
    return changed, walk.findings


def can_hold_secret(draft: Model) -> bool:
    """Return whether a record is of a type with texts."""
    return not isinstance(draft, _NOT_TEXT)


def _may_hold_secret(draft: Model) -> bool:
    """Return whether one of the texts may contain a secret, by one check of all of them."""
    if not can_hold_secret(draft):
        return False
    texts = [
        text
        for text, _ in _texts(draft)
        if len(text) < _SHORT or len(text) > _LONG or not is_identifier(text)
    ]
    return may_hold_secret(visible_text("\n".join(texts)).text)


def _secrets_in(draft: Model) -> Iterator[tuple[str, str]]:
    """Yield the kind and value of each secret that a rule finds."""
    for text, name in _texts(draft):
        for secret in find_secrets(text, name):
            yield secret.kind, value_of(secret, text)


def _texts(draft: Model) -> list[_Named]:
    """Return every text in a record, including keys, each with the name of its member."""
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
    """Return the non-empty values of the members that may contain a secret."""
    return [*filter(None, _getter(value.__class__)(value))]


@cache
def _getter(cls: type[msgspec.Struct]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of all members of a class that may contain a secret."""
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
    """Return the name of a value: its key, or the name in ``{"name": ..., "value": ...}``."""
    if key == "value":
        for other in ("name", "key"):
            if isinstance(name := whole.get(other), str):
                return name
    return key


class _SecretPass:
    """A pass over a record that replaces and reports secrets."""

    def __init__(self, draft: Model, known: Collection[tuple[str, str]]) -> None:
        self.findings: list[SecretFinding] = []
        self._known = known
        self._tokens = RedactionTokens(text for text, _ in _texts(draft))

    def struct(self, value: Any, at: str, *, is_kept: bool) -> Any:
        changes = {}
        for member in _members(value.__class__):
            before = getattr(value, member)
            keeps_member = is_kept or _identifies(value, member)
            after = self._value(before, f"{at}/{member}", None, is_kept=keeps_member)
            if after is not before:
                changes[member] = after
        return msgspec.structs.replace(value, **changes) if changes else value

    def _value(self, value: Any, at: str, name: str | None, *, is_kept: bool) -> Any:
        if type(value) is str:
            return self._text(value, at, name, is_kept=is_kept)
        if isinstance(value, dict):
            return value if _is_carried(value) else self._object(value, at, is_kept=is_kept)
        if isinstance(value, list | tuple):
            parts = [
                self._value(part, f"{at}/{index}", name, is_kept=is_kept)
                for index, part in enumerate(value)
            ]
            same = all(map(is_, parts, value))
            return value if same else type(value)(parts)
        if isinstance(value, msgspec.Struct):
            return self.struct(value, at, is_kept=is_kept)
        if type(value) is int and value >= _SMALLEST_CARD:
            before = str(value)
            after = self._text(before, at, name, is_kept=is_kept)
            return value if after is before else after
        return value

    def _object(self, value: dict[str, Any], at: str, *, is_kept: bool) -> dict[str, Any]:
        out = {}
        for key, part in value.items():
            new, secrets = self._replace_in(key, None)
            pointer = f"{at}/{new.replace('~', '~0').replace('/', '~1')}"
            self._note(secrets, key, pointer, is_kept=is_kept)
            after = self._value(part, pointer, _name_of(key, value), is_kept=is_kept)
            out[key if is_kept else new] = after
        same = all(map(is_, chain(out, out.values()), chain(value, value.values())))
        return value if same else out

    def _text(self, text: str, at: str, name: str | None, *, is_kept: bool) -> str:
        new, secrets = self._replace_in(text, name)
        self._note(secrets, text, at, is_kept=is_kept)
        return text if is_kept else new

    def _replace_in(self, text: str, name: str | None) -> tuple[str, list[Secret]]:
        secrets = find_secrets(text, name, self._known)
        return (self._tokens.replace(text, secrets) if secrets else text), secrets

    def _note(self, secrets: list[Secret], text: str, at: str, *, is_kept: bool) -> None:
        self.findings += [
            SecretFinding(
                kind=secret.kind, field=at, number=self._tokens.number(secret, text), kept=is_kept
            )
            for secret in secrets
        ]


def _identifies(value: Any, member: str) -> bool:
    """Return whether a member identifies the record or its owner."""
    if isinstance(value, Origin):
        return member != "as_written"
    return member in _IDENTIFYING or (member == "name" and isinstance(value, Bank))


_lines = msgspec.json.Encoder().encode_lines
_UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)

_WORDS = (
    *(b"finished_successfully", b"model_editable_context", b"user_editable_context"),
    *(b"function_call_output", b"custom_tool_call_output", b"cache_read_input_tokens"),
    *(b"cache_creation_input_tokens", b"ephemeral_1h_input_tokens", b"ephemeral_5m_input_tokens"),
    *(b"isVisibleInTranscriptOnly", b"sourceToolAssistantUUID"),
)
"""Words as long as a token that chat products and coding agents write in every message."""

# Values of members that are not secrets: a UUID, a digest, an ID of Satchel.
_is_identifier = re.compile(
    rb'"(?:(?:blake3:)?[0-9a-f]{32,64}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|%b)"'
    % b"|".join(_WORDS)
).match
_PREFIX = b'"blake3:'
# Digits of a number with a fraction; a quotation mark after a backslash is part of a text.
_fractions = re.compile(rb'(?<=[^\\]":)-?\d\.\d+(?=[,}])').sub


def suspects(drafts: Sequence[Model]) -> list[int]:
    """Return the indices of the records that may contain a secret; all others contain none.

    Args:
        drafts: A few hundred records.
    """
    indices = [index for index, draft in enumerate(drafts) if can_hold_secret(draft)]
    try:
        data = _lines([spoken_members(drafts[index]) for index in indices])
    except _UNENCODABLE:  # such as a lone surrogate, which cannot be encoded
        return indices
    if may_be_disguised(data):
        data = visible_text(data.decode()).text.encode()
    return [indices[number] for number in _hit(data)]


def _hit(data: bytes) -> list[int]:
    """Return the numbers of the lines that may contain a secret."""
    lines = data.split(b"\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    numbers = set(_with_runs(data, ends))
    if b"@" in data and b"://" in data:
        numbers.update(number for number, line in enumerate(lines) if b"@" in line)
    digits = _with_digits(signs_of(data))
    numbers.update(
        line_number
        for line_number in digits
        if CARD in signs_of(_fractions(b"", lines[line_number]))
    )
    low = folded(data)
    if len(low) != len(data):
        ends = list(accumulate(len(line) + 1 for line in low.split(b"\n")))
    numbers.update(bisect_right(ends, at) for at in names_in(low))
    return sorted(numbers)


def _with_digits(signs: bytes) -> Iterator[int]:
    """Yield the numbers of the lines with as many digits as a card's number."""
    at, number, counted = signs.find(CARD), 0, 0
    while at >= 0:
        number += signs.count(b"\n", counted, at)
        yield number
        counted = signs.find(b"\n", at)
        at = signs.find(CARD, counted) if counted >= 0 else -1


def _with_runs(data: bytes, ends: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines with a long run of characters of tokens."""
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
    """Screens records for secrets, and counts them.

    Args:
        scrub: Replace secrets by tokens, except in members that identify a record.
    """

    def __init__(self, *, scrub: bool = False) -> None:
        self.scrub = scrub
        self._counts = Counter[str]()
        self.kept = 0
        """Number of secrets that were not replaced."""

    def __call__(self, draft: Model) -> Model:
        """Screen a record and return it, scrubbed if that is enabled."""
        if self.scrub:
            draft, findings = scrubbed(draft)
        else:
            findings = screened(draft)
        for finding in findings:
            self._counts[finding.kind] += 1
            self.kept += finding.kept or not self.scrub
        return draft

    def many(self, drafts: Sequence[Model]) -> list[Model]:
        """Screen a few hundred records and return them; faster than one by one."""
        results = list(drafts)
        for index in suspects(drafts):
            results[index] = self(drafts[index])
        return results

    @property
    def found(self) -> dict[str, int]:
        """Number of secrets by kind."""
        return dict(sorted(self._counts.items()))
