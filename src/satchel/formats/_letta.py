"""One row of an agent file as a record, and back."""

import json
import re
from typing import Any

from satchel.crypto.canonical import ABSENT
from satchel.crypto.json_reader import SURROGATE, float_spellings
from satchel.errors import MalformedError
from satchel.formats._json import differences, reproduce, text_in
from satchel.model.records import Entry, GraphNode, Identity, Semantic, SessionEvent
from satchel.model.values import Origin, Scope, TrustClass, iso_text, read_time
from satchel.ports.losses import Report

NAME = "letta"
"""The format, and the provider that records from it name."""

MEMFS = "letta_memfs"
"""The provider that memory names which was in a folder as Letta keeps it now."""

BLOCK = "block"
"""The kind of an entry that is a block of core memory."""

PERSONA = "persona"
"""The label of the block that says who the agent is."""

SELF = re.compile(r"persona(?:_[0-9]{1,9})?", re.ASCII)
"""Labels of blocks that say who an agent is."""

LIMIT = 20_000
"""Characters that a block may have, where nobody said another number."""

THINGS = {
    "groups": "group",
    "files": "file",
    "sources": "source",
    "tools": "tool",
    "mcp_servers": "mcp_server",
    "skills": "skill",
}
"""The lists beside agents and blocks, each with what one row of it is."""

AGENT = "agent"
"""What a node is that holds the settings of an agent."""

_IN_A_FILE = ("description", "limit", "read_only")
"""What a file of the folder says of itself, as a block does."""

_SEND = "send_message"

ID = re.compile(r"[a-z_]{1,16}-[0-9]{1,9}", re.ASCII)
"""How rows are named inside a file."""

Row = dict[str, Any]


def entry_of(row: Row, agent: str | None, source: str | None) -> Entry:
    """Return a block as an entry: who the agent is, or what it knows.

    Args:
        row: The block.
        agent: Name of the agent that has it; None where none has.
        source: The container that its label is a slot of.

    Raises:
        MalformedError: If it has no label, or no value.
    """
    label, text = text_in(row, "label"), text_in(row, "value")
    cls = Identity if SELF.fullmatch(label) else Semantic
    made = cls(
        kind=BLOCK,
        text=text,
        scope=Scope(agent=agent) if agent is not None else None,
        origin=Origin(provider=NAME, source=source, id=label, trust=TrustClass.IMPORTED),
    )
    # Its id is one of this file; it is always kept, to be written again.
    kept = differences(row, _block(label, text))
    return _keeping(made, kept)


def _keeping(entry: Entry, kept: Row) -> Entry:
    origin = entry.origin
    assert origin is not None  # noqa: S101 - it was just given one
    whole = Origin(
        provider=origin.provider,
        source=origin.source,
        id=origin.id,
        trust=origin.trust,
        as_written=kept,
    )
    return type(entry)(kind=entry.kind, text=entry.text, scope=entry.scope, origin=whole)


def _block(label: str, text: str) -> Row:
    return {
        "value": text,
        "limit": max(LIMIT, len(text)),
        "label": label,
        "read_only": False,
        "description": None,
        "metadata": {},
        "is_template": False,
        "hidden": None,
        "tags": None,
    }


def block_of(entry: Entry, label: str) -> Row:
    """Return an entry as a block, without an id where it did not have one of a file."""
    text = entry.text or ""
    written = _block(label, text)
    kept = kept_of(entry.origin)
    if entry.origin is not None and entry.origin.provider == MEMFS:
        there = entry.origin.as_written
        kept = {name: there[name] for name in _IN_A_FILE if name in there}
    row = reproduce(written, {k: v for k, v in kept.items() if k not in ("value", "label")})
    if type(row.get("limit")) is int and row["limit"] < len(text) and "limit" in kept:
        row["limit"] = len(text)
    return row


def label_of(entry: Entry) -> str | None:
    """Return the label that an entry has by itself; None where one has to be made for it."""
    origin = entry.origin
    if origin is not None and origin.provider == NAME and entry.kind == BLOCK:
        return origin.id
    if origin is not None and origin.provider == MEMFS and origin.id:
        return origin.id.removeprefix("system/").removesuffix(".md")
    return PERSONA if isinstance(entry, Identity) else None


def kept_of(origin: Origin | None) -> Row:
    """Return what a row of a file said beside what its record says."""
    return origin.as_written if origin is not None and origin.provider == NAME else {}


def node_of(row: Row, thing: str, source: str | None) -> GraphNode:
    """Return a row that is no memory as a node: settings, a tool, a file; never run, only kept."""
    name = row.get("name", row.get("file_name"))
    identity = row.get("id", name)
    summary = row.get("description")
    return GraphNode(
        name=name if type(name) is str else None,
        labels=(thing,),
        summary=summary if type(summary) is str else None,
        properties=row,
        origin=Origin(
            provider=NAME,
            source=source,
            id=f"{thing}:{identity}" if type(identity) is str else None,
            as_written=float_spellings(row),
            trust=TrustClass.IMPORTED,
        ),
    )


def start_of(session: str, name: str | None, source: str | None) -> SessionEvent:
    """Return the start of the conversation that an agent's messages are."""
    return SessionEvent(event="session", name=name, origin=_at(session, source, {}))


def message_of(row: Row, session: str, source: str | None) -> SessionEvent:
    """Return a message as a turn of its conversation.

    Raises:
        MalformedError: If it says no role.
    """
    role = text_in(row, "role")
    text, when = _said(row), row.get("created_at")
    made = read_time(when) if type(when) is str else None
    name = row.get("id")
    written = {"id": ABSENT, **_message(role, text, made)}
    return SessionEvent(
        event="message",
        session=session,
        role=role,
        text=text,
        created_at=made,
        origin=_at(
            f"{session}/{name}" if type(name) is str else None, source, differences(row, written)
        ),
    )


def row_of(event: SessionEvent) -> Row:
    """Return a turn as a message."""
    written = _message(event.role or "", event.text, event.created_at)
    kept = kept_of(event.origin)
    row = reproduce(written, {k: v for k, v in kept.items() if k != "role"})
    if _said(row) != event.text:
        row["content"] = written["content"]
        if _sent(row):  # what it says now stands in the contents
            row["tool_calls"] = []
    when = row.get("created_at")
    if event.created_at != (read_time(when) if type(when) is str else None):
        row |= {"created_at": written.get("created_at")}
    return row


def _message(role: str, text: str | None, made: str | None) -> Row:
    row: Row = {"type": "message", "role": role}
    row["content"] = [] if text is None else [{"type": "text", "text": text}]
    return row if made is None else {**row, "created_at": iso_text(made)}


def _said(row: Row) -> str | None:
    """Return what a message says: what an agent sent, else its contents.

    Older agents speak by calling a tool; the contents beside it are their thoughts.
    """
    sent = _sent(row)
    return "\n".join(sent) if sent else _words(row.get("content"))


def _sent(row: Row) -> list[str]:
    calls = row.get("tool_calls")
    if type(calls) is not list or row.get("role") != "assistant":
        return []
    called = [one.get("function") for one in calls if type(one) is dict]
    found = list[str]()
    for one in called:
        if type(one) is dict and one.get("name") == _SEND and type(one.get("arguments")) is str:
            text = _message_in(one["arguments"])
            found += [text] if text is not None else []
    return found


def _message_in(arguments: str) -> str | None:
    try:
        said = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    text = said.get("message") if type(said) is dict else None
    return text if type(text) is str and not SURROGATE.search(text) else None


def _words(content: Any) -> str | None:
    """Return what a message says in words."""
    if type(content) is str:
        return content
    parts = content if type(content) is list else []
    found = [one["text"] for one in parts if type(one) is dict and type(one.get("text")) is str]
    return "\n".join(found) if found else None


def _at(identity: str | None, source: str | None, kept: Row) -> Origin:
    trust = TrustClass.IMPORTED
    return Origin(provider=NAME, source=source, id=identity, as_written=kept, trust=trust)


_AGENT = "agent-0"
_RENAMED = {"metadata_": "metadata"}
_INSIDE = (
    *("core_memory", "messages", "tools", "tags", "in_context_message_indices", "version"),
    *("tool_exec_environment_variables", "multi_agent_group", "created_at", "updated_at"),
)


def is_older(document: Row) -> bool:
    """Tell whether a document has the older shape."""
    return "agents" not in document and "core_memory" in document


def renewed(old: Row, report: Report) -> Row:
    """Return a document of the older shape as one of the newer.

    Args:
        old: The document.
        report: Where what has no place any more is counted.

    Raises:
        MalformedError: If a list in it is none, or holds what is no object.
    """
    blocks = _numbered(old, "core_memory", "block")
    messages = _numbered(old, "messages", "message")
    tools = _numbered(old, "tools", "tool")
    agent = {_RENAMED.get(name, name): part for name, part in old.items() if name not in _INSIDE}
    agent |= {
        "id": _AGENT,
        "tags": [_tag(one) for one in _rows(old, "tags")],
        "tool_ids": [row["id"] for row in tools],
        "block_ids": [row["id"] for row in blocks],
        "source_ids": [],
        "group_ids": [],
        "files_agents": [],
        "tool_exec_environment_variables": _names(old, report),
        "in_context_message_ids": _in_context(old, messages),
        "messages": [{"type": "message", **row, "agent_id": _AGENT} for row in messages],
    }
    for name in ("multi_agent_group", "updated_at"):
        if old.get(name) is not None:
            report.lost(name, "the newer format has no such member", example=_AGENT)
    report.note(
        f"the older format, version {old.get('version')}; it is written as the newer format"
    )
    document: Row = {"agents": [agent], "groups": [], "blocks": blocks, "files": [], "sources": []}
    document |= {"tools": tools, "mcp_servers": [], "metadata": {}}
    return document | ({"created_at": old["created_at"]} if "created_at" in old else {})


def _rows(old: Row, name: str) -> list[Any]:
    found = old.get(name)
    if found is None:
        return []
    if type(found) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return found


def _numbered(old: Row, name: str, kind: str) -> list[Row]:
    rows = _rows(old, name)
    for number, row in enumerate(rows):
        if type(row) is not dict:
            raise MalformedError("not an object", field=f"{name}/{number}")
    return [
        {**{_RENAMED.get(k, k): part for k, part in row.items()}, "id": f"{kind}-{number}"}
        for number, row in enumerate(rows)
    ]


def _tag(said: Any) -> Any:
    return said.get("tag") if type(said) is dict else said


def _names(old: Row, report: Report) -> Row:
    """Return the names of the environment variables: their values are secrets and stay behind."""
    found = _rows(old, "tool_exec_environment_variables")
    for one in found:
        reason = "its value is a secret; only the name is kept"
        report.lost("tool_exec_environment_variables", reason, example=str(_key(one))[:80])
    return {str(_key(one)): "" for one in found}


def _key(one: Any) -> Any:
    return one.get("key") if type(one) is dict else one


def _in_context(old: Row, messages: list[Row]) -> list[str]:
    found = _rows(old, "in_context_message_indices")
    for number, one in enumerate(found):
        if type(one) is not int or not 0 <= one < len(messages):
            where = f"in_context_message_indices/{number}"
            raise MalformedError("there is no such message", field=where)
    return [messages[one]["id"] for one in found]
