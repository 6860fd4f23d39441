"""Forgetting sessions whose names match a pattern."""

import fnmatch

import msgspec

from satchel.actions.amplihack.roles import MemorySessionBackend
from satchel.actions.amplihack.sessions import SessionSummary
from satchel.errors import SatchelError, UsageError

PATTERN = "test_*"
"""Sessions that are meant when nothing is said."""

_LONGEST = 200


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the sessions that matched."""

    pattern: str
    matched: list[SessionSummary]
    deleted: list[str] = []
    failed: dict[str, str] = {}
    """Sessions that are still there, and why."""

    dry_run: bool = True


def matching(backend: MemorySessionBackend, pattern: str) -> list[SessionSummary]:
    """Return the sessions whose names match: ``*`` is any text, ``?`` any sign; case counts.

    Raises:
        UsageError: If the pattern is empty, or too long to be one.
    """
    if not pattern or len(pattern) > _LONGEST:
        raise UsageError(f"a pattern has 1 to {_LONGEST} characters", field="pattern")
    literal = pattern.replace("[", "[[]")  # a bracket is itself
    return [one for one in backend.list_sessions() if fnmatch.fnmatchcase(one.session_id, literal)]


def clean(backend: MemorySessionBackend, pattern: str, found: list[SessionSummary]) -> Cleaned:
    """Forget sessions one by one; one that fails does not keep the others."""
    deleted, failed = list[str](), dict[str, str]()
    for one in found:
        try:
            if backend.delete_session(one.session_id):
                deleted.append(one.session_id)
        except SatchelError as error:
            failed[one.session_id] = error.message
    return Cleaned(pattern=pattern, matched=found, deleted=deleted, failed=failed, dry_run=False)
