"""Embeddings from a server that speaks the language of OpenAI's ``POST /embeddings``.

Nothing is asked of it unless the user has configured one. The key goes to the host that was
configured and nowhere else: redirects are not followed, and without encryption it goes to this
machine only. Proxies of the environment are not used.
"""

import random
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from math import isfinite
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from satchel.errors import ConfigError, InferenceError

_TOGETHER = 128
"""Texts in one request."""

_CHARACTERS = 1 << 18
"""Characters in one request, about; a longer text goes alone."""

_LONGEST = 24_000
"""Characters of a text that are sent, from its start: about the 8,000 tokens that models take."""

_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_BYTES_A_NUMBER = 32
_BYTES_BESIDE = 1 << 16
_CHUNK = 1 << 16
_TOLD = 200

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""

_HERE = ("127.0.0.1", "::1", "localhost")

Pause = Callable[[float], None]
"""Waits for some seconds."""


class _Item(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    embedding: list[float]


class _Answered(msgspec.Struct):
    data: list[_Item]


class _AgainError(Exception):
    """The same request may succeed later."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


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
        parts = urlsplit(base_url)
        field = "inference.base_url"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("not an address as https://host/v1", field=field)
        if parts.username or parts.password or parts.query or parts.fragment:
            hint = "Name the variable that has the key: inference.key_variable"
            raise ConfigError("the address holds more than an address", field=field, hint=hint)
        if key and parts.scheme == "http" and parts.hostname not in _HERE:
            raise ConfigError("a key is not sent unencrypted; use https", field=field)
        if not key.isascii() or not key.isprintable():
            raise ConfigError("the key has characters that no key has", field="key_variable")
        self.model: Final = model
        self.dimensions: Final = dimensions
        self._parts, self._key, self._shorten = parts, key, shorten
        self._timeout, self._pause = timeout, pause

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
        """Ask until there is an answer, or no use in asking."""
        asked: dict[str, Any] = {"model": self.model, "input": texts}
        if self._shorten:
            asked["dimensions"] = self.dimensions
        body = msgspec.json.encode(asked)
        wait = 0.5
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._vectors(self._sent(body, len(texts)), len(texts))
            except _AgainError as error:
                if attempt == _ATTEMPTS:
                    raise self._failed(f"{error}, {_ATTEMPTS} times") from None
                least = wait if error.wait is None else error.wait
                self._pause(min(least + random.random() * wait / 4, _LONGEST_PAUSE))  # noqa: S311 - no secret
                wait *= 2
        raise AssertionError  # the last attempt returns or raises

    def _sent(self, body: bytes, texts: int) -> bytes:
        """Send a request and return the body of its answer."""
        parts = self._parts
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        head = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            head["Authorization"] = f"Bearer {self._key}"
        most = texts * self.dimensions * _BYTES_A_NUMBER + _BYTES_BESIDE
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}/embeddings", body, head)
            with connection.getresponse() as answer:
                read = self._read(answer, most)
        except ssl.SSLCertVerificationError as error:
            raise self._failed(f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, HTTPException) as error:
            raise _AgainError(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        if answer.status in _AGAIN:
            raise _AgainError(f"status {answer.status}", _seconds(answer.getheader("Retry-After")))
        if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
            raise self._failed(f"status {answer.status}: {_told(read)}")
        if len(read) > most:
            raise self._failed(f"an answer of more than {most:,} bytes")
        return read

    def _read(self, answer: HTTPResponse, most: int) -> bytes:
        """Read no more than one byte too many, and no longer than is reasonable."""
        read, end = bytearray(), time.monotonic() + 4 * self._timeout
        while len(read) <= most and (chunk := answer.read1(min(_CHUNK, most + 1 - len(read)))):
            read += chunk
            if time.monotonic() > end:
                raise TimeoutError("it answers too slowly")
        if len(read) <= most and answer.length:
            raise ConnectionError("its answer broke off")
        return bytes(read)

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        try:
            items = msgspec.json.decode(read, type=_Answered).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failed(f"no list of vectors: {error}") from None
        found = {item.index: item.embedding for item in items}
        if len(items) != count or set(found) != set(range(count)):
            raise self._failed(f"{len(items)} vectors for {count} texts")
        return [self._packed(found[place]) for place in range(count)]

    def _packed(self, vector: list[float]) -> bytes:
        if len(vector) != self.dimensions:
            raise self._failed(
                f"a vector of {len(vector)} numbers, not {self.dimensions}",
                hint=f"Set inference.dimensions to {len(vector)}, if the model is the right one.",
            )
        try:
            packed = struct.pack(f"<{len(vector)}f", *vector)
        except OverflowError:
            packed = b""
        if not packed or not all(map(isfinite, vector)):
            raise self._failed("a vector holds what is no number of 32 bits")
        return packed

    def _failed(self, what: str, hint: str | None = None) -> InferenceError:
        name = f"{self._parts.hostname}{self._parts.path}"
        if self._key:
            what = what.replace(self._key, "...")
        return InferenceError(f"the embedding server gave {what}", file=name, hint=hint)


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


def _seconds(header: str | None) -> float | None:
    """Return how long a server asks to wait, where it says it in seconds."""
    if header is None or not header.strip().isascii() or not header.strip().isdigit():
        return None
    return min(float(header.strip()[:6]), _LONGEST_PAUSE)


def _told(read: bytes) -> str:
    """Return the start of what a server says of an error, fit for one line."""
    text = " ".join(read[:4000].decode("utf-8", "replace").split())
    return text[:_TOLD] or "nothing"
