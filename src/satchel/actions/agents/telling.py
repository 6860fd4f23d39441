"""The report inside an agent file: what of the agent is not in it, and why.

An agent that came in such a file lacks what that file lacked. So its own files say that again.
"""

from typing import Any

from satchel.actions.agents.history import MOST_RECEIPTS, TAIL, History
from satchel.actions.agents.workspace import Workspace
from satchel.disk.contained import parts_of
from satchel.errors import PathRefusedError
from satchel.formats._aletheia.shape import MOST_NAMED, NAMED
from satchel.ledger.view import View
from satchel.memory.records import Source

_BEGINNING = 4
"""Places of the log in which is said whose it is; an import that comes then made the bank."""

_TOLD_ANEW = "mentioned, not included: "
_BINARY = "contents of a binary file; add --include-binary to include them"
_MESSAGES = "sessions.primary.messages"
_Row = dict[str, Any]


class Telling:
    """The report that is being made.

    Args:
        before: What was around the memory in the file that the agent came in; empty for none.
    """

    def __init__(self, before: _Row) -> None:
        said = before.get("exportMetadata")
        said = said if isinstance(said, dict) else {}
        self._before = _rows_in(said, "omittedSections")
        self._cut_before = _rows_in(said, "truncations")
        self._omitted: list[_Row] = []
        self._cut: list[_Row] = []

    def sessions(self, history: History) -> None:
        """Tell of conversations, and of messages of the main one."""
        for reason, count in history.left.items():
            self._omit("sessions", reason, count)
        missing = 0
        for one in self._cut_before:
            original, kept = one.get("original"), one.get("kept")
            if one.get("section") == _MESSAGES and isinstance(original, int):
                missing += max(0, original - kept) if isinstance(kept, int) else 0
        there = history.messages + missing
        if history.taken < there:
            cut = {"section": _MESSAGES, "itemId": history.identity, "limit": TAIL}
            self._cut.append({**cut, "original": there, "kept": history.taken})
        if not history.full:
            self.receipts("receipts", history.distilled)

    def receipts(self, part: str, there: int) -> None:
        """Tell of receipts: a file has the last of them."""
        if there > MOST_RECEIPTS:
            cut = {"section": f"distillation.{part}", "limit": MOST_RECEIPTS}
            self._cut.append({**cut, "original": there, "kept": MOST_RECEIPTS})

    def workspace(self, workspace: Workspace | None, named: int) -> None:
        """Tell of files.

        Args:
            workspace: What went along; None for none.
            named: Binary files whose contents never came here.
        """
        if workspace is None:
            self._omitted.append(
                {"section": "workspace", "reason": "the agent has no folder", "count": 0}
            )
            return
        for reason, count in workspace.counts.items():
            paths = [one.path for one in workspace.left if one.reason == reason]
            self._omit("workspace", reason, count, paths[:MOST_NAMED])
        # Those that did not come are told of as they were, where they were told of at all.
        if named and not any(one.get("reason") == _BINARY for one in self._before):
            self._omit("workspace", _BINARY, named)

    def settings(self, secrets: int) -> None:
        """Tell of secrets in an agent's settings."""
        if secrets:
            self._omit("nous.config", "secrets in its settings (replaced)", secrets)

    def report(self) -> _Row:
        """Return the report, with what was missing before."""
        for one in self._before:
            section, reason = str(one.get("section")), str(one.get("reason"))
            count = one.get("count")
            if not reason.startswith(_TOLD_ANEW) and count != 0:
                items = one.get("items")
                number = count if isinstance(count, int) else 1
                self._omit(section, reason, number, items if isinstance(items, list) else [])
        told = {one["section"] for one in self._cut}
        cut = [*self._cut, *(one for one in self._cut_before if one.get("section") not in told)]
        cut = [one for one in cut if one in self._cut or one.get("section") != _MESSAGES]
        return {
            "lossless": not cut and not any(one["count"] for one in self._omitted),
            "omittedSections": self._omitted,
            "truncations": cut,
            "workspaceSymlinkPolicy": "record",
        }

    def _omit(self, section: str, reason: str, count: int, items: list[Any] | None = None) -> None:
        for one in self._omitted:
            if (one["section"], one["reason"]) == (section, reason):
                one["count"] += count
                break
        else:
            one = {"section": section, "reason": reason, "count": count}
            self._omitted.append(one)
        more = [*one.get("items", []), *(items or [])]
        if more:
            one["items"] = list(dict.fromkeys(map(str, more)))[:MOST_NAMED]


def container_before(view: View) -> _Row:
    """Return what was around the memory in the agent file that the bank began with, if it did."""
    imports = view.imports()
    first = imports[0] if imports else None
    if first is None or first.undone or first.place > _BEGINNING:
        return {}
    there = view.get([first.source])[first.source].model
    if isinstance(there, Source) and "nous" in there.container:
        return there.container
    for logged in view.imported(first.source):  # of an artifact
        model = logged.model
        if isinstance(model, Source) and "nous" in model.container:
            return model.container
    return {}


def names_in(before: _Row) -> list[str]:
    """Return the paths of binary files of which only the names came with an agent."""
    found, names = list[str](), before.get(NAMED)
    for name in names if isinstance(names, list) else ():
        try:
            parts_of(str(name))
        except PathRefusedError:
            continue
        found.append(str(name))
    return found


def _rows_in(said: _Row, name: str) -> list[_Row]:
    rows = said.get(name)
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
