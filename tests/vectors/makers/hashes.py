"""BLAKE3 of byte patterns around every block, chunk and subtree border."""

from pathlib import Path

from makers.common import digest, write_json

LENGTHS = [0, 1, 2, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 3073]
LENGTHS += [4096, 4097, 5120, 5121, 7168, 7169, 8192, 8193, 16384, 16385, 31744, 100_000]


def pattern(length: int) -> bytes:
    """Return bytes 0, 1, ... 250, 0, 1, ...: the period shares no factor with a block."""
    return bytes(index % 251 for index in range(length))


def write(folder: Path) -> list[Path]:
    """Write ``blake3.json``."""
    cases = [
        {
            "name": f"bytes counting modulo 251, {length} long",
            "length": length,
            "hash": digest(pattern(length)).hex(),
        }
        for length in LENGTHS
    ]
    return [write_json(folder / "blake3.json", {"cases": cases})]
