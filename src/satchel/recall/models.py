"""Embedders and rerankers by name. Only this module names the modules of models."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING

from msgspec import structs

from satchel.config.settings import Settings
from satchel.config.tables import InferenceSettings
from satchel.errors import ConfigError, MissingExtraError, UsageError
from satchel.inference.models import LEXICAL, SERVER, key_of
from satchel.ports.inference import Embedder, Reranker, StagedEmbedder
from satchel.recall.vector_index import EmbedderChoice, GenerationInfo

if TYPE_CHECKING:  # it takes time to import, and most commands need none
    from satchel.recall.rerankers import TimedReranker
from collections import OrderedDict
from collections.abc import Sequence

from blake3 import blake3

from satchel.errors import InferenceError
from satchel.ports.inference import SlowEmbedder

STATIC, WEIGHTED = "static", "static-idf"
NEURAL, FOLDER, OLLAMA = "minilm", "onnx", "ollama"
_OPENAI_URL, _OPENAI_KEY = "https://api.openai.com/v1", "OPENAI_API_KEY"
_OLLAMA_URL = "http://127.0.0.1:11434"
_SERVERS = {OLLAMA: _OLLAMA_URL, SERVER: _OPENAI_URL}
_ADDRESS = "@http"
"""Separates the name of a model from the address of its server."""


def embedder_of(
    settings: Settings, name: str | None = None, info: GenerationInfo | None = None
) -> Embedder:
    """Return an embedder.

    Args:
        settings: Settings with the default embedder, and with servers.
        name: ``static-idf``, ``static``, ``minilm``, ``onnx`` or ``openai``; or a library or server
            with its model: ``ollama:MODEL``, ``openai:MODEL``, ``sentence-transformers:MODEL``,
            ``fastembed:MODEL`` or ``onnx:FOLDER``. That of a server may end with its address,
            as ``openai:MODEL@http://127.0.0.1:8080/v1``.
        info: A generation that it computed before, whose dimensions are known.

    Raises:
        UsageError: If there is no embedder of that name.
        ConfigError: If it is a server that is not configured.
        MissingExtraError: If an extra that it needs is not installed.
    """
    configured = settings.options.inference.embedder
    chosen = name or configured
    if is_named(chosen):
        chosen = _with_address(chosen, configured)
        named = _named(chosen, settings.options.inference)
        if info is not None and info.model == named.model and info.revision == named.revision:
            named.assume(info.dimensions)
        return named
    if chosen not in _EMBEDDERS:
        problem = f"unknown embedder {chosen!r}"
        known = ", ".join((*_EMBEDDERS, *(f"{each}:MODEL" for each in _SCHEMES)))
        if name is None:
            raise ConfigError(problem, field="inference.embedder", hint=f"Known: {known}.")
        raise UsageError(problem, hint=f"Known: {known}.")
    return _EMBEDDERS[chosen](settings.options.inference)


def _with_address(name: str, configured: str) -> str:
    """Return a name with the configured address of its model.

    Raises:
        UsageError: If it contains another address: the operator decides where memories are sent.
    """
    if name == configured:
        return name
    *model, address = _parts(name)
    if address:
        raise UsageError(
            "the address of a server must be in the configuration",
            field="model",
            hint=f'Set embedder = "{name}" in [inference].',
        )
    *known, _ = _parts(configured)
    return configured if model == known else name


@lru_cache(8)  # the next query uses the loaded model and the cached vectors
def _named(name: str, settings: InferenceSettings) -> "CachedEmbedder":
    """Return the embedder of a library or a server for a name with a model."""
    scheme, model, address = _parts(name)
    settings = structs.replace(settings, base_url=address or settings.base_url)
    return CachedEmbedder(_SCHEMES[scheme](settings, model, settings.dimensions))


def _parts(name: str) -> tuple[str, str, str]:
    """Return the library or server of a name, its model, and the address of the server, if any.

    ``openai:MODEL@http://127.0.0.1:8080/v1`` has an address. Vectors are named without it.
    """
    scheme, _, model = name.partition(":")
    if scheme not in _SERVERS:
        return scheme, model, ""
    model, at, rest = model.partition(_ADDRESS)
    return scheme, model, at[1:] + rest


def query_embedders(settings: Settings) -> Callable[[GenerationInfo], Embedder | None]:
    """Return a function that returns the embedder for queries to a generation.

    A library, a server or a model folder is used only if the configuration names it and it computed
    the vectors: what a store contains loads nothing.
    """

    def embedder(info: GenerationInfo) -> Embedder | None:
        named = settings.options.inference.embedder
        name = _BUILT_IN.get(info.model, named)
        if info.model not in _BUILT_IN and named not in (SERVER, FOLDER):
            if not _made_by(named, info):
                return None
            candidate = embedder_of(settings, name, info)
        else:
            candidate = embedder_of(settings, name)
        if not info.is_of(candidate):
            return None
        return candidate.for_questions() if isinstance(candidate, StagedEmbedder) else candidate

    return embedder


def automatic_embedders(settings: Settings) -> EmbedderChoice:
    """Return a function that returns the embedder for automatic vectors of a bank.

    Only embedders that are installed and run on this machine: nothing is sent to others without a
    request. If the configuration names a library or a server with a model, banks switch to it.
    """

    def embedder(info: GenerationInfo | None) -> Embedder | None:
        inference = settings.options.inference
        named = inference.embedder
        if not inference.automatic:
            return None
        if is_named(named):
            if not _is_here(inference):
                return None
            return _unless_missing(settings, named, info)
        # Switch back to a built-in embedder, unless the present vectors were requested.
        moves = info is None or (is_named(info.model) and not info.asked)
        name = named if moves else _BUILT_IN.get(info.model) if info is not None else None
        return _unless_missing(settings, name) if name in _BUILT_IN.values() else None

    return embedder


def is_named(name: str) -> bool:
    """Return whether a name is that of a library or a server with a model."""
    scheme, model, _ = _parts(name)
    return bool(model) and scheme in _SCHEMES


def _made_by(named: str, info: GenerationInfo) -> bool:
    """Return whether a generation was computed by the embedder of a name."""
    scheme, model, _ = _parts(named)
    if scheme == FOLDER and model:
        return info.model == f"{FOLDER}:{Path(model).expanduser().resolve().name}"
    return is_named(named) and info.model == f"{scheme}:{model}"


def server_of(settings: InferenceSettings) -> str | None:
    """Return the address of the configured embedding server; None for a model on this machine."""
    if settings.embedder == SERVER:
        return settings.base_url
    scheme, model, address = _parts(settings.embedder)
    if not model or scheme not in _SERVERS:
        return None
    return address or settings.base_url or _SERVERS[scheme]


def _is_here(settings: InferenceSettings) -> bool:
    """Return whether the configured embedder runs on this machine."""
    address = server_of(settings)
    if address is None:
        return True
    from satchel.inference.endpoint import is_here

    return is_here(address)


def _unless_missing(
    settings: Settings, name: str | None, info: GenerationInfo | None = None
) -> Embedder | None:
    try:
        return embedder_of(settings, name, info)
    except MissingExtraError:
        return None


def reranker_of(
    settings: Settings, name: str | None = None, *, rerank: bool | None = None
) -> Reranker | None:
    """Return a reranker; None for none.

    Args:
        settings: Settings with the default reranker and its time limit.
        name: ``lexical``, or a cross-encoder: ``sentence-transformers:MODEL``,
            ``fastembed:MODEL`` or ``onnx:FOLDER``.
        rerank: False for none, whatever is configured; True to require one.

    Raises:
        UsageError: If there is no reranker of that name, or one is required and none is configured.
        ConfigError: If there is no reranker of the configured name.
    """
    if rerank is False:
        return None
    chosen = name or settings.options.inference.reranker
    if not chosen:
        if rerank:
            raise UsageError(
                "no reranker is configured", field="rerank", hint="Set inference.reranker."
            )
        return None
    scheme, _, model = chosen.partition(":")
    if chosen != LEXICAL and (not model or scheme not in _RERANKERS):
        problem = f"unknown reranker {chosen!r}"
        known = ", ".join((LEXICAL, *(f"{each}:MODEL" for each in _RERANKERS)))
        if name is None:
            raise ConfigError(problem, field="inference.reranker", hint=f"Known: {known}.")
        raise UsageError(problem, field="reranker", hint=f"Known: {known}.")
    timeout = settings.options.inference.reranker_timeout
    if not 0 < timeout <= TIMEOUT_MAX:
        raise ConfigError(
            "the timeout must be more than 0 seconds", field="inference.reranker_timeout"
        )
    return _timed(chosen, timeout)


@lru_cache(4)  # the next query uses the loaded model
def _timed(name: str, timeout: float) -> "TimedReranker":
    from satchel.recall.rerankers import TimedReranker

    if name == LEXICAL:
        return TimedReranker(name, _lexical, timeout)
    scheme, _, model = name.partition(":")
    label = f"{scheme}:{Path(model).expanduser().resolve().name}" if scheme == FOLDER else name
    return TimedReranker(label, lambda: _RERANKERS[scheme](model), timeout)


def _static(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.static_table import StaticTable

    return StaticTable()


def _weighted(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.static_table import WeightedTable

    return WeightedTable()


def _minilm(_settings: InferenceSettings) -> Embedder:
    from satchel.inference.onnx import minilm

    return minilm()


def _folder(settings: InferenceSettings) -> Embedder:
    from satchel.inference.onnx import from_folder

    if not settings.folder:
        raise ConfigError("no model folder is configured", field="inference.folder")
    return from_folder(Path(settings.folder).expanduser())


def _server(settings: InferenceSettings) -> Embedder:
    from satchel.inference.endpoint import OpenAIEmbedder

    for name in ("base_url", "model", "dimensions"):
        if not getattr(settings, name):
            raise ConfigError("the server is not configured", field=f"inference.{name}")
    if settings.dimensions < 0 or settings.timeout <= 0:
        raise ConfigError("must be more than 0", field="inference.dimensions, timeout")
    return OpenAIEmbedder(
        settings.base_url,
        settings.model,
        settings.dimensions,
        key=key_of(settings),
        shorten=settings.shorten,
        timeout=settings.timeout,
    )


def _server_model(settings: InferenceSettings, model: str, dimensions: int) -> Embedder:
    from satchel.inference.endpoint import OpenAIEmbedder

    base_url = settings.base_url or _OPENAI_URL
    key = key_of(settings)
    if not key and base_url == _OPENAI_URL:
        key = os.environ.get(_OPENAI_KEY, "").strip()
        if not key:
            raise ConfigError(
                f"the environment variable {_OPENAI_KEY} is not set",
                field="inference.embedder",
                hint="Set it, or use another server: inference.base_url",
            )
    return OpenAIEmbedder(
        base_url,
        model,
        dimensions,
        key=key,
        shorten=settings.shorten,
        timeout=settings.timeout,
        name=f"{SERVER}:{model}",
    )


def _ollama_model(settings: InferenceSettings, model: str, dimensions: int) -> Embedder:
    from satchel.inference.endpoint import OllamaEmbedder

    base_url = settings.base_url or _OLLAMA_URL
    return OllamaEmbedder(model, base_url, dimensions, timeout=settings.timeout)


def _folder_model(_settings: InferenceSettings, model: str, _dimensions: int) -> Embedder:
    from satchel.inference.onnx import from_folder

    return from_folder(Path(model).expanduser())


def _library_model(library: str) -> "_Scheme":
    def embedder(_settings: InferenceSettings, model: str, dimensions: int) -> Embedder:
        from satchel.inference.libraries import LibraryEmbedder

        return LibraryEmbedder(library, model, dimensions)

    return embedder


def _library_reranker(library: str) -> Callable[[str], Reranker]:
    def reranker(model: str) -> Reranker:
        from satchel.inference.libraries import LibraryReranker

        return LibraryReranker(library, model)

    return reranker


def _folder_reranker(model: str) -> Reranker:
    from satchel.inference.onnx import cross_encoder_from_folder

    return cross_encoder_from_folder(Path(model).expanduser())


def _lexical() -> Reranker:
    from satchel.recall.rerankers import LexicalReranker

    return LexicalReranker()


_BUILT_IN = {
    "wordllama-l2-256-int8": STATIC,
    "wordllama-l2-256-int8-idf": WEIGHTED,
    "all-MiniLM-L6-v2-int8": NEURAL,
}
"""Names of the built-in embedders by the model of their vectors, which needs no import of them."""

_EMBEDDERS: dict[str, Callable[[InferenceSettings], Embedder]] = {
    WEIGHTED: _weighted,
    STATIC: _static,
    NEURAL: _minilm,
    FOLDER: _folder,
    SERVER: _server,
}

_Scheme = Callable[[InferenceSettings, str, int], Embedder]
_SCHEMES: dict[str, _Scheme] = {
    OLLAMA: _ollama_model,
    SERVER: _server_model,
    "sentence-transformers": _library_model("sentence-transformers"),
    "fastembed": _library_model("fastembed"),
    FOLDER: _folder_model,
}
"""Embedders that take the name of a model after a colon."""

_RERANKERS: dict[str, Callable[[str], Reranker]] = {
    "sentence-transformers": _library_reranker("sentence-transformers"),
    "fastembed": _library_reranker("fastembed"),
    FOLDER: _folder_reranker,
}
"""Cross-encoders that take the name of a model after a colon."""


MOST_CACHED_BYTES = 8 << 20
"""Maximum size of the cached vectors; the least recently used are dropped first."""


class CachedEmbedder:
    """An embedder that caches vectors in the process, by the digest of their text.

    Args:
        embedder: The embedder; not one that learns from a bank.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._assumed = 0
        self._cached = OrderedDict[bytes, bytes]()
        self._bytes = 0

    @property
    def model(self) -> str:
        """That of the embedder."""
        return self._embedder.model

    @property
    def dimensions(self) -> int:
        """That of the embedder, or the assumed one."""
        return self._assumed or self._embedder.dimensions

    def assume(self, dimensions: int) -> None:
        """Assume the dimensions of vectors; those with others are refused."""
        self._assumed = self._assumed or dimensions

    @property
    def revision(self) -> str:
        """That of the embedder."""
        return self._embedder.revision

    @property
    def cost(self) -> int:
        """That of the embedder; 1 if it has none."""
        return self._embedder.cost if isinstance(self._embedder, SlowEmbedder) else 1

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``."""
        names = [blake3(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        vectors = {name: self._cached[name] for name in names if name in self._cached}
        lacking = {
            name: text for name, text in zip(names, texts, strict=True) if name not in vectors
        }
        computed = self._embedder.embed(list(lacking.values())) if lacking else []
        for vector in computed:
            if len(vector) != 4 * self.dimensions:
                raise InferenceError(
                    f"{self.model} returned {len(vector) // 4} numbers, not {self.dimensions}",
                    hint="Compute the vectors again: satchel embed --rebuild",
                )
        vectors |= zip(lacking, computed, strict=True)
        for name in dict.fromkeys(names):
            self._cache(name, vectors[name])
        return [vectors[name] for name in names]

    def _cache(self, name: bytes, vector: bytes) -> None:
        if name in self._cached:
            self._cached.move_to_end(name)
            return
        self._cached[name] = vector
        self._bytes += len(vector)
        while self._bytes > MOST_CACHED_BYTES:
            self._bytes -= len(self._cached.popitem(last=False)[1])
