"""Models of other libraries: sentence-transformers and fastembed, if they are installed.

Models are loaded only from this machine: from a folder, or from the downloads of the library.
Satchel downloads nothing, and runs no code that comes with a model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar

from satchel.errors import InferenceError, MissingExtraError

SENTENCE_TRANSFORMERS, FASTEMBED = "sentence-transformers", "fastembed"

_TOGETHER = 64
_LONGEST = 24_000
"""Maximum characters of a text that are read, from its start."""

Encode = Callable[[Sequence[str]], Any]
"""Returns a matrix with a row for each text."""

Pairs = Callable[[str, Sequence[str]], Iterable[Any]]
"""Returns a score for a query and each text."""

_Run = TypeVar("_Run")


class LibraryEmbedder:
    """An embedding model of a library, loaded on first use.

    Args:
        library: ``sentence-transformers`` or ``fastembed``.
        model: Name of the model in the library, or a folder.
        dimensions: Dimensions of vectors; 0 loads the model to find out.

    Raises:
        MissingExtraError: If the library is not installed.
    """

    revision = ""
    cost = 16

    def __init__(self, library: str, model: str, dimensions: int = 0) -> None:
        _require(library)
        self.model: Final = f"{library}:{model}"
        self._library, self._name = library, model
        self._dimensions = dimensions
        self._encode: Encode | None = None

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        if not self._dimensions:
            self._dimensions = len(self._encoded(["dimensions"])[0]) // 4
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``. Blank ones get zeros."""
        zeros = bytes(4 * self.dimensions)
        vectors = [zeros] * len(texts)
        indices = [index for index, text in enumerate(texts) if text.strip()]
        for start in range(0, len(indices), _TOGETHER):
            batch = indices[start : start + _TOGETHER]
            answer = self._encoded([_readable(texts[index]) for index in batch])
            for index, vector in zip(batch, answer, strict=True):
                vectors[index] = vector
        return vectors

    def _encoded(self, texts: list[str]) -> list[bytes]:
        import numpy as np

        if self._encode is None:
            self._encode = _loaded(_ENCODERS, self._library, self._name)
        try:
            matrix = np.asarray(self._encode(texts), dtype="<f4")
        except Exception as error:  # a library may raise anything
            raise self._failed(f"did not embed: {error}") from error
        width = self._dimensions or (matrix.shape[-1] if matrix.ndim == 2 else 0)  # noqa: PLR2004 - rows and columns
        if matrix.shape != (len(texts), width) or not width:
            raise self._failed(
                f"returned {matrix.shape} numbers, not {width} for each of {len(texts)} texts",
                hint="Compute the vectors again: satchel embed --rebuild",
            )
        if not np.isfinite(matrix).all():
            raise self._failed("returned a value that is not a 32-bit number")
        return [row.tobytes() for row in matrix]

    def _failed(self, problem: str, hint: str | None = None) -> InferenceError:
        return InferenceError(f"the model {self.model} {problem}", hint=hint)


class LibraryReranker:
    """A cross-encoder of a library, loaded on first use.

    Args:
        library: ``sentence-transformers`` or ``fastembed``.
        model: Name of the model in the library, or a folder.

    Raises:
        MissingExtraError: If the library is not installed.
    """

    def __init__(self, library: str, model: str) -> None:
        _require(library)
        self.model: Final = f"{library}:{model}"
        self._library, self._name = library, model
        self._pairs: Pairs | None = None

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text; see ``Reranker``."""
        if not texts:
            return []
        if self._pairs is None:
            self._pairs = _loaded(_CROSS_ENCODERS, self._library, self._name)
        try:
            scores = [
                float(score)
                for score in self._pairs(_readable(question), list(map(_readable, texts)))
            ]
        except Exception as error:  # whatever another library raises
            raise InferenceError(f"the model {self.model} failed: {error}") from error
        if len(scores) != len(texts) or not all(map(isfinite, scores)):
            raise InferenceError(
                f"the model {self.model} returned {len(scores)} scores for {len(texts)} texts, or "
                "a value that is not a number",
                hint="A cross-encoder returns one number for a query and a text.",
            )
        return scores


def _require(library: str) -> None:
    if find_spec(_MODULES[library]) is None:
        raise MissingExtraError(
            f"{library} is not installed", hint=f"Install it: python -m pip install {library}"
        )


def _loaded(loaders: Mapping[str, Callable[[str], _Run]], library: str, model: str) -> _Run:
    from satchel.inference.onnx import disable_telemetry

    disable_telemetry()  # of onnxruntime, which both may load
    try:
        return loaders[library](model)
    except Exception as error:  # likewise
        raise InferenceError(
            f"the model {library}:{model} cannot be loaded: {error}",
            hint=f"Download it with {library} first, or use its folder; Satchel downloads nothing.",
        ) from error


def _readable(text: str) -> str:
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def _sentence_transformers(name: str) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(name, local_files_only=True, trust_remote_code=False)

    def encode(texts: Sequence[str]) -> Any:
        return model.encode(
            list(texts), batch_size=_TOGETHER, show_progress_bar=False, convert_to_numpy=True
        )

    return encode


def _fastembed(name: str) -> Encode:
    from fastembed import TextEmbedding

    folder = Path(name).expanduser()
    if folder.is_dir():
        raise ValueError("fastembed takes a model name; for a folder use onnx:FOLDER")
    model = TextEmbedding(name, local_files_only=True)

    def encode(texts: Sequence[str]) -> Any:
        return list(model.embed(list(texts), batch_size=_TOGETHER))

    return encode


def _cross_encoder(name: str) -> Pairs:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(name, local_files_only=True, trust_remote_code=False)

    def pairs(question: str, texts: Sequence[str]) -> Iterable[Any]:
        # One by one, so that a score does not depend on the padding of others.
        scores = model.predict(
            [(question, text) for text in texts], batch_size=1, show_progress_bar=False
        )
        return list(scores)

    return pairs


def _text_cross_encoder(name: str) -> Pairs:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    folder = Path(name).expanduser()
    if folder.is_dir():
        raise ValueError("fastembed takes a model name; for a folder use onnx:FOLDER")
    model = TextCrossEncoder(name, local_files_only=True)

    def pairs(question: str, texts: Sequence[str]) -> Iterable[Any]:
        return list(model.rerank(question, list(texts), batch_size=1))

    return pairs


_MODULES = {SENTENCE_TRANSFORMERS: "sentence_transformers", FASTEMBED: "fastembed"}
_ENCODERS: dict[str, Callable[[str], Encode]] = {
    SENTENCE_TRANSFORMERS: _sentence_transformers,
    FASTEMBED: _fastembed,
}
_CROSS_ENCODERS: dict[str, Callable[[str], Pairs]] = {
    SENTENCE_TRANSFORMERS: _cross_encoder,
    FASTEMBED: _text_cross_encoder,
}
