"""What of a record has no place in a graph of Graphiti."""

from satchel.formats._graphiti.rows import NO_BODY, SOURCES, WITHOUT
from satchel.formats._graphiti.shape import NAME, is_safe_label
from satchel.memory.entries import Entry, Episodic, Semantic
from satchel.memory.records import GraphNode
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed

_ALWAYS = frozenset({"id", "nonce", "type", "text", "origin", "created_at", "metadata", "scope"})
_OF_FACTS = frozenset({"subject", "predicate", "object", "valid_from", "valid_until", "parent_ids"})
_OF_EPISODES = frozenset({"occurred_at", "kind"})
_OF_NODES = frozenset({"id", "nonce", "type", "name", "labels", "summary", "properties", "scope"})
_TAKEN = frozenset({"semantic", "episodic", "graph_node", "edge", "source", "receipt"})
_NO_FIELD = "Graphiti has no such field"

_RESERVED = frozenset(
    {
        *("uuid", "name", "group_id", "labels", "created_at", "summary", "name_embedding"),
        *("fact", "fact_embedding", "episodes", "expired_at", "valid_at", "invalid_at"),
        *("reference_time", "source_node_uuid", "target_node_uuid"),
    }
)
"""What Graphiti takes out of attributes when it reads a graph."""


def count_entry(record: Sealed, entry: Entry, report: Report) -> None:
    """Count what of an entry is not in its row."""
    held = set(_ALWAYS | (_OF_EPISODES if isinstance(entry, Episodic) else _OF_FACTS))
    if isinstance(entry, Semantic):
        held |= _held_entities(entry)
        if entry.object is None and entry.predicate in WITHOUT:
            reason = "the name of a fact without a predicate"
            report.lost("predicate", reason, example=record.id)
        if _RESERVED & entry.metadata.keys() and not _is_ours(entry):
            reason = "a name reserved by Graphiti"
            report.lost("metadata", reason, example=record.id)
    elif isinstance(entry, Episodic):
        if entry.text is None and entry.observation is not None:
            held.add("observation")
        if entry.kind is not None and entry.kind not in SOURCES[:2] + SOURCES[3:]:
            held.discard("kind")
    for name in sorted(record.value.keys() - held):
        report.lost(name, _NO_FIELD, example=record.id)
    _count_scope(record, entry, report)
    origin = entry.origin
    if origin is not None and not _is_ours(entry):
        reason = "Graphiti does not record provenance"
        report.lost("origin", reason, example=record.id)


def _held_entities(entry: Semantic) -> set[str]:
    """Return ``entities`` where an entry has one, of which it is and which says no more."""
    if len(entry.entities) != 1 or entry.predicate is not None or entry.object is not None:
        return set()
    about = entry.entities[0]
    fits = about.entity_type is None or is_safe_label(about.entity_type)
    if fits and not about.aliases and entry.subject in (None, about.name):
        return set() if about.entity_type == NO_BODY else {"entities"}
    return set()


def _is_ours(entry: Entry) -> bool:
    return entry.origin is not None and entry.origin.provider == NAME


def _count_scope(record: Sealed, entry: Entry, report: Report) -> None:
    scope = entry.scope
    if scope is None:
        return
    if len(scope.namespace) != 1 or scope.user or scope.agent or scope.app or scope.run:
        reason = "it becomes a group; Graphiti has only groups"
        report.lost("scope", reason, example=record.id)


def count_node(record: Sealed, node: GraphNode, report: Report) -> None:
    """Count what of a node from elsewhere is not in its row."""
    for name in sorted(record.value.keys() - _OF_NODES - {"origin"}):
        report.lost(f"graph_node/{name}", _NO_FIELD, example=record.id)
    if not all(map(is_safe_label, node.labels)):
        report.lost("graph_node/labels", "not a Graphiti label", example=record.id)
    if node.origin is not None:
        reason = "Graphiti does not record provenance"
        report.lost("graph_node/origin", reason, example=record.id)


def count_others(records: RecordSet, report: Report) -> None:
    """Count the records that have no place at all."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section, section)
        if kind not in _TAKEN:
            report.lost(kind, "Graphiti has no such records", count=count)
