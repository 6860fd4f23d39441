"""The log's tree: leaves, roots, audit paths and consistency proofs, straight from RFC 6962."""

from pathlib import Path
from typing import Any

from makers.common import TIME, digest, hash_text, jcs, write_json

SIZES = [*range(21), 33, 64, 65]
TYPES = ["episodic", "semantic", "status", "edge", "file_version"]


def leaf_input(number: int, bank: str) -> list[Any]:
    """Return what leaf ``number`` commits to; leaf 0 is the bank itself."""
    if number == 0:
        return [bank, 0, "bank", bank, TIME]
    record = hash_text(b"record %d" % number)
    return [
        bank,
        number,
        TYPES[number % len(TYPES)],
        record,
        TIME[:17] + f"{number % 60:02}.000000Z",
    ]


def leaf_hash(values: list[Any]) -> bytes:
    """Return the hash of one leaf."""
    return digest(b"\x00" + jcs(values))


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return digest(b"\x01" + left + right)


def split(size: int) -> int:
    """Return the largest power of two smaller than ``size``."""
    return 1 << (size - 1).bit_length() - 1


def root(leaves: list[bytes]) -> bytes:
    """Return the root (RFC 6962, 2.1)."""
    if not leaves:
        return digest(b"")
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node_hash(root(leaves[:k]), root(leaves[k:]))


def audit_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """Return the path from a leaf to the root (RFC 6962, 2.1.1)."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*audit_path(index, leaves[:k]), root(leaves[k:])]
    return [*audit_path(index - k, leaves[k:]), root(leaves[:k])]


def consistency(old: int, leaves: list[bytes], *, known: bool = True) -> list[bytes]:
    """Return the proof that the first ``old`` leaves are a prefix (RFC 6962, 2.1.2)."""
    if old == len(leaves):
        return [] if known else [root(leaves)]
    k = split(len(leaves))
    if old <= k:
        return [*consistency(old, leaves[:k], known=known), root(leaves[k:])]
    return [*consistency(old - k, leaves[k:], known=False), root(leaves[:k])]


def hexes(hashes: list[bytes]) -> list[str]:
    """Return hashes as bare hex, the form of a path in a file."""
    return [item.hex() for item in hashes]


def audit_cases(leaves: list[bytes]) -> list[dict[str, Any]]:
    """Return every path of the small trees and the interesting ones of the large."""
    pairs = [(size, index) for size in range(1, 12) for index in range(size)]
    pairs += [(size, index) for size in (33, 64, 65) for index in (0, 1, 31, 32, size - 1)]
    return [
        {"size": size, "index": index, "path": hexes(audit_path(index, leaves[:size]))}
        for size, index in pairs
    ]


def consistency_cases(leaves: list[bytes]) -> list[dict[str, Any]]:
    """Return every pair of the small trees and the interesting ones of the large."""
    pairs = [(old, new) for new in range(1, 12) for old in range(1, new + 1)]
    pairs += [(1, 65), (31, 33), (32, 33), (33, 64), (32, 64), (64, 65), (63, 65), (65, 65)]
    return [
        {"old": old, "new": new, "proof": hexes(consistency(old, leaves[:new]))}
        for old, new in pairs
    ]


def wrong_audits(leaves: list[bytes]) -> list[dict[str, Any]]:
    """Return paths that must not be accepted, each with the leaf and the root it is held against.

    Where a root is that of another size the hashes do fit, and only the shape of the path is wrong.
    """
    path = audit_path(4, leaves[:7])
    zero = bytes(32)
    of_two, of_seven = root(leaves[:2]), root(leaves[:7])
    cases = [
        ("the path of another leaf", 7, 5, path, leaves[5], of_seven),
        ("the path held against another leaf", 7, 4, path, leaves[5], of_seven),
        ("the path in a tree of another size", 8, 4, path, leaves[4], root(leaves[:8])),
        ("a path without its last step", 7, 4, path[:-1], leaves[4], of_seven),
        ("a path with one step more", 7, 4, [*path, zero], leaves[4], of_seven),
        ("a path in reverse order", 7, 4, path[::-1], leaves[4], of_seven),
        ("a path with another hash", 7, 4, [zero, *path[1:]], leaves[4], of_seven),
        ("an index beyond the size", 7, 7, path, leaves[4], of_seven),
        ("an index beyond a tree of one", 1, 1, [], leaves[0], leaves[0]),
        ("an empty path in a tree of two", 2, 0, [], leaves[0], of_two),
        ("a tree without leaves", 0, 0, [], leaves[0], leaves[0]),
        ("a path that is too long for its size", 1, 0, [leaves[0]], leaves[1], of_two),
        ("a path that is too short for its size", 4, 0, [leaves[1]], leaves[0], of_two),
    ]
    return [
        {
            "name": name,
            "size": size,
            "index": index,
            "path": hexes(steps),
            "leaf": leaf.hex(),
            "root": against.hex(),
        }
        for name, size, index, steps, leaf, against in cases
    ]


def wrong_consistencies(leaves: list[bytes]) -> list[dict[str, Any]]:
    """Return proofs that must not be accepted, each with the roots it is held against."""

    def of(size: int) -> bytes:
        return root(leaves[:size])

    proof = consistency(6, leaves[:11])
    small = consistency(3, leaves[:4])
    zero = bytes(32)
    second_pair = root(leaves[2:4])
    cases = [
        ("the proof of another old size", 5, 11, proof, of(5), of(11)),
        ("the proof of another new size", 6, 10, proof, of(6), of(10)),
        ("a proof without its last step", 6, 11, proof[:-1], of(6), of(11)),
        ("a proof with one step more", 6, 11, [*proof, zero], of(6), of(11)),
        ("a proof with another hash", 6, 11, [zero, *proof[1:]], of(6), of(11)),
        ("an empty proof between two sizes", 6, 11, [], of(6), of(11)),
        ("an empty proof from a complete tree", 4, 5, [], of(4), of(5)),
        ("a proof between equal sizes", 6, 6, [zero], of(6), of(6)),
        ("equal sizes with two roots", 6, 6, [], of(6), of(5)),
        ("a log that shrinks", 11, 6, proof, of(11), of(6)),
        ("another old root", 3, 4, small, zero, of(4)),
        ("another new root", 3, 4, small, of(3), zero),
        ("a proof that is too short for its size", 2, 8, [second_pair], of(2), of(4)),
        (
            "a proof that is too long for its size",
            3,
            4,
            [*small, zero],
            node_hash(zero, of(3)),
            node_hash(zero, of(4)),
        ),
    ]
    return [
        {
            "name": name,
            "old": old,
            "new": new,
            "proof": hexes(steps),
            "old_root": old_root.hex(),
            "new_root": new_root.hex(),
        }
        for name, old, new, steps, old_root, new_root in cases
    ]


def write(folder: Path) -> list[Path]:
    """Write ``tree.json``."""
    bank = hash_text(b"bank of the tree vectors")
    inputs = [leaf_input(number, bank) for number in range(max(SIZES))]
    leaves = [leaf_hash(values) for values in inputs]
    value = {
        "leaves": [
            {"input": values, "hash": leaf.hex()}
            for values, leaf in zip(inputs, leaves, strict=True)
        ],
        "roots": [{"size": size, "root": "blake3:" + root(leaves[:size]).hex()} for size in SIZES],
        "audit": audit_cases(leaves),
        "consistency": consistency_cases(leaves),
        "wrong_audit": wrong_audits(leaves),
        "wrong_consistency": wrong_consistencies(leaves),
    }
    return [write_json(folder / "tree.json", value)]
