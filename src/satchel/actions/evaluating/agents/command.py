"""An agent that is a program: it is started for each question.

On its standard input it gets one JSON object: ``question``, ``memory`` (the framed text, empty
where there is none) and ``messages`` (the same as a conversation). What it prints is its answer.
"""

import os
import signal
import subprocess
from collections.abc import Sequence

import msgspec

from satchel.actions.evaluating.agents.agent import Asked
from satchel.errors import InferenceError

_MOST = 1 << 20
"""Bytes of an answer that are read."""

_TOLD = 200


class Command:
    """Asks a program.

    Args:
        words: The program and its arguments; no shell looks at them.
        timeout: Seconds that an answer may take; then the program and what it started are ended.
    """

    def __init__(self, words: Sequence[str], *, timeout: float = 120.0) -> None:
        self.name = os.path.basename(words[0])  # noqa: PTH119 - a word, not a path
        self._words, self._timeout = list(words), timeout

    def answer(self, asked: Asked) -> str:
        """Return what the program prints.

        Raises:
            InferenceError: If it cannot be started, fails, takes too long or prints no text.
        """
        told = {"question": asked.question, "memory": asked.memory, "messages": asked.messages}
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
                output, errors = program.communicate(msgspec.json.encode(told), self._timeout)
            except subprocess.TimeoutExpired:
                _end(program)
                raise self._failed(f"took longer than {self._timeout:g} seconds") from None
            except BaseException:
                _end(program)
                raise
        if program.returncode:
            said = " ".join(errors.decode("utf-8", "replace").split())[-_TOLD:]
            raise self._failed(f"ended with status {program.returncode}: {said}")
        return output[:_MOST].decode("utf-8", "replace").strip()

    def _failed(self, what: str) -> InferenceError:
        return InferenceError(f"the agent {what}", file=self.name)


def _end(program: "subprocess.Popen[bytes]") -> None:
    """End a program and whatever it started."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        program.kill()
    program.communicate()
