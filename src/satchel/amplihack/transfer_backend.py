"""Transfers of the hierarchical memory of amplihack's agents, with amplihack's names."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from satchel.amplihack.transfer import (
    JSON,
    RAW,
    ExportResult,
    ImportResult,
    TransferOptions,
    export_agent,
    import_agent,
)
from satchel.bank.machine_keys import signing_key
from satchel.config.options import PathPermission
from satchel.config.settings import load_settings
from satchel.config.store_selection import HIERARCHY, BackendChoice, agent_graph, legacy_graph
from satchel.crypto.keys import SigningKey
from satchel.ports.operations import PathText
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.import_results import ImportOptions

__all__ = ["ExportResult", "HierarchicalTransfer", "HierarchicalTransferBackend", "ImportResult"]


@runtime_checkable
class HierarchicalTransferBackend(Protocol):
    """The backend of transfers of hierarchical memory, over any store."""

    def export_hierarchical_json(
        self, agent: str, output: PathText, storage_path: PathText | None = None
    ) -> ExportResult:
        """Write it as JSON, format 1.1."""
        ...

    def import_hierarchical_json(
        self,
        agent: str,
        input: PathText,  # noqa: A002 - amplihack's own name
        merge: bool = False,  # noqa: FBT001, FBT002 - amplihack's own argument
        storage_path: PathText | None = None,
    ) -> ImportResult:
        """Read JSON: replace what came from amplihack, or add what is new."""
        ...

    def export_hierarchical_raw_db(
        self, agent: str, output: PathText, storage_path: PathText | None = None
    ) -> ExportResult:
        """Write it as amplihack's SQLite database."""
        ...

    def import_hierarchical_raw_db(
        self,
        agent: str,
        input: PathText,  # noqa: A002 - amplihack's own name
        merge: bool = False,  # noqa: FBT001, FBT002 - amplihack's own argument
        storage_path: PathText | None = None,
    ) -> ImportResult:
        """Read such a database; merging is not supported."""
        ...


class HierarchicalTransfer:
    """Transfers the hierarchical memory of agents into and out of the configured store.

    Args:
        store: A file, or an address such as ``sqlite:///path.db``; None for the configured one.
        home: The folder with keys and trust; None for the usual one.
        allowed_roots: Folders that paths must be in.
        allow_uncontained: Whether paths may be anywhere, since the caller chose them.
        passphrase: That of the owner's key, if it has one; new banks need it.
        backend: ``sqlite``, ``graph-db`` or ``postgres``; None for the configured one.
    """

    def __init__(
        self,
        store: PathText | None = None,
        *,
        home: PathText | None = None,
        allowed_roots: Sequence[PathText] | None = None,
        allow_uncontained: bool = False,
        passphrase: str | None = None,
        backend: str | None = None,
    ) -> None:
        self._settings = load_settings(
            home=None if home is None else Path(home),
            store=None if store is None else str(store),
            backend=backend,
        )
        self._passphrase = passphrase
        self._asked = TransferOptions(
            permission=PathPermission(
                allowed_roots=allowed_roots, allow_uncontained=allow_uncontained
            )
        )

    def export_hierarchical_json(
        self,
        agent: str,
        output: PathText,
        storage_path: PathText | None = None,
        *,
        options: ExportOptions | None = None,
    ) -> ExportResult:
        """Write an agent's memory as JSON, format 1.1, as amplihack's strict reader takes it.

        Args:
            agent: The agent; its bank has the same name.
            output: The file; it must not exist, unless ``options`` overwrite it.
            storage_path: A folder in amplihack's layout; None for the configured store.
            options: Other options.

        Raises:
            UnknownBankError: If the agent does not exist; nothing is written then.
            UsageError: If the name is not valid for an agent.
            SatchelError: As ``Satchel.export_bank``.
        """
        return self._export(JSON, agent, output, storage_path, options)

    def import_hierarchical_json(
        self,
        agent: str,
        input: PathText,  # noqa: A002 - amplihack's own name
        merge: bool = False,  # noqa: FBT001, FBT002 - amplihack's own argument
        storage_path: PathText | None = None,
        *,
        options: ImportOptions | None = None,
    ) -> ImportResult:
        """Read an agent's memory from JSON of version 1.0 or 1.1, or agent-core's own.

        Args:
            agent: The agent, regardless of the one that the file names.
            input: The file.
            merge: Add new records; otherwise the records from amplihack are replaced.
            storage_path: A folder in amplihack's layout; None for the configured store.
            options: Other options.

        Raises:
            InputError: If the file is not valid; nothing is changed then.
            UsageError: If the name is not valid for an agent.
            SatchelError: As ``Satchel.import_bank``.
        """
        return self._import(JSON, agent, input, options, storage_path=storage_path, merge=merge)

    def export_hierarchical_raw_db(
        self,
        agent: str,
        output: PathText,
        storage_path: PathText | None = None,
        *,
        options: ExportOptions | None = None,
    ) -> ExportResult:
        """Write an agent's memory as amplihack's SQLite database.

        Args and Raises: as ``export_hierarchical_json``.
        """
        return self._export(RAW, agent, output, storage_path, options)

    def import_hierarchical_raw_db(
        self,
        agent: str,
        input: PathText,  # noqa: A002 - amplihack's own name
        merge: bool = False,  # noqa: FBT001, FBT002 - amplihack's own argument
        storage_path: PathText | None = None,
        *,
        options: ImportOptions | None = None,
    ) -> ImportResult:
        """Read an agent's memory from amplihack's SQLite database, which is checked first.

        Args and Raises: as ``import_hierarchical_json``; merging raises ``UsageError``, a link
        ``PathRefusedError``.
        """
        return self._import(RAW, agent, input, options, storage_path=storage_path, merge=merge)

    def _export(
        self,
        format_: str,
        agent: str,
        output: PathText,
        storage_path: PathText | None,
        options: ExportOptions | None,
    ) -> ExportResult:
        request = replace(
            self._asked,
            format=format_,
            storage_path=None if storage_path is None else Path(storage_path),
            output=options or ExportOptions(),
        )
        return export_agent(self._settings, agent, Path(output), self._owner, request)

    def _import(
        self,
        format_: str,
        agent: str,
        source: PathText,
        options: ImportOptions | None,
        *,
        storage_path: PathText | None,
        merge: bool,
    ) -> ImportResult:
        request = replace(
            self._asked,
            format=format_,
            storage_path=None if storage_path is None else Path(storage_path),
            merge=merge,
            options=options or ImportOptions(),
        )
        return import_agent(self._settings, agent, Path(source), self._owner, request)

    def _owner(self) -> SigningKey:
        return signing_key(self._settings, passphrase=self._passphrase)[0]


def open_hierarchical_transfer_backend_for(
    choice: BackendChoice | str | None = None,
    *,
    home: PathText | None = None,
    allowed_roots: Sequence[PathText] | None = None,
    allow_uncontained: bool = False,
) -> HierarchicalTransferBackend:
    """Return a backend of transfers for stores of a kind.

    Args:
        choice: The kind; None for the configured one.
        home: The folder with keys and trust; None for the usual one.
        allowed_roots: Folders that paths must be in.
        allow_uncontained: Whether paths may be anywhere, since the caller chose them.

    Raises:
        ConfigError: If the kind is unknown.
    """
    return HierarchicalTransfer(
        home=home,
        backend=None if choice is None else str(choice),
        allowed_roots=allowed_roots,
        allow_uncontained=allow_uncontained,
    )


def resolve_hierarchical_db_path(
    agent: str, *, storage_path: PathText | None = None, home: PathText | None = None
) -> Path:
    """Return the folder of an agent's graph: ``graph_db``, or ``kuzu_db`` if only that exists.

    Args:
        agent: The agent.
        storage_path: The folder of the layout, in place of ``hierarchical_memory``.
        home: The folder with the stores; None for the configured one.

    Raises:
        UsageError: If the name is not valid for an agent.
        PathRefusedError: If the path contains a link.
    """
    if storage_path is None:
        storage_path = load_settings(home=None if home is None else Path(home)).home / HIERARCHY
    folder = Path(storage_path)
    return legacy_graph(folder, agent) or agent_graph(folder, agent)
