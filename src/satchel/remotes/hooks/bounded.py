"""Calling something that may fail or never end, without failing or waiting for ever."""

import threading
from collections.abc import Callable

StuckOrNot = Callable[[bool], None]
"""Is told True when a call did not end in time, and False when it ended after all."""


def call(what: Callable[[], object], seconds: float, stuck: StuckOrNot) -> str | None:
    """Call something and wait for it no longer than so many seconds.

    A thread cannot be ended from outside: what does not end goes on beside the program.

    Returns:
        What went wrong, in a few words; None when it ended well.
    """
    problems = list[str]()
    change, decided = threading.Lock(), False

    def run() -> None:
        nonlocal decided
        try:
            what()
        except BaseException as error:  # noqa: BLE001 - it is somebody else's code
            problems.append(f"{type(error).__name__}: {error}")
        with change:
            if decided:
                stuck(False)  # noqa: FBT003
            decided = True

    thread = threading.Thread(target=run, name="satchel-hook", daemon=True)
    thread.start()
    thread.join(seconds)
    with change:
        if not decided:
            decided = True
            stuck(True)  # noqa: FBT003
            return f"it did not finish within {seconds:g} seconds"
    return problems[0] if problems else None
