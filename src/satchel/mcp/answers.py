"""What tools answer: the text for the model, and what a program needs of it as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from satchel.bank.changes import MemoryUpdate, RememberResult
    from satchel.rehydrate.listing import ContextListing
    from satchel.rehydrate.request import RehydrateResult
    from satchel.sessions.branches import ForkResult

_PREFIX = "blake3:"
_SHORT = 12
_MOST_WITHHELD = 100


def listing_result(found: ContextListing) -> CallToolResult:
    """Return memories for the model: the text alone is what it has to read."""
    notes = list[str]()
    if found.withheld:
        shown = ", ".join(_short(each.id) for each in found.withheld[:_SHORT])
        notes.append(
            f"{len(found.withheld)} withheld as possible prompt injections: {shown}. The user"
            " can review one with `satchel show ID`, and release it with `satchel quarantine"
            " release ID`."
        )
    if found.unpromoted:
        notes.append(
            f"{len(found.unpromoted)} imported memories withheld: they would set your identity "
            "or instructions. The user can promote one with `satchel promote ID`."
        )
    values: dict[str, Any] = {"entries": found.ids, "tokens": found.tokens}
    if found.over_budget:
        values["over_budget"] = found.over_budget
    if found.withheld:
        values["withheld"] = [
            {"id": _short(each.id), "reasons": each.reasons} for each in found.withheld
        ]
    return _result("\n".join([found.text, *notes]), values)


def stored(made: RememberResult) -> CallToolResult:
    """Return what became of a memory that was to be stored."""
    text = f"Stored as {_short(made.id)}." if made.is_new else f"Already stored: {_short(made.id)}."
    if made.flagged:
        text += (
            f" It looks like a prompt injection ({', '.join(made.flagged)}): recall withholds it."
        )
    if made.secrets_kept:
        kinds = ", ".join(made.secrets)
        text += f" It contains what looks like a secret ({kinds}). Tell the user."
    return _result(text, {"id": made.id, "is_new": made.is_new, "flagged": made.flagged})


def updated(made: MemoryUpdate) -> CallToolResult:
    """Return what became of a memory that was to be updated."""
    if not made.is_new:
        return _result(f"Unchanged: {_short(made.id)}.", {"id": made.id, "is_new": False})
    before = f" It replaces {_short(made.replaces)}." if made.replaces else ""
    values = {"id": made.id, "replaces": made.replaces, "is_new": True}
    return _result(f"Updated: {_short(made.id)}.{before}", values)


def forget_result(ids: Sequence[str]) -> CallToolResult:
    """Return which memories were forgotten."""
    return _result(f"Forgot {', '.join(map(_short, ids)) or 'nothing'}.", {"ids": list(ids)})


def rehydrated(found: RehydrateResult) -> CallToolResult:
    """Return memory for the model, and beside it what is in it and what is not."""
    left, withheld = found.left_out, found.quarantined[:_MOST_WITHHELD]
    values = {
        "entries": [each.id for each in found.entries],
        "left_out": {name: getattr(left, name) for name in left.__struct_fields__},
        "withheld": [{"id": each.id, "reasons": each.reasons} for each in withheld],
        "tokens_used": found.tokens,
        "tokenizer": found.tokenizer,
        "notice": found.notice,
    }
    return _result(found.text or "No memory is relevant.", values)


def fork_result(made: ForkResult) -> CallToolResult:
    """Return the conversation that continues another."""
    name = f" {made.name!r}" if made.name else ""
    text = f"Forked{name} as {_short(made.id)}, with {made.messages} messages."
    return _result(text, {"session": made.id, "from_session": made.source})


def _short(identity: str) -> str:
    return identity.removeprefix(_PREFIX)[:_SHORT]


def _result(text: str, values: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=values)


class BankAnswer(BaseModel):
    """One bank."""

    id: str
    name: str | None
    records: int | None
    problem: str | None


class BanksAnswer(BaseModel):
    """The banks of the store."""

    banks: list[BankAnswer]


class VerifyAnswer(BaseModel):
    """What checking a bank or an artifact came to."""

    outcome: str
    problems: list[str]
    memories: int | None = None


class ExportAnswer(BaseModel):
    """A sealed copy of memory."""

    artifact: str = Field(description="The file's bytes, in base64.")
    format: str
    entry_count: int
    size_bytes: int
    receipt: str | None


class ImportAnswer(BaseModel):
    """What became of an artifact, and what of it matters now."""

    status: str
    entries_imported: int
    entries_filtered: int
    entries_summarized: int
    tokens_used: int
    text: str = Field(description="Relevant memories, delimited as data.")
    notice: str
    receipts: list[str]
