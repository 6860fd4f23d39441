"""Answers from a server that speaks the language of OpenAI's ``POST /chat/completions``.

Nothing is asked of it unless the user has configured one; see ``endpoint``.
"""

import time
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from satchel.inference.endpoint import Endpoint, Pause
from satchel.type_info import resolved

_BYTES_A_TOKEN = 64
_BYTES_BESIDE = 1 << 18

Message = dict[str, str]
"""``role`` and ``content``."""


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


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
