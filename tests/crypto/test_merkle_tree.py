"""The Merkle tree: the shape of RFC 6962, and proofs for one position of one tree."""

from hashlib import sha256

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from satchel.crypto.log import (
    Frontier,
    VerifiedTree,
    append_leaves,
    audit_path,
    consistency_path,
    leaf_hash,
    node_hash,
    root_of,
    verify_audit_path,
    verify_consistency_path,
)
from satchel.errors import VerificationError

LEAVES = [leaf_hash(b"%d" % number) for number in range(140)]


def root_by_rfc(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962, section 2.1, defines it, with BLAKE3."""
    if not leaves:
        return blake3(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return blake3(b"\x01" + root_by_rfc(leaves[:split]) + root_by_rfc(leaves[split:])).digest()


ROOTS = [root_by_rfc(LEAVES[:size]) for size in range(len(LEAVES))]


def test_leaves_and_nodes_have_different_hashes() -> None:
    """The prefixes keep an inner node from being passed off as a record."""
    assert leaf_hash(b"x") == blake3(b"\x00x").digest()
    assert node_hash(LEAVES[0], LEAVES[1]) == blake3(b"\x01" + LEAVES[0] + LEAVES[1]).digest()
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])


@pytest.mark.in_check(47)
@pytest.mark.parametrize("size", range(140))
def test_every_root_and_proof_of_every_small_tree_is_valid(size: int) -> None:
    """For all sizes below 140: root, frontier, each audit path, each consistency proof."""
    leaves, root = LEAVES[:size], ROOTS[size]
    assert root_of(leaves) == root
    for index in range(size):
        path = audit_path(leaves, index)
        assert verify_audit_path(leaves[index], index, size, path, root)
        assert len(path) <= max(size - 1, 0).bit_length()
    for first in range(1, size + 1):
        path = consistency_path(leaves, first)
        assert verify_consistency_path(first, ROOTS[first], size, root, path)


@pytest.mark.parametrize("size", [*range(1, 18), 31, 32, 33, 64, 65, 100])
def test_an_altered_audit_path_is_invalid(size: int) -> None:
    """Another leaf, index, size, root, or any change of the path."""
    leaves, root = LEAVES[:size], ROOTS[size]
    zero = bytes(32)
    for index in range(0, size, max(1, size // 9)):
        leaf, path = leaves[index], audit_path(leaves, index)
        assert not verify_audit_path(zero, index, size, path, root)
        assert not verify_audit_path(leaf, index, size, path, zero)
        for other in {index - 1, index + 1, -1, size, size + 1, 2**64, index + size} - {index}:
            assert not verify_audit_path(leaf, other, size, path, root)
        for other in (0, -1, 2 * size, size << 64):
            assert not verify_audit_path(leaf, index, other, path, root)
        altered = [path[:-1], path[1:], [*path, zero], [zero, *path], [*path, root], path[::-1]]
        altered += [[*path[:i], zero, *path[i + 1 :]] for i in range(len(path))]
        altered += [
            [*path[:i], bytes([path[i][0] ^ 1]) + path[i][1:], *path[i + 1 :]]
            for i in range(len(path))
        ]
        for wrong in altered:
            if wrong != path:
                assert not verify_audit_path(leaf, index, size, wrong, root)


def test_an_audit_path_is_valid_only_for_its_own_size() -> None:
    """Where two sizes give a leaf the same siblings the root differs."""
    for size in range(1, 40):
        path = audit_path(LEAVES[:size], 0)
        for other in range(1, 40):
            holds = verify_audit_path(LEAVES[0], 0, other, path, ROOTS[other])
            assert holds == (other == size)


@pytest.mark.parametrize("second", [*range(2, 18), 33, 64, 65])
def test_an_altered_consistency_proof_is_invalid(second: int) -> None:
    """A rewritten log has no consistency proof."""
    zero = bytes(32)
    for first in range(1, second):
        path = consistency_path(LEAVES[:second], first)
        old, new = ROOTS[first], ROOTS[second]
        assert not verify_consistency_path(first, zero, second, new, path)
        assert not verify_consistency_path(first, old, second, zero, path)
        assert not verify_consistency_path(second, new, first, old, path)
        assert not verify_consistency_path(0, ROOTS[0], second, new, path)
        assert not verify_consistency_path(-1, old, second, new, path)
        for other in {first - 1, first + 1} - {0}:
            assert not verify_consistency_path(other, old, second, new, path)
        altered = [path[:-1], path[1:], [*path, zero], [zero, *path], []]
        altered += [[*path[:i], zero, *path[i + 1 :]] for i in range(len(path))]
        for wrong in altered:
            if wrong != path:
                assert not verify_consistency_path(first, old, second, new, wrong)


def test_a_log_is_consistent_with_itself_with_an_empty_proof() -> None:
    """The same size and root need no steps, and accept none."""
    assert verify_consistency_path(5, ROOTS[5], 5, ROOTS[5], [])
    assert not verify_consistency_path(5, ROOTS[5], 5, ROOTS[5], [bytes(32)])
    assert not verify_consistency_path(5, ROOTS[5], 5, ROOTS[6], [])
    assert not verify_consistency_path(0, ROOTS[0], 0, ROOTS[0], [])


@given(st.lists(st.binary(max_size=4), max_size=80), st.data())
def test_every_rewritten_history_fails_its_consistency_proof(
    contents: list[bytes], data: st.DataObject
) -> None:
    """For all logs: after an old leaf is changed, no honest proof is valid."""
    leaves = [leaf_hash(content) for content in contents]
    if len(leaves) < 2:
        return
    first = data.draw(st.integers(1, len(leaves)))
    place = data.draw(st.integers(0, first - 1))
    forged = [*leaves[:place], leaf_hash(b"forged"), *leaves[place + 1 :]]
    path = consistency_path(forged, first)
    assert verify_consistency_path(
        first, root_of(forged[:first]), len(forged), root_of(forged), path
    )
    assert not verify_consistency_path(
        first, root_of(leaves[:first]), len(leaves), root_of(forged), path
    )


def test_a_frontier_has_the_root_of_the_tree_at_every_size() -> None:
    """Also after it was stored and loaded."""
    frontier = Frontier()
    for size, leaf in enumerate(LEAVES[:-1]):
        assert frontier.root == ROOTS[size]
        assert len(frontier.peaks) == size.bit_count()
        frontier = Frontier(frontier.size, frontier.peaks)
        frontier.append(leaf)
    assert frontier.size == len(LEAVES) - 1


@pytest.mark.parametrize(("size", "peaks"), [(0, 1), (1, 0), (3, 1), (4, 2), (7, 2)])
def test_a_frontier_with_the_wrong_number_of_peaks_is_refused(size: int, peaks: int) -> None:
    """There is one peak for each set bit of the size."""
    with pytest.raises(ValueError, match="peak"):
        Frontier(size, [bytes(32)] * peaks)


def test_a_path_for_a_missing_leaf_raises_an_index_error() -> None:
    """It is a mistake of the program."""
    for index in (-1, 3):
        with pytest.raises(IndexError):
            audit_path(LEAVES[:3], index)
    for first in (0, 4, -1):
        with pytest.raises(IndexError):
            consistency_path(LEAVES[:3], first)


@given(st.integers(), st.integers(), st.lists(st.binary(min_size=32, max_size=32), max_size=70))
def test_hostile_numbers_are_invalid_and_raise_nothing(
    index: int, size: int, path: list[bytes]
) -> None:
    """For all numbers and paths the answer is an immediate no."""
    leaf, root = sha256(b"leaf").digest(), sha256(b"root").digest()
    assert not verify_audit_path(leaf, index, size, path, root)
    assert not verify_consistency_path(index, leaf, size, root, path) or size == index
    assert not verify_audit_path(leaf, 2**200, 2**200 + 1, path, root)


_FAKE = b"\xff" * 32


def _stored_leaves(count: int) -> list[bytes]:
    return [blake3(bytes([number])).digest() for number in range(count)]


def _stored_tree(count: int, changed: int | None = None) -> tuple[VerifiedTree, list[bytes]]:
    """Return a tree over stored nodes, one of which may be changed."""
    leaves, frontier = _stored_leaves(count), Frontier()
    nodes = append_leaves(frontier, leaves)
    if changed is not None:
        nodes[changed % len(nodes)] = _FAKE
    kept = dict(enumerate(nodes))
    tree = VerifiedTree(frontier, lambda places: {p: kept[p] for p in places if p in kept})
    return tree, leaves


_ASKED = st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=12), min_size=1, max_size=5)


@given(st.integers(1, 41), _ASKED, st.integers(0, 40), st.none() | st.integers(0, 100))
def test_a_verified_tree_accepts_no_wrong_leaf(
    count: int, asked: list[set[int]], fake: int, changed: int | None
) -> None:
    """For all sizes, orders of requests and damaged nodes; correct leaves may be refused."""
    tree, leaves = _stored_tree(count, changed)
    for places in asked:
        right = {place: leaves[place] for place in places if place < count}
        try:
            tree.require(right)
        except VerificationError:
            assert changed is not None
        with pytest.raises(VerificationError):
            tree.require({**right, fake: _FAKE})


def test_attack_a_leaf_next_to_a_verified_leaf_is_verified_too() -> None:
    """The sibling was requested first, so no path leads up from the second."""
    for first, second in ((4, 5), (5, 4)):
        tree, leaves = _stored_tree(11)
        tree.require({first: leaves[first]})
        with pytest.raises(VerificationError):
            tree.require({first: leaves[first], second: _FAKE})


@pytest.mark.parametrize("place", [-1, -2, 11, 12, 2**40])
def test_a_position_outside_the_log_is_refused(place: int) -> None:
    """By its number, whatever leaf is claimed for it."""
    tree, leaves = _stored_tree(11)
    with pytest.raises(VerificationError, match="record"):
        tree.require({0: leaves[0], place: leaves[0]})


@given(st.integers(1, 41), st.integers(0, 41), st.none() | st.integers(0, 100))
def test_an_earlier_root_is_verified_or_refused(count: int, size: int, changed: int | None) -> None:
    """For all sizes: the result is the root over the first leaves."""
    tree, leaves = _stored_tree(count, changed)
    try:
        found = tree.root_at(size)
    except VerificationError:
        assert changed is not None or size > count
    else:
        assert found == root_of(leaves[:size])
        assert size <= count


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 13, 64, 100])
def test_stored_trees_have_the_audit_paths_of_rfc_6962(size: int) -> None:
    """They equal the paths computed from all leaves, and lead to the root."""
    tree, leaves = _stored_tree(size)
    found = tree.paths(range(size))
    assert found == {place: audit_path(leaves, place) for place in range(size)}
    for place, path in found.items():
        assert verify_audit_path(leaves[place], place, size, path, root_of(leaves))
