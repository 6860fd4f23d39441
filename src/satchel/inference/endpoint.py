"""Model servers: chat and embeddings over OpenAI's API, and embeddings of Ollama.

A server is contacted only if the user has configured it. The key is sent to the configured host
only: redirects are not followed, and without encryption it is sent only to this machine. Proxies of
the environment are not used. Requests are repeated if that may help.
"""

import random
import ssl
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from math import isfinite
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from satchel.errors import ConfigError, InferenceError
from satchel.model.values import resolved
from satchel.ports.inference import text_for_model

_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_CHUNK = 1 << 16
_TOLD = 200

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Status codes after which the same request may succeed later."""

_FIELD = "inference.base_url"
_HERE = ("127.0.0.1", "::1", "localhost")

Pause = Callable[[float], None]
"""Waits for a number of seconds."""

_Answer = TypeVar("_Answer")


def split_url(base_url: str) -> SplitResult:
    """Return the parts of the URL of a server.

    Raises:
        ConfigError: If it is not a valid URL.
    """
    try:
        parts = urlsplit(base_url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # of its brackets, or its port
        pass
    raise ConfigError("not a URL such as https://host/v1", field=_FIELD)


def is_here(base_url: str) -> bool:
    """Return whether a server is on this machine; False if its URL is not valid."""
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
    """A server that answers JSON requests.

    Args:
        base_url: URL before the path, such as ``https://api.openai.com/v1``.
        what: Name of the server in errors, such as ``embedding server``.
        key: Sent as a bearer token; empty for none.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.
        attempts: Maximum number of attempts.

    Raises:
        ConfigError: If the URL is not valid, or would send the key unencrypted.
    """

    def __init__(
        self,
        base_url: str,
        server: str,
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
        self.server: Final = server
        self._parts, self._key = parts, key
        self._timeout, self._pause, self._attempts = timeout, pause, attempts

    def post(self, path: str, body: bytes, most: int, read: Callable[[bytes], _Answer]) -> _Answer:
        """Send a POST request, and repeat it while that may help.

        Args:
            path: Path after the base URL, such as ``/embeddings``.
            body: JSON.
            most: Maximum size of the answer in bytes.
            read: Parses the answer; may raise ``InferenceError``.

        Raises:
            InferenceError: If the server does not answer, or the answer is not valid.
        """
        return self._request(path, body, most, read)

    def get(self, path: str, most: int, read: Callable[[bytes], _Answer]) -> _Answer:
        """Send a GET request; see ``post``."""
        return self._request(path, None, most, read)

    def _request(
        self, path: str, body: bytes | None, most: int, read: Callable[[bytes], _Answer]
    ) -> _Answer:
        wait = 0.5
        for attempt in range(1, self._attempts + 1):
            try:
                return read(self._send(path, body, most))
            except _AgainError as error:
                if attempt == self._attempts:
                    raise self.failed(f"{error}, {self._attempts} times") from None
                least = wait if error.wait is None else error.wait
                self._pause(min(least + random.random() * wait / 4, _LONGEST_PAUSE))  # noqa: S311 - no secret
                wait *= 2
        raise AssertionError  # the last attempt returns or raises

    def _send(self, path: str, body: bytes | None, most: int) -> bytes:
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
            raise self.failed(f"status {answer.status}: {_error_message(read)}")
        if len(read) > most:
            raise self.failed(f"an answer of more than {most:,} bytes")
        return read

    def _read(self, answer: HTTPResponse, most: int) -> bytes:
        """Read an answer up to one byte over the limit, within a time limit."""
        read, end = bytearray(), time.monotonic() + 4 * self._timeout
        while len(read) <= most and (chunk := answer.read1(min(_CHUNK, most + 1 - len(read)))):
            read += chunk
            if time.monotonic() > end:
                raise TimeoutError("it responds too slowly")
        if len(read) <= most and answer.length:
            raise ConnectionError("its response was cut off")
        return bytes(read)

    def failed(self, problem: str, hint: str | None = None) -> InferenceError:
        """Return the error for an invalid answer, without the key."""
        name = f"{self._parts.hostname}{self._parts.path}"
        if self._key:
            problem = problem.replace(self._key, "...")
        return InferenceError(f"the {self.server} returned {problem}", file=name, hint=hint)


def _seconds(header: str | None) -> float | None:
    """Return the seconds that a server asks to wait; None if it gives none."""
    if header is None or not header.strip().isascii() or not header.strip().isdigit():
        return None
    return min(float(header.strip()[:6]), _LONGEST_PAUSE)


def _error_message(read: bytes) -> str:
    """Return the start of an error message of a server, as one line."""
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
    """A chat model on a server.

    Args:
        base_url: URL before ``/chat/completions``, such as ``https://api.openai.com/v1``.
        model: Name of the model.
        key: Sent as a bearer token; empty for none.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.

    Raises:
        ConfigError: If the URL is not valid, or would send the key unencrypted.
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
        """Return the answer of the model, at temperature 0.

        Raises:
            InferenceError: If it does not answer, or without text.
        """
        request = {
            "model": self.name,
            "messages": list(messages),
            "max_tokens": most_tokens,
            "temperature": 0,
        }
        most = most_tokens * _BYTES_A_TOKEN + _BYTES_BESIDE
        return self._endpoint.post(
            "/chat/completions", msgspec.json.encode(request), most, self._answer_text
        )

    def _answer_text(self, read: bytes) -> str:
        try:
            answered = msgspec.json.decode(read, type=resolved(_Answered))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"no answer: {error}") from None
        content = answered.choices[0].message.content
        if content is None:
            raise self._endpoint.failed("an answer without text")
        return content


_TOGETHER = 128
"""Maximum texts of a request."""

_CHARACTERS = 1 << 18
"""Approximate maximum characters of a request; a longer text is sent alone."""

_BYTES_A_NUMBER = 32
_VECTOR_OVERHEAD = 1 << 16
_MOST_DIMENSIONS = 1 << 14


class _Item(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    embedding: list[float]


class _EmbeddingsResponse(msgspec.Struct):
    data: list[_Item]


class _ServerEmbedder(ABC):
    """Embeds texts in requests of limited size; subclasses send a request."""

    def __init__(self, endpoint: Endpoint, dimensions: int) -> None:
        self._endpoint = endpoint
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        if not self._dimensions:
            self._dimensions = len(self._request_vectors(["dimensions"])[0]) // 4
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``. Blank ones are not sent."""
        zeros = bytes(4 * self.dimensions)
        vectors = [zeros] * len(texts)
        sent = [(index, text_for_model(text)) for index, text in enumerate(texts) if text.strip()]
        for batch in _batches(sent):
            answer = self._request_vectors([text for _, text in batch])
            for (index, _), vector in zip(batch, answer, strict=True):
                vectors[index] = vector
        return vectors

    @abstractmethod
    def _request_vectors(self, texts: list[str]) -> list[bytes]:
        """Request the vectors of texts."""


class OpenAIEmbedder(_ServerEmbedder):
    """An embedding model on a server with OpenAI's API.

    Args:
        base_url: URL before ``/embeddings``, such as ``https://api.openai.com/v1``.
        model: Name of the model.
        dimensions: Dimensions of vectors; answers with others are refused. 0 asks the server.
        key: Sent as a bearer token; empty for none.
        shorten: Ask the server for that many dimensions; not all support it.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.
        name: Name of the vectors; empty for the name of the model.

    Raises:
        ConfigError: If the URL is not valid, or would send the key unencrypted.
    """

    revision = ""
    cost = 16
    """As for Ollama: a query waits for few vectors of a server on this machine."""

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
        endpoint = Endpoint(base_url, "embedding server", key=key, timeout=timeout, pause=pause)
        super().__init__(endpoint, dimensions)
        self.model: Final = name or model
        self._model = model
        self._shorten = shorten

    def _request_vectors(self, texts: list[str]) -> list[bytes]:
        """Request the vectors of texts."""
        request: dict[str, Any] = {"model": self._model, "input": texts}
        if self._shorten:
            request["dimensions"] = self._dimensions
        most = _response_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(request)
        return self._endpoint.post(
            "/embeddings", body, most, lambda read: self._vectors(read, len(texts))
        )

    def _vectors(self, read: bytes, count: int) -> list[bytes]:
        try:
            items = msgspec.json.decode(read, type=resolved(_EmbeddingsResponse)).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._endpoint.failed(f"not a list of vectors: {error}") from None
        vectors = {item.index: item.embedding for item in items}
        if len(items) != count or set(vectors) != set(range(count)):
            raise self._endpoint.failed(f"{len(items)} vectors for {count} texts")
        return [_packed(self._endpoint, vectors[index], self._dimensions) for index in range(count)]


def _response_bytes(count: int, dimensions: int) -> int:
    """Return the maximum size of an answer with so many vectors, in bytes."""
    return count * dimensions * _BYTES_A_NUMBER + _VECTOR_OVERHEAD


def _packed(endpoint: Endpoint, vector: list[float], dimensions: int) -> bytes:
    """Return a vector as bytes.

    Args:
        endpoint: The server it came from.
        vector: Its numbers.
        dimensions: Required dimensions; 0 if they are not known yet.

    Raises:
        InferenceError: If the dimensions differ, or a number does not fit 32 bits.
    """
    if len(vector) != dimensions and (dimensions or not vector):
        raise endpoint.failed(
            f"a vector of {len(vector)} numbers, not {dimensions}",
            hint=f"Set inference.dimensions to {len(vector)}, if the model is the right one.",
        )
    try:
        packed = struct.pack(f"<{len(vector)}f", *vector)
    except OverflowError:
        packed = b""
    if not packed or not all(map(isfinite, vector)):
        raise endpoint.failed("a vector contains a value that is not a 32-bit number")
    return packed


def _batches(sent: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield the texts of each request, with their indices."""
    batch: list[tuple[int, str]] = []
    size = 0
    for index, text in sent:
        if batch and (len(batch) == _TOGETHER or size + len(text) > _CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append((index, text))
        size += len(text)
    if batch:
        yield batch


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


class OllamaEmbedder(_ServerEmbedder):
    """An embedding model on an Ollama server.

    Args:
        model: Name of the model, such as ``nomic-embed-text``.
        base_url: URL of the server.
        dimensions: Dimensions of vectors; 0 asks the server.
        timeout: Seconds for each step of a request; a whole answer may take four times that.
        pause: Waits between attempts.

    Raises:
        ConfigError: If the URL is not valid.
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
        endpoint = Endpoint(
            base_url, "Ollama server", timeout=timeout, pause=pause, attempts=_OLLAMA_ATTEMPTS
        )
        super().__init__(endpoint, dimensions)
        self.model: Final = SCHEME + model
        self._name = model
        self._revision: str | None = None

    @property
    def revision(self) -> str:
        """Prefix of the digest of the model, which changes if its name gets another model."""
        if self._revision is None:
            models = self._endpoint.get("/api/tags", _MOST_MODELS, self._models)
            names = (self._name, f"{self._name}:latest")
            digest = next((model.digest for model in models if model.name in names), None)
            if digest is None:
                raise self._endpoint.failed(
                    f"no model {self._name!r}", hint=f"Get it: ollama pull {self._name}"
                )
            self._revision = digest.removeprefix("sha256:")[:_DIGITS]
        return self._revision

    def _request_vectors(self, texts: list[str]) -> list[bytes]:
        request: dict[str, Any] = {"model": self._name, "input": texts, "truncate": True}
        most = _response_bytes(len(texts), self._dimensions or _MOST_DIMENSIONS)
        body = msgspec.json.encode(request)
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
