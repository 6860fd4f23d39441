"""The statement: the signed header of an artifact."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.artifact import ARTIFACT_FORMAT
from satchel.crypto.canonical import Limits, canonical, canonical_checked, check_value
from satchel.crypto.sealed_records import digest
from satchel.errors import LimitError, MalformedError, ValueRefusedError
from satchel.model.values import Id, Time, is_canonical_time, now, resolved


class SourceAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent whose memory it is, and its runtime; claims of the signer."""

    name: str | None = None
    model_family: str | None = None
    runtime: str | None = None
    version: str | None = None


class FileScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the memory that the file contains."""

    kind: Literal["full", "filter", "disclosure", "increment"]
    filter: dict[str, Any] = {}
    since_size: Annotated[int, Meta(ge=0)] | None = None
    """For an increment: the log size at which it starts."""

    def __post_init__(self) -> None:
        if self.kind == "increment" and self.since_size is None:
            raise ValueError("an increment must have `since_size`")


class Statement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members that this version knows; unknown ones stay in the JSON and are signed with it."""

    format: Literal["satchel/1"]
    created_at: Time
    body_hash: Id
    root_hash: Id
    counts: dict[str, Annotated[int, Meta(ge=1)]]
    scope: FileScope
    source_agent: SourceAgent | None = None
    bank: Id | None = None
    head: dict[str, Any] | None = None
    tokens: tuple[dict[str, Any], ...] = ()
    metadata: dict[str, Any] = {}
    critical: tuple[str, ...] = ()
    """Members that a reader must know to read the file correctly."""

    def __post_init__(self) -> None:
        if not is_canonical_time(self.created_at):
            raise ValueError("`created_at` is not a time")
        if (self.bank is None) != (self.head is None):
            raise ValueError("`bank` and `head` must both be present")


_MEMBERS = frozenset(Statement.__struct_fields__)


def build(
    *,
    body_hash: str,
    root_hash: str,
    counts: dict[str, int],
    scope: FileScope | None = None,
    source_agent: SourceAgent | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a statement as the JSON that is signed.

    Args:
        body_hash: Hash of the body.
        root_hash: Hash of the components.
        counts: Records in each section that is not empty.
        scope: The part of the memory; all of it by default.
        source_agent: The agent whose memory it is.
        extra: Further members, such as ``bank``, ``head``, ``metadata`` or unknown ones;
            ``created_at`` replaces the current time.
    """
    statement: dict[str, Any] = {
        "format": ARTIFACT_FORMAT,
        "created_at": now(),
        "body_hash": body_hash,
        "root_hash": root_hash,
        "counts": counts,
        "scope": msgspec.to_builtins(scope or FileScope(kind="full")),
    }
    if source_agent and (agent := msgspec.to_builtins(source_agent)):
        statement["source_agent"] = agent
    statement.update(extra or {})
    statement = check_value(statement)
    parse(statement, Limits())
    return statement


def parse(value: Any, limits: Limits) -> Statement:
    """Return the typed statement from the JSON of a strict reader.

    Raises:
        MalformedError: If it is not a statement, has an empty member, or a critical member that
            this version does not know.
        LimitError: If it is too large.
    """
    if not isinstance(value, dict):
        raise MalformedError("the statement must be an object", field="statement")
    size = len(_canonical(value))
    if size > limits.statement_bytes:
        raise LimitError(f"a statement of {size} bytes is over {limits.statement_bytes}")
    try:
        statement = msgspec.convert(value, resolved(Statement))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a statement: {error}", field="statement") from None
    for name, part in value.items():
        if name != "counts" and (part is None or part in ([], {})):
            raise MalformedError("an empty member", field=f"statement/{name}")
    agent = value.get("source_agent") or {}
    for name in SourceAgent.__struct_fields__:
        if name in agent and agent[name] is None:
            raise MalformedError("null; an unknown one is absent", field=f"source_agent/{name}")
    unknown = sorted({name for name in statement.critical if name not in _MEMBERS})
    if unknown:
        raise MalformedError(
            "the file needs a reader that supports this member",
            field=f"statement/{unknown[0]}",
            hint="Upgrade satchel.",
        )
    if len(statement.tokens) > limits.tokens:
        raise LimitError(f"more than {limits.tokens} tokens", field="statement/tokens")
    return statement


def _canonical(value: dict[str, Any]) -> bytes:
    """Return the canonical bytes; the depth is verified here, since readers of documents do not."""
    try:
        return canonical(value)
    except ValueRefusedError as error:
        raise MalformedError(error.message, field=error.field) from None


def statement_digest(value: dict[str, Any]) -> str:
    """Return H(JCS(statement)), the key of the statement in the history."""
    return digest(canonical_checked(value))
