"""amplihack's names for what Satchel does with the memory of its agents."""

from satchel.api.amplihack_transfer import (
    ExportResult,
    HierarchicalTransfer,
    HierarchicalTransferBackend,
    ImportResult,
)
from satchel.memory.agent_names import agent_name

__all__ = [
    "ExportResult",
    "HierarchicalTransfer",
    "HierarchicalTransferBackend",
    "ImportResult",
    "agent_name",
]
