"""Export and import of the hierarchical memory of one agent, as amplihack does.

JSON is its format 1.1; ``raw-db`` is its SQLite database. An import replaces the agent's records
from amplihack in one commit, and can be undone; a merge adds new ones.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import structs

from satchel.amplihack.agents import bank_named, hierarchical, is_foreign
from satchel.amplihack.facts import SIMILAR_TO, SimilarityLink, similar_links
from satchel.amplihack.hierarchy import link_stored
from satchel.bank.connections import configured_store, holds_anything, require_not_lost
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import open_bank
from satchel.config import store_selection
from satchel.config.options import (
    OWN,
    PathPermission,
    file_to_read,
    file_to_write,
    require_uncontained,
)
from satchel.config.settings import Settings, StoreSettings
from satchel.config.store_selection import HIERARCHY, BackendChoice
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    InputError,
    MalformedError,
    PathRefusedError,
    ReadOnlyStoreError,
    UnknownBankError,
    UsageError,
)
from satchel.ledger.columns import LINKS
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry
from satchel.model.values import ID_PREFIX, agent_name, id_digits
from satchel.ports.format import HEAD_BYTES, Location, ReadContext, formats
from satchel.ports.record_set import Loss, RefusedRecord
from satchel.receipts.receipt import receipt_text
from satchel.receipts.steps import join_receipt_bodies, save_receipt
from satchel.runtime.files import PRIVATE_FILE, PRIVATE_FOLDER, OpenFile, target_error
from satchel.runtime.output import Outlet
from satchel.transfer.export_records import (
    WHOLE,
    Export,
    ExportCounts,
    ExportDestination,
    ExportOptions,
    collect_records,
    scope_of,
)
from satchel.transfer.exports import ExportPart, export, export_part
from satchel.transfer.import_results import ImportOptions, ImportSummary
from satchel.transfer.imports import import_file
from satchel.transfer.providers import temporary_store

_COMPUTED = {"computed_by": "satchel"}
"""The metadata of a link that is not in the log."""


def whole(options: ExportOptions) -> ExportPart:
    """Return all records of a bank, with the similarity links stored beside its log.

    A fact from a file has only the links that the file stated.
    """

    def take(view: View, outgoing: ExportDestination) -> ExportCounts:
        counts = collect_records(view, WHOLE, outgoing, options.progress)
        for source, links in groupby(similar_links(view), attrgetter("source")):
            if _provider_of(view, source):
                continue
            stated = _linked_with(view, source)
            for link in links:
                if link.target not in stated:
                    outgoing.builder.add(seal(_as_edge(link)))
        return counts

    return ExportPart(take, scope_of(WHOLE))


def _provider_of(view: View, identity: str) -> str | None:
    entry = view.get([identity])[identity].model
    origin = entry.origin if isinstance(entry, Entry) else None
    return None if origin is None else origin.provider


def _linked_with(view: View, identity: str) -> set[str]:
    """Return the facts with a stated similarity to one."""
    view.require_columns(LINKS)
    ways = (view.neighbors(identity), view.neighbors(identity, incoming=True))
    edges = [logged.model for logged in chain(*ways) if isinstance(logged.model, Edge)]
    return {end for edge in edges if edge.kind == SIMILAR_TO for end in (edge.source, edge.target)}


def _as_edge(link: SimilarityLink) -> Edge:
    return Edge(
        source=link.source,
        target=link.target,
        kind=SIMILAR_TO,
        weight=link.weight,
        metadata={"contradiction": True, **_COMPUTED} if link.contradicts else _COMPUTED,
    )


_SQLITE = b"SQLite format 3\x00"
_APPLICATION = slice(68, 72)
_OURS = b"SATC"
_GRAPHS = (b"LBUG", b"KUZU")
_FOLDERS = ("graph_db", "kuzu_db")
_OLDER = "sqlite_hierarchical.db"


class DatabaseKind(StrEnum):
    """The kind of database at a path."""

    NOTHING = "nothing"
    STORE = "store"
    AMPLIHACK = "amplihack"
    GRAPH = "graph"
    """A graph of amplihack, which is only read."""


def graph_at(
    settings: Settings, folder: Path, agent: str, *, writes: bool = False
) -> Settings | None:
    """Return settings whose store is an agent's graph of ours below a folder.

    None if no graph was chosen, and the agent has another store or none.

    Raises:
        PathRefusedError: If the path contains a link.
    """
    selection = settings.selection
    chosen = selection.of(()) if selection.request.backend else None
    if chosen is None or chosen.backend is not BackendChoice.GRAPH_DB:
        graph = store_selection.agent_graph(folder, agent)
        if store_selection.exists_without_link(store_selection.agent_sqlite(folder, agent)):
            return None
        if not (
            store_selection.exists_without_link(graph)
            and store_selection.exists_without_link(graph / store_selection.GRAPH_FILE)
        ):
            return None
    selected = structs.replace(settings, selection=selection.with_backend(BackendChoice.GRAPH_DB))
    return hierarchical(selected, agent, storage_path=folder, writes=writes)


def file_of(folder: Path, agent: str) -> Path:
    """Return the file of an agent in amplihack's layout.

    That is ``<agent>.db``, also if it does not exist yet; or the file of an older version, or a
    graph.

    Raises:
        UsageError: If the name is not valid for an agent. Nothing was read then.
    """
    agent_name(agent)
    usual, older = folder / f"{agent}.db", folder / agent / _OLDER
    if os.path.lexists(usual) or not os.path.lexists(folder / agent):
        return usual
    if os.path.lexists(older):
        return older
    for name in _FOLDERS:
        if os.path.lexists(folder / agent / name):
            return folder / agent / name
    return usual


def database_kind(path: Path) -> DatabaseKind:
    """Return the kind of database at a path; links are not followed.

    Raises:
        PathRefusedError: If it is a link, or not a regular file.
        MalformedError: If it is not a database.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return DatabaseKind.NOTHING
    except OSError as error:
        problem = "a database path is a symbolic link"
        problem = problem if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise PathRefusedError(problem, file=str(path)) from error
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            return DatabaseKind.GRAPH
        if not stat.S_ISREG(mode):
            raise PathRefusedError("not a file", file=str(path))
        head = os.read(handle, HEAD_BYTES)
    finally:
        os.close(handle)
    if head.startswith(_GRAPHS):
        return DatabaseKind.GRAPH
    if not head.startswith(_SQLITE):
        raise MalformedError("not an SQLite database", file=str(path), byte=0)
    return DatabaseKind.STORE if head[_APPLICATION] == _OURS else DatabaseKind.AMPLIHACK


def graph_error(path: Path) -> ReadOnlyStoreError:
    """Return the error for writing to a graph of amplihack."""
    return ReadOnlyStoreError(
        "this agent's memory is in an amplihack graph, which is read-only",
        file=str(path),
        hint="Run satchel amplihack export with this path, then import the result.",
    )


def store_at(settings: Settings, path: Path, *, makes: bool = False) -> Settings:
    """Return settings whose store is a file.

    Args:
        settings: The present settings.
        path: The file.
        makes: Whether to create its folder if missing, for the owner only.
    """
    if makes:
        path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    store = StoreSettings(address=str(path.absolute()))
    return structs.replace(settings, options=structs.replace(settings.options, store=store))


def bank_of(settings: Settings, agent: str) -> str | None:
    """Return the ID of the bank with an agent's name; None if there is none.

    Only the name counts, not an ID or its prefix.

    Raises:
        UsageError: If several banks have it.
        RolledBackError: If the store is missing or empty, and this machine saw banks in it.
    """
    if not holds_anything(settings):
        require_not_lost(settings, None)
        return None
    with configured_store(settings, read_only=True) as store:
        bank = bank_named(store, agent)
        if bank is None:
            digits = id_digits(agent)
            with store.reading() as reader:
                if digits is not None and reader.banks(ID_PREFIX + digits):
                    raise UsageError(f"{agent!r} is a prefix of a bank ID", field="agent")
    return bank


JSON, RAW = "json", "raw-db"
"""The two formats of a transfer."""

EDGE_KINDS = ("similar_to", "derives_from", "supersedes", "transitioned_to")


class ExportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an export."""

    agent_name: str
    format: str
    """``json`` or ``raw-db``."""

    output_path: str
    file_size_bytes: int | None = None
    statistics: list[tuple[str, str]] = []
    """Number of nodes and edges written, by kind, in the order of the file."""

    failed: list[Loss] = []
    """Losses: what the format cannot hold, counted and named."""

    notes: list[str] = []
    receipt: str | None = None
    """ID of the receipt; ``satchel receipt show`` prints it."""

    unaccepted: int = 0
    """Number of losses that were not accepted."""


class ImportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an import."""

    agent_name: str
    format: str
    source_agent: str | None = None
    """The agent that the file names; None for a database."""

    merge: bool = False
    statistics: list[tuple[str, str]] = []
    """``semantic_nodes_imported``, ``episodic_nodes_imported``, ``edges_imported``, ``skipped``,
    ``errors``: new in the bank; known or another version; not valid."""

    failed: list[RefusedRecord] = []
    """Bad nodes and edges that were skipped, with their positions; the first thousand."""

    losses: list[Loss] = []
    """Losses, counted and named, including refused records."""

    conflicts: int = 0
    """Number of nodes and edges with another version in the bank."""

    conflict_examples: list[str] = []
    notes: list[str] = []
    receipts: list[str] = []
    """IDs of the receipts."""

    unaccepted: int = 0
    """Number of losses that were not accepted."""

    dry_run: bool = False


def export_result(agent: str, format_: str, done: Export, edges: dict[str, int]) -> ExportResult:
    """Return the result of an export in amplihack's form.

    Args:
        agent: The agent.
        format_: ``json`` or ``raw-db``.
        done: The result of the export.
        edges: Edges that were written, by kind.
    """
    numbers = done.account.counts if done.account is not None else {}
    counts = {f"{name}_node_count": _written(numbers, name) for name in ("semantic", "episodic")}
    counts |= {f"{kind}_edge_count": edges.get(kind, 0) for kind in EDGE_KINDS}
    return ExportResult(
        agent_name=agent,
        format=format_,
        output_path=str(Path(done.output).resolve()),
        file_size_bytes=done.output_bytes,
        statistics=[(name, str(number)) for name, number in counts.items()],
        failed=done.losses,
        notes=done.notes,
        receipt=done.receipt,
        unaccepted=done.unaccepted,
    )


def import_result(agent: str, format_: str, summary: ImportSummary, *, merge: bool) -> ImportResult:
    """Return the result of an import in amplihack's form."""
    bank = summary.banks[0]
    numbers, done = summary.accounts[0].counts if summary.accounts else {}, bank.done
    changed = (
        done.skipped + done.others_skipped,
        done.overwritten + done.others_overwritten,
        done.renamed + done.others_renamed,
    )
    left = done.known + done.twice + done.skipped + done.others_left - done.unjoined
    refused = sum(loss.count for loss in summary.losses if loss.name == "record")
    counts = {
        "semantic_nodes_imported": _written(numbers, "semantic"),
        "episodic_nodes_imported": _written(numbers, "episodic"),
        "edges_imported": _written(numbers, "edge"),
        "skipped": left,
        "errors": refused + done.unjoined,
    }
    return ImportResult(
        agent_name=agent,
        format=format_,
        source_agent=summary.agent,
        merge=merge,
        statistics=[(name, str(number)) for name, number in counts.items()],
        failed=summary.refused,
        losses=summary.losses,
        conflicts=sum(changed),
        conflict_examples=bank.conflicts,
        notes=summary.notes,
        receipts=summary.receipts,
        unaccepted=summary.unaccepted,
    )


def _written(counts: object, name: str) -> int:
    number = counts.get(name) if isinstance(counts, dict) else None
    return 0 if number is None else int(number.written)


_FORMATS = {JSON: "amplihack", RAW: "amplihack_db"}
_GRAPH = "amplihack_graph"

Owners = Callable[[], SigningKey]
"""Returns the owner's key for new banks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """Options of a transfer."""

    format: str = JSON
    """``json`` or ``raw-db``."""

    storage_path: Path | None = None
    """A folder in amplihack's layout; None for the configured store."""

    permission: PathPermission = OWN
    """The folders where paths may be."""

    merge: bool = False
    """Whether to add new records instead of replacing the existing ones."""

    options: ImportOptions = field(default_factory=ImportOptions)
    """Other options of an import."""

    output: ExportOptions = field(default_factory=ExportOptions)
    """Other options of an export."""

    @property
    def name(self) -> str:
        """The name of the format in the registry.

        Raises:
            UsageError: If it is unknown.
        """
        if self.format not in _FORMATS:
            raise UsageError(
                f"unsupported transfer format: {self.format[:80]!r}",
                field="format",
                hint=f"Choose from: {', '.join(_FORMATS)}.",
            )
        return _FORMATS[self.format]


def export_agent(
    settings: Settings, agent: str, output: Path, owner: Owners, request: TransferOptions
) -> ExportResult:
    """Write the hierarchical memory of an agent to a file.

    Args:
        settings: Where the store and the keys are.
        agent: The agent.
        output: The file.
        owner: Returns the owner's key for a temporary bank, if one is needed.
        request: The options.

    Raises:
        UsageError: If the name is not valid for an agent, or the format is unknown.
        UnknownBankError: If the agent does not exist. Nothing is written or created then.
        EmptyInputError: If it has no memory.
        SatchelError: As ``export``.
    """
    require_owner(settings, "amplihack")
    agent_name(agent)
    name, options = request.name, replace(request.output, format=request.name)
    with (
        file_to_write(settings, output, request.permission) as outlet,
        _agents_store(settings, agent, owner, request) as (store, bank),
        open_bank(store, bank) as opened,
    ):
        done = export_part(opened.asked("export"), outlet, options, whole(options))
        edges = _edges_in(outlet, name)
    return export_result(agent, request.format, done, edges)


def import_agent(
    settings: Settings, agent: str, source: Path, owner: Owners, request: TransferOptions
) -> ImportResult:
    """Import the hierarchical memory of an agent from a file.

    Its records become this agent's, whichever agent the file names. Without ``merge`` they replace
    the agent's records from amplihack; memory of other origin is not changed.

    Args:
        settings: Where the store and the keys are.
        agent: The agent; its bank is created if missing.
        source: The file.
        owner: Returns the owner's key for a new bank.
        request: The options.

    Raises:
        UsageError: If the name is not valid for an agent, the format is unknown, or a
            database would be merged.
        PathRefusedError: If a database is a link.
        InputError: If the file is not valid. Nothing is changed then.
        SatchelError: As ``import_file``.
    """
    require_owner(settings, "amplihack")
    agent_name(agent)
    if request.merge and request.name == _FORMATS[RAW]:
        raise UsageError(
            "a database cannot be merged",
            field="merge",
            hint="Export it as JSON and merge that, or drop --merge to replace.",
        )
    name = request.name
    if request.format == RAW and _require_database(source) is DatabaseKind.GRAPH:
        name = _GRAPH
    options = replace(request.options, source_format=name, agent=agent, mirror=not request.merge)
    with file_to_read(settings, source, request.permission) as file:
        summary = _imported(settings, agent, file, owner, (request, options))
    return import_result(agent, request.format, summary, merge=request.merge)


def _imported(
    settings: Settings,
    agent: str,
    file: OpenFile,
    owner: Owners,
    requested: tuple[TransferOptions, ImportOptions],
) -> ImportSummary:
    request, options = requested
    if request.storage_path is None and is_foreign(settings, agent):
        request = replace(request, storage_path=settings.home / HIERARCHY, permission=OWN)
    if request.storage_path is None:
        own_settings = hierarchical(settings, agent, writes=not options.dry_run)
        return _into_store(own_settings, agent, file, owner, options)
    require_uncontained(settings, str(request.storage_path), request.permission)
    graph = graph_at(settings, request.storage_path, agent, writes=True)
    if graph is not None:
        return _into_store(graph, agent, file, owner, options)
    path = file_of(request.storage_path, agent)
    kind = database_kind(path)
    if kind is DatabaseKind.GRAPH:
        raise graph_error(path)
    if kind is DatabaseKind.STORE or (kind is DatabaseKind.NOTHING and request.format == JSON):
        own_settings = store_at(settings, path, makes=True)
        return _into_store(own_settings, agent, file, owner, options)
    with temporary_store(settings) as stage:
        if request.merge:
            before = ImportOptions(source_format=_FORMATS[RAW], agent=agent, keeps_receipt=False)
            import_file(stage, path, agent, owner, before)
        summary = import_file(stage, file, agent, owner, replace(options, keeps_receipt=False))
        if options.dry_run or not summary.changed:
            return summary
        # A file of an older version under another name is read, and not changed.
        path = request.storage_path / f"{agent}.db"
        written = _replace_database(stage, agent, path)
    return _with_receipt(settings, summary, (path, written), options)


def _with_receipt(
    settings: Settings, summary: ImportSummary, written: tuple[Path, Export], options: ImportOptions
) -> ImportSummary:
    """Return an import with the receipts of the file that was read and the database written."""
    path, done = written
    if done.account is None or not summary.accounts:
        return summary
    output = structs.replace(done.account.output, name=receipt_text(str(path)))
    ends = summary.accounts[0].input, output
    account = join_receipt_bodies("import", ends, summary.accounts, [done.account])
    receipt, notes = save_receipt(settings, account, copy=options.receipt)
    return structs.replace(
        summary,
        losses=[*summary.losses, *done.losses],
        unaccepted=summary.unaccepted + done.unaccepted,
        receipts=[receipt] if receipt else [],
        notes=[*summary.notes, *done.notes, *notes],
    )


def _into_store(
    settings: Settings, agent: str, file: OpenFile, owner: Owners, options: ImportOptions
) -> ImportSummary:
    summary = import_file(settings, file, bank_of(settings, agent) or agent, owner, options)
    bank = None if options.dry_run else bank_of(settings, agent)
    if bank is not None:
        with open_bank(settings, bank, writes=True) as opened:
            link_stored(opened)
    return summary


def _replace_database(stage: Settings, agent: str, path: Path) -> Export:
    """Replace the agent's database; the previous one becomes ``.bak``."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    options = ExportOptions(format=_FORMATS[RAW], overwrite=True, keeps_receipt=False)
    new_file = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        new_file.unlink()
    with open_bank(stage, agent) as bank:
        done = export(bank, new_file, options)
    try:
        _keep_previous(path)
        new_file.replace(path)
        for end in ("-wal", "-journal", "-shm"):  # of the previous database
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).unlink()
    except OSError as error:
        raise target_error(path, error) from error
    return done


def _keep_previous(path: Path) -> None:
    """Link the file at a path to a second name, with the files beside it."""
    if not path.exists():
        return
    backup = path.with_name(path.name + ".bak")
    with suppress(FileNotFoundError):
        backup.unlink()
    os.link(path, backup, follow_symlinks=False)
    backup.chmod(PRIVATE_FILE)
    for end in ("-wal", "-journal"):
        beside = path.with_name(path.name + end)
        with suppress(FileNotFoundError):
            beside.replace(backup.with_name(backup.name + end))


def _require_database(source: Path) -> DatabaseKind:
    """Return the kind of database at a path, before it is opened by its name; refuse others."""
    if source.is_symlink():
        raise PathRefusedError(
            "the path is a symbolic link, not a database",
            file=str(source),
            hint="Use the path of the file it points to.",
        )
    kind = database_kind(source)
    if kind is DatabaseKind.STORE:
        raise UsageError(
            "this is a Satchel store, not an amplihack database",
            file=str(source),
            hint="Copy it as it is: satchel pull",
        )
    return kind


@contextmanager
def _agents_store(
    settings: Settings, agent: str, owner: Owners, request: TransferOptions
) -> Iterator[tuple[Settings, str]]:
    """Yield settings with the store of an agent's memory, and its bank in it.

    Raises:
        UnknownBankError: If there is none.
    """
    if request.storage_path is None and is_foreign(settings, agent):
        request = replace(request, storage_path=settings.home / HIERARCHY, permission=OWN)
    own_settings: Settings | None = None
    if request.storage_path is None:
        own_settings = hierarchical(settings, agent)
    else:
        require_uncontained(settings, str(request.storage_path), request.permission)
        own_settings = graph_at(settings, request.storage_path, agent)
        path = file_of(request.storage_path, agent)
        kind = DatabaseKind.STORE if own_settings is not None else database_kind(path)
        if kind is DatabaseKind.NOTHING:
            raise _unknown(agent, str(request.storage_path))
        if kind is not DatabaseKind.STORE:
            with temporary_store(settings) as stage:
                name = _GRAPH if kind is DatabaseKind.GRAPH else _FORMATS[RAW]
                options = ImportOptions(source_format=name, agent=agent, keeps_receipt=False)
                import_file(stage, path, agent, owner, options)
                yield stage, agent
            return
        own_settings = own_settings or store_at(settings, path)
    bank = bank_of(own_settings, agent)
    if bank is None:
        raise _unknown(agent, own_settings.store)
    yield own_settings, bank


def _unknown(agent: str, where: str) -> UnknownBankError:
    return UnknownBankError(f"no agent named {agent!r}", file=where, hint="See: satchel bank list.")


def _edges_in(outlet: Outlet, name: str) -> dict[str, int]:
    """Return the number of edges that were written, by kind."""
    count = Counter[str]()
    with outlet.written() as written, suppress(InputError):
        place = Location(outlet.path, held=written)
        with closing(formats[name].read(place, ReadContext())) as records:  # type: ignore[type-var]
            count.update(record.kind for record in records if isinstance(record, Edge))
    return dict(count)
