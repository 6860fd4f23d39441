"""Values that records are made of: ids, times, components, origins, and the checks of each.

Times are text of exactly 27 characters, UTC, in microseconds (docs/spec/2-records.md). Text, not
``datetime``: an encoder may write a datetime with other digits, and the id of a record would
change.
"""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder

from satchel.errors import MalformedError, SatchelError, UsageError

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
    """Return whether ``text`` is a valid date in exactly ``YYYY-MM-DDThh:mm:ss.ffffffZ``."""
    return len(text) == TIME_LENGTH and _is_moment(text)


@lru_cache(512)  # the same few times are checked on reading and on use
def _is_moment(text: str) -> bool:
    # Newer Pythons accept an hour of 24 as the next midnight.
    if text.encode("utf-8", "replace").translate(_ALIKE) != _PICTURE or text[11:13] == "24":
        return False
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def are_canonical_times(texts: list[str]) -> bool:
    """Return whether all texts, of 27 characters each, are canonical times."""
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
        ValueError: If ``moment`` has no time zone; none is guessed.
    """
    if moment.tzinfo is None:
        raise ValueError("a time must have a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix(_UTC) + "Z"


def now() -> str:
    """Return the current time as canonical text."""
    return format_time(datetime.now(UTC))


def is_within(moment: str, since: str | None, until: str | None) -> bool:
    """Return whether a moment is from ``since`` on and before ``until``; None is no limit."""
    return (since is None or since <= moment) and (until is None or moment < until)


def read_time(text: str) -> str | None:
    """Return an ISO 8601 text as canonical text, or None if it is not an exact moment.

    A date alone counts as its first moment in UTC; a time of day without a zone counts as UTC, as
    in the exports of the products that are read. Digits beyond microseconds would be lost: such a
    text returns None, and the caller stores the original.
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
    """Return a text as canonical text if ``iso_text`` restores exactly that text; else None."""
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


Id = Annotated[str, Meta(pattern=r"^blake3:[0-9a-f]{64}$", max_length=71)]
"""A record's content address."""

Nonce = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$", max_length=32)]
"""128 random bits, lower-case hex."""

Time = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$", max_length=27
    ),
]
"""A moment in UTC, always 27 characters: ``YYYY-MM-DDThh:mm:ss.ffffffZ``."""

LeanId = Annotated[
    str,
    Meta(min_length=71, max_length=71, extra_json_schema={"pattern": "^blake3:[0-9a-f]{64}$"}),
]
"""As ``Id``, checked by the class: a pattern for each would double the time to read an entry."""

LeanNonce = Annotated[
    str, Meta(min_length=32, max_length=32, extra_json_schema={"pattern": "^[0-9a-f]{32}$"})
]
"""As ``Nonce``, checked by the class."""

LeanTime = Annotated[
    str,
    Meta(
        min_length=27,
        max_length=27,
        extra_json_schema={
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"
        },
    ),
]
"""As ``Time``, checked by the class."""

Unit = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""

Json = Any
"""Any JSON value inside the canonical value domain (docs/spec/1-canonical-bytes.md)."""

JsonObject = dict[str, Any]
"""A JSON object inside the canonical value domain."""

TextOrObject = str | dict[str, Any]
"""A sentence, or a structured value; stored unchanged."""


class Component(StrEnum):
    """The five types of an agent's memory: the ``type`` of an entry."""

    EPISODIC = "episodic"
    IDENTITY = "identity"
    PROCEDURAL = "procedural"
    SEMANTIC = "semantic"
    WORKING = "working"


ENTRY_TYPES = frozenset(map(str, Component))
"""The values of ``type`` that are entries."""


class TrustClass(StrEnum):
    """The claimed author of an entry."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    EXTERNAL = "external"
    IMPORTED = "imported"


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A value inside a record; members at their default are not written."""


class Entity(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A person, place or thing that the text is about."""

    name: str
    entity_type: str | None = None
    aliases: tuple[str, ...] = ()


class Scope(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The owner of a memory, in the source's own IDs."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    namespace: tuple[str, ...] = ()


class Evidence(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A source of a memory that is not an entry, such as a message."""

    kind: str
    id: str


class Origin(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a record was imported from."""

    provider: str | None = None
    """The product, by its format's registry name, such as ``mem0``."""

    source: str | None = None
    """The account or container inside the product; never an import."""

    id: str | None = None
    """The record's ID in the product."""

    revision: str | None = None
    """Its version, where the product numbers versions."""

    as_written: JsonObject = {}
    """Values of the product's record that the other members do not reproduce exactly."""

    trust: TrustClass | None = None
    """The claimed author; the effective class is the lower of this and the source's."""


ID_PREFIX = "blake3:"
"""Prefix of every content address."""

ID_LENGTH = len(ID_PREFIX) + 64


def is_id(text: str) -> bool:
    """Return whether a text is a whole content address; a prefix of one is not."""
    return len(text) == ID_LENGTH and text.startswith(ID_PREFIX) and is_hex(text[7:])


LEAST_DIGITS = 6
"""Least number of digits of an ID that name what has it."""

_HEX_DIGITS = frozenset("0123456789abcdef")


def id_digits(reference: str) -> str | None:
    """Return the digits of an ID or of a prefix of one, in lower case.

    None for another text, or for fewer than ``LEAST_DIGITS``.
    """
    digits = reference.removeprefix(ID_PREFIX).lower()
    is_prefix = len(digits) >= LEAST_DIGITS and _HEX_DIGITS.issuperset(digits)
    return digits if is_prefix else None


def require_one(
    ids: Collection[str],
    reference: str,
    field: str,
    *,
    noun: str = "IDs",
    error: type[UsageError] = UsageError,
) -> None:
    """Refuse a prefix of several IDs.

    Args:
        ids: The IDs that start with it.
        reference: The prefix.
        field: Name of the argument in the error.
        noun: What they are, in the plural.
        error: Type of the error.

    Raises:
        UsageError: If there are several; the hint lists them.
    """
    if len(ids) > 1:
        raise error(
            f"several {noun} start with {reference[:80]!r}",
            field=field,
            hint=f"Choose one: {', '.join(sorted(ids))}",
        )


def is_encodable(text: str) -> bool:
    """Return whether a text is Unicode: it has no half of a surrogate pair, as no record has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_hex(text: str) -> bool:
    """Return whether a text is whole bytes in lower-case hexadecimal digits."""
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False


def check_times(record: msgspec.Struct, names: tuple[str, ...]) -> None:
    """Refuse a time of the right shape that is no real moment.

    Raises:
        ValueError: msgspec turns it into its own error, with the path.
    """
    for name in names:
        text = getattr(record, name)
        if text is not None and not is_canonical_time(text):
            raise ValueError(f"`{name}` is not a time as YYYY-MM-DDThh:mm:ss.ffffffZ")


T = TypeVar("T")

_lock = threading.RLock()
_known: set[Any] = set()


def resolved(kind: T) -> T:
    """Return a type unchanged, after msgspec has resolved all of its members.

    msgspec resolves a type on first use and stores the result on the class before it is complete,
    while Python code runs; another thread that uses the type in the meantime crashes the process.
    So every type that is passed to msgspec is passed through this function, which resolves it under
    a lock.

    Args:
        kind: A class, or anything else that msgspec decodes into.

    Raises:
        TypeError: If msgspec cannot decode into it.
    """
    if kind not in _known:
        with _lock:
            Decoder(kind)  # the decoder that accepts every type
            _known.add(kind)
    return kind


def parse_as(
    kind: type[T], value: Any, refusal: str, error: Callable[..., SatchelError] = MalformedError
) -> T:
    """Return decoded JSON as a type.

    Args:
        kind: The type.
        value: The JSON.
        refusal: Start of the error's message, such as ``not a token``.
        error: Class of the error.

    Raises:
        MalformedError: If it has another shape; names the member. Or the given class.
    """
    try:
        return msgspec.convert(value, resolved(kind))
    except msgspec.ValidationError as mismatch:
        problem, field = shape_problem(mismatch)
        raise error(f"{refusal}: {problem}", field=field) from None


def shape_problem(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """Return the problem and the member, which msgspec combines in one text."""
    message, _, path = str(error).partition(" - at `$")
    return message, path.rstrip("`").lstrip(".") or None


def _before() -> None:
    _lock.acquire()


def _in_parent() -> None:
    _lock.release()


def _in_child() -> None:
    global _lock  # noqa: PLW0603 - there is one process
    _lock = threading.RLock()


# A fork waits until no type is half resolved: its child could never complete it. The first
# registered handler runs last before a fork, so code that delays a fork can still decode.
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


PATTERN = r"[a-zA-Z0-9][a-zA-Z0-9_\-]{0,63}"
"""The whole name of an agent."""

_NAME = re.compile(PATTERN, re.ASCII)
_SHOWN = 80


def is_agent_name(text: str) -> bool:
    """Return whether a text is a valid agent name."""
    return _NAME.fullmatch(text) is not None


def agent_name(text: str) -> str:
    """Return a valid agent name; paths are built from it.

    Raises:
        UsageError: If it is not valid.
    """
    if not is_agent_name(text):
        raise UsageError(
            f"not a valid agent name: {text[:_SHOWN]!r}",
            field="agent",
            hint="1 to 64 letters, digits, _ and -, the first a letter or a digit.",
        )
    return text


def tool_version() -> str:
    """Return the name and version of this program, for receipts."""
    from importlib.metadata import PackageNotFoundError, version  # not needed to read

    try:
        return f"satchel {version('satchel')}"
    except PackageNotFoundError:
        return "satchel"


def parse_moment(value: Any, field: str) -> str:
    """Return a time in canonical form.

    Args:
        value: A text such as ``2026-03-01`` or ``2026-03-01T09:30+01:00``, in UTC if it has no
            zone; a ``datetime`` with a zone; or a ``date``, which is its first moment in UTC.
        field: Name of the argument in errors.

    Raises:
        UsageError: If it is not a valid time.
    """
    time = None
    if isinstance(value, datetime):
        time = format_time(value) if value.tzinfo is not None else None
    elif isinstance(value, date):
        time = read_time(value.isoformat())
    elif isinstance(value, str):
        time = read_time(value)
    if time is None:
        raise UsageError(
            f"{str(value)[:60]!r} is not a valid time",
            field=field,
            hint="Write it as 2026-03-01, or 2026-03-01T09:30:00+01:00; a datetime needs a zone.",
        )
    return time
