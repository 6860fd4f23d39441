"""Export of a whole agent to one file: an agent file, or a sealed artifact."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, cast

import msgspec

from satchel.agents.agents import Agent, agent_called
from satchel.agents.workspace import SkippedFile, Workspace, WorkspaceFile, WorkspaceRules
from satchel.artifact.body import FileScope
from satchel.bank.connections import again_if_disturbed
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.files import without_nulls
from satchel.config.options import file_to_write
from satchel.config.settings import Settings
from satchel.crypto.canonical import encode_foreign
from satchel.crypto.sealed_records import seal
from satchel.errors import PathRefusedError, UsageError
from satchel.formats._aletheia.rows import binary_files, identity_of, text_files
from satchel.formats._aletheia.schema import MOST_NAMED, NAMED, source_of
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import FileVersion, Model, Source
from satchel.model.values import ID_PREFIX, format_time, now, read_time, to_datetime
from satchel.runtime.contained_folder import parts_of
from satchel.screening.records import scrubbed
from satchel.sessions.chains import forward, tip_of
from satchel.sessions.elements import count_in, event_of, key_of, members
from satchel.sessions.lookup import checkpoints, pointers, sessions
from satchel.sessions.views import CheckpointInfo, SessionInfo
from satchel.transfer.export_records import (
    WHOLE,
    Export,
    ExportCounts,
    ExportDestination,
    ExportOptions,
    collect_records,
)
from satchel.transfer.exports import ExportPart, export_part
from satchel.transfer.outputs import chosen_format

TAIL = 500
"""Most messages of the main conversation that are exported."""

DAYS = 7
"""Greatest age of the last activity of a conversation that is listed."""

MOST_RECEIPTS = 10
_ACTIVE = f"active in the last {DAYS} days"
_MAIN = ("main", "primary")


@dataclass(slots=True, kw_only=True)
class AgentHistory:
    """Which records of a bank are exported: its memory, and parts of its conversations."""

    full: bool
    primary: str | None = None
    """ID of the main conversation's record."""

    identity: str | None = None
    """Its name in the file."""

    positions: set[int] = field(default_factory=set)
    """Log positions of the exported events, if not all are exported."""

    background: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list)
    """IDs of distillations author checkpoint is not in the file."""

    distilled: int = 0
    """Number of distillations of the main conversation."""

    messages: int = 0
    """Of the main conversation."""

    exported_messages: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Counts of skipped conversations, by reason."""

    files: bool = True
    """Whether file versions in the log are exported; not if there is a workspace."""

    as_of: int | None = None

    def wants(self, logged: VerifiedRecord) -> bool:
        """Return whether a record is exported."""
        if logged.row.type == "file_version" and not self.files:
            return False
        if logged.row.type == "session_event":
            return not _is_tip_record(logged) if self.full else logged.seq in self.positions
        return WHOLE.wants(logged)


def history_of(view: View, before: dict[str, Any], *, full: bool, files: bool) -> AgentHistory:
    """Return which records of a bank to export.

    Args:
        view: View of the bank.
        before: Members around the memory in the file that the agent was imported from; may be
            empty.
        full: Whether to export everything.
        files: Whether to export file versions in the log.
    """
    history = AgentHistory(full=full, files=files)
    known = sessions(view)
    primary = before.get("primary")
    main = main_of(known, _imported_as(view, known, primary if isinstance(primary, str) else None))
    history.primary = None if main is None else main.id
    since = format_time(to_datetime(now()) - timedelta(days=DAYS))
    for session in known:
        if main is not None and session.id == main.id:
            continue
        if not session.archived and (session.last_at or session.created_at or "") >= since:
            history.background.append(
                {
                    "key": session.name or session.id,
                    "messageCount": session.messages,
                    "lastActivity": session.last_at or session.created_at,
                }
            )
            if not full:
                _count_skipped(history, f"mentioned, not included: {_ACTIVE}")
        elif not full:
            _count_skipped(
                history, "archived" if session.archived else f"not active in the last {DAYS} days"
            )
    for listed in _listed_before(before, {session.name or session.id for session in known}):
        last = read_time(str(listed.get("lastActivity")))
        if not full and (last is None or last < since):
            _count_skipped(history, f"not active in the last {DAYS} days")
            continue
        history.background.append(listed)
        _count_skipped(
            history, "mentioned, not included: " + ("where it came from" if full else _ACTIVE)
        )
    if main is not None:
        _select_main(view, main, history)
    return history


def _listed_before(before: dict[str, Any], known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the conversations that the agent's file only listed, and that are not in the bank."""
    listed = before.get("sessions")
    background = listed.get("background") if isinstance(listed, dict) else None
    for session in background if isinstance(background, list) else ():
        if not isinstance(session, dict) or not isinstance(session.get("key"), str):
            continue
        if session["key"] not in known:
            yield session


def _imported_as(view: View, known: list[SessionInfo], name: str | None) -> str | None:
    """Return the ID of the conversation that has a name in a file."""
    if name is None:
        return None
    for session in known:
        record = view.get([session.id]).get(session.id)
        origin = getattr(record.model, "origin", None) if record is not None else None
        if origin is not None and origin.id == name:
            return session.id
    return None


def main_of(known: list[SessionInfo], imported: str | None = None) -> SessionInfo | None:
    """Return an agent's main conversation: the marked one, or else the last active one.

    Args:
        known: The conversations.
        imported: ID of the main conversation of the imported agent.
    """
    if imported is not None:
        return next(session for session in known if session.id == imported)
    active = [session for session in known if not session.archived] or known
    marked = [
        session
        for session in active
        if "primary" in (session.metadata.get("type"), session.metadata.get("sessionType"))
    ]
    marked = marked or [session for session in active if session.name in _MAIN]
    return max(
        marked or active,
        key=lambda session: session.last_at or session.created_at or "",
        default=None,
    )


def _count_skipped(history: AgentHistory, reason: str) -> None:
    history.skipped[reason] = history.skipped.get(reason, 0) + 1


def _select_main(view: View, main: SessionInfo, history: AgentHistory) -> None:
    start = view.get([main.id])[main.id]
    history.identity = identity_of(start.record, start.model)
    element = tip_of(view, start).element
    last = view.get([element]).get(element, start)
    points = checkpoints(view, start)
    distilled = [checkpoint for checkpoint in points if checkpoint.distillation is not None]
    numbers = [(checkpoint.distillation or {}).get("number") for checkpoint in distilled]
    history.distilled = max(
        [len(distilled), *(checkpoint for checkpoint in numbers if type(checkpoint) is int)]
    )
    after = 0 if history.full or not distilled else distilled[-1].number
    tail, counted = list[int](), 0
    history.positions.add(start.seq)
    starts = {key_of(start)}
    for logged in forward(view, last):
        starts.add(str(getattr(logged.model, "session", "")))
        if event_of(logged.model) != "message":
            history.positions.add(logged.seq)
            continue
        history.messages += 1
        counted = max(count_in(logged.model, "number"), counted + 1)
        if counted > after:
            tail.append(logged.seq)
            if not history.full and len(tail) > TAIL:
                del tail[0]
    history.positions.update(tail)
    history.exported_messages = len(tail)
    first = counted - len(tail)
    for checkpoint in points:
        if checkpoint.number >= first:
            history.positions.add(view.places([checkpoint.id])[checkpoint.id])
        elif checkpoint.distillation is not None and not history.full:
            history.receipts.append(_receipt(checkpoint))
    del history.receipts[:-MOST_RECEIPTS]
    for logged in pointers(view, key_of(start)):  # its later names
        if event_of(logged.model) == "about" and not _is_tip_record(logged):
            history.positions.add(logged.seq)
    # A fork has messages of its source, author record names it.
    sources = view.get([name for name in starts if name.startswith(ID_PREFIX)])
    history.positions.update(logged.seq for logged in sources.values())


def _is_tip_record(logged: VerifiedRecord) -> bool:
    """Return whether an event only indexes the end of a conversation."""
    if event_of(logged.model) != "about" or getattr(logged.model, "name", None) is not None:
        return False
    return set(members(logged.model)) <= {"tip"}


def _receipt(checkpoint: CheckpointInfo) -> dict[str, Any]:
    receipt = {
        "id": checkpoint.id,
        "sessionId": checkpoint.session,
        "distilledAt": checkpoint.created_at,
    }
    return {**receipt, **(checkpoint.distillation or {})}


_BEGINNING = 4
"""Log positions of the founding records; an import right after them created the bank."""

_LISTED = "mentioned, not included: "
_BINARY = "contents of a binary file; add --include-binary to include them"
_MESSAGES = "sessions.primary.messages"
_Row = dict[str, Any]


class AgentReportBuilder:
    """Builder of the report.

    Args:
        before: Members around the memory in the file that the agent was imported from.
    """

    def __init__(self, before: _Row) -> None:
        earlier = before.get("exportMetadata")
        earlier = earlier if isinstance(earlier, dict) else {}
        self._before = _rows_in(earlier, "omittedSections")
        self._cut_before = _rows_in(earlier, "truncations")
        self._omitted: list[_Row] = []
        self._cut: list[_Row] = []

    def sessions(self, history: AgentHistory) -> None:
        """Add conversations, and messages of the main one."""
        for reason, count in history.skipped.items():
            self._omit("sessions", reason, count)
        missing = 0
        for truncation in self._cut_before:
            original, kept = truncation.get("original"), truncation.get("kept")
            if truncation.get("section") == _MESSAGES and isinstance(original, int):
                missing += max(0, original - kept) if isinstance(kept, int) else 0
        total = history.messages + missing
        if history.exported_messages < total:
            cut = {"section": _MESSAGES, "itemId": history.identity, "limit": TAIL}
            self._cut.append({**cut, "original": total, "kept": history.exported_messages})
        if not history.full:
            self.receipts("receipts", history.distilled)

    def receipts(self, part: str, count: int) -> None:
        """Add receipts; a file has only the last ones."""
        if count > MOST_RECEIPTS:
            cut = {"section": f"distillation.{part}", "limit": MOST_RECEIPTS}
            self._cut.append({**cut, "original": count, "kept": MOST_RECEIPTS})

    def workspace(self, workspace: Workspace | None, named: int) -> None:
        """Add the files to the report.

        Args:
            workspace: The exported files; None for none.
            named: Binary files author contents were never imported.
        """
        if workspace is None:
            self._omitted.append(
                {"section": "workspace", "reason": "the agent has no folder", "count": 0}
            )
            return
        for reason, count in workspace.counts.items():
            paths = [entry.path for entry in workspace.left if entry.reason == reason]
            self._omit("workspace", reason, count, paths[:MOST_NAMED])
        # Missing ones are reported as in the earlier report.
        if named and not any(entry.get("reason") == _BINARY for entry in self._before):
            self._omit("workspace", _BINARY, named)

    def settings(self, secrets: int) -> None:
        """Add secrets in an agent's settings."""
        if secrets:
            self._omit("nous.config", "secrets in its settings (replaced)", secrets)

    def report(self) -> _Row:
        """Return the report, including earlier omissions."""
        for earlier in self._before:
            section, reason = str(earlier.get("section")), str(earlier.get("reason"))
            count = earlier.get("count")
            if not reason.startswith(_LISTED) and count != 0:
                items = earlier.get("items")
                number = count if isinstance(count, int) else 1
                self._omit(section, reason, number, items if isinstance(items, list) else [])
        sections = {entry["section"] for entry in self._cut}
        cut = [
            *self._cut,
            *(
                entry
                for entry in self._cut_before
                if entry.get("section") not in sections and entry.get("section") != _MESSAGES
            ),
        ]
        return {
            "lossless": not cut and not any(entry["count"] for entry in self._omitted),
            "omittedSections": self._omitted,
            "truncations": cut,
            "workspaceSymlinkPolicy": "record",
        }

    def _omit(self, section: str, reason: str, count: int, items: list[Any] | None = None) -> None:
        for entry in self._omitted:
            if (entry["section"], entry["reason"]) == (section, reason):
                entry["count"] += count
                break
        else:
            entry = {"section": section, "reason": reason, "count": count}
            self._omitted.append(entry)
        more = [*entry.get("items", []), *(items or [])]
        if more:
            entry["items"] = list(dict.fromkeys(map(str, more)))[:MOST_NAMED]


def container_before(view: View) -> _Row:
    """Return the members around the memory in the agent file that created the bank, if any."""
    imports = view.imports()
    first = imports[0] if imports else None
    if first is None or first.undone or first.place > _BEGINNING:
        return {}
    model_of_source = view.get([first.source])[first.source].model
    if isinstance(model_of_source, Source) and "nous" in model_of_source.container:
        return model_of_source.container
    for logged in view.imported(first.source):  # of an artifact
        model = logged.model
        if isinstance(model, Source) and "nous" in model.container:
            return model.container
    return {}


def names_in(before: _Row) -> list[str]:
    """Return the paths of binary files of which only the names were imported."""
    paths, names = list[str](), before.get(NAMED)
    for name in names if isinstance(names, list) else ():
        try:
            parts_of(str(name))
        except PathRefusedError:
            continue
        paths.append(str(name))
    return paths


def _rows_in(report: _Row, name: str) -> list[_Row]:
    rows = report.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


FORMAT = "aletheia"
SEALED = ("pam", "pam_jsonl", "pam_cbor")
"""Formats for an agent: its own, and artifacts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExportOptions:
    """Options of an export of an agent."""

    export: ExportOptions = field(default_factory=ExportOptions)
    """Format, key, and the other options of every export."""

    full: bool = False
    """Whether to export all conversations with all messages."""

    rules: WorkspaceRules = field(default_factory=WorkspaceRules)


class AgentExportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of an export of an agent."""

    agent: str
    export: Export
    messages: int
    """Exported messages of the main conversation."""

    messages_there: int
    texts: int
    """Exported text files."""

    binaries: int
    """Other exported files, some only by name."""

    left_out: list[SkippedFile] = []
    """Skipped files; the first thousand."""

    lossless: bool = True
    report: dict[str, Any] = {}
    """The report in the file: what was skipped, and why."""


def agent_format(output: Path, requested: str | None) -> str:
    """Return the format of an agent's export: by name, else by suffix, else an agent file.

    Raises:
        UsageError: If the format cannot be written.
    """
    return chosen_format(output, requested, otherwise=FORMAT)[0]


def export_agent(
    settings: Settings,
    identity: str,
    output: Path | None,
    options: AgentExportOptions | None = None,
) -> AgentExportResult:
    """Write all of an agent to a file.

    Args:
        settings: The store, keys and agents.
        identity: The agent's ID.
        output: The file; by default ``<id>-<date>.agent.json`` in the current folder.
        options: The options.

    Raises:
        UnknownAgentError: If there is no such agent.
        UnknownBankError: If its bank is missing.
        PathRefusedError: If its workspace is a link, or the output is outside of the roots.
        UnreadableError: If its workspace cannot be read.
        TargetError: If the output cannot be written.
        UsageError: If the format cannot hold an agent.
    """
    require_owner(settings, "agent")
    options = options or AgentExportOptions()
    agent = agent_called(settings, identity)
    path = output or Path(f"{agent.id}-{now()[:10]}.agent.json")
    name = agent_format(path, options.export.format)
    if name not in (FORMAT, *SEALED):
        raise UsageError(
            f"{name} cannot hold a whole agent",
            field="format",
            hint=f"Use one of: {', '.join((FORMAT, *SEALED))}.",
        )
    export_options = replace(options.export, format=name)
    with (
        open_bank(settings, agent.bank) as bank,
        file_to_write(settings, path) as outlet,
    ):

        def written() -> AgentExportResult:
            exporter = _AgentExport(bank, agent, replace(options, export=export_options))
            return exporter.result(
                export_part(bank, outlet, export_options, ExportPart(exporter.collect, _SCOPE))
            )

        return again_if_disturbed(written)


_SCOPE = FileScope(kind="filter", filter={"agent": True})


class _AgentExport:
    """One export of an agent."""

    def __init__(self, bank: OpenBank, agent: Agent, options: AgentExportOptions) -> None:
        self._bank = bank
        self._agent = agent
        self._options = options
        folder = agent.folder
        self._workspace = None if folder is None else Workspace(folder, options.rules)
        self._history: AgentHistory | None = None
        self._report: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._names: list[str] = []
        """Names of files author contents were never imported."""

        self._reflections = 0
        self._secrets = 0
        """Secrets in the settings of the program that runs the agent, which are replaced."""

    def collect(self, view: View, outgoing: ExportDestination) -> ExportCounts:
        """Read everything from the bank and the workspace."""
        files = self._workspace is None
        before = self._before = container_before(view)
        author = source_of(before.get("nous")) or self._agent.id
        history = self._history = history_of(view, before, full=self._options.full, files=files)
        counts = collect_records(view, history, outgoing, self._options.export.progress)
        if self._workspace is not None:
            for file in chain(self._workspace.files(), self._missing_binaries()):
                for version in _versions(file, author):
                    outgoing.builder.add(seal(outgoing.screening(version)))
                counts.others += 1
        around = self._around(history)
        if not self._options.rules.secrets:
            around, secrets = scrubbed(around)
            self._secrets = len(secrets)
        self._report = self._build_report()
        container = {**cast("Source", around).container, "exportMetadata": self._report}
        around = msgspec.structs.replace(cast("Source", around), container=container)
        outgoing.builder.add(seal(around))
        counts.others += 1
        return counts

    def result(self, done: Export) -> AgentExportResult:
        """Return the result."""
        history, workspace = cast("AgentHistory", self._history), self._workspace
        return AgentExportResult(
            agent=self._agent.id,
            export=done,
            messages=history.exported_messages,
            messages_there=history.messages,
            texts=workspace.texts if workspace else 0,
            binaries=workspace.binaries if workspace else 0,
            left_out=workspace.left if workspace else [],
            lossless=bool(self._report["lossless"]) and not done.losses,
            report=self._report,
        )

    def _missing_binaries(self) -> Iterator[WorkspaceFile]:
        """Yield the binary files of which only the names were imported, and that do not exist."""
        folder = self._agent.folder
        assert folder is not None  # noqa: S101 - called only if there is a workspace
        for name in names_in(self._before):
            if not folder.joinpath(*parts_of(name)).exists():
                self._names.append(name)
                yield WorkspaceFile(path=name, binary={})

    def _around(self, history: AgentHistory) -> Model:
        """Return the record with the members around the memory in the file."""
        before, agent = self._before, self._agent
        old = before.get("nous")
        old = old if isinstance(old, dict) else {}
        config: Any = encode_foreign(agent.config)
        if without_nulls(old.get("config")) == config:  # members that TOML cannot express
            config = old.get("config")
        nous = {**old, "id": agent.id, "name": agent.name, "model": agent.model, "config": config}
        nous["model"] = agent.model or old.get("model")
        came = source_of(old)
        if came and came != agent.id:
            nous["cameFrom"] = came
        distillation = dict(before.get("distillation") or {})
        distillation["receipts"] = [*(distillation.get("receipts") or []), *history.receipts]
        reflections = distillation.get("reflections") or []
        self._reflections = len(reflections)
        distillation["reflections"] = reflections[-MOST_RECEIPTS:]
        workspace = dict(before.get("workspace") or {})
        if self._workspace is not None:
            links = msgspec.to_builtins(self._workspace.links)
            workspace |= {"symlinks": links} if links else {}
        named = [*self._names]
        if self._workspace is not None and not self._options.rules.binary:
            named = [*self._workspace.named, *named]
        container: dict[str, Any] = {
            **{
                name: before[name]
                for name in ("fields", "memory", "graph", "order")
                if name in before
            },
            "nous": nous,
            "workspace": workspace,
            "distillation": distillation,
            "sessions": {**(before.get("sessions") or {}), "background": history.background},
            "others": history.full,
            **({NAMED: named} if named else {}),
            "whole": True,
            **({"primary": history.primary} if history.primary else {}),
        }
        return Source(provider=FORMAT, format=FORMAT, container=container, at=now())

    def _build_report(self) -> dict[str, Any]:
        """Return the report in the file: what was skipped, and why."""
        telling = AgentReportBuilder(self._before)
        telling.sessions(cast("AgentHistory", self._history))
        telling.receipts("reflections", self._reflections)
        telling.workspace(self._workspace, len(self._names))
        telling.settings(self._secrets)
        return telling.report()


def _versions(file: WorkspaceFile, agent: str) -> list[FileVersion]:
    """Return a file as records; a long file in parts."""
    if file.text is not None:
        return text_files(file.path, file.text, agent)
    return binary_files(file.binary or {}, file.path, agent)
