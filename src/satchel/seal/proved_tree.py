"""A log's tree as a store keeps it: nodes at positions, believed only once they are proved.

A node of a perfect subtree is written once, when its last leaf arrives, at its place in post-order
(the leaf, then every parent it completes), so nodes are appended and never rewritten. A reader
starts from the peaks, which the signed head vouches for, and proves downwards: two children that
hash to a proved parent are proved themselves. Source: docs/spec/5-log.md.
"""

from collections.abc import Callable, Iterable, Sequence

from satchel.errors import VerificationError
from satchel.seal.tree import Frontier, node_hash

Node = tuple[int, int]
"""A perfect subtree: its height, and its index among those of that height."""

Fetch = Callable[[Sequence[int]], dict[int, bytes]]
"""Gives the hashes stored at positions; those it does not have are left out."""

_MOST_KEPT = 1 << 16


def position(node: Node) -> int:
    """Return where a node stands in the post-order of the whole tree."""
    height, index = node
    return leaf_position(((index + 1) << height) - 1) + height


def leaf_position(place: int) -> int:
    """Return where a leaf stands in the post-order; also how many nodes come before it."""
    return 2 * place - place.bit_count()


def peaks_of(size: int) -> list[Node]:
    """Return the perfect subtrees that a tree of ``size`` leaves is made of, largest first."""
    found, start = [], 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            found.append((height, start >> height))
            start += 1 << height
    return found


def grown(frontier: Frontier, leaves: Iterable[bytes]) -> list[bytes]:
    """Append leaf hashes to a frontier and return the nodes to store, in the order of positions."""
    nodes = []
    for leaf in leaves:
        node, size = leaf, frontier.size
        nodes.append(leaf)
        for peak in reversed(frontier.peaks):
            if not size & 1:
                break
            node = node_hash(peak, node)
            nodes.append(node)
            size >>= 1
        frontier.append(leaf)
    return nodes


class ProvedTree:
    """The tree under one head; every node that it answers with is proved by the head's peaks.

    Args:
        frontier: The size and peaks that the head's root was computed from.
        fetch: Where stored nodes come from; nothing it says is believed unproved. May be
            replaced, by another view of the same store.
    """

    def __init__(self, frontier: Frontier, fetch: Fetch) -> None:
        self.size = frontier.size
        self.fetch = fetch
        self._loaded: dict[int, bytes] = {}
        self._peaks = dict(zip(peaks_of(frontier.size), frontier.peaks, strict=True))
        self._proved: dict[Node, bytes] = dict(self._peaks)

    def require(self, leaves: dict[int, bytes]) -> None:
        """Require that leaves are in the tree at the places given.

        Args:
            leaves: Leaf hashes by their place in the log.

        Raises:
            VerificationError: If one is not, naming the first place.
        """
        self._load({(0, place) for place in leaves})
        for place, leaf in sorted(leaves.items()):
            if not 0 <= place < self.size or not self._holds((0, place), leaf):
                raise VerificationError(
                    f"record {place} is not the one that was logged there",
                    hint="The store was changed from outside. See: satchel doctor.",
                )

    def root_at(self, size: int) -> bytes:
        """Return the root that the log had when it had ``size`` leaves.

        Raises:
            VerificationError: If the stored nodes do not prove it.
        """
        nodes = peaks_of(size)
        self._load(set(nodes))
        stored = self.fetch([position(node) for node in nodes])
        peaks = []
        for node in nodes:
            found = self._proved.get(node) or stored.get(position(node))
            if found is None or not self._holds(node, found):
                raise VerificationError(f"the log's first {size} records cannot be proved")
            peaks.append(found)
        return Frontier(size, peaks).root

    def _holds(self, node: Node, found: bytes) -> bool:
        """Tell whether a node's hash is ``found``, by what is loaded already."""
        known = self._proved.get(node)
        if known is not None:
            return known == found
        climbed = [(node, found)]
        while node not in self._proved:
            sibling = (node[0], node[1] ^ 1)
            beside = self._proved.get(sibling) or self._loaded.get(position(sibling))
            if beside is None:
                return False
            climbed.append((sibling, beside))
            left, right = (beside, found) if node[1] & 1 else (found, beside)
            node, found = (node[0] + 1, node[1] >> 1), node_hash(left, right)
            climbed.append((node, found))
        if self._proved[node] != found:
            return False
        self._proved.update(climbed)
        return True

    def _load(self, nodes: set[Node]) -> None:
        """Fetch in one go the siblings on the ways from nodes up to what is proved."""
        if len(self._proved) > _MOST_KEPT:
            self._proved = dict(self._peaks)
        wanted = set()
        for node in nodes:
            while node not in self._proved and node[0] < self.size.bit_length():
                sibling = (node[0], node[1] ^ 1)
                if sibling not in self._proved:
                    wanted.add(position(sibling))
                node = (node[0] + 1, node[1] >> 1)  # noqa: PLW2901 - climbs
        self._loaded = self.fetch(sorted(wanted)) if wanted else {}
