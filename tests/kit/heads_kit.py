"""Signed heads of banks that need not exist."""

from typing import Any

from blake3 import blake3

from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Head, sign_head

KEY = SigningKey.from_seed(bytes(range(32)))
BANK, OTHER = "blake3:" + "11" * 32, "blake3:" + "22" * 32


def root_at(size: int, branch: str = "") -> str:
    """Return a root that differs with the size and the branch."""
    return f"blake3:{blake3(f'{branch}{size}'.encode()).hexdigest()}"


def signed(size: int, epoch: int = 0, *, branch: str = "", **members: Any) -> dict[str, Any]:
    """Return a signed head."""
    fields: dict[str, Any] = {
        "v": 1,
        "bank": BANK,
        "epoch": epoch,
        "size": size,
        "root": root_at(size, branch),
        "counts": {"bank": 1, "semantic": size - 1},
        "at": "2025-03-04T05:06:07.000000Z",
        "key": KEY.did,
    }
    return sign_head(Head(**fields | members), KEY)
