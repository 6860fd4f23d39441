"""The sections of an artifact's body, their order, and what may be in each."""

import re

from satchel.errors import MalformedError
from satchel.memory.parts import Component

COMPONENTS = tuple(component.value for component in Component)
"""The five sections that hold entries, in body order."""

ORDER = (
    "keys",
    "redactions",
    "erasures",
    *COMPONENTS,
    "status",
    "sources",
    "nodes",
    "edges",
    "sessions",
    "files",
    "workspace",
    "config",
    "statistics",
    "embeddings",
    "blobs",
    "receipts",
    "withheld",
)
"""Sections with a fixed place; others follow by name."""

RECORD_SECTIONS = {
    "bank": "keys",
    "redaction": "redactions",
    "erasure": "erasures",
    **{component: component for component in COMPONENTS},
    "status": "status",
    "source": "sources",
    "graph_node": "nodes",
    "edge": "edges",
    "session_event": "sessions",
    "file_version": "files",
    "config": "config",
    "embedding": "embeddings",
    "blob": "blobs",
    "receipt": "receipts",
    "token": "tokens",
}
"""The section of each record type."""

PROOF_SECTIONS = frozenset({"proofs", "withheld"})
"""Sections of audit paths, not records."""

TYPED_SECTIONS = {section: kind for kind, section in RECORD_SECTIONS.items()}
"""The one record type each section may hold; a section not named here holds any objects."""

RESERVED = frozenset({"statement", "signatures", "components"})
"""Names that mean something else at the top level of a ``.pam`` file."""

SDK_MEMBERS = frozenset(
    {
        "pam_version",
        "schema_version",
        "created_at",
        "source_agent",
        "root_hash",
        "signature",
        "capability_tokens",
        "metadata",
        *COMPONENTS,
    }
)
"""Top-level members of the published SDK's files; none of them is one of ours."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_RANKS = {name: rank for rank, name in enumerate(ORDER)}


def check_name(name: str) -> None:
    """Refuse a text that cannot name a section.

    Raises:
        MalformedError: If it has another shape or means something else.
    """
    if not _NAME.fullmatch(name) or name in RESERVED | (SDK_MEMBERS - {*COMPONENTS}):
        raise MalformedError(f"{name[:80]!r} is not a valid section name")


def rank(name: str) -> tuple[int, str]:
    """Return the sort key that puts sections into body order."""
    return (_RANKS.get(name, len(ORDER)), name)
