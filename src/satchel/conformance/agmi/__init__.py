"""Adapters for ``agent-memory-integrity`` (agmi 0.6), the third-party suite of edits at rest.

Run it as its users do: ``agmi-check --adapter satchel.conformance.agmi:SatchelSqlite``. The
attacker has the store's folder and nothing else; the keys and what this machine has seen are
elsewhere. What is asked after each edit is an ordinary open and an ordinary reading, no audit.
``SatchelPostgres`` needs the extra ``satchel[postgres]`` and a server, whose address it finds in
``SATCHEL_AGMI_POSTGRES``: ``satchel.conformance.agmi.postgres:SatchelPostgres``. The family of
poisoned memory is ``satchel.conformance.agmi.semantic:SatchelSemantic``.
"""

from satchel.conformance.agmi.artifact import SatchelArtifact
from satchel.conformance.agmi.stores import SatchelLadybug, SatchelSqlite

__all__ = ["SatchelArtifact", "SatchelLadybug", "SatchelSqlite"]
