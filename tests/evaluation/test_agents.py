"""Agents: the reader, a function, a program, and a model behind an endpoint."""

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
    """Return what the reader answers."""
    return ReaderAgent().answer(AgentQuestion(question=question, memory=memory))


def test_the_reader_answers_with_the_sentence_that_fits() -> None:
    """And not with the frame around it."""
    assert answer("What does Ada drink?") == "Ada drinks oolong."
    assert answer("Which car does Chidi drive to Berlin?") == ""


def test_the_reader_names_one_of_the_choices() -> None:
    """That of the part of a sentence which speaks of what is asked."""
    assert answer("Who carries the stove: Mina, Ada or Jorge?") == "Jorge"
    assert choices_of("Who: a, b or c?") == ["a", "b", "c"]
    assert choices_of("Who is it?") == []


def test_the_reader_undoes_what_the_frame_has_escaped() -> None:
    """It reads what was remembered, whatever signs are in it."""
    assert "<b>the van is green</b>" in answer("What colour is the van that Bela spoke of?")


def test_the_reader_knows_nothing_without_memory() -> None:
    """It guesses the first choice, and else says nothing."""
    assert answer("What does Ada drink?", "") == ""
    assert answer("What does Ada drink: tea, milk or oolong?", "") == "tea"


def test_the_reader_answers_deterministically() -> None:
    """Nothing in it draws."""
    assert len({answer("Who carries the tent?") for _ in range(5)}) == 1


def test_a_function_is_an_agent() -> None:
    """It is given the question, the memory, and both as a conversation."""
    told = list[AgentQuestion]()

    def call(asked: AgentQuestion) -> str:
        told.append(asked)
        return "oolong"

    agent = FunctionAgent("mine", call)
    assert agent.answer(AgentQuestion(question="What?", memory="M")) == "oolong"
    assert [one["role"] for one in told[0].messages] == ["system", "system", "user"]
    assert [one["role"] for one in AgentQuestion(question="What?").messages] == ["system", "user"]


def program(text: str, *, timeout: float = 20) -> CommandAgent:
    """Return an agent that is a program of a few words."""
    return CommandAgent([sys.executable, "-I", "-S", "-c", text], timeout=timeout)


def test_a_program_is_an_agent() -> None:
    """JSON on its standard input, the answer on its standard output."""
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
def test_a_program_that_fails_or_hangs_is_an_error_not_an_answer(text: str, said: str) -> None:
    """A wrong answer would count against the memory."""
    with pytest.raises(InferenceError, match=said):
        program(text, timeout=0.3 if "while" in text else 20).answer(
            AgentQuestion(question="What?")
        )


def test_a_program_that_is_not_there_is_an_error() -> None:
    """With its name."""
    with pytest.raises(InferenceError) as found:
        CommandAgent(["no-such-agent-anywhere"]).answer(AgentQuestion(question="What?"))
    assert found.value.file == "no-such-agent-anywhere"


@contextmanager
def chat(answer: str) -> Iterator[tuple[str, list[Any]]]:
    """Give the address of a server that always answers the same, and what it was asked."""
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


def test_a_model_behind_an_endpoint_is_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at temperature 0, with the memory after the instruction."""
    with chat(" oolong \n") as (address, asked):
        monkeypatch.setenv("SATCHEL_INFERENCE_BASE_URL", address)
        agent = agent_called(load_settings(), "endpoint:some-model")
        assert agent.name == "some-model"
        assert agent.answer(AgentQuestion(question="What?", memory="M")) == "oolong"
    (one,) = asked
    assert (one["model"], one["temperature"]) == ("some-model", 0)
    assert [message["content"] for message in one["messages"][1:]] == ["M", "What?"]


@pytest.mark.parametrize("text", ["", "nobody", "command:", "endpoint:", "reader:x"])
def test_an_agent_that_is_none_is_refused(text: str) -> None:
    """With what there is."""
    with pytest.raises(UsageError, match="no agent"):
        agent_called(load_settings(), text)


def test_an_endpoint_that_is_not_configured_is_refused() -> None:
    """Nothing is asked of anybody."""
    with pytest.raises(ConfigError):
        agent_called(load_settings(), "endpoint:some-model")


def test_json_output_is_one_value() -> None:
    """Whatever signs are in it."""
    text = "import json,sys; print(json.load(sys.stdin)['question'])"
    nasty = "line\n\u2028\x00 \ud83d\ude00 end"
    asked = AgentQuestion(question=nasty.encode("utf-16", "surrogatepass").decode("utf-16"))
    assert program(f"import os; os.environ; {text}").answer(asked).startswith("line")
    assert msgspec.json.decode(msgspec.json.encode(asked))["question"] == asked.question
