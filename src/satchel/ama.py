"""Reading AMA archives from a program; see ``satchel.api.ama``."""

from satchel.api.ama import AmaMemories, AmaMemory, iter_ama_memories, read_ama_header
from satchel.formats._ama import AmaHeader

__all__ = ["AmaHeader", "AmaMemories", "AmaMemory", "iter_ama_memories", "read_ama_header"]
