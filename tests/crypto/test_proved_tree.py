"""The tree that a reader proves records by: nothing that is stored is believed unproved."""

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from satchel.crypto.log import (
    Frontier,
    VerifiedTree,
    append_leaves,
    audit_path,
    root_of,
    verify_audit_path,
)
from satchel.errors import VerificationError

_FAKE = b"\xff" * 32


def _leaves(count: int) -> list[bytes]:
    return [blake3(bytes([number])).digest() for number in range(count)]


def _tree(count: int, changed: int | None = None) -> tuple[VerifiedTree, list[bytes]]:
    """Return a tree over stored nodes, one of which may be changed."""
    leaves, frontier = _leaves(count), Frontier()
    nodes = append_leaves(frontier, leaves)
    if changed is not None:
        nodes[changed % len(nodes)] = _FAKE
    kept = dict(enumerate(nodes))
    tree = VerifiedTree(frontier, lambda places: {p: kept[p] for p in places if p in kept})
    return tree, leaves


_ASKED = st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=12), min_size=1, max_size=5)


@given(st.integers(1, 41), _ASKED, st.integers(0, 40), st.none() | st.integers(0, 100))
def test_leaves_hold_when_they_are_those_and_never_otherwise(
    count: int, asked: list[set[int]], fake: int, changed: int | None
) -> None:
    """For all sizes, orders of asking and damaged nodes: right leaves may be refused, no others."""
    tree, leaves = _tree(count, changed)
    for places in asked:
        right = {place: leaves[place] for place in places if place < count}
        try:
            tree.require(right)
        except VerificationError:
            assert changed is not None
        with pytest.raises(VerificationError):
            tree.require({**right, fake: _FAKE})


def test_a_leaf_beside_a_verified_one_is_verified_too() -> None:
    """Attack: the other of the pair was asked for before, so nobody climbs from there."""
    for first, second in ((4, 5), (5, 4)):
        tree, leaves = _tree(11)
        tree.require({first: leaves[first]})
        with pytest.raises(VerificationError):
            tree.require({first: leaves[first], second: _FAKE})


@pytest.mark.parametrize("place", [-1, -2, 11, 12, 2**40])
def test_a_place_outside_the_log_is_refused(place: int) -> None:
    """By its number, whatever is said to stand there."""
    tree, leaves = _tree(11)
    with pytest.raises(VerificationError, match="record"):
        tree.require({0: leaves[0], place: leaves[0]})


@given(st.integers(1, 41), st.integers(0, 41), st.none() | st.integers(0, 100))
def test_an_earlier_root_is_verified_or_refused(count: int, size: int, changed: int | None) -> None:
    """For all sizes: what is returned is the root over the first leaves."""
    tree, leaves = _tree(count, changed)
    try:
        found = tree.root_at(size)
    except VerificationError:
        assert changed is not None or size > count
    else:
        assert found == root_of(leaves[:size])
        assert size <= count


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 13, 64, 100])
def test_each_leaf_has_the_path_of_the_rfc(size: int) -> None:
    """The paths of a stored tree are those computed from all leaves, and lead to the root."""
    tree, leaves = _tree(size)
    found = tree.paths(range(size))
    assert found == {place: audit_path(leaves, place) for place in range(size)}
    for place, path in found.items():
        assert verify_audit_path(leaves[place], place, size, path, root_of(leaves))
