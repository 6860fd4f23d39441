"""Embeddings from an Ollama server: ``POST /api/embed``, and ``GET /api/tags`` for its models."""

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from satchel.errors import InferenceError
from satchel.inference.endpoint import Endpoint, Pause
from satchel.inference.openai import answer_bytes, packed, requests, sendable
from satchel.type_info import resolved

SCHEME = "ollama:"

_ATTEMPTS = 2
_MOST_MODELS = 1 << 22
_MOST_DIMENSIONS = 1 << 14
_DIGITS = 16


class _Listed(msgspec.Struct):
    name: str
    digest: str = ""


class _Models(msgspec.Struct):
    models: list[_Listed]


class _Answered(msgspec.Struct):
    embeddings: list[list[float]]


class OllamaEmbedder:
    """A model that an Ollama server runs.

    Args:
        model: Its name there, such as ``nomic-embed-text``.
        base_url: Where the server is.
        dimensions: How many numbers a vector has, where that is known; else the server is asked.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.

    Raises:
        ConfigError: If the address is none.
    """

    cost = 16

    def __init__(
        self,
        model: str,
        base_url: str,
        dimensions: int = 0,
        *,
        timeout: float = 30.0,
        pause: Pause = time.sleep,
    ) -> None:
        self._endpoint = Endpoint(
            base_url, "Ollama server", timeout=timeout, pause=pause, attempts=_ATTEMPTS
        )
        self.model: Final = SCHEME + model
        self._name = model
        self._dimensions = dimensions
        self._revision: str | None = None

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        if not self._dimensions:
            self._dimensions = len(self._asked(["dimensions"])[0]) // 4
        return self._dimensions

    @property
    def revision(self) -> str:
        """The start of the digest of the model: another one under its name is another make."""
        if self._revision is None:
            found = self._endpoint.get("/api/tags", _MOST_MODELS, self._models)
            names = (self._name, f"{self._name}:latest")
            digest = next((one.digest for one in found if one.name in names), None)
            if digest is None:
                raise self._endpoint.failed(
                    f"no model {self._name!r}", hint=f"Get it: ollama pull {self._name}"
                )
            self._revision = digest.removeprefix("sha256:")[:_DIGITS]
        return self._revision

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``. Blank ones are not sent."""
        zeros = bytes(4 * self.dimensions)
        found = [zeros] * len(texts)
        sent = [(place, sendable(text)) for place, text in enumerate(texts) if text.strip()]
        for some in requests(sent):
            vectors = self._asked([text for _, text in some])
            for (place, _), vector in zip(some, vectors, strict=True):
                found[place] = vector
        return found

    def _asked(self, texts: list[str]) -> list[bytes]:
        asked: dict[str, Any] = {"model": self._name, "input": texts, "truncate": True}
        most = answer_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(asked)
        return self._endpoint.post(
            "/api/embed", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        vectors = self._decoded(read, _Answered).embeddings
        if len(vectors) != count:
            raise self._endpoint.failed(f"{len(vectors)} vectors for {count} texts")
        return [packed(self._endpoint, vector, self._dimensions) for vector in vectors]

    def _models(self, read: bytes) -> list[_Listed]:
        models: list[_Listed] = self._decoded(read, _Models).models
        return models

    def _decoded(self, read: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(read, type=resolved(kind))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._wrong(error) from None

    def _wrong(self, error: Exception) -> InferenceError:
        return self._endpoint.failed(f"not an Ollama response: {error}")
