"""The files of a COGX archive, and what is in each."""

from typing import Any

from satchel.errors import MalformedError

NAME = "cognee"
"""The format, and the provider that records from it name."""

VERSION = "0.1"
"""The version of COGX that is written, and the newest that is read."""

DOCUMENT, EPISODE, ENTITY, FACT = "document", "episode", "entity", "fact"
MEMORY, BLOCK, RAW = "memory", "memory_block", "raw_node"

FILES = {
    DOCUMENT: "documents.jsonl",
    EPISODE: "episodes.jsonl",
    ENTITY: "entities.jsonl",
    FACT: "facts.jsonl",
    MEMORY: "memories.jsonl",
    BLOCK: "memory_blocks.jsonl",
    RAW: "nodes.jsonl",
}
"""Kinds of rows, in the order of Cognee's own reader, each with the file that they are in."""

KINDS = {file: kind for kind, file in FILES.items()}
"""What is in a file."""

MANIFEST, PERMISSIONS = "manifest.json", "permissions.json"

Row = dict[str, Any]


def require_version(manifest: Row, *, any_version: bool) -> None:
    """Refuse an archive that is newer than what is known.

    Raises:
        MalformedError: If it is, or does not say its version.
    """
    version = manifest.get("cogx_version")
    major = str(version).partition(".")[0] if type(version) is str else ""
    if not major.isdecimal() or not (any_version or int(major[:9]) == 0):
        problem = f"version {str(version)[:40]!r} is not supported; supported: {VERSION}"
        raise MalformedError(problem, field=f"{MANIFEST}/cogx_version")
