"""Embeddings from a server that speaks the language of OpenAI's ``POST /embeddings``.

Nothing is asked of it unless the user has configured one; see ``endpoint``.
"""

import struct
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Annotated, Any, Final

import msgspec

from satchel.errors import InferenceError
from satchel.inference.endpoint import Endpoint, Pause
from satchel.model.values import resolved

_TOGETHER = 128
"""Texts in one request."""

_CHARACTERS = 1 << 18
"""Characters in one request, about; a longer text goes alone."""

_LONGEST = 24_000
"""Characters of a text that are sent, from its start: about the 8,000 tokens that models take."""

_BYTES_A_NUMBER = 32
_BYTES_BESIDE = 1 << 16
_MOST_DIMENSIONS = 1 << 14


class _Item(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    embedding: list[float]


class _Answered(msgspec.Struct):
    data: list[_Item]


class OpenAIEmbedder:
    """A model behind an endpoint.

    Args:
        base_url: What comes before ``/embeddings``, such as ``https://api.openai.com/v1``.
        model: The model's name there.
        dimensions: How many numbers a vector has; a server that gives others is not believed. 0
            asks the server.
        key: Sent as a bearer token; empty for none.
        shorten: Whether the server is asked for that many numbers; not all know how.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.
        name: What the vectors are named by; the model's name when empty.

    Raises:
        ConfigError: If the address is none, or would take the key over the network unencrypted.
    """

    revision = ""
    cost = 16
    """As that of Ollama: a question waits for as few vectors of a server on this machine."""

    def __init__(  # noqa: PLR0913 - what a server is configured by
        self,
        base_url: str,
        model: str,
        dimensions: int,
        *,
        key: str = "",
        shorten: bool = False,
        timeout: float = 30.0,
        pause: Pause = time.sleep,
        name: str = "",
    ) -> None:
        self._endpoint = Endpoint(
            base_url, "embedding server", key=key, timeout=timeout, pause=pause
        )
        self.model: Final = name or model
        self._model = model
        self._dimensions = dimensions
        self._shorten = shorten

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        if not self._dimensions:
            self._dimensions = len(self._asked(["dimensions"])[0]) // 4
        return self._dimensions

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
        """Ask for the vectors of some texts."""
        asked: dict[str, Any] = {"model": self._model, "input": texts}
        if self._shorten:
            asked["dimensions"] = self._dimensions
        most = answer_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(asked)
        return self._endpoint.post(
            "/embeddings", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        try:
            items = msgspec.json.decode(read, type=resolved(_Answered)).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"not a list of vectors: {error}") from None
        found = {item.index: item.embedding for item in items}
        if len(items) != count or set(found) != set(range(count)):
            raise self._endpoint.failed(f"{len(items)} vectors for {count} texts")
        return [packed(self._endpoint, found[place], self._dimensions) for place in range(count)]


def answer_bytes(count: int, dimensions: int) -> int:
    """Return how long an answer with so many vectors may be."""
    return count * dimensions * _BYTES_A_NUMBER + _BYTES_BESIDE


def packed(endpoint: Endpoint, vector: list[float], dimensions: int) -> bytes:
    """Return a vector as it is kept.

    Args:
        endpoint: Where it came from.
        vector: Its numbers.
        dimensions: How many there have to be; 0 where that is not known yet.

    Raises:
        InferenceError: If there are others, or it is not of numbers of 32 bits.
    """
    if len(vector) != dimensions and (dimensions or not vector):
        raise endpoint.failed(
            f"a vector of {len(vector)} numbers, not {dimensions}",
            hint=f"Set inference.dimensions to {len(vector)}, if the model is the right one.",
        )
    try:
        found = struct.pack(f"<{len(vector)}f", *vector)
    except OverflowError:
        found = b""
    if not found or not all(map(isfinite, vector)):
        raise endpoint.failed("a vector contains a value that is not a 32-bit number")
    return found


def requests(sent: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield what goes into each request: texts with their places."""
    some: list[tuple[int, str]] = []
    size = 0
    for place, text in sent:
        if some and (len(some) == _TOGETHER or size + len(text) > _CHARACTERS):
            yield some
            some, size = [], 0
        some.append((place, text))
        size += len(text)
    if some:
        yield some


def sendable(text: str) -> str:
    """Return as much of a text as is sent; halves of characters have no bytes."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()


SCHEME = "ollama:"

_ATTEMPTS = 2
_MOST_MODELS = 1 << 22
_DIGITS = 16


class _Listed(msgspec.Struct):
    name: str
    digest: str = ""


class _Models(msgspec.Struct):
    models: list[_Listed]


class _OllamaAnswer(msgspec.Struct):
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
        vectors = self._decoded(read, _OllamaAnswer).embeddings
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
