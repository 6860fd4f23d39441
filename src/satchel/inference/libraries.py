"""Embedders of other libraries: sentence-transformers and fastembed, where they are installed.

A model is loaded from this machine alone: from a folder, or from what the library downloaded
before. Nothing is downloaded here, and no code that comes with a model is run.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from satchel.errors import InferenceError, MissingExtraError

SENTENCE_TRANSFORMERS, FASTEMBED = "sentence-transformers", "fastembed"

_TOGETHER = 64
_LONGEST = 24_000
"""Characters of a text that are looked at, from its start."""

Encode = Callable[[Sequence[str]], Any]
"""Gives a matrix of numbers, one row for each text."""


class LibraryEmbedder:
    """A model that a library runs on this machine; it is loaded when it is first needed.

    Args:
        library: Its name, ``sentence-transformers`` or ``fastembed``.
        model: The model's name there, or a folder.
        dimensions: How many numbers a vector has, where that is known; else the model is loaded.

    Raises:
        MissingExtraError: If the library is not installed.
    """

    revision = ""
    cost = 16

    def __init__(self, library: str, model: str, dimensions: int = 0) -> None:
        if find_spec(_MODULES[library]) is None:
            raise MissingExtraError(
                f"{library} is not installed", hint=f"Install it: python -m pip install {library}"
            )
        self.model: Final = f"{library}:{model}"
        self._library, self._name = library, model
        self._dimensions = dimensions
        self._encode: Encode | None = None

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        if not self._dimensions:
            self._dimensions = len(self._encoded(["dimensions"])[0]) // 4
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``. Blank ones get zeros."""
        zeros = bytes(4 * self.dimensions)
        found = [zeros] * len(texts)
        asked = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(asked), _TOGETHER):
            some = asked[start : start + _TOGETHER]
            vectors = self._encoded([_readable(texts[place]) for place in some])
            for place, vector in zip(some, vectors, strict=True):
                found[place] = vector
        return found

    def _encoded(self, texts: list[str]) -> list[bytes]:
        import numpy as np

        if self._encode is None:
            self._encode = self._loaded()
        try:
            matrix = np.asarray(self._encode(texts), dtype="<f4")
        except Exception as error:  # whatever another library raises
            raise self._failed(f"did not embed: {error}") from error
        width = self._dimensions or (matrix.shape[-1] if matrix.ndim == 2 else 0)  # noqa: PLR2004 - rows and columns
        if matrix.shape != (len(texts), width) or not width:
            raise self._failed(
                f"gave {matrix.shape} numbers, not {width} for each of {len(texts)} texts",
                hint="Make the vectors again: satchel embed --rebuild",
            )
        if not np.isfinite(matrix).all():
            raise self._failed("gave what is no number of 32 bits")
        return [row.tobytes() for row in matrix]

    def _loaded(self) -> Encode:
        try:
            return _LOADERS[self._library](self._name)
        except Exception as error:  # likewise
            raise self._failed(
                f"cannot be loaded: {error}",
                hint=f"Download it with {self._library} first, or name its folder;"
                " nothing is downloaded here.",
            ) from error

    def _failed(self, what: str, hint: str | None = None) -> InferenceError:
        return InferenceError(f"the model {self.model} {what}", hint=hint)


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
        raise ValueError("fastembed takes a model's name; a folder is for onnx:FOLDER")
    model = TextEmbedding(name, local_files_only=True)

    def encode(texts: Sequence[str]) -> Any:
        return list(model.embed(list(texts), batch_size=_TOGETHER))

    return encode


_MODULES = {SENTENCE_TRANSFORMERS: "sentence_transformers", FASTEMBED: "fastembed"}
_LOADERS: dict[str, Callable[[str], Encode]] = {
    SENTENCE_TRANSFORMERS: _sentence_transformers,
    FASTEMBED: _fastembed,
}
