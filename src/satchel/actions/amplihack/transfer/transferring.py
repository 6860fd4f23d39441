"""Exporting and importing the hierarchical memory of one agent, as amplihack does.

JSON is its format 1.1; ``raw-db`` its SQLite database. An import replaces what came from amplihack
for that agent, in one moment, and can be undone; a merge adds what is new.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from satchel.actions.amplihack.hierarchy import link_stored
from satchel.actions.amplihack.keeping import hierarchical, is_foreign
from satchel.actions.amplihack.transfer.likeness import whole
from satchel.actions.amplihack.transfer.places import (
    Kept,
    bank_of,
    file_of,
    graph_at,
    graph_error,
    kept_at,
    store_at,
)
from satchel.actions.amplihack.transfer.results import (
    JSON,
    RAW,
    ExportResult,
    ImportResult,
    export_result,
    import_result,
)
from satchel.actions.config import Settings
from satchel.actions.importing.imported import Imported, ImportOptions
from satchel.actions.importing.importing import import_file
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.moving.exporting import export, export_part
from satchel.actions.opened import opened_bank
from satchel.actions.operating.providing import staged
from satchel.actions.operating.receipts import joined, kept
from satchel.actions.paths.permission import (
    OWN,
    Permission,
    file_to_read,
    file_to_write,
    require_uncontained,
)
from satchel.actions.permitted.owning import require_owner
from satchel.actions.selecting.layout import HIERARCHY
from satchel.disk.outlet import Outlet
from satchel.disk.reading import OpenFile
from satchel.disk.writing import PRIVATE_FILE, PRIVATE_FOLDER, target_error
from satchel.errors import InputError, PathRefusedError, UnknownBankError, UsageError
from satchel.memory.agent_names import agent_name
from satchel.memory.records import Edge
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.ports.registry import formats
from satchel.seal.signing.key import SigningKey
from satchel.transfer.receipts.account import told

_FORMATS = {JSON: "amplihack", RAW: "amplihack_db"}
_GRAPH = "amplihack_graph"

Owners = Callable[[], SigningKey]
"""Gives the key that owns banks that are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """What a transfer is asked to do."""

    format: str = JSON
    """``json`` or ``raw-db``."""

    storage_path: Path | None = None
    """A folder in amplihack's layout; the store otherwise."""

    permission: Permission = OWN
    """Where paths may lead."""

    merge: bool = False
    """Add what is new, in the place of replacing what there is."""

    options: ImportOptions = field(default_factory=ImportOptions)
    """What else an import is asked for."""

    output: ExportOptions = field(default_factory=ExportOptions)
    """What else an export is asked for."""

    @property
    def name(self) -> str:
        """The name of the format in the registry.

        Raises:
            UsageError: If there is none.
        """
        if self.format not in _FORMATS:
            raise UsageError(
                f"unsupported transfer format: {self.format[:80]!r}",
                field="format",
                hint=f"Choose from: {', '.join(_FORMATS)}.",
            )
        return _FORMATS[self.format]


def export_agent(
    settings: Settings, agent: str, output: Path, owner: Owners, asked: TransferOptions
) -> ExportResult:
    """Write the hierarchical memory of an agent to a file.

    Args:
        settings: Where the store and the keys are.
        agent: The agent.
        output: The file.
        owner: Gives the key that owns a bank of the moment, where one is needed.
        asked: What is asked for.

    Raises:
        UsageError: If no agent can have the name, or there is no such format.
        UnknownBankError: If there is no such agent. Nothing is written then, and nothing made.
        EmptyInputError: If it has no memory.
        SatchelError: As ``export``.
    """
    require_owner(settings, "amplihack")
    agent_name(agent)
    name, options = asked.name, replace(asked.output, format=asked.name)
    with (
        file_to_write(settings, output, asked.permission) as outlet,
        _agents_store(settings, agent, owner, asked) as (store, bank),
        opened_bank(store, bank) as opened,
    ):
        done = export_part(opened.asked("export"), outlet, options, whole(options))
        edges = _edges_in(outlet, name)
    return export_result(agent, asked.format, done, edges)


def import_agent(
    settings: Settings, agent: str, source: Path, owner: Owners, asked: TransferOptions
) -> ImportResult:
    """Read the hierarchical memory of an agent from a file.

    Whatever agent the file names, what it holds is this agent's. Without ``merge`` the agent has,
    of what came from amplihack, what the file has, and nothing else; memory of other origin stays.

    Args:
        settings: Where the store and the keys are.
        agent: The agent; its bank is made where there is none.
        source: The file.
        owner: Gives the key that owns it then.
        asked: What is asked for.

    Raises:
        UsageError: If no agent can have the name, there is no such format, or a database is to be
            merged.
        PathRefusedError: If a database is a link.
        InputError: If the file is not what it should be. Nothing is changed then.
        SatchelError: As ``import_file``.
    """
    require_owner(settings, "amplihack")
    agent_name(agent)
    if asked.merge and asked.name == _FORMATS[RAW]:
        raise UsageError(
            "a database cannot be merged",
            field="merge",
            hint="Export it as JSON and merge that, or drop --merge to replace.",
        )
    name = asked.name
    if asked.format == RAW and _require_database(source) is Kept.GRAPH:
        name = _GRAPH
    options = replace(asked.options, source_format=name, agent=agent, mirror=not asked.merge)
    with file_to_read(settings, source, asked.permission) as file:
        found = _imported(settings, agent, file, owner, (asked, options))
    return import_result(agent, asked.format, found, merge=asked.merge)


def _imported(
    settings: Settings,
    agent: str,
    file: OpenFile,
    owner: Owners,
    asked: tuple[TransferOptions, ImportOptions],
) -> Imported:
    how, options = asked
    if how.storage_path is None and is_foreign(settings, agent):
        how = replace(how, storage_path=settings.home / HIERARCHY, permission=OWN)
    if how.storage_path is None:
        there = hierarchical(settings, agent, writes=not options.dry_run)
        return _into_store(there, agent, file, owner, options)
    require_uncontained(settings, str(how.storage_path), how.permission)
    graph = graph_at(settings, how.storage_path, agent, writes=True)
    if graph is not None:
        return _into_store(graph, agent, file, owner, options)
    path = file_of(how.storage_path, agent)
    kept = kept_at(path)
    if kept is Kept.GRAPH:
        raise graph_error(path)
    if kept is Kept.STORE or (kept is Kept.NOTHING and how.format == JSON):
        there = store_at(settings, path, makes=True)
        return _into_store(there, agent, file, owner, options)
    with staged(settings) as stage:
        if how.merge:
            before = ImportOptions(source_format=_FORMATS[RAW], agent=agent, keeps_receipt=False)
            import_file(stage, path, agent, owner, before)
        found = import_file(stage, file, agent, owner, replace(options, keeps_receipt=False))
        if options.dry_run or not found.changed:
            return found
        # What older versions left under another name is read, and stays as it is.
        path = how.storage_path / f"{agent}.db"
        written = _replace_database(stage, agent, path)
    return _with_receipt(settings, found, (path, written), options)


def _with_receipt(
    settings: Settings, found: Imported, written: tuple[Path, Export], options: ImportOptions
) -> Imported:
    """Return an import with the receipt of what was read, and of the database that was written."""
    path, done = written
    if done.account is None or not found.accounts:
        return found
    output = structs.replace(done.account.output, name=told(str(path)))
    ends = found.accounts[0].input, output
    account = joined("import", ends, found.accounts, [done.account])
    receipt, notes = kept(settings, account, copy=options.receipt)
    return structs.replace(
        found,
        losses=[*found.losses, *done.losses],
        unaccepted=found.unaccepted + done.unaccepted,
        receipts=[receipt] if receipt else [],
        notes=[*found.notes, *done.notes, *notes],
    )


def _into_store(
    settings: Settings, agent: str, file: OpenFile, owner: Owners, options: ImportOptions
) -> Imported:
    found = import_file(settings, file, bank_of(settings, agent) or agent, owner, options)
    bank = None if options.dry_run else bank_of(settings, agent)
    if bank is not None:
        with opened_bank(settings, bank, writes=True) as opened:
            link_stored(opened)
    return found


def _replace_database(stage: Settings, agent: str, path: Path) -> Export:
    """Put the agent's memory where its database is; what was there is kept as ``.bak``."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    asked = ExportOptions(format=_FORMATS[RAW], overwrite=True, keeps_receipt=False)
    made = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        made.unlink()
    with opened_bank(stage, agent) as bank:
        done = export(bank, made, asked)
    try:
        _keep_before(path)
        made.replace(path)
        for end in ("-wal", "-journal", "-shm"):  # of what was there before
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).unlink()
    except OSError as error:
        raise target_error(path, error) from error
    return done


def _keep_before(path: Path) -> None:
    """Let the file that is at a path have another name as well, whole with what is beside it."""
    if not path.exists():
        return
    kept = path.with_name(path.name + ".bak")
    with suppress(FileNotFoundError):
        kept.unlink()
    os.link(path, kept, follow_symlinks=False)
    kept.chmod(PRIVATE_FILE)
    for end in ("-wal", "-journal"):
        beside = path.with_name(path.name + end)
        with suppress(FileNotFoundError):
            beside.replace(kept.with_name(kept.name + end))


def _require_database(source: Path) -> Kept:
    """Refuse what cannot be a database before anything is opened by its name; tell what it is."""
    if source.is_symlink():
        raise PathRefusedError(
            "the path is a symbolic link, not a database",
            file=str(source),
            hint="Use the path of the file it points to.",
        )
    kept = kept_at(source)
    if kept is Kept.STORE:
        raise UsageError(
            "this is a Satchel store, not an amplihack database",
            file=str(source),
            hint="Copy it as it is: satchel pull",
        )
    return kept


@contextmanager
def _agents_store(
    settings: Settings, agent: str, owner: Owners, asked: TransferOptions
) -> Iterator[tuple[Settings, str]]:
    """Give the surroundings of an agent's memory, and its bank there.

    Raises:
        UnknownBankError: If there is none.
    """
    if asked.storage_path is None and is_foreign(settings, agent):
        asked = replace(asked, storage_path=settings.home / HIERARCHY, permission=OWN)
    there: Settings | None = None
    if asked.storage_path is None:
        there = hierarchical(settings, agent)
    else:
        require_uncontained(settings, str(asked.storage_path), asked.permission)
        there = graph_at(settings, asked.storage_path, agent)
        path = file_of(asked.storage_path, agent)
        kept = Kept.STORE if there is not None else kept_at(path)
        if kept is Kept.NOTHING:
            raise _unknown(agent, str(asked.storage_path))
        if kept is not Kept.STORE:
            with staged(settings) as stage:
                name = _GRAPH if kept is Kept.GRAPH else _FORMATS[RAW]
                options = ImportOptions(source_format=name, agent=agent, keeps_receipt=False)
                import_file(stage, path, agent, owner, options)
                yield stage, agent
            return
        there = there or store_at(settings, path)
    bank = bank_of(there, agent)
    if bank is None:
        raise _unknown(agent, there.store)
    yield there, bank


def _unknown(agent: str, where: str) -> UnknownBankError:
    return UnknownBankError(f"no agent named {agent!r}", file=where, hint="See: satchel bank list.")


def _edges_in(outlet: Outlet, name: str) -> dict[str, int]:
    """Return how many edges of each kind were written."""
    count = Counter[str]()
    with outlet.written() as written, suppress(InputError):
        place = Place(outlet.path, held=written)
        with closing(formats[name].read(place, Reading())) as found:  # type: ignore[type-var]
            count.update(one.kind for one in found if isinstance(one, Edge))
    return dict(count)
