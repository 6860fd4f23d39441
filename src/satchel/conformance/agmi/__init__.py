"""Adapters for ``agent-memory-integrity`` (agmi 0.6), the third-party suite of edits at rest.

Run it as its users do: ``agmi-check --adapter satchel.conformance.agmi:SatchelSqlite``. The
attacker has only the store's folder; the keys and the witness are elsewhere. After each edit, the
store is opened and read as usual, without an audit. ``SatchelPostgres`` needs the extra
``satchel[postgres]`` and a server, whose address is in ``SATCHEL_AGMI_POSTGRES``:
``satchel.conformance.agmi.postgres:SatchelPostgres``. The family of poisoned memories is
``satchel.conformance.agmi.semantic:SatchelSemantic``.
"""

from satchel.conformance.agmi.artifact import SatchelArtifact
from satchel.conformance.agmi.stores import SatchelLadybug, SatchelSqlite

__all__ = ["SatchelArtifact", "SatchelLadybug", "SatchelSqlite"]
