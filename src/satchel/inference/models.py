"""Extractors, detectors, summarizers, distillers and chat models, by name."""

import os
from typing import TYPE_CHECKING

from satchel.config.settings import Settings
from satchel.config.tables import InferenceSettings
from satchel.errors import ConfigError, UsageError
from satchel.ports.inference import Distiller, Extractor, Summarizer

if TYPE_CHECKING:
    from satchel.inference.endpoint import Chat
    from satchel.screening.personal import PresidioDetector


SERVER, SENTENCES = "openai", "sentences"
EXTRACTIVE, PRESIDIO, LEXICAL = "extractive", "presidio", "lexical"

_PATIENCE = 60.0
"""Minimum timeout in seconds of a model that writes text."""


def extractor() -> Extractor:
    """Return the entity extractor."""
    from satchel.inference.entities import RuleExtractor

    return RuleExtractor()


def detector_of(name: str) -> "PresidioDetector":
    """Return a detector of personal data beyond the built-in rules.

    Args:
        name: ``presidio``.

    Raises:
        UsageError: If there is no detector of that name.
        MissingExtraError: If it is not installed.
    """
    if name != PRESIDIO:
        raise UsageError(f"unknown detector {name!r}", field="detector", hint=f"Known: {PRESIDIO}.")
    from satchel.screening.personal import PresidioDetector

    return PresidioDetector()


def chat_of(settings: Settings, model: str | None = None, endpoint: str | None = None) -> "Chat":
    """Return a chat model on the configured server.

    Args:
        settings: Settings with the server.
        model: Name of the model; None for ``inference.chat_model``.
        endpoint: Another server, which gets no key; None for ``inference.base_url``.

    Raises:
        ConfigError: If the server or the model is not configured.
    """
    from satchel.inference.endpoint import Chat

    inference = settings.options.inference
    name, address = model or inference.chat_model, endpoint or inference.base_url
    for field, value in (("base_url", address), ("chat_model", name)):
        if not value:
            raise ConfigError("the server is not configured", field=f"inference.{field}")
    key = key_of(inference) if address == inference.base_url else ""
    return Chat(address, name, key=key, timeout=max(inference.timeout, _PATIENCE))


def summarizer_of(settings: Settings, name: str | None = None) -> Summarizer | None:
    """Return a summarizer; None to select sentences.

    Args:
        settings: Settings with the default summarizer and the server.
        name: ``sentences``, or ``openai`` for ``inference.chat_model``.

    Raises:
        ConfigError: If it is a server that is not configured.
        UsageError: If there is no summarizer of that name.
    """
    chosen = name or settings.options.rehydrate.summarizer
    if chosen == SENTENCES:
        return None
    if chosen == SERVER:
        from satchel.inference.distillers import ChatSummarizer

        return ChatSummarizer(chat_of(settings))
    hint = f"Known: {SENTENCES}, {SERVER}."
    problem = f"unknown summarizer {chosen!r}"
    if name is None:
        raise ConfigError(problem, field="rehydrate.summarizer", hint=hint)
    raise UsageError(problem, field="summarizer", hint=hint)


def distiller_of(
    settings: Settings,
    name: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
) -> Distiller:
    """Return a distiller of conversations.

    Args:
        settings: Settings with the default distiller and the server.
        name: ``extractive``, or ``openai`` for a model on a server.
        model: Name of the model on the server; None for ``inference.chat_model``.
        endpoint: URL of the server; None for ``inference.base_url``. Only the configured server
            gets the key.

    Raises:
        ConfigError: If it is a server that is not configured.
        UsageError: If there is no distiller of that name, or it uses no model.
    """
    asks = model is not None or endpoint is not None
    chosen = name or (SERVER if asks else settings.options.inference.distiller)
    if chosen == EXTRACTIVE and not asks:
        from satchel.inference.distillers import ExtractiveDistiller

        return ExtractiveDistiller()
    if chosen == SERVER:
        from satchel.inference.distillers import ChatDistiller

        return ChatDistiller(chat_of(settings, model, endpoint))
    hint = f"Known: {EXTRACTIVE}, and {SERVER}, which takes a model and an endpoint."
    problem = f"{chosen} uses no model" if chosen == EXTRACTIVE else f"unknown distiller {chosen!r}"
    if name is None:
        raise ConfigError(problem, field="inference.distiller", hint=hint)
    raise UsageError(problem, field="distiller", hint=hint)


def key_of(settings: InferenceSettings) -> str:
    """Return the key of the server from the configured environment variable; empty for none."""
    key = ""
    if settings.key_variable:
        key = os.environ.get(settings.key_variable, "").strip()
        if not key:
            raise ConfigError(
                f"the environment variable {settings.key_variable} is not set",
                field="inference.key_variable",
            )
    return key
