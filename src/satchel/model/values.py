"""The small values that records are made of."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from satchel.model.times import is_canonical_time

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
"""As ``Id``, for the class to check: a pattern each would double the time to read an entry."""

LeanNonce = Annotated[
    str, Meta(min_length=32, max_length=32, extra_json_schema={"pattern": "^[0-9a-f]{32}$"})
]
"""As ``Nonce``, for the class to check."""

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
"""As ``Time``, for the class to check."""

Unit = Annotated[float, Meta(ge=0, le=1)]
"""A number from 0 to 1."""

Json = Any
"""Any JSON value inside the canonical value domain (docs/spec/1-canonical-bytes.md)."""

JsonObject = dict[str, Any]
"""A JSON object inside the canonical value domain."""

TextOrObject = str | dict[str, Any]
"""Kept as given: a sentence, or a structured value."""


class Component(StrEnum):
    """The five parts of an agent's memory; an entry's ``type`` is one of them."""

    EPISODIC = "episodic"
    IDENTITY = "identity"
    PROCEDURAL = "procedural"
    SEMANTIC = "semantic"
    WORKING = "working"


class TrustClass(StrEnum):
    """Who an entry claims to come from."""

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
    """Whose memory it is, in the source's own ids."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    namespace: tuple[str, ...] = ()


class Evidence(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something beyond entries that a memory was made from, such as a message."""

    kind: str
    id: str


class Origin(Part, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a record was before it was here."""

    provider: str | None = None
    """The product, by its format's registry name, such as ``mem0``."""

    source: str | None = None
    """The account or container inside the product; never an import."""

    id: str | None = None
    """The record's id there."""

    revision: str | None = None
    """The version of it, where the product counts versions."""

    as_written: JsonObject = {}
    """What the product's own record said that the other members do not reproduce exactly."""

    trust: TrustClass | None = None
    """Who the entry claims to come from; what counts is the lower of this and its source's."""


_ID_SIGNS = len("blake3:") + 64


def is_id(text: str) -> bool:
    """Tell whether a text is a content address."""
    return text.startswith("blake3:") and is_hex(text[7:])


def is_whole_id(text: str) -> bool:
    """Tell whether a text is a content address of the length that all of ours have."""
    return len(text) == _ID_SIGNS and is_id(text)


def is_hex(text: str) -> bool:
    """Tell whether a text is whole bytes in lower-case hexadecimal digits."""
    try:
        return bytes.fromhex(text).hex() == text
    except ValueError:
        return False


def check_times(record: msgspec.Struct, names: tuple[str, ...]) -> None:
    """Refuse a time that has the right shape but names no real moment.

    Raises:
        ValueError: Which msgspec turns into its own error with the path.
    """
    for name in names:
        text = getattr(record, name)
        if text is not None and not is_canonical_time(text):
            raise ValueError(f"`{name}` is not a time as YYYY-MM-DDThh:mm:ss.ffffffZ")
