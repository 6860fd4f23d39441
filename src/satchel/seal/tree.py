"""The Merkle tree of RFC 6962, over BLAKE3-256.

Leaves are already hashed with the leaf prefix; see ``satchel.seal.log`` for what is in one.
"""

from collections.abc import Iterable, Sequence

from blake3 import blake3

_LEAF, _NODE = b"\0", b"\1"


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf's content."""
    return blake3(_LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return blake3(_NODE + left + right).digest()


class Frontier:
    """The roots of the perfect subtrees of a tree that only grows: O(log n) state.

    Args:
        size: Leaves so far.
        peaks: The subtree roots, largest first; one for each set bit of ``size``.
    """

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError("a frontier must have one peak for each set bit of its size")

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        size, node = self.size, leaf
        while size & 1:
            node = node_hash(self.peaks.pop(), node)
            size >>= 1
        self.peaks.append(node)
        self.size += 1

    @property
    def root(self) -> bytes:
        """The root over all leaves so far; of an empty tree the hash of nothing."""
        if not self.peaks:
            return blake3(b"").digest()
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = node_hash(peak, node)
        return node


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root


def audit_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the sibling hashes from leaf ``index`` up to the root."""
    if not 0 <= index < len(leaves):
        raise IndexError(index)
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*audit_path(leaves[:split], index), root_of(leaves[split:])]
    return [*audit_path(leaves[split:], index - split), root_of(leaves[:split])]


def consistency_path(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """Return the proof that the tree of the first ``first`` leaves is a prefix of all of them."""
    if not 0 < first <= len(leaves):
        raise IndexError(first)
    return _consistency(leaves, first, whole=True)


def _consistency(leaves: Sequence[bytes], first: int, *, whole: bool) -> list[bytes]:
    if first == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = _split(len(leaves))
    if first <= split:
        return [*_consistency(leaves[:split], first, whole=whole), root_of(leaves[split:])]
    return [
        *_consistency(leaves[split:], first - split, whole=False),
        root_of(leaves[:split]),
    ]


def _split(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


def audit_holds(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Tell whether ``path`` proves that ``leaf`` is at ``index`` of the tree with ``root``.

    Source: RFC 9162, section 2.1.3.2. Never raises on hostile numbers.
    """
    if not 0 <= index < size:
        return False
    position, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while position and not position & 1:
                position >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        position >>= 1
        last >>= 1
    return last == 0 and node == root


def consistency_holds(
    first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """Tell whether ``path`` proves that the first tree is a prefix of the second.

    Source: RFC 9162, section 2.1.4.2.
    """
    if not 0 < first <= second:
        return False
    if first == second:
        return not path and first_root == second_root
    nodes = list(path) if first & (first - 1) else [first_root, *path]
    if not nodes:
        return False
    position, last = first - 1, second - 1
    while position & 1:
        position >>= 1
        last >>= 1
    old = new = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            old, new = node_hash(node, old), node_hash(node, new)
            while position and not position & 1:
                position >>= 1
                last >>= 1
        else:
            new = node_hash(new, node)
        position >>= 1
        last >>= 1
    return last == 0 and old == first_root and new == second_root
