"""LadybugDB, the graph store: records as nodes, links as relationships that Cypher can follow."""

from satchel.stores.ladybug.store import LadybugStore

__all__ = ["LadybugStore"]
