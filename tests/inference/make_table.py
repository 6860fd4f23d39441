"""Create the files of ``satchel/inference/static_table/data`` from the wheel with the table.

    python tests/inference/make_table.py wordllama-0.4.0.post1-*.whl FOLDER

Every number is a 16-bit float there. Here each row has a factor (a 32-bit float: its largest number
by 127) and 256 whole numbers of 8 bits. A second run changes no byte. Needs numpy.
"""

import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

_TABLE = "wordllama/weights/l2_supercat_256.safetensors"
_VOCABULARY = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_LICENSE = "wordllama-0.4.0.post1.dist-info/licenses/LICENSE"


def main(wheel: str, folder: str) -> None:
    """Write the three files."""
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(_TABLE)
        vocabulary = json.loads(archive.read(_VOCABULARY))["model"]["vocab"]
        license_text = archive.read(_LICENSE)
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    table = np.frombuffer(raw, "<f2", offset=start).reshape(32_000, 256).astype(np.float64)
    factors = (np.abs(table).max(axis=1) / 127).astype("<f4")
    numbers = np.rint(table / factors[:, None]).clip(-127, 127).astype(np.int8)
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    target = Path(folder)
    (target / "table.int8").write_bytes(factors.tobytes() + numbers.tobytes())
    (target / "pieces.txt").write_text("\n".join(pieces), "utf-8")
    (target / "LICENSE-wordllama.txt").write_bytes(license_text)


if __name__ == "__main__":
    main(*sys.argv[1:])
