"""Profile ``pam-sdk-1.0``: ids, root and signature as the published SDK computes them.

These are not our canonical bytes: members are hashed as CPython's ``json`` prints them, so 1.0 is
not 1 and every character beyond ASCII is escaped. Source: docs/spec/4-verification.md, 4.6.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError
from typing import Any

from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.seal.records import digest
from satchel.seal.signing.did import check_point
from satchel.seal.signing.key import SigningKey

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def sdk_text(value: Any) -> str:
    """Return the text that the SDK hashes; equal texts are equal values to it.

    Raises:
        ValueError: If a number is not finite.
    """
    return _encode(value)


def content_text(entry: Mapping[str, Any]) -> str:
    """Return what an entry's id covers: every member but the id."""
    return sdk_text({member: part for member, part in entry.items() if member != "id"})


def entry_id(entry: Mapping[str, Any]) -> str:
    """Return the id of an entry, whatever id it claims."""
    return digest(content_text(entry).encode())


def root_hash(ids: Iterable[str]) -> str:
    """Return the root: a hash of the sorted list of ids, and of nothing else."""
    return digest(sdk_text(sorted(ids)).encode())


def sign_root(root: str, key: SigningKey) -> str:
    """Return the signature over a root, 128 hexadecimal digits.

    The message starts with ``blake3:``, never with ``DSSEv1``, so it is none of ours.
    """
    return key.sign(root.encode()).hex()


def signature_holds(root: str, signature: str, public: bytes) -> bool:
    """Tell whether ``public`` made the signature.

    Args:
        root: The text that was signed.
        signature: 128 hexadecimal digits.
        public: A public key, 32 bytes.

    Raises:
        MalformedError: If the key is not a point that may sign.
    """
    check_point(public)
    try:
        bindings.crypto_sign_open(bytes.fromhex(signature) + root.encode(), public)
    except BadSignatureError:
        return False
    return True


def parents_first(edges: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each key after the keys it points to, else in the mapping's order; iterative.

    Args:
        edges: What each id points to; ids that are no key are passed over.

    Raises:
        CycleError: If an id leads back to itself; its second argument is that id.
    """
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        path = [(start, iter(edges[start]))]
        on_path = {start}
        while path:
            current, rest = path[-1]
            step = next((found for found in rest if found in edges and found not in done), None)
            if step is None:
                path.pop()
                on_path.discard(current)
                done.add(current)
                yield current
            elif step in on_path:
                raise CycleError("an entry is its own ancestor", step)
            else:
                on_path.add(step)
                path.append((step, iter(edges[step])))
