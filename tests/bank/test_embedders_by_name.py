"""Embedders that a line of configuration names: Ollama, OpenAI's protocol, libraries, folders."""

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from import_kit import bring, opened, rows, write
from onnx_kit import VOCABULARY, write_folder

from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError, MissingExtraError, UsageError
from satchel.recall import models, vector_index
from satchel.recall import vector_updates as step
from satchel.recall.models import CachedEmbedder, automatic_embedders, embedder_of, query_embedders
from satchel.recall.query import Query
from satchel.recall.search import Answer, recall_memories
from satchel.recall.vector_index import GenerationInfo, current_generation, pending_generation
from satchel.recall.vector_updates import embed_bank

TABLE = [[float(row == column) + row / 10 for column in range(4)] for row in range(len(VOCABULARY))]
TEXTS = ("a cup of tea", "rain all day", "the van is red", "tea at the harbour")


def numbers(text: str, width: int) -> list[float]:
    """Return a vector: how often letters are in a text, by their number."""
    found = [0.0] * width
    for letter in text.lower():
        found[ord(letter) % width] += 1.0
    return found


class Ollama:
    """A server on this machine that speaks Ollama's protocol."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.width = 8
        self.digest = "sha256:" + "a" * 64
        self.down = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listed = {"models": [{"name": "tiny:latest", "digest": outer.digest, "size": 1}]}
                self._say(listed if self.path == "/api/tags" else None)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/v1/embeddings":  # of OpenAI's protocol, which it has as well
                    outer.asked.append(body["input"])
                    made = [numbers(text, outer.width) for text in body["input"]]
                    items = [{"index": at, "embedding": each} for at, each in enumerate(made)]
                    self._say({"data": items})
                    return
                if self.path != "/api/embed" or body["model"] not in ("tiny", "other"):
                    self._say(None)
                    return
                outer.asked.append(body["input"])
                vectors = [numbers(text, outer.width) for text in body["input"]]
                self._say({"model": body["model"], "embeddings": vectors, "load_duration": 1})

            def _say(self, value: Any) -> None:
                sent = json.dumps(value or {"error": "not found"}).encode()
                self.send_response(503 if outer.down else 200 if value else 404)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Keep no embedder from one test to the next."""
    models._named.cache_clear()
    yield
    models._named.cache_clear()


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ollama]:
    """Give a server that the configuration names with a model."""
    made = Ollama()
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:tiny")
    monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", made.url)
    yield made
    made.close()


def filled(tmp_path: Path, texts: Sequence[str] = TEXTS) -> None:
    """Fill the bank ``b``."""
    named = rows(*((str(number), text) for number, text in enumerate(texts)))
    bring(write(tmp_path / "a.json", named))


def answer(text: str = "tea") -> Answer:
    """Ask the bank."""
    with opened() as bank:
        return recall_memories(bank, Query(text=text))


def used() -> GenerationInfo | None:
    """Return the vectors that the bank uses."""
    with opened() as bank, bank.ledger.reading() as view:
        return current_generation(view)


def test_one_line_of_configuration_embeds_by_ollama(tmp_path: Path, ollama: Ollama) -> None:
    """An import makes the vectors, since the server is this machine's; questions are compared."""
    filled(tmp_path)
    made = used()
    assert made is not None
    assert (made.model, made.dimensions, made.revision) == ("ollama:tiny", 8, "a" * 16)
    found = answer()
    assert found.plan.vectors == "ollama:tiny"
    assert all(memory.text in TEXTS for memory in found.memories)
    assert sorted(text for some in ollama.asked for text in some if text in TEXTS) == sorted(TEXTS)


@pytest.fixture
def by_one_line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ollama]:
    """Give a server that one setting names, with its address."""
    made = Ollama()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"openai:tiny@{made.url}/v1")
    yield made
    made.close()


def test_one_line_of_configuration_embeds_by_a_server_with_the_protocol_of_openai(
    tmp_path: Path, by_one_line: Ollama
) -> None:
    """The name of the vectors is that of the model, wherever it runs."""
    filled(tmp_path)
    made = used()
    assert made is not None
    assert (made.model, made.dimensions) == ("openai:tiny", 8)
    assert answer().plan.vectors == "openai:tiny"
    assert sorted(text for some in by_one_line.asked for text in some if text in TEXTS) == sorted(
        TEXTS
    )
    with opened() as bank:
        assert embed_bank(bank, model="openai:tiny").kept == len(TEXTS)


def test_ollama_at_another_address_is_one_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ollama: Ollama
) -> None:
    """What the name says counts, not ``base_url``."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"ollama:tiny@{ollama.url}")
    monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", "http://127.0.0.1:9")
    filled(tmp_path)
    assert getattr(used(), "model", "") == "ollama:tiny"


@pytest.mark.usefixtures("by_one_line")
@pytest.mark.parametrize("name", ["openai:tiny@http://192.0.2.1/v1", "ollama:x@http://192.0.2.1"])
def test_a_caller_names_no_address(name: str) -> None:
    """Attack: whoever may ask for vectors would have the memories sent elsewhere."""
    with pytest.raises(UsageError, match="must be in the configuration"):
        embedder_of(load_settings(), name)


def test_the_same_text_is_sent_once(tmp_path: Path, ollama: Ollama) -> None:
    """Within a process: memories that say the same, and a question that is asked again."""
    filled(tmp_path, ["tea", "tea", "tea", "rain"])
    for _ in range(3):
        answer("a question")
    sent = [text for some in ollama.asked for text in some]
    assert (sent.count("tea"), sent.count("a question")) == (1, 1)


def test_a_model_that_was_pulled_again_is_another_one(tmp_path: Path, ollama: Ollama) -> None:
    """Ollama says so by its digest; its vectors are not compared with the old ones."""
    filled(tmp_path)
    ollama.digest = "sha256:" + "b" * 64
    models._named.cache_clear()
    with opened() as bank, bank.ledger.reading() as view:
        made = current_generation(view)
        assert made is not None
        assert query_embedders(bank.settings)(made) is None
    with opened() as bank:
        assert embed_bank(bank).made == len(TEXTS)
    assert used() is not None
    assert getattr(used(), "revision", "") == "b" * 16


def test_vectors_of_another_length_are_refused_by_a_typed_error(
    tmp_path: Path, ollama: Ollama
) -> None:
    """Nothing of them is kept, and questions are answered by words."""
    filled(tmp_path)
    ollama.width = 6
    bring(write(tmp_path / "b.json", rows(("9", "more tea"))))
    assert answer("another question about tea").plan.vectors is None
    with opened() as bank, pytest.raises(InferenceError, match="6 numbers, not 8"):
        embed_bank(bank)


def test_a_server_that_is_down_leaves_words(tmp_path: Path, ollama: Ollama) -> None:
    """The answer comes all the same, and says why."""
    filled(tmp_path)
    ollama.down = True
    models._named.cache_clear()
    found = answer("harbour")
    assert [memory.text for memory in found.memories] == ["tea at the harbour"]
    assert found.plan.vectors is None


def test_a_model_that_is_not_there_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, ollama: Ollama
) -> None:
    """Ollama answers, and has no such model."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:absent")
    with pytest.raises(InferenceError) as caught:
        _ = embedder_of(load_settings()).revision
    assert caught.value.hint == "Get it: ollama pull absent"
    assert ollama.asked == []


def test_nothing_is_sent_to_another_machine_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack by accident: a server that is configured is not one that everything goes to."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for name, url in (
        ("openai:text-embedding-3-small", ""),
        ("openai:text-embedding-3-small", "https://models.example/v1"),
        ("ollama:tiny", "http://models.example:11434"),
        ("openai:tiny@https://models.example/v1", "http://127.0.0.1:8080/v1"),
        ("ollama:tiny@http://models.example:11434", ""),
    ):
        monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", name)
        monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", url)
        assert automatic_embedders(load_settings())(None) is None


def test_what_a_store_says_of_its_vectors_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a store that came from elsewhere names a model in a folder, or a server."""
    loaded = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(models, "_named", lambda name, _: loaded.append(name))
        for name in ("sentence-transformers:/evil", "onnx:evil", "ollama:evil", "openai:evil"):
            made = GenerationInfo(model=name, dimensions=4, number=1)
            assert query_embedders(load_settings())(made) is None
            patch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:tiny")
            assert query_embedders(load_settings())(made) is None
    assert loaded == []


def test_a_key_is_needed_for_the_server_that_is_asked_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        embedder_of(load_settings(), "openai:text-embedding-3-small")


def test_a_folder_is_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of one's own, with the real runtime."""
    folder = write_folder(tmp_path / "tiny", TABLE)
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"onnx:{folder}")
    filled(tmp_path)
    made = used()
    assert made is not None
    assert (made.model, made.dimensions) == ("onnx:tiny", 4)
    assert answer("tea").plan.vectors == "onnx:tiny"


@pytest.mark.parametrize("name", ["ollama:", "nothing", "nothing:model"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """The error says which there are."""
    with pytest.raises(UsageError) as caught:
        embedder_of(load_settings(), name)
    assert "ollama:MODEL" in str(caught.value.hint)


# -- libraries -----------------------------------------------------------------------------


class Loaded:
    """A model as both libraries give it, with what it was loaded by."""

    calls: ClassVar[list[tuple[Any, dict[str, Any]]]]
    width = 8

    def __init__(self, name: str, **how: Any) -> None:
        if name == "absent":
            raise OSError("not on this machine")
        assert os.environ["ORT_DISABLE_TELEMETRY"]
        self.calls.append((name, how))

    def encode(self, texts: list[str], **_how: Any) -> Any:
        """As sentence-transformers."""
        return np.array([numbers(text, self.width) for text in texts], dtype="float32")

    def embed(self, texts: list[str], **_how: Any) -> Iterator[Any]:
        """As fastembed."""
        yield from self.encode(texts)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> type[Loaded]:
    """Put both libraries where they would be."""

    class Own(Loaded):
        calls: ClassVar = list[tuple[Any, dict[str, Any]]]()

    for module, name in (
        ("sentence_transformers", "SentenceTransformer"),
        ("fastembed", "TextEmbedding"),
    ):
        made = ModuleType(module)
        made.__spec__ = ModuleSpec(module, None)
        setattr(made, name, Own)
        monkeypatch.setitem(sys.modules, module, made)
    return Own


LIBRARIES = pytest.mark.parametrize("library", ["sentence-transformers", "fastembed"])


@LIBRARIES
def test_a_model_of_a_library_is_loaded_from_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: type[Loaded], library: str
) -> None:
    """Nothing is downloaded, no code of a model is run; its vectors are made unasked."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"{library}:some/model")
    filled(tmp_path)
    made = used()
    assert made is not None
    assert (made.model, made.dimensions) == (f"{library}:some/model", 8)
    assert answer("tea").plan.vectors == f"{library}:some/model"
    assert [name for name, _ in loaded.calls] == ["some/model"]
    (how,) = (how for _, how in loaded.calls)
    assert how["local_files_only"] is True
    assert not how.get("trust_remote_code")


@LIBRARIES
def test_a_model_that_cannot_be_loaded_or_gives_other_numbers_is_an_error(
    loaded: type[Loaded], library: str
) -> None:
    """Typed, with what to do."""
    with pytest.raises(InferenceError, match="cannot be loaded"):
        embedder_of(load_settings(), f"{library}:absent").embed(["tea"])
    found = embedder_of(load_settings(), f"{library}:some")
    assert len(found.embed(["tea", " "])[0]) == 4 * 8
    loaded.width = 6
    with pytest.raises(InferenceError, match="not 8 for each"):
        found.embed(["rain"])


@LIBRARIES
def test_a_library_that_is_not_installed_is_an_error_with_a_remedy(library: str) -> None:
    """Unasked, vectors are left out then."""
    with pytest.raises(MissingExtraError) as caught:
        embedder_of(load_settings(), f"{library}:some")
    assert caught.value.hint == f"Install it: python -m pip install {library}"


def test_vectors_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch, ollama: Ollama) -> None:
    """The ones used longest ago go first."""
    monkeypatch.setattr("satchel.recall.models.MOST_CACHED_BYTES", 4 * 8 * 2)
    found = embedder_of(load_settings())
    assert isinstance(found, CachedEmbedder)
    for text in ("a", "b", "a", "c", "a", "b"):
        found.embed([text])
    sent = [text for some in ollama.asked for text in some if text != "dimensions"]
    assert sent == ["a", "b", "c", "b"]


KINDS = ("ollama", "openai", "sentence-transformers", "fastembed", "onnx")


@pytest.fixture(params=KINDS)
def line(
    request: pytest.FixtureRequest, tmp_path: Path, loaded: type[Loaded]
) -> Iterator[tuple[str, str]]:
    """Give the one setting for each kind of model, and what its vectors are named by."""
    kind = str(request.param)
    if kind in ("ollama", "openai"):
        server = Ollama()
        yield f"{kind}:tiny@{server.url}{'/v1' if kind == 'openai' else ''}", f"{kind}:tiny"
        server.close()
    elif kind == "onnx":
        yield f"onnx:{write_folder(tmp_path / 'tiny', TABLE)}", "onnx:tiny"
    else:
        assert loaded.width
        yield f"{kind}:some/model", f"{kind}:some/model"


def test_a_change_of_model_is_made_in_the_background_and_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, str]
) -> None:
    """The old vectors answer until all new ones are there."""
    filled(tmp_path, [f"memory {number} of tea" for number in range(40)])
    before = used()
    assert before is not None
    assert before.model == "wordllama-l2-256-int8-idf"
    setting, model = line
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", setting)
    monkeypatch.setattr(step, "keep_up", lambda _bank: None)
    seen = list[str | None]()
    for _ in range(20):
        with opened() as bank:
            vector_index.keep_up(
                bank.store, bank.ledger, automatic_embedders(bank.settings), 16 * 8
            )
            seen.append(recall_memories(bank, Query(text="tea")).plan.vectors)
            with bank.ledger.reading() as view:
                making, there = pending_generation(view), view.generations()
                now = current_generation(view)
            assert now is not None
            if now.model == before.model and making is not None:
                assert there[making.generation] < 40
    assert seen[0] == before.model
    assert seen[-1] == model
    assert seen == sorted(seen, key=lambda each: each == model)


def test_one_line_names_any_model_and_its_texts_are_kept_and_checked(line: tuple[str, str]) -> None:
    """The same text is made once, many at a time, and vectors of another length are refused."""
    setting, model = line
    found = models._named(setting, load_settings().options.inference)
    texts = [f"tea {number}" for number in range(300)]
    vectors = found.embed(texts)

    assert found.model == model
    assert {len(each) for each in vectors} == {4 * found.dimensions}
    assert found.embed(texts[::-1]) == vectors[::-1]
    found = CachedEmbedder(found)
    found.assume(3)
    with pytest.raises(InferenceError, match="numbers, not 3"):
        found.embed(["another text"])


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_many_texts_are_sent_in_few_requests(protocol: str) -> None:
    """Servers bound what they take at once."""
    server = Ollama()
    name = f"{protocol}:tiny@{server.url}{'/v1' if protocol == 'openai' else ''}"
    texts = [f"tea {number}" for number in range(300)]
    models._named(name, load_settings().options.inference).embed(texts)
    server.close()

    sent = [some for some in server.asked if some[0] in texts]
    assert [text for some in sent for text in some] == texts
    assert 1 < len(sent) <= 10
