"""Agents by name, as a person gives them: ``reader``, ``command:...``, ``endpoint:MODEL``."""

import shlex

from satchel.actions.config import Settings
from satchel.actions.evaluating.agents.agent import Agent
from satchel.actions.evaluating.agents.reader import Reader
from satchel.errors import UsageError

READER = "reader"


def agent_called(settings: Settings, text: str, *, timeout: float = 120.0) -> Agent:
    """Return the agent that a text names.

    Args:
        settings: Say where the endpoint is.
        text: ``reader``; ``command:`` and a command line; ``endpoint:`` and a model's name.
        timeout: Seconds that an answer of a program may take; of an endpoint ``inference.timeout``.

    Raises:
        UsageError: If it names none.
        ConfigError: If it is an endpoint, and none is configured.
    """
    kind, _, rest = text.partition(":")
    if text == READER:
        return Reader()
    if kind == "command" and shlex.split(rest):
        from satchel.actions.evaluating.agents.command import Command

        return Command(shlex.split(rest), timeout=timeout)
    if kind == "endpoint" and rest:
        from satchel.actions.evaluating.agents.endpoint import Endpoint
        from satchel.actions.inferring.text_models import chat_of

        return Endpoint(chat_of(settings, rest))
    raise UsageError(
        f"no agent named {text[:60]!r}",
        hint="Known: reader, command:PROGRAM ARGUMENTS, endpoint:MODEL.",
    )
