"""amplihack's names for Satchel's operations on the memory of its agents."""

from satchel.amplihack.hierarchy import HierarchicalMemory, Link, NewFact, StoredFact
from satchel.amplihack.roles import (
    MemoryRuntimeBackend,
    MemorySessionBackend,
    MemoryTreeBackend,
    open_cleanup_backend,
    open_runtime_backend,
    open_tree_backend,
    resolve_backend_with_autodetect,
    resolve_transfer_backend_choice,
)
from satchel.amplihack.sessions import MEMORY_TYPES, MemoryRecord, SessionLearning, SessionSummary
from satchel.amplihack.transfer_backend import (
    ExportResult,
    HierarchicalTransfer,
    HierarchicalTransferBackend,
    ImportResult,
    open_hierarchical_transfer_backend_for,
    resolve_hierarchical_db_path,
)
from satchel.config.store_selection import BackendChoice
from satchel.model.values import agent_name

__all__ = [
    "MEMORY_TYPES",
    "BackendChoice",
    "ExportResult",
    "HierarchicalMemory",
    "HierarchicalTransfer",
    "HierarchicalTransferBackend",
    "ImportResult",
    "Link",
    "MemoryRecord",
    "MemoryRuntimeBackend",
    "MemorySessionBackend",
    "MemoryTreeBackend",
    "NewFact",
    "SessionLearning",
    "SessionSummary",
    "StoredFact",
    "agent_name",
    "open_cleanup_backend",
    "open_hierarchical_transfer_backend_for",
    "open_runtime_backend",
    "open_tree_backend",
    "resolve_backend_with_autodetect",
    "resolve_hierarchical_db_path",
    "resolve_transfer_backend_choice",
]
