"""An embedding server: asked only as configured, believed only when it answers right."""

import json
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError
from satchel.inference.endpoint import OpenAIEmbedder
from satchel.recall.models import embedder_of

KEY = "sk-test-0123456789"
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]


class Server:
    """A server on this machine that answers as it is told."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.answers: list[Answer] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({"path": self.path, **body})
                outer.heads.append(dict(self.headers))
                answer = outer.answers.pop(0) if outer.answers else vectors
                status, head, sent = answer(body)
                self.send_response(status)
                for name, value in head.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def vectors(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Answer with the length of each text, and 1; the last first."""
    items = [
        {"object": "embedding", "index": at, "embedding": [float(len(text)), 1.0, 0.5]}
        for at, text in enumerate(body["input"])
    ]
    return 200, {}, json.dumps({"data": items[::-1], "usage": {"total_tokens": 3}}).encode()


def status(number: int, body: bytes = b"no", **head: str) -> Answer:
    """Answer with a status."""
    return lambda _body: (number, {k.replace("_", "-"): v for k, v in head.items()}, body)


def says(value: Any) -> Answer:
    """Answer with JSON."""
    return status(200, json.dumps(value).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server, and stop it."""
    made = Server()
    yield made
    made.close()


def model(server: Server, pauses: list[float] | None = None, **more: Any) -> OpenAIEmbedder:
    """Return the embedder of a server; its pauses are only noted."""
    told = pauses if pauses is not None else []
    return OpenAIEmbedder(server.url, "m", 3, pause=told.append, **{"timeout": 5.0, **more})


def numbers(vector: bytes) -> list[float]:
    """Return what is in a vector."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def test_texts_become_vectors_in_their_order(server: Server) -> None:
    """Whatever order the server answers in; blank texts are not sent."""
    found = model(server, key=KEY).embed(["four", "", "sixsix", " "])

    assert [numbers(one) for one in found] == [[4, 1, 0.5], [0, 0, 0], [6, 1, 0.5], [0, 0, 0]]
    assert server.asked == [{"path": "/v1/embeddings", "model": "m", "input": ["four", "sixsix"]}]
    assert server.heads[0]["Authorization"] == f"Bearer {KEY}"


def test_many_texts_go_in_several_requests(server: Server) -> None:
    """Servers bound what they take at once; a long text is cut."""
    found = model(server, shorten=True).embed(["x"] * 300 + ["y" * 500_000])

    assert len(found) == 301
    assert [len(one["input"]) for one in server.asked] == [128, 128, 45]
    assert len(server.asked[-1]["input"][-1]) == 24_000
    assert server.asked[0]["dimensions"] == 3


def test_a_server_that_is_busy_is_asked_again(server: Server) -> None:
    """After a pause that grows, or that the server asks for, but never for long."""
    server.answers = [status(503), status(429, Retry_After="7"), status(500, Retry_After="9" * 99)]
    pauses: list[float] = []

    assert numbers(model(server, pauses).embed(["four"])[0])[0] == 4
    assert 0.5 <= pauses[0] < 1
    assert 7 <= pauses[1] < 8
    assert pauses[2] <= 30


def test_a_server_that_stays_busy_is_abandoned(server: Server) -> None:
    """Nobody waits for ever."""
    server.answers = [status(503)] * 50

    with pytest.raises(InferenceError, match="503"):
        model(server).embed(["x"])
    assert len(server.asked) == 5


def test_a_server_that_is_not_there_is_an_error_not_a_hang() -> None:
    """With the address that was tried."""
    gone = Server()
    gone.close()

    with pytest.raises(InferenceError) as caught:
        model(gone).embed(["x"])
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("number", [400, 401, 403, 404, 301, 302, 307])
def test_a_refused_request_is_reported_and_not_retried(server: Server, number: int) -> None:
    """Also a redirect, which would take the key and the memory elsewhere."""
    server.answers = [status(number, b"bad key " + KEY.encode(), Location="http://127.0.0.1:1/")]

    with pytest.raises(InferenceError, match=str(number)) as caught:
        model(server, key=KEY).embed(["x"])
    assert len(server.asked) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        says({}),
        says([]),
        says({"data": []}),
        says({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
        says({"data": [{"index": 1, "embedding": [1.0, 2.0, 3.0]}]}),
        says({"data": [{"index": -1, "embedding": [1.0, 2.0, 3.0]}]}),
        says({"data": [{"index": 0, "embedding": [1.0, 2.0, 3.0]}] * 2}),
        says({"data": [{"index": 0, "embedding": ["1", "2", "3"]}]}),
        says({"data": [{"index": 0, "embedding": [1e300, 2.0, 3.0]}]}),
        says({"data": [{"index": 0, "embedding": None}]}),
        status(200, b'{"data":[{"index":0,"embedding":[NaN,1,2]}]}'),
        status(200, b"[" * 100_000),
        status(200, b"\xff\xfe"),
        status(200, b""),
        status(200, b" " * 1_000_000),
    ],
    ids=list(map(str, range(15))),
)
def test_an_answer_that_is_none_is_not_believed(server: Server, answer: Answer) -> None:
    """Attack: a server that answers with too few, too many, too long or nothing at all."""
    server.answers = [answer]

    with pytest.raises(InferenceError):
        model(server).embed(["x"])


def test_an_answer_that_breaks_off_is_asked_for_again(server: Server) -> None:
    """What came of it is not used."""
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
    """Attack: the key over an open network, in the address, or a header put into it."""
    with pytest.raises(ConfigError):
        OpenAIEmbedder(address, "m", 3, key=key)


def test_a_server_is_asked_only_when_it_is_configured(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    """Each thing that is missing is named; the key comes from the variable that is named."""
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
