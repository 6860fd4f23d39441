"""What exporting and importing an agent's memory gave, with the names that amplihack uses."""

from pathlib import Path

import msgspec

from satchel.actions.importing.imported import Imported
from satchel.actions.moving.exported import Export
from satchel.ports.report import Loss, Refused

JSON, RAW = "json", "raw-db"
"""The two formats of a transfer."""

EDGE_KINDS = ("similar_to", "derives_from", "supersedes", "transitioned_to")


class ExportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an export did."""

    agent_name: str
    format: str
    """``json`` or ``raw-db``."""

    output_path: str
    file_size_bytes: int | None = None
    statistics: list[tuple[str, str]] = []
    """How many nodes and edges of each kind were written, in the order of the file."""

    failed: list[Loss] = []
    """What the format has no place for, counted and named."""

    notes: list[str] = []
    receipt: str | None = None
    """Id of the receipt; ``satchel receipt show`` prints it."""

    unaccepted: int = 0
    """How much was lost that nobody said may be lost."""


class ImportResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an import did."""

    agent_name: str
    format: str
    source_agent: str | None = None
    """Whose memory it was, as the file says; None for a database."""

    merge: bool = False
    statistics: list[tuple[str, str]] = []
    """``semantic_nodes_imported``, ``episodic_nodes_imported``, ``edges_imported``, ``skipped``,
    ``errors``: what is new in the bank, what was there or is another version, what is bad."""

    failed: list[Refused] = []
    """Nodes and edges that were left out as bad, with their places; the first thousand."""

    losses: list[Loss] = []
    """What else was left behind, counted and named; refused ones included."""

    conflicts: int = 0
    """Nodes and edges that the bank had another version of."""

    conflict_examples: list[str] = []
    notes: list[str] = []
    receipts: list[str] = []
    """Ids of the receipts."""

    unaccepted: int = 0
    """How much was lost that nobody said may be lost."""

    dry_run: bool = False


def export_result(agent: str, format_: str, done: Export, edges: dict[str, int]) -> ExportResult:
    """Return an export as amplihack tells it.

    Args:
        agent: The agent.
        format_: ``json`` or ``raw-db``.
        done: The export.
        edges: Edges that were written, by kind.
    """
    there = done.account.counts if done.account is not None else {}
    counts = {f"{name}_node_count": _written(there, name) for name in ("semantic", "episodic")}
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


def import_result(agent: str, format_: str, found: Imported, *, merge: bool) -> ImportResult:
    """Return an import as amplihack tells it."""
    bank = found.banks[0]
    there, done = found.accounts[0].counts if found.accounts else {}, bank.done
    changed = (
        done.skipped + done.others_skipped,
        done.overwritten + done.others_overwritten,
        done.renamed + done.others_renamed,
    )
    left = done.known + done.twice + done.skipped + done.others_left - done.unjoined
    refused = sum(loss.count for loss in found.losses if loss.name == "record")
    counts = {
        "semantic_nodes_imported": _written(there, "semantic"),
        "episodic_nodes_imported": _written(there, "episodic"),
        "edges_imported": _written(there, "edge"),
        "skipped": left,
        "errors": refused + done.unjoined,
    }
    return ImportResult(
        agent_name=agent,
        format=format_,
        source_agent=found.agent,
        merge=merge,
        statistics=[(name, str(number)) for name, number in counts.items()],
        failed=found.refused,
        losses=found.losses,
        conflicts=sum(changed),
        conflict_examples=bank.conflicts,
        notes=found.notes,
        receipts=found.receipts,
        unaccepted=found.unaccepted,
    )


def _written(counts: object, name: str) -> int:
    found = counts.get(name) if isinstance(counts, dict) else None
    return 0 if found is None else int(found.written)
