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
    nodes, size, peaks = [], frontier.size, frontier.peaks
    for leaf in leaves:
        node, left = leaf, size
        nodes.append(leaf)
        while left & 1:
            node = node_hash(peaks.pop(), node)
            nodes.append(node)
            left >>= 1
        peaks.append(node)
        size += 1
    frontier.size = size
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
        self._peaks = dict(zip(peaks_of(frontier.size), frontier.peaks, strict=True))
        self._proved: dict[Node, bytes] = dict(self._peaks)

    def require(self, leaves: dict[int, bytes]) -> None:
        """Require that leaves are in the tree at the places given.

        Args:
            leaves: Leaf hashes by their place in the log.

        Raises:
            VerificationError: If one is not, naming the first place.
        """
        if self._hold({(0, place): leaf for place, leaf in leaves.items()}):
            return
        for place, leaf in sorted(leaves.items()):
            if not self._hold({(0, place): leaf}):
                raise VerificationError(
                    f"record {place} is not the record logged at this position",
                    hint="The store was changed by another program. See: satchel doctor.",
                )

    def root_at(self, size: int) -> bytes:
        """Return the root that the log had when it had ``size`` leaves.

        Raises:
            VerificationError: If the stored nodes do not prove it.
        """
        nodes = peaks_of(size)
        stored = self.fetch([position(node) for node in nodes])
        peaks = {node: self._proved.get(node) or stored.get(position(node), b"") for node in nodes}
        if not self._hold(peaks):
            raise VerificationError(f"the log's first {size} records cannot be verified")
        return Frontier(size, peaks.values()).root

    def paths(self, places: Sequence[int]) -> dict[int, list[bytes]]:
        """Return the audit path of each leaf; whoever hands one out checks it first.

        Args:
            places: Places of the log, each below the size.

        Raises:
            VerificationError: If a node is missing.
        """
        ways = {place: self._way(place) for place in places}
        wanted = {position(node) for below, _ in ways.values() for node in below}
        stored = self.fetch(sorted(wanted)) if wanted else {}
        found = dict[int, list[bytes]]()
        for place, (below, beside) in ways.items():
            nodes = [stored.get(position(node)) for node in below]
            if None in nodes:
                raise VerificationError(f"the proof of record {place} is missing")
            found[place] = [node for node in nodes if node is not None] + beside
        return found

    def _way(self, place: int) -> tuple[list[Node], list[bytes]]:
        """Return the nodes beside the way from a leaf to its peak, and what is beside that."""
        peaks = peaks_of(self.size)
        own = next(n for n, (height, i) in enumerate(peaks) if place >> height == i)
        below = [(height, place >> height ^ 1) for height in range(peaks[own][0])]
        after = [self._peaks[peak] for peak in peaks[own + 1 :]]
        beside = []
        if after:
            node = after.pop()
            while after:
                node = node_hash(after.pop(), node)
            beside.append(node)
        return below, beside + [self._peaks[peak] for peak in reversed(peaks[:own])]

    def _hold(self, given: dict[Node, bytes]) -> bool:
        """Tell whether all of some nodes are in the tree; then they are proved from now on.

        Height by height, so that the store is asked once, and only for what is beside them.
        """
        if len(self._proved) > _MOST_KEPT:
            self._proved = dict(self._peaks)
        found = [dict[int, bytes]() for _ in range(self.size.bit_length() + 1)]
        for (height, index), node in given.items():
            if height >= len(found):
                return False
            found[height][index] = node
        stored = self._beside(found)
        fresh = list[tuple[Node, bytes]]()
        for height, level in enumerate(found):
            for index, node in level.items():
                known = self._proved.get((height, index))
                if known is None:
                    fresh.append(((height, index), node))
                    if not self._climb(found, height, index, stored, fresh):
                        return False
                elif known != node:
                    return False
        self._proved.update(fresh)
        return True

    def _climb(
        self,
        found: list[dict[int, bytes]],
        height: int,
        index: int,
        stored: dict[int, bytes],
        fresh: list[tuple[Node, bytes]],
    ) -> bool:
        """Put the node above one that is not proved yet to what is found."""
        level, beside = found[height], index ^ 1
        if height + 1 == len(found):
            return False
        node, other = level[index], self._proved.get((height, beside))
        if other is None and beside in level:
            if index & 1:
                return True  # the other of the pair does it
            other = level[beside]
        elif other is None:
            other = stored.get(position((height, beside)))
            if other is None:
                return False
            fresh.append(((height, beside), other))
        above = node_hash(other, node) if index & 1 else node_hash(node, other)
        return found[height + 1].setdefault(index >> 1, above) == above

    def _beside(self, found: list[dict[int, bytes]]) -> dict[int, bytes]:
        """Fetch what stands beside the ways up from what is found to what is proved."""
        wanted, here = list[int](), set[int]()
        for height, level in enumerate(found):
            here |= level.keys()
            here = {index for index in here if (height, index) not in self._proved}
            wanted += [
                position((height, index ^ 1))
                for index in here
                if index ^ 1 not in here and (height, index ^ 1) not in self._proved
            ]
            here = {index >> 1 for index in here}
        return self.fetch(sorted(wanted)) if wanted else {}
