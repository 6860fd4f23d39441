"""A server that speaks the language of OpenAI's API: one request, tried again where that helps.

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
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from satchel.errors import ConfigError, InferenceError
from satchel.model.values import resolved

_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_CHUNK = 1 << 16
_TOLD = 200

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""

_FIELD = "inference.base_url"
_HERE = ("127.0.0.1", "::1", "localhost")

Pause = Callable[[float], None]
"""Waits for some seconds."""

_Answer = TypeVar("_Answer")


def split_url(base_url: str) -> SplitResult:
    """Return the parts of the address of a server.

    Raises:
        ConfigError: If it is none.
    """
    try:
        parts = urlsplit(base_url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # of its brackets, or its port
        pass
    raise ConfigError("not a URL such as https://host/v1", field=_FIELD)


def is_here(base_url: str) -> bool:
    """Tell whether a server is on this machine; not where this is no address."""
    try:
        return split_url(base_url).hostname in _HERE
    except ConfigError:
        return False


class _AgainError(Exception):
    """The same request may succeed later."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class Endpoint:
    """A server that requests are posted to.

    Args:
        base_url: What comes before the path, such as ``https://api.openai.com/v1``.
        what: What the server is called in errors, such as ``embedding server``.
        key: Sent as a bearer token; empty for none.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.
        attempts: How often a request is sent at most.

    Raises:
        ConfigError: If the address is none, or would take the key over the network unencrypted.
    """

    def __init__(
        self,
        base_url: str,
        what: str,
        *,
        key: str = "",
        timeout: float = 30.0,
        pause: Pause = time.sleep,
        attempts: int = _ATTEMPTS,
    ) -> None:
        parts, field = split_url(base_url), _FIELD
        if parts.username or parts.password or parts.query or parts.fragment:
            hint = "Set the name of the variable that has the key: inference.key_variable"
            raise ConfigError(
                "the address contains credentials or other parts", field=field, hint=hint
            )
        if key and parts.scheme == "http" and parts.hostname not in _HERE:
            raise ConfigError("a key must not be sent unencrypted; use https", field=field)
        if not key.isascii() or not key.isprintable():
            raise ConfigError("the key contains invalid characters", field="key_variable")
        self.what: Final = what
        self._parts, self._key = parts, key
        self._timeout, self._pause, self._attempts = timeout, pause, attempts

    def post(self, path: str, body: bytes, most: int, read: Callable[[bytes], _Answer]) -> _Answer:
        """Ask until there is an answer, or no use in asking.

        Args:
            path: What comes after the base, such as ``/embeddings``.
            body: JSON.
            most: Bytes that the answer may have.
            read: Makes of the answer what it says; may raise ``InferenceError``.

        Raises:
            InferenceError: If the server does not answer, or not so.
        """
        return self._answered(path, body, most, read)

    def get(self, path: str, most: int, read: Callable[[bytes], _Answer]) -> _Answer:
        """Ask for what is there; see ``post``."""
        return self._answered(path, None, most, read)

    def _answered(
        self, path: str, body: bytes | None, most: int, read: Callable[[bytes], _Answer]
    ) -> _Answer:
        wait = 0.5
        for attempt in range(1, self._attempts + 1):
            try:
                return read(self._sent(path, body, most))
            except _AgainError as error:
                if attempt == self._attempts:
                    raise self.failed(f"{error}, {self._attempts} times") from None
                least = wait if error.wait is None else error.wait
                self._pause(min(least + random.random() * wait / 4, _LONGEST_PAUSE))  # noqa: S311 - no secret
                wait *= 2
        raise AssertionError  # the last attempt returns or raises

    def _sent(self, path: str, body: bytes | None, most: int) -> bytes:
        """Send a request and return the body of its answer."""
        parts = self._parts
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        head = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            head["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(
                "GET" if body is None else "POST", parts.path.rstrip("/") + path, body, head
            )
            with connection.getresponse() as answer:
                read = self._read(answer, most)
        except ssl.SSLCertVerificationError as error:
            raise self.failed(f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, HTTPException) as error:
            raise _AgainError(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        if answer.status in _AGAIN:
            raise _AgainError(f"status {answer.status}", _seconds(answer.getheader("Retry-After")))
        if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
            raise self.failed(f"status {answer.status}: {_told(read)}")
        if len(read) > most:
            raise self.failed(f"an answer of more than {most:,} bytes")
        return read

    def _read(self, answer: HTTPResponse, most: int) -> bytes:
        """Read no more than one byte too many, and no longer than is reasonable."""
        read, end = bytearray(), time.monotonic() + 4 * self._timeout
        while len(read) <= most and (chunk := answer.read1(min(_CHUNK, most + 1 - len(read)))):
            read += chunk
            if time.monotonic() > end:
                raise TimeoutError("it responds too slowly")
        if len(read) <= most and answer.length:
            raise ConnectionError("its response was cut off")
        return bytes(read)

    def failed(self, what: str, hint: str | None = None) -> InferenceError:
        """Return the error of an answer that is none; the key is not in it."""
        name = f"{self._parts.hostname}{self._parts.path}"
        if self._key:
            what = what.replace(self._key, "...")
        return InferenceError(f"the {self.what} returned {what}", file=name, hint=hint)


def _seconds(header: str | None) -> float | None:
    """Return how long a server asks to wait, where it says it in seconds."""
    if header is None or not header.strip().isascii() or not header.strip().isdigit():
        return None
    return min(float(header.strip()[:6]), _LONGEST_PAUSE)


def _told(read: bytes) -> str:
    """Return the start of what a server says of an error, fit for one line."""
    text = " ".join(read[:4000].decode("utf-8", "replace").split())
    return text[:_TOLD] or "nothing"


_BYTES_A_TOKEN = 64
_BYTES_BESIDE = 1 << 18

Message = dict[str, str]
"""``role`` and ``content``."""


class _ChatReply(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _ChatReply


class _Answered(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


class Chat:
    """A model that answers.

    Args:
        base_url: What comes before ``/chat/completions``, such as ``https://api.openai.com/v1``.
        model: The model's name there.
        key: Sent as a bearer token; empty for none.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.

    Raises:
        ConfigError: If the address is none, or would take the key over the network unencrypted.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str = "",
        timeout: float = 60.0,
        pause: Pause = time.sleep,
    ) -> None:
        self.name: Final = model
        self._endpoint = Endpoint(base_url, "model", key=key, timeout=timeout, pause=pause)

    def complete(self, messages: Sequence[Message], most_tokens: int) -> str:
        """Return what the model answers, without thinking of anything new: temperature 0.

        Raises:
            InferenceError: If it does not answer, or with no text.
        """
        asked = {
            "model": self.name,
            "messages": list(messages),
            "max_tokens": most_tokens,
            "temperature": 0,
        }
        most = most_tokens * _BYTES_A_TOKEN + _BYTES_BESIDE
        return self._endpoint.post(
            "/chat/completions", msgspec.json.encode(asked), most, self._said
        )

    def _said(self, read: bytes) -> str:
        try:
            answered = msgspec.json.decode(read, type=resolved(_Answered))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"no answer: {error}") from None
        content = answered.choices[0].message.content
        if content is None:
            raise self._endpoint.failed("an answer without text")
        return content


_TOGETHER = 128
"""Texts in one request."""

_CHARACTERS = 1 << 18
"""Characters in one request, about; a longer text goes alone."""

_LONGEST = 24_000
"""Characters of a text that are sent, from its start: about the 8,000 tokens that models take."""

_BYTES_A_NUMBER = 32
_VECTOR_OVERHEAD = 1 << 16
_MOST_DIMENSIONS = 1 << 14


class _Item(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    embedding: list[float]


class _EmbeddingsResponse(msgspec.Struct):
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
        sent = [(place, _sendable(text)) for place, text in enumerate(texts) if text.strip()]
        for some in _batches(sent):
            vectors = self._asked([text for _, text in some])
            for (place, _), vector in zip(some, vectors, strict=True):
                found[place] = vector
        return found

    def _asked(self, texts: list[str]) -> list[bytes]:
        """Ask for the vectors of some texts."""
        asked: dict[str, Any] = {"model": self._model, "input": texts}
        if self._shorten:
            asked["dimensions"] = self._dimensions
        most = _response_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(asked)
        return self._endpoint.post(
            "/embeddings", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        try:
            items = msgspec.json.decode(read, type=resolved(_EmbeddingsResponse)).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"not a list of vectors: {error}") from None
        found = {item.index: item.embedding for item in items}
        if len(items) != count or set(found) != set(range(count)):
            raise self._endpoint.failed(f"{len(items)} vectors for {count} texts")
        return [_packed(self._endpoint, found[place], self._dimensions) for place in range(count)]


def _response_bytes(count: int, dimensions: int) -> int:
    """Return how long an answer with so many vectors may be."""
    return count * dimensions * _BYTES_A_NUMBER + _VECTOR_OVERHEAD


def _packed(endpoint: Endpoint, vector: list[float], dimensions: int) -> bytes:
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


def _batches(sent: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
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


def _sendable(text: str) -> str:
    """Return as much of a text as is sent; halves of characters have no bytes."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()


SCHEME = "ollama:"

_OLLAMA_ATTEMPTS = 2
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
            base_url, "Ollama server", timeout=timeout, pause=pause, attempts=_OLLAMA_ATTEMPTS
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
        sent = [(place, _sendable(text)) for place, text in enumerate(texts) if text.strip()]
        for some in _batches(sent):
            vectors = self._asked([text for _, text in some])
            for (place, _), vector in zip(some, vectors, strict=True):
                found[place] = vector
        return found

    def _asked(self, texts: list[str]) -> list[bytes]:
        asked: dict[str, Any] = {"model": self._name, "input": texts, "truncate": True}
        most = _response_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(asked)
        return self._endpoint.post(
            "/api/embed", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        vectors = self._decoded(read, _OllamaAnswer).embeddings
        if len(vectors) != count:
            raise self._endpoint.failed(f"{len(vectors)} vectors for {count} texts")
        return [_packed(self._endpoint, vector, self._dimensions) for vector in vectors]

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
