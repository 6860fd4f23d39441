"""Which models the actions work with; the one place that names their modules."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.actions.config import Settings
from satchel.actions.configured.working import InferenceSettings
from satchel.errors import ConfigError, MissingExtraError, UsageError
from satchel.ports.inference.distiller import Distiller
from satchel.ports.inference.embedder import Embedder
from satchel.ports.inference.extractor import Extractor
from satchel.ports.inference.summariser import Summariser
from satchel.recall.generations import Made
from satchel.recall.keeping_up import Keeper

if TYPE_CHECKING:  # it takes time to import, and most commands need none
    from satchel.inference.chat import Chat

STATIC, WEIGHTED, SERVER, SENTENCES = "static", "static-idf", "openai", "sentences"
NEURAL, FOLDER = "minilm", "onnx"
EXTRACTIVE = "extractive"

_PATIENCE = 60.0
"""Seconds that a model which writes has for a step at least."""


def embedder_of(settings: Settings, name: str | None = None) -> Embedder:
    """Return what makes vectors.

    Args:
        settings: Says which one is meant when none is named, and how a server is reached.
        name: ``static-idf``, ``static``, ``minilm``, ``onnx`` or ``openai``.

    Raises:
        UsageError: If there is none of that name.
        ConfigError: If it is a server, and not configured.
        MissingExtraError: If what it needs is not installed.
    """
    found = name or settings.options.inference.embedder
    if found not in _EMBEDDERS:
        problem = f"there is no embedder {found!r}"
        hint = f"Known: {', '.join(_EMBEDDERS)}."
        if name is None:
            raise ConfigError(problem, field="inference.embedder", hint=hint)
        raise UsageError(problem, hint=hint)
    return _EMBEDDERS[found](settings.options.inference)


def asking(settings: Settings) -> Callable[[Made], Embedder | None]:
    """Return what gives the embedder that questions to a generation of vectors are handed to.

    A server, or a model in a folder, is asked only while it is what the configuration names, and
    has made the vectors.
    """

    def embedder(made: Made) -> Embedder | None:
        named = settings.options.inference.embedder
        name = _BUILT_IN.get(made.model, named)
        if made.model not in _BUILT_IN and named not in (SERVER, FOLDER):
            return None
        found = embedder_of(settings, name)
        return found if made.is_of(found) else None

    return embedder


def keeping(settings: Settings) -> Keeper:
    """Return what gives the embedder by which a bank's vectors are made without being asked for.

    Only those that are known, where they are installed: nothing is sent to a server unasked.
    """

    def embedder(made: Made | None) -> Embedder | None:
        inference = settings.options.inference
        name = inference.embedder if made is None else _BUILT_IN.get(made.model)
        if not inference.automatic or name not in _BUILT_IN.values():
            return None
        try:
            return embedder_of(settings, name)
        except MissingExtraError:
            return None

    return embedder


def extractor() -> Extractor:
    """Return what finds entities."""
    from satchel.inference.entities.rules import RuleExtractor

    return RuleExtractor()


def _static(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.static_table.table import StaticTable

    return StaticTable()


def _weighted(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.static_table.table import WeightedTable

    return WeightedTable()


def _minilm(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.neural.models import minilm

    return minilm()


def _folder(settings: InferenceSettings) -> Embedder:
    from satchel.inference.neural.models import from_folder

    if not settings.folder:
        raise ConfigError("no folder with a model is configured", field="inference.folder")
    return from_folder(Path(settings.folder).expanduser())


def chat_of(settings: Settings, model: str | None = None, endpoint: str | None = None) -> "Chat":
    """Return the model behind the configured server that answers.

    Args:
        settings: Say how the server is reached.
        model: Its name there; ``inference.chat_model`` when None.
        endpoint: Another server, which is sent no key; ``inference.base_url`` when None.

    Raises:
        ConfigError: If the server or the model is not configured.
    """
    from satchel.inference.chat import Chat

    found = settings.options.inference
    name, address = model or found.chat_model, endpoint or found.base_url
    for field, value in (("base_url", address), ("chat_model", name)):
        if not value:
            raise ConfigError("the server is not configured", field=f"inference.{field}")
    key = _key(found) if address == found.base_url else ""
    return Chat(address, name, key=key, timeout=max(found.timeout, _PATIENCE))


def summariser_of(settings: Settings, name: str | None = None) -> Summariser | None:
    """Return what shortens memories; None for choosing sentences of them.

    Args:
        settings: Say which one is meant when none is named, and how a server is reached.
        name: ``sentences``, or ``openai`` for ``inference.chat_model``.

    Raises:
        ConfigError: If it is a server, and not configured.
        UsageError: If there is none of that name.
    """
    found = name or settings.options.rehydrate.summariser
    if found == SENTENCES:
        return None
    if found == SERVER:
        from satchel.inference.summarising import ChatSummariser

        return ChatSummariser(chat_of(settings))
    hint = f"Known: {SENTENCES}, {SERVER}."
    problem = f"there is no summariser {found!r}"
    if name is None:
        raise ConfigError(problem, field="rehydrate.summariser", hint=hint)
    raise UsageError(problem, field="summariser", hint=hint)


def distiller_of(
    settings: Settings,
    name: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
) -> Distiller:
    """Return what draws a summary and memories from a conversation.

    Args:
        settings: Say which one is meant when none is named, and how a server is reached.
        name: ``extractive``, or ``openai`` for a model behind a server.
        model: The model's name there, which means a server; else ``inference.chat_model``.
        endpoint: Where the server is, likewise; else ``inference.base_url``. Only the server that
            is configured is sent the key.

    Raises:
        ConfigError: If it is a server, and not configured.
        UsageError: If there is none of that name, or it needs neither model nor server.
    """
    asks = model is not None or endpoint is not None
    found = name or (SERVER if asks else settings.options.inference.distiller)
    if found == EXTRACTIVE and not asks:
        from satchel.inference.distilling.extractive import ExtractiveDistiller

        return ExtractiveDistiller()
    if found == SERVER:
        from satchel.inference.distilling.chat import ChatDistiller

        return ChatDistiller(chat_of(settings, model, endpoint))
    hint = f"Known: {EXTRACTIVE}, and {SERVER}, which takes a model and an endpoint."
    problem = (
        f"{found} asks no model" if found == EXTRACTIVE else f"there is no distiller {found!r}"
    )
    if name is None:
        raise ConfigError(problem, field="inference.distiller", hint=hint)
    raise UsageError(problem, field="distiller", hint=hint)


def _server(settings: InferenceSettings) -> Embedder:
    from satchel.inference.openai import OpenAIEmbedder

    for name in ("base_url", "model", "dimensions"):
        if not getattr(settings, name):
            raise ConfigError("the server is not configured", field=f"inference.{name}")
    if settings.dimensions < 0 or settings.timeout <= 0:
        raise ConfigError("this must be more than 0", field="inference.dimensions, timeout")
    return OpenAIEmbedder(
        settings.base_url,
        settings.model,
        settings.dimensions,
        key=_key(settings),
        shorten=settings.shorten,
        timeout=settings.timeout,
    )


def _key(settings: InferenceSettings) -> str:
    """Return the key of the server, from the variable that is configured; empty for none."""
    key = ""
    if settings.key_variable:
        key = os.environ.get(settings.key_variable, "").strip()
        if not key:
            raise ConfigError(
                f"the environment variable {settings.key_variable} is not set",
                field="inference.key_variable",
            )
    return key


_BUILT_IN = {
    "wordllama-l2-256-int8": STATIC,
    "wordllama-l2-256-int8-idf": WEIGHTED,
    "all-MiniLM-L6-v2-int8": NEURAL,
}
"""What makes the vectors of a model, without the module that does: it takes time to import."""

_EMBEDDERS: dict[str, Callable[[InferenceSettings], Embedder]] = {
    WEIGHTED: _weighted,
    STATIC: _static,
    NEURAL: _minilm,
    FOLDER: _folder,
    SERVER: _server,
}
