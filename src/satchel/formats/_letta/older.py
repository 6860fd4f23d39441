"""The older shape of an agent file, which Letta itself refuses, as the one that it reads.

An agent was the whole file: its blocks, messages and tools stood inside it, and messages that are
in context were named by position. Compared with files of server 0.6.47.
"""

from typing import Any

from satchel.errors import MalformedError
from satchel.ports.report import Report

Row = dict[str, Any]

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
