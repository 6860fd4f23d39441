"""A reranker that a question waits for only so long."""

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final

from satchel.errors import InferenceError, SatchelError
from satchel.ports.inference import Reranker


class TimedReranker:
    """A reranker that is loaded when it is first asked, and has to answer within a time.

    A model cannot be stopped, so what takes too long goes on in its thread, alone: until it has
    ended, other questions wait for it as long as for an answer, and start nothing beside it.

    Args:
        model: What it is named by.
        load: Gives the reranker.
        timeout: Seconds that a question waits, with the time that loading takes.
    """

    def __init__(self, model: str, load: Callable[[], Reranker], timeout: float) -> None:
        self.model: Final = model
        self._load, self._timeout = load, timeout
        self._loaded: Reranker | None = None
        self._free = Lock()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text; see ``Reranker``.

        Raises:
            InferenceError: If there is none in time, too.
        """
        end = time.monotonic() + self._timeout
        if not self._free.acquire(timeout=self._timeout):
            raise InferenceError(f"{self.model} is busy with another question")
        answers = SimpleQueue[list[float] | SatchelError]()
        try:
            Thread(target=self._work, args=(question, texts, answers), daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._free.release()
            raise InferenceError(f"{self.model} cannot be run: {error}") from error
        try:
            found = answers.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            raise InferenceError(
                f"{self.model} took more than {self._timeout:g} s",
                hint="Use a smaller model, or a longer inference.reranker_timeout.",
            ) from None
        if isinstance(found, SatchelError):
            raise found
        return found

    def _work(
        self, question: str, texts: Sequence[str], answers: SimpleQueue[list[float] | SatchelError]
    ) -> None:
        found: list[float] | SatchelError
        try:
            if self._loaded is None:
                self._loaded = self._load()
            found = self._loaded.scores(question, texts)
        except SatchelError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - a model's own must not end a question
            found = InferenceError(f"{self.model} failed: {error}")
        self._free.release()
        answers.put(found)
