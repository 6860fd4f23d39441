"""amplihack's names for what Satchel does with the memory of its agents."""

from satchel.actions.amplihack.learning import SessionLearning
from satchel.actions.amplihack.resolving import (
    open_cleanup_backend,
    open_runtime_backend,
    open_tree_backend,
    resolve_backend_with_autodetect,
    resolve_transfer_backend_choice,
)
from satchel.actions.amplihack.roles import (
    MemoryRuntimeBackend,
    MemorySessionBackend,
    MemoryTreeBackend,
)
from satchel.actions.amplihack.sessions import MEMORY_TYPES, MemoryRecord, SessionSummary
from satchel.actions.selecting.backends import BackendChoice
from satchel.api.amplihack.memory import HierarchicalMemory, Link, NewFact, StoredFact
from satchel.api.amplihack.transfer import (
    ExportResult,
    HierarchicalTransfer,
    HierarchicalTransferBackend,
    ImportResult,
    open_hierarchical_transfer_backend_for,
    resolve_hierarchical_db_path,
)
from satchel.memory.agent_names import agent_name

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
