"""Embedders by configuration: Ollama, OpenAI's protocol, libraries, MiniLM and model folders."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from bank_kit import filled, keep
from import_kit import bring, opened, rows, write
from local_server_kit import LocalServer, QuietHandler
from onnx_kit import VOCABULARY, network, write_folder

from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError, MissingExtraError, UsageError
from satchel.evaluation.recall import evaluate_recall
from satchel.inference import onnx
from satchel.inference.onnx import Network, WordPieces
from satchel.recall import models, vector_index
from satchel.recall import vector_updates as step
from satchel.recall.models import CachedEmbedder, automatic_embedders, embedder_of, query_embedders
from satchel.recall.order import DEFAULT_WEIGHTS, weights_of
from satchel.recall.query import Query
from satchel.recall.search import Answer, recall_memories
from satchel.recall.vector_index import GenerationInfo, current_generation, pending_generation
from satchel.recall.vector_updates import STEP, embed_bank, keep_up

TABLE = [[float(row == column) + row / 10 for column in range(4)] for row in range(len(VOCABULARY))]
TEXTS = ("a cup of tea", "rain all day", "the van is red", "tea at the harbour")


def letter_counts(text: str, width: int) -> list[float]:
    """Return a vector of letter counts."""
    found = [0.0] * width
    for letter in text.lower():
        found[ord(letter) % width] += 1.0
    return found


class OllamaServer(LocalServer):
    """A local server with Ollama's protocol."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.width = 8
        self.digest = "sha256:" + "a" * 64
        self.down = False
        outer = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                listed = {"models": [{"name": "tiny:latest", "digest": outer.digest, "size": 1}]}
                self._send(listed if self.path == "/api/tags" else None)

            def do_POST(self) -> None:
                body = json.loads(self.read_body())
                if self.path == "/v1/embeddings":  # of OpenAI's protocol, which it has as well
                    outer.asked.append(body["input"])
                    made = [letter_counts(text, outer.width) for text in body["input"]]
                    items = [{"index": at, "embedding": each} for at, each in enumerate(made)]
                    self._send({"data": items})
                    return
                if self.path != "/api/embed" or body["model"] not in ("tiny", "other"):
                    self._send(None)
                    return
                outer.asked.append(body["input"])
                vectors = [letter_counts(text, outer.width) for text in body["input"]]
                self._send({"model": body["model"], "embeddings": vectors, "load_duration": 1})

            def _send(self, value: Any) -> None:
                sent = json.dumps(value or {"error": "not found"}).encode()
                self.send_body(sent, 503 if outer.down else 200 if value else 404)

        super().__init__(Handler)
        self.url = self.address


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    """Clear the cache of embedders around each test."""
    models._named.cache_clear()
    yield
    models._named.cache_clear()


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    """A server that the configuration names, with a model."""
    made = OllamaServer()
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:tiny")
    monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", made.url)
    yield made
    made.close()


def fill(tmp_path: Path, texts: Sequence[str] = TEXTS) -> None:
    """Import texts into the bank ``b``."""
    named = rows(*((str(number), text) for number, text in enumerate(texts)))
    bring(write(tmp_path / "a.json", named))


def answer(text: str = "tea") -> Answer:
    """Query the bank."""
    with opened() as bank:
        return recall_memories(bank, Query(text=text))


def used_generation() -> GenerationInfo | None:
    """Return the vectors that the bank uses."""
    with opened() as bank, bank.ledger.reading() as view:
        return current_generation(view)


def test_ollama_is_configured_in_one_line(tmp_path: Path, ollama: OllamaServer) -> None:
    """Imports are embedded automatically, because the server is local; queries use the vectors."""
    fill(tmp_path)
    made = used_generation()
    assert made is not None
    assert (made.model, made.dimensions, made.revision) == ("ollama:tiny", 8, "a" * 16)
    found = answer()
    assert found.plan.vectors == "ollama:tiny"
    assert all(memory.text in TEXTS for memory in found.memories)
    assert sorted(text for some in ollama.asked for text in some if text in TEXTS) == sorted(TEXTS)


@pytest.fixture
def one_line_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    """A server whose address is part of the setting."""
    made = OllamaServer()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"openai:tiny@{made.url}/v1")
    yield made
    made.close()


def test_a_server_with_the_openai_protocol_is_configured_in_one_line(
    tmp_path: Path, one_line_server: OllamaServer
) -> None:
    """The vectors have the name of the model, without the address."""
    fill(tmp_path)
    made = used_generation()
    assert made is not None
    assert (made.model, made.dimensions) == ("openai:tiny", 8)
    assert answer().plan.vectors == "openai:tiny"
    assert sorted(
        text for some in one_line_server.asked for text in some if text in TEXTS
    ) == sorted(TEXTS)
    with opened() as bank:
        assert embed_bank(bank, model="openai:tiny").kept == len(TEXTS)


def test_the_address_in_the_setting_overrides_base_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ollama: OllamaServer
) -> None:
    """For Ollama."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"ollama:tiny@{ollama.url}")
    monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", "http://127.0.0.1:9")
    fill(tmp_path)
    assert getattr(used_generation(), "model", "") == "ollama:tiny"


@pytest.mark.usefixtures("one_line_server")
@pytest.mark.parametrize("name", ["openai:tiny@http://192.0.2.1/v1", "ollama:x@http://192.0.2.1"])
def test_attack_a_caller_cannot_choose_the_address(name: str) -> None:
    """It would send all memories to another server."""
    with pytest.raises(UsageError, match="must be in the configuration"):
        embedder_of(load_settings(), name)


def test_the_same_text_is_sent_once(tmp_path: Path, ollama: OllamaServer) -> None:
    """Within a process: equal memories, and a repeated query."""
    fill(tmp_path, ["tea", "tea", "tea", "rain"])
    for _ in range(3):
        answer("a question")
    sent = [text for some in ollama.asked for text in some]
    assert (sent.count("tea"), sent.count("a question")) == (1, 1)


def test_a_changed_model_digest_makes_a_new_generation(
    tmp_path: Path, ollama: OllamaServer
) -> None:
    """Its vectors are not compared with the old ones."""
    fill(tmp_path)
    ollama.digest = "sha256:" + "b" * 64
    models._named.cache_clear()
    with opened() as bank, bank.ledger.reading() as view:
        made = current_generation(view)
        assert made is not None
        assert query_embedders(bank.settings)(made) is None
    with opened() as bank:
        assert embed_bank(bank).made == len(TEXTS)
    assert used_generation() is not None
    assert getattr(used_generation(), "revision", "") == "b" * 16


def test_vectors_of_another_length_are_refused(tmp_path: Path, ollama: OllamaServer) -> None:
    """None is stored, and queries use words only."""
    fill(tmp_path)
    ollama.width = 6
    bring(write(tmp_path / "b.json", rows(("9", "more tea"))))
    assert answer("another question about tea").plan.vectors is None
    with opened() as bank, pytest.raises(InferenceError, match="6 numbers, not 8"):
        embed_bank(bank)


def test_queries_use_words_only_while_the_server_is_down(
    tmp_path: Path, ollama: OllamaServer
) -> None:
    """The plan says so."""
    fill(tmp_path)
    ollama.down = True
    models._named.cache_clear()
    found = answer("harbour")
    assert [memory.text for memory in found.memories] == ["tea at the harbour"]
    assert found.plan.vectors is None


def test_a_missing_model_is_an_error_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, ollama: OllamaServer
) -> None:
    """Ollama answers, but does not have the model."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:absent")
    with pytest.raises(InferenceError) as caught:
        _ = embedder_of(load_settings()).revision
    assert caught.value.hint == "Get it: ollama pull absent"
    assert ollama.asked == []


def test_attack_nothing_is_sent_to_a_remote_server_automatically(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Remote servers are used only on request."""
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


def test_attack_a_model_name_in_a_store_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store from elsewhere could name a folder or a server."""
    fake_libraries = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(models, "_named", lambda name, _: fake_libraries.append(name))
        for name in ("sentence-transformers:/evil", "onnx:evil", "ollama:evil", "openai:evil"):
            made = GenerationInfo(model=name, dimensions=4, number=1)
            assert query_embedders(load_settings())(made) is None
            patch.setenv("SATCHEL_INFERENCE_EMBEDDER", "ollama:tiny")
            assert query_embedders(load_settings())(made) is None
    assert fake_libraries == []


def test_the_default_server_needs_an_api_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is raised before anything is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        embedder_of(load_settings(), "openai:text-embedding-3-small")


def test_a_model_folder_is_configured_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in ONNX Runtime."""
    folder = write_folder(tmp_path / "tiny", TABLE)
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"onnx:{folder}")
    fill(tmp_path)
    made = used_generation()
    assert made is not None
    assert (made.model, made.dimensions) == ("onnx:tiny", 4)
    assert answer("tea").plan.vectors == "onnx:tiny"


@pytest.mark.parametrize("name", ["ollama:", "nothing", "nothing:model"])
def test_an_unknown_model_name_is_refused(name: str) -> None:
    """The error lists the forms."""
    with pytest.raises(UsageError) as caught:
        embedder_of(load_settings(), name)
    assert "ollama:MODEL" in str(caught.value.hint)


# -- libraries -----------------------------------------------------------------------------


class FakeModel:
    """A model with the interface of both libraries, which records how it was loaded."""

    calls: ClassVar[list[tuple[Any, dict[str, Any]]]]
    width = 8

    def __init__(self, name: str, **how: Any) -> None:
        if name == "absent":
            raise OSError("not on this machine")
        assert os.environ["ORT_DISABLE_TELEMETRY"]
        self.calls.append((name, how))

    def encode(self, texts: list[str], **_how: Any) -> Any:
        """As sentence-transformers."""
        return np.array([letter_counts(text, self.width) for text in texts], dtype="float32")

    def embed(self, texts: list[str], **_how: Any) -> Iterator[Any]:
        """As fastembed."""
        yield from self.encode(texts)


@pytest.fixture
def fake_libraries(monkeypatch: pytest.MonkeyPatch) -> type[FakeModel]:
    """Replace both libraries."""

    class Own(FakeModel):
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
def test_a_library_model_is_loaded_from_local_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_libraries: type[FakeModel], library: str
) -> None:
    """Nothing is downloaded and no code of a model runs; embedding is automatic."""
    monkeypatch.setenv("SATCHEL_INFERENCE_EMBEDDER", f"{library}:some/model")
    fill(tmp_path)
    made = used_generation()
    assert made is not None
    assert (made.model, made.dimensions) == (f"{library}:some/model", 8)
    assert answer("tea").plan.vectors == f"{library}:some/model"
    assert [name for name, _ in fake_libraries.calls] == ["some/model"]
    (how,) = (how for _, how in fake_libraries.calls)
    assert how["local_files_only"] is True
    assert not how.get("trust_remote_code")


@LIBRARIES
def test_an_unloadable_or_inconsistent_model_is_an_error(
    fake_libraries: type[FakeModel], library: str
) -> None:
    """It is typed."""
    with pytest.raises(InferenceError, match="cannot be loaded"):
        embedder_of(load_settings(), f"{library}:absent").embed(["tea"])
    found = embedder_of(load_settings(), f"{library}:some")
    assert len(found.embed(["tea", " "])[0]) == 4 * 8
    fake_libraries.width = 6
    with pytest.raises(InferenceError, match="not 8 for each"):
        found.embed(["rain"])


@LIBRARIES
def test_a_missing_library_is_an_error_with_the_install_command(library: str) -> None:
    """In automatic embedding it is skipped."""
    with pytest.raises(MissingExtraError) as caught:
        embedder_of(load_settings(), f"{library}:some")
    assert caught.value.hint == f"Install it: python -m pip install {library}"


def test_the_cache_of_vectors_is_bounded(
    monkeypatch: pytest.MonkeyPatch, ollama: OllamaServer
) -> None:
    """The least recently used ones are dropped."""
    monkeypatch.setattr("satchel.recall.models.MOST_CACHED_BYTES", 4 * 8 * 2)
    found = embedder_of(load_settings())
    assert isinstance(found, CachedEmbedder)
    for text in ("a", "b", "a", "c", "a", "b"):
        found.embed([text])
    sent = [text for some in ollama.asked for text in some if text != "dimensions"]
    assert sent == ["a", "b", "c", "b"]


KINDS = ("ollama", "openai", "sentence-transformers", "fastembed", "onnx")


@pytest.fixture(params=KINDS)
def named_model(
    request: pytest.FixtureRequest, tmp_path: Path, fake_libraries: type[FakeModel]
) -> Iterator[tuple[str, str]]:
    """The one-line setting of each kind of model, and the name of its vectors."""
    kind = str(request.param)
    if kind in ("ollama", "openai"):
        server = OllamaServer()
        yield f"{kind}:tiny@{server.url}{'/v1' if kind == 'openai' else ''}", f"{kind}:tiny"
        server.close()
    elif kind == "onnx":
        yield f"onnx:{write_folder(tmp_path / 'tiny', TABLE)}", "onnx:tiny"
    else:
        assert fake_libraries.width
        yield f"{kind}:some/model", f"{kind}:some/model"


@pytest.mark.in_check(2)
def test_a_change_of_model_is_embedded_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_model: tuple[str, str]
) -> None:
    """The old vectors are used until all new ones exist; they are never mixed."""
    fill(tmp_path, [f"memory {number} of tea" for number in range(40)])
    before = used_generation()
    assert before is not None
    assert before.model == "wordllama-l2-256-int8-idf"
    setting, model = named_model
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


def test_each_kind_of_model_caches_and_verifies_its_vectors(named_model: tuple[str, str]) -> None:
    """A vector of another length is refused."""
    setting, model = named_model
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
def test_texts_are_sent_in_batches(protocol: str) -> None:
    """Of a size that servers accept."""
    server = OllamaServer()
    name = f"{protocol}:tiny@{server.url}{'/v1' if protocol == 'openai' else ''}"
    texts = [f"tea {number}" for number in range(300)]
    models._named(name, load_settings().options.inference).embed(texts)
    server.close()

    sent = [some for some in server.asked if some[0] in texts]
    assert [text for some in sent for text in some] == texts
    assert 1 < len(sent) <= 10


# -- MiniLM and model folders ------------------------------------------------------------


_GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "recalling.md"

DISTINCT = [
    [float(row == column and row > 3) for column in range(len(VOCABULARY))]
    for row in range(len(VOCABULARY))
]
"""Each word has a direction of its own; the special tokens have none."""

SIMILAR = [*DISTINCT[:-3], DISTINCT[4], *DISTINCT[-2:]]
"""A table in which "red" has the vector of "tea"."""


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """The default bank of a new home, open."""
    with filled() as made:
        yield made


def with_inference(bank: OpenBank, patch: pytest.MonkeyPatch, **settings: object) -> OpenBank:
    """Return a bank with settings of ``[inference]``."""
    for name, value in settings.items():
        patch.setenv(f"SATCHEL_INFERENCE_{name.upper()}", str(value))
    return replace(bank, settings=load_settings())


@pytest.fixture
def minilm_bank(bank: OpenBank, monkeypatch: pytest.MonkeyPatch) -> OpenBank:
    """A bank for which MiniLM is configured, with a tiny network in its place."""
    pieces = WordPieces({name: at for at, name in enumerate(VOCABULARY)})
    tiny = Network(network(SIMILAR), pieces, onnx.MINILM)
    monkeypatch.setattr(onnx, "minilm", lambda: tiny)
    return with_inference(bank, monkeypatch, embedder="minilm")


def test_a_model_folder_finds_a_memory_without_shared_words(
    bank: OpenBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is the configured model."""
    folder = write_folder(tmp_path / "own", SIMILAR)
    wanted, _ = keep(bank, "tea"), keep(bank, "van")
    here = with_inference(bank, monkeypatch, embedder="onnx", folder=folder)
    done = embed_bank(here)
    assert (done.model, done.dimensions, done.made) == ("onnx:own", len(VOCABULARY), 2)
    found = recall_memories(here, Query(text="red"))
    assert ([one.id for one in found.memories], found.plan.vectors) == ([wanted], "onnx:own")
    elsewhere = with_inference(bank, monkeypatch, embedder="static")
    plan = recall_memories(elsewhere, Query(text="red")).plan
    assert "queries are not sent to onnx:own" in plan.note


def test_a_changed_model_file_makes_a_new_generation(
    bank: OpenBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors are not compared with the old ones, despite the same name."""
    keep(bank, "tea")
    first, second = (
        with_inference(
            bank, monkeypatch, embedder="onnx", folder=write_folder(tmp_path / name / "own", table)
        )
        for name, table in (("a", DISTINCT), ("b", SIMILAR))
    )
    generation = embed_bank(first).generation
    assert "queries are not sent" in recall_memories(second, Query(text="tea")).plan.note
    done = embed_bank(second)
    assert (done.generation > generation, done.made, done.dropped) == (True, 1, 1)
    assert embed_bank(second).kept == 1


def test_minilm_embeds_automatically_in_small_steps(minilm_bank: OpenBank) -> None:
    """A query waits a fraction of a second at most."""
    for number in range(5):
        keep(minilm_bank, f"tea {number}")
    most = embedder_of(minilm_bank.settings).cost * 2  # type: ignore[attr-defined]
    assert (STEP, keep_up(minilm_bank, most)) == (512, 2)
    assert keep_up(minilm_bank, most) == 2
    assert keep_up(minilm_bank) == 1
    with minilm_bank.ledger.reading() as view:
        made = current_generation(view)
    assert made is not None
    assert (made.model, made.asked) == (onnx.MINILM, False)


def test_without_minilm_installed_queries_use_words_only(
    minilm_bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says what is missing."""
    wanted = keep(minilm_bank, "tea")
    keep_up(minilm_bank)
    monkeypatch.undo()
    monkeypatch.setattr("satchel.inference.onnx.find_spec", lambda _name: None)
    onnx.minilm.cache_clear()
    later = keep(minilm_bank, "rain")
    assert keep_up(minilm_bank) == 0
    found = recall_memories(minilm_bank, Query(text="tea rain"))
    assert {one.id for one in found.memories} == {wanted, later}
    assert "MiniLM" in found.plan.note


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_a_missing_model_folder_is_a_configuration_error(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Raised before anything is embedded."""
    with pytest.raises(ConfigError) as caught:
        embed_bank(with_inference(bank, monkeypatch, embedder="onnx", folder=folder))
    assert caught.value.field == "inference.folder"


def test_ranking_weights_depend_on_the_model() -> None:
    """Better vectors have a higher weight."""
    assert weights_of(onnx.MINILM).meaning > DEFAULT_WEIGHTS.meaning
    assert weights_of("wordllama-l2-256-int8-idf") == weights_of(None) == DEFAULT_WEIGHTS


def _documented(row: str) -> list[str]:
    """Return the figures of a row of the guide's table: LoCoMo, BEAM, QMSum."""
    (line,) = (one for one in _GUIDE.read_text("utf-8").splitlines() if one.startswith(row))
    return [cell.strip() for cell in line.split("|")[2:-1]]


@pytest.mark.shared
@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("column", "name", "questions", "least"),
    [
        pytest.param(0, "locomo/locomo-first6.json", 883, 0.78, id="locomo"),
        pytest.param(1, "beam", 72, 0.58, id="beam"),
        pytest.param(2, "qmsum/Product.jsonl", 129, 0, id="qmsum"),
    ],
)
def test_recall_quality_matches_the_guide(
    shared_data: Path, column: int, name: str, questions: int, least: float
) -> None:
    """R@10 of the default and of MiniLM, to the last digit of the guide plus or minus one."""
    measured = dict[str, float]()
    for model, row in (
        ("static-idf", "| recall by default |"),
        ("minilm", "| recall with [MiniLM]"),
    ):
        said = _documented(row)[column]
        found = evaluate_recall(load_settings(), shared_data / name, model=model).main
        assert found.questions == questions
        measured[model] = found.recall["10"]
        assert measured[model] == pytest.approx(float(said), abs=10.0 ** -len(said[1:]))
    gain = measured["minilm"] - measured["static-idf"]
    assert measured["minilm"] >= least
    assert (abs(gain) < 0.02, gain > 0.03, gain > 0)[column]
