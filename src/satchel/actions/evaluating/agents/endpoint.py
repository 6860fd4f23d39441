"""An agent that is a model behind an endpoint which speaks the language of OpenAI's chats."""

from satchel.actions.evaluating.agents.agent import Asked
from satchel.inference.chat import Chat

_MOST_TOKENS = 200
"""Of an answer; more than are judged."""


class Endpoint:
    """Asks a model, at temperature 0."""

    def __init__(self, chat: Chat) -> None:
        self.name = chat.name
        self._chat = chat

    def answer(self, asked: Asked) -> str:
        """Return what the model answers.

        Raises:
            InferenceError: If it does not answer.
        """
        return self._chat.complete(asked.messages, _MOST_TOKENS).strip()
