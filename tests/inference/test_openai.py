"""An OpenAI-compatible embedding server: requests, retries, and validation of answers."""

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_server_kit import LocalServer, QuietHandler

from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError
from satchel.inference.endpoint import OpenAIEmbedder
from satchel.recall.models import embedder_of

KEY = "sk-test-0123456789"
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]


class Server(LocalServer):
    """A local server with scripted answers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.answers: list[Answer] = []
        outer = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = json.loads(self.read_body())
                outer.asked.append({"path": self.path, **body})
                outer.heads.append(dict(self.headers))
                answer = outer.answers.pop(0) if outer.answers else vectors
                status, head, sent = answer(body)
                self.send_body(sent, status, **head)

        super().__init__(Handler)
        self.url = f"{self.address}/v1"


def vectors(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Answer with the length of each text, and 1; in reverse order."""
    items = [
        {"object": "embedding", "index": at, "embedding": [float(len(text)), 1.0, 0.5]}
        for at, text in enumerate(body["input"])
    ]
    return 200, {}, json.dumps({"data": items[::-1], "usage": {"total_tokens": 3}}).encode()


def status(number: int, body: bytes = b"no", **head: str) -> Answer:
    """Answer with a status."""
    return lambda _body: (number, {k.replace("_", "-"): v for k, v in head.items()}, body)


def json_answer(value: Any) -> Answer:
    """Answer with JSON."""
    return status(200, json.dumps(value).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server."""
    made = Server()
    yield made
    made.close()


def model(server: Server, pauses: list[float] | None = None, **more: Any) -> OpenAIEmbedder:
    """Return the embedder of a server; its pauses are recorded, not waited for."""
    told = pauses if pauses is not None else []
    return OpenAIEmbedder(server.url, "m", 3, pause=told.append, **{"timeout": 5.0, **more})


def numbers(vector: bytes) -> list[float]:
    """Return the numbers of a vector."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def test_vectors_are_in_the_order_of_the_texts(server: Server) -> None:
    """In any order of the answer; blank texts are not sent."""
    found = model(server, key=KEY).embed(["four", "", "sixsix", " "])

    assert [numbers(one) for one in found] == [[4, 1, 0.5], [0, 0, 0], [6, 1, 0.5], [0, 0, 0]]
    assert server.asked == [{"path": "/v1/embeddings", "model": "m", "input": ["four", "sixsix"]}]
    assert server.heads[0]["Authorization"] == f"Bearer {KEY}"


def test_many_texts_are_sent_in_batches(server: Server) -> None:
    """Servers limit the size of a request; a long text is truncated."""
    found = model(server, shorten=True).embed(["x"] * 300 + ["y" * 500_000])

    assert len(found) == 301
    assert [len(one["input"]) for one in server.asked] == [128, 128, 45]
    assert len(server.asked[-1]["input"][-1]) == 24_000
    assert server.asked[0]["dimensions"] == 3


def test_a_busy_server_is_retried(server: Server) -> None:
    """After a growing pause, or the one of ``Retry-After``, up to 30 seconds."""
    server.answers = [status(503), status(429, Retry_After="7"), status(500, Retry_After="9" * 99)]
    pauses: list[float] = []

    assert numbers(model(server, pauses).embed(["four"])[0])[0] == 4
    assert 0.5 <= pauses[0] < 1
    assert 7 <= pauses[1] < 8
    assert pauses[2] <= 30


def test_a_server_that_stays_busy_is_abandoned(server: Server) -> None:
    """After five attempts."""
    server.answers = [status(503)] * 50

    with pytest.raises(InferenceError, match="503"):
        model(server).embed(["x"])
    assert len(server.asked) == 5


def test_an_unreachable_server_is_an_error() -> None:
    """The error names its address."""
    gone = Server()
    gone.close()

    with pytest.raises(InferenceError) as caught:
        model(gone).embed(["x"])
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("number", [400, 401, 403, 404, 301, 302, 307])
def test_a_refused_request_is_reported_and_not_retried(server: Server, number: int) -> None:
    """Nor is a redirect followed, which would send key and text elsewhere."""
    server.answers = [status(number, b"bad key " + KEY.encode(), Location="http://127.0.0.1:1/")]

    with pytest.raises(InferenceError, match=str(number)) as caught:
        model(server, key=KEY).embed(["x"])
    assert len(server.asked) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({}),
        json_answer([]),
        json_answer({"data": []}),
        json_answer({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
        json_answer({"data": [{"index": 1, "embedding": [1.0, 2.0, 3.0]}]}),
        json_answer({"data": [{"index": -1, "embedding": [1.0, 2.0, 3.0]}]}),
        json_answer({"data": [{"index": 0, "embedding": [1.0, 2.0, 3.0]}] * 2}),
        json_answer({"data": [{"index": 0, "embedding": ["1", "2", "3"]}]}),
        json_answer({"data": [{"index": 0, "embedding": [1e300, 2.0, 3.0]}]}),
        json_answer({"data": [{"index": 0, "embedding": None}]}),
        status(200, b'{"data":[{"index":0,"embedding":[NaN,1,2]}]}'),
        status(200, b"[" * 100_000),
        status(200, b"\xff\xfe"),
        status(200, b""),
        status(200, b" " * 1_000_000),
    ],
    ids=list(map(str, range(15))),
)
def test_attack_an_answer_is_invalid(server: Server, answer: Answer) -> None:
    """Too few, too many or too long vectors, or none."""
    server.answers = [answer]

    with pytest.raises(InferenceError):
        model(server).embed(["x"])


def test_a_truncated_answer_is_retried(server: Server) -> None:
    """Its content is not used."""
    server.answers = [lambda _body: (200, {"Content-Length": "9999"}, b'{"data"')]

    assert numbers(model(server).embed(["four"])[0])[0] == 4
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("http://example.org/v1", KEY),
        ("ftp://127.0.0.1/", ""),
        ("https://", ""),
        ("nonsense", ""),
        ("https://[", ""),
        ("https://[::1/v1", ""),
        ("https://example.org:99999/v1", ""),
        ("https://example.org:port/v1", ""),
        ("https://user:pass@example.org/v1", ""),
        ("https://example.org/v1?key=x", ""),
        ("https://example.org/v1", "a\r\nHost: evil"),
    ],
)
def test_an_address_that_would_expose_the_key_is_refused(address: str, key: str) -> None:
    """Attack: the key over an open network, in the address, or with an injected header."""
    with pytest.raises(ConfigError):
        OpenAIEmbedder(address, "m", 3, key=key)


def test_a_server_must_be_configured(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Each missing setting is named; the key comes from the configured variable."""
    with pytest.raises(ConfigError) as caught:
        embedder_of(load_settings(), "openai")
    assert caught.value.field == "inference.base_url"
    monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", server.url)
    monkeypatch.setenv("SATCHEL_INFERENCE_MODEL", "m")
    monkeypatch.setenv("SATCHEL_INFERENCE_DIMENSIONS", "3")
    monkeypatch.setenv("SATCHEL_INFERENCE_KEY_VARIABLE", "MY_KEY")
    with pytest.raises(ConfigError, match="MY_KEY"):
        embedder_of(load_settings(), "openai")
    monkeypatch.setenv("MY_KEY", KEY)

    assert len(embedder_of(load_settings(), "openai").embed(["four"])[0]) == 12
    assert server.heads[0]["Authorization"] == f"Bearer {KEY}"
