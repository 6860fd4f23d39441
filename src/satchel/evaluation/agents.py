"""Agents that answer probes: a reader without a model, programs, endpoints."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

import msgspec

from satchel.config.settings import Settings
from satchel.errors import InferenceError, UsageError
from satchel.evaluation.probes import says, without_article
from satchel.inference.endpoint import Chat


class AgentQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to an agent."""

    question: str
    memory: str = ""
    """The framed memory; empty for an agent without memory."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The question as a conversation: instruction, memory, question."""
        messages = [{"role": "system", "content": INSTRUCTION}]
        if self.memory:
            messages.append({"role": "system", "content": self.memory})
        return [*messages, {"role": "user", "content": self.question}]


INSTRUCTION = (
    "Answer the question in one sentence of at most 40 words. Use what you remember. Where the "
    "question offers choices, name the one that is right and no other. If you do not know, "
    "choose, or say that you do not know."
)


class ProbeAgent(Protocol):
    """An agent that answers questions."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    def answer(self, request: AgentQuestion) -> str:
        """Return an answer; empty for none.

        Raises:
            InferenceError: If it does not respond.
        """


@dataclass(frozen=True, slots=True)
class FunctionAgent:
    """An agent that is a function of this process."""

    name: str
    call: Callable[[AgentQuestion], str]

    def answer(self, request: AgentQuestion) -> str:
        """Return the result of the function."""
        return self.call(request)


_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_SHORT = {"n": "\n", "r": "\n", "t": " ", "(": "[", ")": "]", "{": "<", "}": ">", "/": "|"}
_SHORT |= {"+": "&", "_": " ", ".": ":", "-": "", "v": "", "j": "", "z": ""}
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_CLAUSE = re.compile(r"[,;:]\s|\band\b|\bbut\b|\bafter\b|\bsince\b|\bbecause\b|\bto\b|\bfrom\b")
_CHOICES = re.compile(r":\s*([^:?]+?)\s+or\s+([^:?]+)\?\s*$")
_WORD = re.compile(r"[^\W_]+")
_MARK = re.compile(r"^\w{1,12}\|")
"""The prefix of each record in a frame."""

_LONGEST = 40
"""Maximum words of an answer."""

_ENOUGH = 0.3
"""The minimum share of a question's terms that a sentence must have to be an answer."""

_SMALL = (
    "a an and are as at be been by can did do does for from had has have how in into is it its "
    "many much now of on or than that the then there they this to was were what when where which "
    "who whom whose why will with would"
)
_PLAIN = frozenset(_SMALL.split())
_ENDINGS = ("ings", "ing", "edly", "ed", "ies", "es", "s", "e", "y")
_SHORTEST = 3


class ReaderAgent:
    """Answers by extraction.

    Args:
        name: Its name in reports.
    """

    def __init__(self, name: str = "reader") -> None:
        self.name = name

    def answer(self, request: AgentQuestion) -> str:
        """Return the sentence that matches a question best, or the choice in it.

        Without a matching sentence, the first choice; else an empty text.
        """
        ranked = self._ranked(request)
        if choices := choices_of(request.question):
            return _chosen(choices, ranked, request.question)
        if not ranked or ranked[0][0] < _ENOUGH:
            return ""
        return " ".join(ranked[0][1].split()[:_LONGEST])

    def _ranked(self, request: AgentQuestion) -> list[tuple[float, str]]:
        """Return sentences with the share of the question's terms in each, best first."""
        sentences = _sentences(request.memory)
        terms = [frozenset(terms_of(sentence)) for sentence in sentences]
        common = Counter(term for some in terms for term in some)
        weights = {
            term: log(1 + len(sentences) / (1 + common[term])) + 0.1
            for term in dict.fromkeys(terms_of(request.question))
        }
        total = sum(weights.values()) or 1.0
        shares = (sum(weights.get(term, 0.0) for term in some) / total for some in terms)
        matching = [scored for scored in zip(shares, sentences, strict=True) if scored[0]]
        return sorted(matching, key=lambda scored: -scored[0])


def choices_of(question: str) -> list[str]:
    """Return the choices of a question: ``...: tea, coffee or milk?``."""
    match = _CHOICES.search(question)
    return [*re.split(r",\s*", match[1]), match[2].strip()] if match else []


def terms_of(text: str) -> list[str]:
    """Return the content words of a text, stemmed."""
    words = (word.casefold() for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _PLAIN]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


def _sentences(memory: str) -> list[str]:
    """Return a text with escapes decoded."""
    lines = (_unescaped(_MARK.sub("", line)) for line in memory.splitlines())
    sentences = (sentence.strip() for line in lines for sentence in _SENTENCE.split(line))
    return [sentence for sentence in sentences if sentence]


def _unescaped(line: str) -> str:
    """Return a record as it was stored, for the escapes of a frame."""
    return _ESCAPED.sub(_character, line)


def _character(match: re.Match[str]) -> str:
    if number := match[1] or match[2]:
        code = int(number, 16)
        return chr(code) if code <= sys.maxunicode else match[0]
    return _SHORT.get(match[3], match[3])


def _chosen(choices: Sequence[str], ranked: Sequence[tuple[float, str]], question: str) -> str:
    """Return the choice in the sentence that matches the question best.

    Of several, the one in the clause with most of the question's terms.
    """
    terms = frozenset(terms_of(question[: question.rfind(":")]))
    for share, sentence in ranked:
        if share < _ENOUGH:
            break
        named = _choices_in(choices, sentence)
        if len(named) > 1:
            parts = sorted(
                (part for part in _CLAUSE.split(sentence) if len(_choices_in(choices, part)) == 1),
                key=lambda part: -len(terms.intersection(terms_of(part))),
            )
            named = _choices_in(choices, parts[0]) if parts else []
        if len(named) == 1:
            return named[0]
    return choices[0]


def _choices_in(choices: Sequence[str], text: str) -> list[str]:
    return [choice for choice in choices if says(text, [without_article(choice)])]


_MOST = 1 << 20
"""Maximum bytes of an answer."""

_TOLD = 200


class CommandAgent:
    """An agent that runs a program for each question.

    Args:
        words: The program and its arguments, without a shell.
        timeout: Seconds for an answer; then the program and its children are killed.
    """

    def __init__(self, words: Sequence[str], *, timeout: float = 120.0) -> None:
        self.name = os.path.basename(words[0])  # noqa: PTH119 - a word, not a path
        self._words, self._timeout = list(words), timeout

    def answer(self, request: AgentQuestion) -> str:
        """Return the output of the program.

        Raises:
            InferenceError: If it cannot be started, fails, times out or prints no text.
        """
        message = {
            "question": request.question,
            "memory": request.memory,
            "messages": request.messages,
        }
        try:
            program = subprocess.Popen(  # noqa: S603 - what the user names
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._failed(f"cannot be started: {error}") from error
        with program:
            try:
                output, errors = program.communicate(msgspec.json.encode(message), self._timeout)
            except subprocess.TimeoutExpired:
                _end(program)
                raise self._failed(f"took longer than {self._timeout:g} seconds") from None
            except BaseException:
                _end(program)
                raise
        if program.returncode:
            error_text = " ".join(errors.decode("utf-8", "replace").split())[-_TOLD:]
            raise self._failed(f"ended with status {program.returncode}: {error_text}")
        return output[:_MOST].decode("utf-8", "replace").strip()

    def _failed(self, problem: str) -> InferenceError:
        return InferenceError(f"the agent {problem}", file=self.name)


def _end(program: "subprocess.Popen[bytes]") -> None:
    """Kill a program and its children."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        program.kill()
    program.communicate()


_MOST_TOKENS = 200
"""Maximum tokens of an answer; more than are judged."""


class EndpointAgent:
    """An agent that queries a model, at temperature 0."""

    def __init__(self, chat: Chat) -> None:
        self.name = chat.name
        self._chat = chat

    def answer(self, request: AgentQuestion) -> str:
        """Return the answer of the model.

        Raises:
            InferenceError: If it does not respond.
        """
        return self._chat.complete(request.messages, _MOST_TOKENS).strip()


READER = "reader"


def agent_called(settings: Settings, text: str, *, timeout: float = 120.0) -> ProbeAgent:
    """Return the agent that a text names.

    Args:
        settings: Configuration, with the endpoint.
        text: ``reader``; ``command:`` and a command line; ``endpoint:`` and a model's name.
        timeout: Seconds for an answer of a program; for an endpoint, see ``inference.timeout``.

    Raises:
        UsageError: If the text is invalid.
        ConfigError: If it is an endpoint and none is configured.
    """
    kind, _, rest = text.partition(":")
    if text == READER:
        return ReaderAgent()
    if kind == "command" and shlex.split(rest):
        return CommandAgent(shlex.split(rest), timeout=timeout)
    if kind == "endpoint" and rest:
        from satchel.inference.models import chat_of

        return EndpointAgent(chat_of(settings, rest))
    raise UsageError(
        f"no agent named {text[:60]!r}",
        hint="Known: reader, command:PROGRAM ARGUMENTS, endpoint:MODEL.",
    )
