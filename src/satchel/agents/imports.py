"""Import and undo of a whole agent: its memory, conversations, files and settings, or nothing.

Everything is read and verified before anything changes. The files are written to a staging folder;
the memory becomes visible in one commit; then the folder is renamed and the agent is added to the
configuration. An interrupted import can be run again. Source: decision 0046.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from satchel.agents.agents import Agent, agent_config, agent_of, table_of, write_agent_config
from satchel.agents.export import FORMAT, SEALED
from satchel.agents.staged_files import PlacementResult, Staging, take_back
from satchel.bank.connections import configured_store, has_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank, banks_called, open_bank, open_bank_in
from satchel.config.files import without_nulls
from satchel.config.options import NOT_FOR_MODELS, OnProgress
from satchel.config.settings import Settings
from satchel.crypto.canonical import decode_foreign
from satchel.crypto.sealed_records import Sealed, seeded_nonces
from satchel.errors import (
    AgentExistsError,
    EmptyInputError,
    InputError,
    MissingExtraError,
    UnknownFormatError,
    UnreadableError,
    UsageError,
)
from satchel.model.records import FileVersion, SessionEvent, Source
from satchel.model.values import is_agent_name, resolved
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import Row
from satchel.recall.duplicates import NearDuplicateMode
from satchel.recall.vector_updates import embed_bank
from satchel.receipts.archive import BY_ID
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import OpenFile
from satchel.transfer.import_operations import Reason
from satchel.transfer.import_results import ConflictPolicy, ImportOptions, ImportSummary, Owners
from satchel.transfer.import_source import ImportSource, open_rereadable
from satchel.transfer.imports import UndoResult, import_file, undo_in

_FOLDER = ("agents", "imports")
_MOST = 1 << 26


class AgentImportRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an import of an agent changed besides the bank."""

    agent: str
    bank: str
    before: dict[str, Any] | None = None
    """Previous table of the agent in the configuration; None if there was none."""

    files: PlacementResult = msgspec.field(default_factory=PlacementResult)


def keep_record(settings: Settings, source: str, record: AgentImportRecord) -> None:
    """Record what an import of an agent will change, for its undo.

    Raises:
        TargetError: If it cannot be written.
    """
    with ContainedFolder(_folder(settings), create=True, private=True) as folder:
        folder.write(_name(source), msgspec.json.encode(record))


def with_agent(settings: Settings, done: UndoResult) -> UndoResult:
    """Undo what the import of an agent changed besides the bank; other imports have nothing.

    Raises:
        TargetError: If a file cannot be restored; run it again.
    """
    require_owner(settings, "undo")
    record = _record_of(settings, done.source)
    if record is None:
        return done
    if done.dry_run:
        return msgspec.structs.replace(done, agent=record.agent)
    stays = take_back(record.files)
    write_agent_config(settings, record.agent, record.before)
    with ContainedFolder(_folder(settings), private=True) as folder:
        folder.remove(_name(done.source))
    return msgspec.structs.replace(done, agent=record.agent, stays=stays)


def _record_of(settings: Settings, source: str) -> AgentImportRecord | None:
    if not _folder(settings).is_dir():
        return None
    with ContainedFolder(_folder(settings), private=True) as folder:
        try:
            return msgspec.json.decode(
                folder.read(_name(source), limit=_MOST), type=resolved(AgentImportRecord)
            )
        except UnreadableError:
            return None


def _folder(settings: Settings) -> Path:
    return settings.home.joinpath(*_FOLDER)


def _name(source: str) -> str:
    return f"{source.removeprefix('blake3:')}.json"


_FILES = frozenset({"file_version"})
_MOST_FREE = 10_000


class OnAgent(StrEnum):
    """What to do if an agent with this ID exists."""

    PROMPT = "prompt"
    RENAME = "rename"
    OVERWRITE = "overwrite"
    MERGE = "merge"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentImportOptions:
    """Options of an import of an agent."""

    name: str | None = None
    """ID of the agent here; by default that of the file."""

    on_conflict: OnAgent = OnAgent.PROMPT
    ask: Callable[[str], OnAgent] | None = None
    """Asks a person what to do if an agent with this ID exists; None if nobody can be asked."""

    workspace: Path | None = None
    """Folder for its files; below the home by default."""

    near_duplicates: NearDuplicateMode | None = None
    """What to do with near duplicates of existing memories; a merge skips them."""

    embed: bool = True
    """Whether to compute vectors of its memories."""

    active_files: bool = False
    """Whether files that a tool runs or obeys are written, such as ``.git/hooks`` or ``.envrc``."""

    dry_run: bool = False
    memory: ImportOptions = field(default_factory=ImportOptions)
    """Options of every import."""


class AgentImportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of an import of an agent, or its plan."""

    agent: str
    came_as: str
    """Its ID in the file."""

    bank: str
    how: str
    """``new``, ``rename``, ``overwrite``, ``merge``, ``resume``, or ``known``: nothing to do."""

    memory: ImportSummary | None = None
    files: PlacementResult = msgspec.field(default_factory=PlacementResult)
    sessions: dict[str, str] = {}
    """IDs of the conversations, by those in the file; memories have theirs in ``origin``."""

    configured: bool = False
    """Whether the configuration changed."""

    lossless: bool | None = None
    """Whether the file states that it is complete; None if it does not state it."""

    notes: list[str] = []
    undo: str | None = None
    """ID of the import, for undo."""

    dry_run: bool = False


def import_agent(
    settings: Settings,
    source: Path | OpenFile,
    owner: Owners,
    options: AgentImportOptions | None = None,
) -> AgentImportResult:
    """Import an agent from a file.

    Args:
        settings: The store, keys and agents.
        source: The file: an agent file of any version, or a sealed artifact of an agent.
        owner: Returns the key of the owner, if a bank is created.
        options: The options.

    Raises:
        AgentExistsError: If the agent exists, and the options do not resolve it.
        InputError: If the file cannot be read, or is not valid. Nothing is changed then.
        VerificationError: If a sealed file does not verify.
        UsageError: If the ID is not valid for an agent.
        TargetError: If something cannot be written; run it again.
    """
    require_owner(settings, "agent")
    options = options or AgentImportOptions()
    with open_rereadable(settings, source) as file:
        import_source = ImportSource(
            settings, file, str(source), options.memory.source_format, None
        )
        if import_source.format not in (FORMAT, *SEALED):
            raise UnknownFormatError(
                f"{import_source.format} contains no whole agent",
                file=str(source),
                hint="Import its memory: satchel import FILE --bank NAME.",
            )
        import_source.verify(options.memory.trusted_keys, options.memory.unsafe_accept)
        try:
            return _AgentImport(settings, import_source, file, owner, options).run()
        except InputError as error:
            if error.hint is not None and "--skip-bad" in error.hint:  # which is not for agents
                other, also, _ = error.hint.partition(" Or skip")
                advice = other if also else "Correct the file, and import it again."
                error.hint = f"Nothing was imported. {advice}"
            raise


class _AgentImport:
    """One import of an agent."""

    def __init__(
        self,
        settings: Settings,
        source: ImportSource,
        file: OpenFile,
        owner: Owners,
        options: AgentImportOptions,
    ) -> None:
        self._settings = settings
        self._source = source
        self._file = file
        self._owner = owner
        self._options = options
        self._notes = list[str]()
        self._container: dict[str, Any] = {}

    def run(self) -> AgentImportResult:
        """Run the import."""
        self._read_container()
        nous = self._container["nous"]
        came_as = str(nous["id"])
        agent, how = self._choose_agent(self._options.name or came_as, nous)
        result = AgentImportResult(agent=agent.id, came_as=came_as, bank=agent.bank, how=how)
        result = msgspec.structs.replace(
            result, lossless=self._lossless(), dry_run=self._options.dry_run, notes=self._notes
        )
        if how == "known":
            return result
        if self._options.dry_run:
            return msgspec.structs.replace(result, memory=self._memory(agent, how))
        final = agent.folder or self._settings.home / "agents" / agent.id / "workspace"
        with Staging(final, active=self._options.active_files) as staging:
            for row in self._rows():
                if row.type == "file_version":
                    staging.take(cast("FileVersion", _model_of(row)))
            staging.finish()
            memory = self._memory(agent, how)
            return self._commit(result, agent, memory, staging)

    def _read_container(self) -> None:
        """Read the whole file, and store the members around the memory."""
        for row in self._rows():
            if row.type == "source":
                container = cast("Source", _model_of(row)).container
                if "nous" in container:
                    self._container = container
        if not self._source.is_sealed:
            self._container = self._source.reading.container
        nous = self._container.get("nous")
        if not isinstance(nous, dict) or not isinstance(nous.get("id"), str):
            raise UnknownFormatError(
                "this artifact contains no agent",
                file=self._source.name,
                hint="Import its memory: satchel import FILE --bank NAME.",
            )

    def _rows(self) -> Any:
        return self._source.rows(seeded_nonces(bytes(32)))

    # -- who it is -------------------------------------------------------------------------

    def _choose_agent(self, identity: str, nous: dict[str, Any]) -> tuple[Agent, str]:
        """Return the target agent, and how it is created or changed."""
        if not is_agent_name(identity):
            raise UsageError(
                f"{identity[:80]!r} is not a valid agent ID",
                field="name",
                hint="Use --name: 1 to 64 letters, digits, _ and -.",
            )
        known = self._settings.options.agents.get(identity)
        existing = agent_of(identity, known) if known is not None else None
        bank = existing.bank if existing is not None else identity
        has = self._has(bank)
        if existing is None and not has:
            return self._new(identity, nous, identity), "new"
        if has and self._is_in(bank):
            return (
                (existing, "known") if existing else (self._new(identity, nous, identity), "resume")
            )
        how = self._resolve_conflict(identity)
        if how is OnAgent.RENAME:
            free = self._free(identity)
            return self._new(free, nous, free), "rename"
        if how is OnAgent.OVERWRITE:
            agent = self._new(identity, nous, self._free(bank))
            folder = existing.workspace if existing is not None else None
            return msgspec.structs.replace(agent, workspace=agent.workspace or folder), "overwrite"
        return self._merged(existing or self._new(identity, nous, identity), nous), "merge"

    def _resolve_conflict(self, identity: str) -> OnAgent:
        how = self._options.on_conflict
        if how is OnAgent.PROMPT and self._options.ask is not None:
            how = self._options.ask(identity)
        if how in (OnAgent.PROMPT, OnAgent.FAIL):
            raise AgentExistsError(
                f"an agent or bank named {identity!r} already exists",
                field="name",
                hint="Use --name NEW, or --on-conflict rename, overwrite or merge.",
            )
        return how

    def _free(self, name: str) -> str:
        agents = self._settings.options.agents
        for number in range(2, _MOST_FREE):
            free = f"{name[:58]}-{number}"
            if free not in agents and not self._has(free):
                return free
        raise UsageError("no free name was found", field="name", hint="Use --name NEW.")

    def _new(self, identity: str, nous: dict[str, Any], bank: str) -> Agent:
        name, model, folder = nous.get("name"), nous.get("model"), self._options.workspace
        config = nous.get("config")
        return Agent(
            id=identity,
            name=name if isinstance(name, str) and name else identity,
            bank=bank,
            model=model if isinstance(model, str) and model else None,
            workspace=None if folder is None else str(folder.expanduser().absolute()),
            config=without_nulls(decode_foreign(config)) if isinstance(config, dict) else {},
        )

    def _merged(self, existing: Agent, nous: dict[str, Any]) -> Agent:
        new = self._new(existing.id, nous, existing.bank)
        return msgspec.structs.replace(
            existing,
            model=existing.model or new.model,
            workspace=existing.workspace or new.workspace,
            config={**new.config, **existing.config},
        )

    def _has(self, bank: str) -> bool:
        """Return whether there is a bank with a name."""
        if not has_store(self._settings):
            return False
        with configured_store(self._settings, read_only=True) as store:
            return bool(banks_called(store, bank))

    def _is_in(self, bank: str) -> bool:
        """Return whether the same file was imported into a bank, and not undone."""
        with configured_store(self._settings, read_only=True) as store:
            opened = open_bank_in(self._settings, store, bank)
            with opened.ledger.reading() as view:
                for one in view.imports():
                    source = view.get([one.source])[one.source].model
                    same = isinstance(source, Source) and source.digest == self._source.digest
                    if same and one.complete and not one.undone:
                        return True
        return False

    # -- bringing it in --------------------------------------------------------------------

    def _memory(self, agent: Agent, how: str) -> ImportSummary | None:
        near = self._options.near_duplicates
        if near is None:
            near = NearDuplicateMode.SKIP if how == "merge" else NearDuplicateMode.OFF
            if how == "merge" and find_spec("numpy") is None:
                near = NearDuplicateMode.OFF
                self._notes.append("near-duplicates were not detected: numpy is not installed")
        options = replace(
            self._options.memory,
            source_format=self._source.format,
            without=_FILES,
            near_duplicates=near,
            dry_run=self._options.dry_run,
        )
        if how in (
            "new",
            "rename",
            "overwrite",
        ):  # its bank is empty: all differences are in the file
            options = replace(options, on_conflict=ConflictPolicy.RENAME)
        try:
            return import_file(self._settings, self._file, agent.bank, self._owner, options)
        except EmptyInputError:
            self._notes.append("the file contains no memories, only the agent's identity")
            return None

    def _commit(
        self,
        result: AgentImportResult,
        agent: Agent,
        memory: ImportSummary | None,
        staging: Staging,
    ) -> AgentImportResult:
        settings, is_merge = self._settings, result.how in ("merge", "resume")
        before = agent_config(settings, agent.id)
        source = memory.banks[0].source if memory and memory.banks else None
        record = AgentImportRecord(agent=agent.id, before=before, bank=agent.bank)
        if source is not None:
            keep_record(settings, source, record)
        placed = PlacementResult(active=staging.active)
        if staging.names or staging.not_in_file:
            placed = staging.put(merge=is_merge)
            agent = msgspec.structs.replace(agent, workspace=str(staging.final))
        if source is not None:
            keep_record(settings, source, msgspec.structs.replace(record, files=placed))
        changed = write_agent_config(settings, agent.id, table_of(agent))
        if self._options.embed and memory is not None:
            self._embed(agent.bank)
        return msgspec.structs.replace(
            result,
            memory=memory,
            files=placed,
            configured=changed,
            undo=source,
            notes=self._notes,
            sessions=self._sessions(agent.bank, source) if source is not None else {},
        )

    def _embed(self, name: str) -> None:
        try:
            with open_bank(self._settings, name, writes=True) as bank:
                embed_bank(bank)
        except (MissingExtraError, UsageError) as error:
            self._notes.append(f"no vectors were computed: {error.message}")

    def _sessions(self, name: str, source: str) -> dict[str, str]:
        sessions = dict[str, str]()
        with open_bank(self._settings, name) as bank, bank.ledger.reading() as view:
            for logged in view.imported(source):
                model = logged.model
                if not isinstance(model, SessionEvent) or model.event not in ("session", "fork"):
                    continue
                if model.origin is not None and model.origin.id and model.session is None:
                    sessions[model.origin.id] = logged.record.id
        return sessions

    def _lossless(self) -> bool | None:
        said = self._container.get("exportMetadata")
        found = said.get("lossless") if isinstance(said, dict) else None
        return found if isinstance(found, bool) else None


def _model_of(row: Row) -> Any:
    return Sealed(row.id, row.type, row.body or b"").model


@dataclass(frozen=True, slots=True)
class UndoOptions(Options):
    """Which import to undo."""

    source: Annotated[
        str | None,
        Option(
            f"Import: {BY_ID}. Default: the last one.",
            argument=True,
            metavar="IMPORT",
            max_length=100,
        ),
    ] = None
    _: KW_ONLY
    reason: Reason = None
    dry_run: Annotated[bool, Option("Report what would be undone, and change nothing.")] = False
    progress: OnProgress = None


@operation(UndoOptions, name="undo", example="satchel undo --bank assistant", absent=NOT_FOR_MODELS)
def undo(bank: OpenBank, options: UndoOptions) -> UndoResult:
    """Undo an import: remove what it added and restore what it replaced.

    Nothing is removed from the log: `satchel history` still shows it. If it was the import of an
    agent, the agent's files and settings are restored, too.

    Raises:
        UnknownImportError: If there is no such import.
    """
    require_owner(bank.settings, "undo")
    done = undo_in(
        bank,
        options.source,
        reason=options.reason,
        dry_run=options.dry_run,
        progress=options.progress,
    )
    return with_agent(bank.settings, done)
