"""Going on in new segments of the server's log, so that the old ones are written over."""

from typing import Any

from psycopg import errors

_MOST = 40
_SEGMENTS = "SELECT count(*) FROM pg_ls_waldir()"


def written_over(connection: Any) -> bool:
    """Write over the segments of the log that are not needed any more; tell whether that went.

    A segment that is not needed is used again under a new name, with its bytes until it is its
    turn. So there are as many rounds as there are segments, each of 16 MiB as a rule.
    """
    try:
        ((segments,),) = connection.execute(_SEGMENTS).fetchall()
        connection.execute("CHECKPOINT")
        for _ in range(min(int(segments) + 2, _MOST)):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
    except errors.InsufficientPrivilege:
        return False
    return int(segments) + 2 <= _MOST
