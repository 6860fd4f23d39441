"""The log of a bank: its Merkle tree (RFC 6962, over BLAKE3-256), leaves and signed heads.

A leaf covers bank, position, type, ID and time of a record; a head covers the size and root of the
tree. Source: docs/spec/5-log.md.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, cast

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.crypto.canonical import canonical, encode_sorted, has_plain_layout
from satchel.crypto.keys import (
    PayloadType,
    Signature,
    SignatureCheck,
    SigningKey,
    check,
    parse_signatures,
    signature_of,
)
from satchel.errors import MalformedError, VerificationError
from satchel.model.values import ID_PREFIX, Id, Time, is_canonical_time, resolved

_LEAF, _NODE = b"\0", b"\1"


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf's content."""
    return blake3(_LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return blake3(_NODE + left + right).digest()


class Frontier:
    """The roots of the perfect subtrees of a growing tree: O(log n) state.

    Args:
        size: Number of leaves.
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
        """The root over all leaves; for an empty tree the hash of nothing."""
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
    """Return the proof that the tree of the first ``first`` leaves is a prefix of the tree."""
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


def verify_audit_path(
    leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> bool:
    """Return whether ``path`` shows that ``leaf`` is at ``index`` of the tree with ``root``.

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


def verify_consistency_path(
    first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """Return whether ``path`` shows that the first tree is a prefix of the second.

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


Node = tuple[int, int]
"""A perfect subtree: its height, and its index among those of that height."""

Fetch = Callable[[Sequence[int]], dict[int, bytes]]
"""Returns the hashes stored at positions; missing ones are omitted."""

_MOST_KEPT = 1 << 16


def position(node: Node) -> int:
    """Return the position of a node in the post-order of the whole tree."""
    height, index = node
    return leaf_position(((index + 1) << height) - 1) + height


def leaf_position(index: int) -> int:
    """Return the position of a leaf in the post-order, which is the number of nodes before it."""
    return 2 * index - index.bit_count()


def peaks_of(size: int) -> list[Node]:
    """Return the perfect subtrees that form a tree of ``size`` leaves, largest first."""
    peaks, start = [], 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            peaks.append((height, start >> height))
            start += 1 << height
    return peaks


def append_leaves(frontier: Frontier, leaves: Iterable[bytes]) -> list[bytes]:
    """Append leaf hashes to a frontier and return the nodes to store, in order of positions."""
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


class VerifiedTree:
    """The tree of one head; every node that it returns is verified by the head's peaks.

    Args:
        frontier: The size and peaks that the head's root was computed from.
        fetch: Returns stored nodes, which are verified. May be replaced by another view of the same
            store.
    """

    def __init__(self, frontier: Frontier, fetch: Fetch) -> None:
        self.size = frontier.size
        self.fetch = fetch
        self._peaks = dict(zip(peaks_of(frontier.size), frontier.peaks, strict=True))
        self._proved: dict[Node, bytes] = dict(self._peaks)

    def require(self, leaves: dict[int, bytes]) -> None:
        """Require that leaves are in the tree at their log positions.

        Args:
            leaves: Leaf hashes by log position.

        Raises:
            VerificationError: If one is not, naming the first position.
        """
        if self._verify_nodes({(0, index): leaf for index, leaf in leaves.items()}):
            return
        for index, leaf in sorted(leaves.items()):
            if not self._verify_nodes({(0, index): leaf}):
                raise VerificationError(
                    f"record {index} is not the record logged at this position",
                    hint="The store was changed by another program. See: satchel doctor.",
                )

    def root_id(self, size: int) -> str:
        """Return the root of the log when it had ``size`` leaves, as heads name it.

        Raises:
            VerificationError: As ``root_at``.
        """
        return ID_PREFIX + self.root_at(size).hex()

    def root_at(self, size: int) -> bytes:
        """Return the root of the log when it had ``size`` leaves.

        Raises:
            VerificationError: If the stored nodes do not lead to the head's root.
        """
        nodes = peaks_of(size)
        stored = self.fetch([position(node) for node in nodes])
        peaks = {node: self._proved.get(node) or stored.get(position(node), b"") for node in nodes}
        if not self._verify_nodes(peaks):
            raise VerificationError(f"the log's first {size} records cannot be verified")
        return Frontier(size, peaks.values()).root

    def paths(self, places: Sequence[int]) -> dict[int, list[bytes]]:
        """Return the audit path of each leaf; a caller that returns one verifies it first.

        Args:
            places: Log positions, each below the size.

        Raises:
            VerificationError: If a node is missing.
        """
        ways = {index: self._siblings(index) for index in places}
        wanted = {position(node) for below, _ in ways.values() for node in below}
        stored = self.fetch(sorted(wanted)) if wanted else {}
        paths = dict[int, list[bytes]]()
        for index, (below, beside) in ways.items():
            nodes = [stored.get(position(node)) for node in below]
            if None in nodes:
                raise VerificationError(f"the proof of record {index} is missing")
            paths[index] = [node for node in nodes if node is not None] + beside
        return paths

    def _siblings(self, index: int) -> tuple[list[Node], list[bytes]]:
        """Return the siblings on the way from a leaf to its peak, and the hashes after the peak."""
        peaks = peaks_of(self.size)
        own = next(n for n, (height, i) in enumerate(peaks) if index >> height == i)
        below = [(height, index >> height ^ 1) for height in range(peaks[own][0])]
        after = [self._peaks[peak] for peak in peaks[own + 1 :]]
        beside = []
        if after:
            node = after.pop()
            while after:
                node = node_hash(after.pop(), node)
            beside.append(node)
        return below, beside + [self._peaks[peak] for peak in reversed(peaks[:own])]

    def _verify_nodes(self, nodes: dict[Node, bytes]) -> bool:
        """Return whether all given nodes are in the tree; they then count as verified.

        It goes height by height, so that the store is read once, and only for siblings.
        """
        if len(self._proved) > _MOST_KEPT:
            self._proved = dict(self._peaks)
        levels = [dict[int, bytes]() for _ in range(self.size.bit_length() + 1)]
        for (height, index), node in nodes.items():
            if height >= len(levels):
                return False
            levels[height][index] = node
        stored = self._fetch_siblings(levels)
        fresh = list[tuple[Node, bytes]]()
        for height, level in enumerate(levels):
            for index, node in level.items():
                known = self._proved.get((height, index))
                if known is None:
                    fresh.append(((height, index), node))
                    if not self._add_parent(levels, height, index, stored, fresh):
                        return False
                elif known != node:
                    return False
        self._proved.update(fresh)
        return True

    def _add_parent(
        self,
        levels: list[dict[int, bytes]],
        height: int,
        index: int,
        stored: dict[int, bytes],
        fresh: list[tuple[Node, bytes]],
    ) -> bool:
        """Add the parent of an unverified node to ``levels``."""
        level, beside = levels[height], index ^ 1
        if height + 1 == len(levels):
            return False
        node, other = level[index], self._proved.get((height, beside))
        if other is None and beside in level:
            if index & 1:
                return True  # the other sibling adds it
            other = level[beside]
        elif other is None:
            other = stored.get(position((height, beside)))
            if other is None:
                return False
            fresh.append(((height, beside), other))
        above = node_hash(other, node) if index & 1 else node_hash(node, other)
        return levels[height + 1].setdefault(index >> 1, above) == above

    def _fetch_siblings(self, levels: list[dict[int, bytes]]) -> dict[int, bytes]:
        """Fetch the siblings on the ways from the found nodes to verified ones."""
        missing, here = list[int](), set[int]()
        for height, level in enumerate(levels):
            here |= level.keys()
            here = {index for index in here if (height, index) not in self._proved}
            missing += [
                position((height, index ^ 1))
                for index in here
                if index ^ 1 not in here and (height, index ^ 1) not in self._proved
            ]
            here = {index >> 1 for index in here}
        return self.fetch(sorted(missing)) if missing else {}


_Count = Annotated[int, Meta(ge=0)]
_HEAD_VERSION = 1
_MAX_PATH = 64


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed state of a log: its size and root."""

    v: int
    bank: Id
    epoch: _Count
    size: _Count
    root: Id
    counts: dict[str, _Count]
    at: Time
    key: str

    def __post_init__(self) -> None:
        if self.v != _HEAD_VERSION:
            raise ValueError(f"head version {self.v} is unknown")
        if not is_canonical_time(self.at):
            raise ValueError("`at` is not a time")
        if sum(self.counts.values()) != self.size:
            raise ValueError("the counts do not add up to the size")


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A head with its signature."""

    signed: Head
    signatures: list[Signature]


class LeafProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The proof that a record is at a log position."""

    id: Id
    seq: _Count
    type: str
    at: Time
    path: Annotated[
        list[Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", max_length=64)]],
        Meta(max_length=_MAX_PATH),
    ]

    def path_bytes(self) -> list[bytes]:
        """The sibling hashes."""
        return [bytes.fromhex(part) for part in self.path]

    def leaf(self, bank: str) -> bytes:
        """The leaf hash of the record in the log of ``bank``."""
        return record_leaf(bank, self.seq, self.type, self.id, self.at)


def record_leaf(bank: str, seq: int, record_type: str, identity: str, at: str) -> bytes:
    """Return the leaf hash of record ``seq`` of a bank's log."""
    # Texts and a small integer: sorted encoding is the canonical one.
    return leaf_hash(encode_sorted([bank, seq, record_type, identity, at]))


def sign_head(head: Head, key: SigningKey) -> dict[str, Any]:
    """Return a head and its signature as the JSON for a statement.

    Raises:
        ValueError: If the head names another key.
    """
    return cast("dict[str, Any]", msgspec.json.decode(signed_head(head, key)))


def signed_head(head: Head, key: SigningKey) -> bytes:
    """Return the canonical bytes of the result of ``sign_head``.

    Raises:
        ValueError: As ``sign_head``.
    """
    if head.key != key.did:
        raise ValueError("a head must be signed by the key it names")
    # Usually texts and small integers: then sorted encoding is the canonical one.
    payload = encode_sorted(head)
    if not has_plain_layout(payload):
        payload = canonical(msgspec.to_builtins(head))
    signature = signature_of(PayloadType.HEAD, payload, key)
    return b'{"signatures":[%b],"signed":%b}' % (encode_sorted(signature), payload)


def parse_head(value: Any) -> SignedHead:
    """Return the signed head in a statement.

    Raises:
        MalformedError: If it is not a signed head.
    """
    try:
        head = msgspec.convert(value, resolved(SignedHead))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a signed head: {error}", field="head") from None
    parse_signatures(value["signatures"], 1)
    return head


def check_head(value: dict[str, Any], head: SignedHead) -> SignatureCheck:
    """Verify that a head was signed by the key that it names.

    Args:
        value: The JSON that the head was parsed from.
        head: The head.
    """
    if len(head.signatures) != 1 or head.signatures[0].key != head.signed.key:
        return SignatureCheck(
            key=head.signed.key, valid=False, problem="not signed by the key it names"
        )
    return check(PayloadType.HEAD, value["signed"], head.signatures)[0]
