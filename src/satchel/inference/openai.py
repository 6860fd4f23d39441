"""Embeddings from a server that speaks the language of OpenAI's ``POST /embeddings``.

Nothing is asked of it unless the user has configured one; see ``endpoint``.
"""

import struct
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Annotated, Any, Final

import msgspec

from satchel.inference.endpoint import Endpoint, Pause

_TOGETHER = 128
"""Texts in one request."""

_CHARACTERS = 1 << 18
"""Characters in one request, about; a longer text goes alone."""

_LONGEST = 24_000
"""Characters of a text that are sent, from its start: about the 8,000 tokens that models take."""

_BYTES_A_NUMBER = 32
_BYTES_BESIDE = 1 << 16


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
        dimensions: How many numbers a vector has; a server that gives others is not believed.
        key: Sent as a bearer token; empty for none.
        shorten: Whether the server is asked for that many numbers; not all know how.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.

    Raises:
        ConfigError: If the address is none, or would take the key over the network unencrypted.
    """

    revision = ""

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
    ) -> None:
        self._endpoint = Endpoint(
            base_url, "embedding server", key=key, timeout=timeout, pause=pause
        )
        self.model: Final = model
        self.dimensions: Final = dimensions
        self._shorten = shorten

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``. Blank ones are not sent."""
        zeros = bytes(4 * self.dimensions)
        found = [zeros] * len(texts)
        sent = [(place, _sendable(text)) for place, text in enumerate(texts) if text.strip()]
        for some in _requests(sent):
            vectors = self._asked([text for _, text in some])
            for (place, _), vector in zip(some, vectors, strict=True):
                found[place] = vector
        return found

    def _asked(self, texts: list[str]) -> list[bytes]:
        """Ask for the vectors of some texts."""
        asked: dict[str, Any] = {"model": self.model, "input": texts}
        if self._shorten:
            asked["dimensions"] = self.dimensions
        most = len(texts) * self.dimensions * _BYTES_A_NUMBER + _BYTES_BESIDE
        body = msgspec.json.encode(asked)
        return self._endpoint.post(
            "/embeddings", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        try:
            items = msgspec.json.decode(read, type=_Answered).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"no list of vectors: {error}") from None
        found = {item.index: item.embedding for item in items}
        if len(items) != count or set(found) != set(range(count)):
            raise self._endpoint.failed(f"{len(items)} vectors for {count} texts")
        return [self._packed(found[place]) for place in range(count)]

    def _packed(self, vector: list[float]) -> bytes:
        if len(vector) != self.dimensions:
            raise self._endpoint.failed(
                f"a vector of {len(vector)} numbers, not {self.dimensions}",
                hint=f"Set inference.dimensions to {len(vector)}, if the model is the right one.",
            )
        try:
            packed = struct.pack(f"<{len(vector)}f", *vector)
        except OverflowError:
            packed = b""
        if not packed or not all(map(isfinite, vector)):
            raise self._endpoint.failed("a vector holds what is no number of 32 bits")
        return packed


def _requests(sent: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield what goes into each request."""
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


def _sendable(text: str) -> str:
    """Return as much of a text as is sent; halves of characters have no bytes."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()
