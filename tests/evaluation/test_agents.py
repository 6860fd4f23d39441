"""Agents of evaluations: the reader, a function, a program, and a model behind an endpoint."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest

from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError, UsageError
from satchel.evaluation.agents import (
    AgentQuestion,
    CommandAgent,
    FunctionAgent,
    ReaderAgent,
    agent_called,
    choices_of,
)

MEMORY = r"""[memory 1] Recalled memory follows.
12|Ada drinks oolong.
12|Bela said: \{b\}the van is green\{/b\}\nand fast
12|Jorge carries the stove, Mina carries the tent."""


def answer(question: str, memory: str = MEMORY) -> str:
    """Return the reader's answer."""
    return ReaderAgent().answer(AgentQuestion(question=question, memory=memory))


def test_the_reader_answers_with_the_matching_sentence() -> None:
    """Without the frame around it."""
    assert answer("What does Ada drink?") == "Ada drinks oolong."
    assert answer("Which car does Chidi drive to Berlin?") == ""


def test_the_reader_names_one_of_the_choices() -> None:
    """The choice from the part of the sentence that matches the question."""
    assert answer("Who carries the stove: Mina, Ada or Jorge?") == "Jorge"
    assert choices_of("Who: a, b or c?") == ["a", "b", "c"]
    assert choices_of("Who is it?") == []


def test_the_reader_decodes_escapes_of_the_frame() -> None:
    """It reads the original text."""
    assert "<b>the van is green</b>" in answer("What colour is the van that Bela spoke of?")


def test_the_reader_without_memory_guesses_the_first_choice() -> None:
    """Without choices, its answer is empty."""
    assert answer("What does Ada drink?", "") == ""
    assert answer("What does Ada drink: tea, milk or oolong?", "") == "tea"


def test_the_reader_answers_deterministically() -> None:
    """It uses no random numbers."""
    assert len({answer("Who carries the tent?") for _ in range(5)}) == 1


def test_a_function_can_be_an_agent() -> None:
    """It gets the question, the memory, and both as a conversation."""
    told = list[AgentQuestion]()

    def call(asked: AgentQuestion) -> str:
        told.append(asked)
        return "oolong"

    agent = FunctionAgent("mine", call)
    assert agent.answer(AgentQuestion(question="What?", memory="M")) == "oolong"
    assert [one["role"] for one in told[0].messages] == ["system", "system", "user"]
    assert [one["role"] for one in AgentQuestion(question="What?").messages] == ["system", "user"]


def program(text: str, *, timeout: float = 20) -> CommandAgent:
    """Return an agent that runs a Python program."""
    return CommandAgent([sys.executable, "-I", "-S", "-c", text], timeout=timeout)


def test_a_program_can_be_an_agent() -> None:
    """JSON on standard input, the answer on standard output."""
    text = "import json,sys; d=json.load(sys.stdin); print(d['memory'], len(d['messages']))"
    assert program(text).answer(AgentQuestion(question="What?", memory="oolong")) == "oolong 3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; print('no tea', file=sys.stderr); sys.exit(3)", "status 3: no tea"),
        ("while True: pass", "longer than 0.3 seconds"),
    ],
    ids=["fails", "hangs"],
)
def test_a_failing_or_hanging_program_is_an_error(text: str, said: str) -> None:
    """A wrong answer would count against the memory."""
    with pytest.raises(InferenceError, match=said):
        program(text, timeout=0.3 if "while" in text else 20).answer(
            AgentQuestion(question="What?")
        )


def test_a_missing_program_is_an_error() -> None:
    """The error names it."""
    with pytest.raises(InferenceError) as found:
        CommandAgent(["no-such-agent-anywhere"]).answer(AgentQuestion(question="What?"))
    assert found.value.file == "no-such-agent-anywhere"


@contextmanager
def chat(answer: str) -> Iterator[tuple[str, list[Any]]]:
    """Serve one fixed answer; yield the address and the requests."""
    asked = list[Any]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_model_behind_an_endpoint_can_be_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """At temperature 0, with the memory after the instruction."""
    with chat(" oolong \n") as (address, asked):
        monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", address)
        agent = agent_called(load_settings(), "endpoint:some-model")
        assert agent.name == "some-model"
        assert agent.answer(AgentQuestion(question="What?", memory="M")) == "oolong"
    (one,) = asked
    assert (one["model"], one["temperature"]) == ("some-model", 0)
    assert [message["content"] for message in one["messages"][1:]] == ["M", "What?"]


@pytest.mark.parametrize("text", ["", "nobody", "command:", "endpoint:", "reader:x"])
def test_an_unknown_agent_is_refused(text: str) -> None:
    """The error lists the kinds of agents."""
    with pytest.raises(UsageError, match="no agent"):
        agent_called(load_settings(), text)


def test_an_unconfigured_endpoint_is_refused() -> None:
    """No request is sent."""
    with pytest.raises(ConfigError):
        agent_called(load_settings(), "endpoint:some-model")


def test_agent_requests_are_valid_json_for_any_text() -> None:
    """Including control characters and separators."""
    text = "import json,sys; print(json.load(sys.stdin)['question'])"
    nasty = "line\n\u2028\x00 \ud83d\ude00 end"
    asked = AgentQuestion(question=nasty.encode("utf-16", "surrogatepass").decode("utf-16"))
    assert program(f"import os; os.environ; {text}").answer(asked).startswith("line")
    assert msgspec.json.decode(msgspec.json.encode(asked))["question"] == asked.question
