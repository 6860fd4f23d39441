"""Walking along the links of a bank: each step is a record that was proved."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import pytest
from ledger_kit import created

from satchel.crypto.sealed_records import seal
from satchel.errors import VerificationError
from satchel.model.records import Edge, Semantic
from satchel.ports.links import Direction, LoggedLink, paths, walk
from satchel.stores.ladybug import LadybugStore
from satchel.stores.sqlite import SqliteStore


@pytest.mark.parametrize("kind", [SqliteStore, LadybugStore])
def test_a_walk_follows_parents_and_edges(
    tmp_path: Path, kind: type[SqliteStore | LadybugStore]
) -> None:
    """Also backwards, along the shortest path."""
    store = kind(tmp_path / "store")
    ledger = created(store)
    one = seal(Semantic(text="one"))
    two = seal(Semantic(text="two", parent_ids=(one.id,)))
    edge = seal(Edge(source=two.id, target="a place", kind="about"))
    ledger.append([one, two, edge])
    with ledger.reading() as view:

        def links(names: Sequence[str], incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001
            return view.links(names, incoming=incoming, limit=limit)

        found = walk(links, one.id, hops=2, budget=9, direction=Direction.IN)
        assert [(name, hops) for name, hops, _ in found.reached] == [(two.id, 1)]
        ways = paths(links, "a place", one.id, hops=3, budget=9)
        assert [[linked.link.kind for linked in way] for way in ways.found] == [
            ["about", "derives_from"]
        ]
    store.close()


def test_a_link_without_a_record_is_refused(tmp_path: Path) -> None:
    """Also one that an edited index has beside a record with another link."""
    store = SqliteStore(tmp_path / "store")
    ledger = created(store)
    edge = seal(Edge(source="a", target="b", kind="knows"))
    (place,) = ledger.append([edge])
    with ledger.reading() as view:
        ask = partial(view.links, ["a"], incoming=False, limit=9)
        assert [linked.place for linked in ask()] == [place]
    connection = apsw.Connection(str(tmp_path / "store"))
    connection.execute("UPDATE link SET target = 'c'")
    connection.close()
    with ledger.reading() as view, pytest.raises(VerificationError, match="does not have"):
        view.links(["a"], incoming=False, limit=9)
    store.close()
