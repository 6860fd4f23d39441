"""A command that waits for the server goes on showing that it works."""

from threading import Event, Timer

import psycopg
import pytest
from postgres_kit import server

from satchel.cli import _console


@pytest.mark.timeout(120, method="thread")  # the signal is that of the line
def test_the_progress_line_is_drawn_while_the_server_holds_a_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer interrupts a wait of the driver; the lock is released after two draws."""
    monkeypatch.setattr(_console, "_SHOWN_AFTER", 0.1)
    drawn = list[bool]()
    released = Event()
    with server() as one, psycopg.connect(one.get_uri()) as holder:
        holder.execute("CREATE TABLE locked (number integer)")
        holder.commit()
        holder.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")

        def draw() -> None:
            drawn.append(released.is_set())
            if len(drawn) == 2:
                release()

        def release() -> None:
            released.set()
            holder.rollback()

        patience = Timer(20, release)
        patience.start()
        with psycopg.connect(one.get_uri()) as waiter, _console._ticking(draw):
            waiter.execute("SELECT * FROM locked")
        patience.cancel()

    assert drawn[:2] == [False, False]
