"""Which rows are searched by their words, and with whose words besides.

A turn of a conversation often says nothing alone; it is indexed with the words of the one before
it in its session or run.
"""

from satchel.ports.rows import PENDING, Row


def is_searched(row: Row) -> bool:
    """Tell whether a row's words are indexed."""
    return row.retired is None or row.retired == PENDING


def thread_of(row: Row) -> tuple[str, str] | None:
    """Return what a row is said after another in: its session, or else its run."""
    if row.session is not None:
        return "session", row.session
    return None if row.run is None else ("run", row.run)
