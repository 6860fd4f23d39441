"""A server that speaks the language of OpenAI's API: one request, tried again where that helps.

Nothing is asked of it unless the user has configured one. The key goes to the host that was
configured and nowhere else: redirects are not followed, and without encryption it goes to this
machine only. Proxies of the environment are not used.
"""

import random
import ssl
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Annotated, Final, TypeVar
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
