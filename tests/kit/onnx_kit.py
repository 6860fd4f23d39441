"""Networks of a few hundred bytes, in ONNX's own form, made without its package.

A network that looks the vector of each piece up in a table, which is all that is needed to see how
texts become vectors.
"""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "tea", "rain", "##y", "red", "van", "!"]

_INT64, _FLOAT, _INTS = 7, 1, 7


def write_folder(folder: Path, table: Sequence[Sequence[float]], **how: object) -> Path:
    """Write a folder as ``sentence-transformers`` exports it, and return it."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(network(table, **how))  # type: ignore[arg-type]
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8}), "utf-8")
    pooling = {"word_embedding_dimension": len(table[0]), "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
    return folder


def write_cross_encoder(folder: Path, **how: object) -> Path:
    """Write a folder with a model that gives one number for two texts, and return it.

    The number is the mean of those of the pieces: each has its place in the vocabulary.
    """
    folder.mkdir(parents=True)
    table = [[float(number)] for number in range(len(VOCABULARY))]
    told: dict[str, object] = {"gives": "logits", "pooled": True, **how}
    (folder / "model.onnx").write_bytes(network(table, **told))  # type: ignore[arg-type]
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 16}), "utf-8")
    return folder


def network(
    table: Sequence[Sequence[float]],
    *,
    takes: Sequence[str] = ("input_ids", "attention_mask"),
    gives: str = "last_hidden_state",
    pooled: bool = False,
) -> bytes:
    """Return a model whose output is the row of each piece; pooled, the mean of them."""
    rows, width = len(table), len(table[0])
    raw = b"".join(struct.pack(f"<{width}f", *row) for row in table)
    weights = _number(1, rows) + _number(1, width) + _number(2, _FLOAT)
    weights += _part(8, b"table") + _part(9, raw)
    looked = "rows" if pooled else gives
    nodes = [_node("Gather", ["table", takes[0]], looked)]
    if pooled:
        axes = _part(1, b"axes") + _number(8, 1) + _number(20, _INTS)
        keep = _part(1, b"keepdims") + _number(3, 0) + _number(20, 2)
        nodes.append(_node("ReduceMean", [looked], gives, axes, keep))
    graph = b"".join(_part(1, node) for node in nodes) + _part(2, b"tiny") + _part(5, weights)
    for name in takes:
        graph += _part(11, _value(name, _INT64, ["batch", "sequence"]))
    shape: list[str | int] = ["batch", width] if pooled else ["batch", "sequence", width]
    graph += _part(12, _value(gives, _FLOAT, shape))
    return _number(1, 8) + _part(7, graph) + _part(8, _part(1, b"") + _number(2, 13))


def _node(kind: str, takes: Sequence[str], gives: str, *attributes: bytes) -> bytes:
    node = b"".join(_part(1, name.encode()) for name in takes) + _part(2, gives.encode())
    return node + _part(4, kind.encode()) + b"".join(_part(5, one) for one in attributes)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = (
        _number(1, size) if isinstance(size, int) else _part(2, size.encode()) for size in shape
    )
    tensor = _number(1, kind) + _part(2, b"".join(_part(1, size) for size in sizes))
    return _part(1, name.encode()) + _part(2, _part(1, tensor))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
