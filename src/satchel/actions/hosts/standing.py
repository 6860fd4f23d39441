"""How far the watching of hosts is: what was taken, so that only what changed is looked at again.

It saves work and decides nothing: whatever is taken again is known to the bank. It is kept for one
bank of one store; for a bank that is another one now, it starts anew.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from blake3 import blake3

from satchel.actions.config import Settings
from satchel.actions.diagnosing import Check, State
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import shown_address
from satchel.disk.private import private_folder
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import SatchelError
from satchel.type_info import resolved

_MOST_BYTES = 1 << 28
_DIGITS = 24
_STALE = timedelta(days=7)
"""Hosts delete what is a month old."""


class Standing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far it is, for one bank."""

    store: str
    name: str
    """What the bank is called."""

    bank: str | None = None
    """Its id."""

    at: str | None = None
    """When it was last looked whether there is something new."""

    files: dict[str, tuple[int, int]] = {}
    """Size and time of what was taken, by path."""

    missed: dict[str, str] = {}
    """What could not be taken the last time, and why, by path."""


def standing_of(settings: Settings, name: str) -> Standing:
    """Return how far it is for a bank."""
    found = _read(_path(settings, name))
    return found or Standing(store=shown_address(settings.store), name=name)


def keep_standing(settings: Settings, found: Standing) -> None:
    """Keep how far it is."""
    path = _path(settings, found.name)
    with suppress(SatchelError, OSError):  # a full disk: the next time takes it all again
        private_folder(settings.state)
        private_folder(path.parent)
        with writing(path, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode(found))


def check_watching(settings: Settings, moment: datetime | None = None) -> Iterator[Check]:
    """Say of each bank that hosts were captured into whether that is fresh.

    Args:
        settings: The surroundings.
        moment: What time it is; the clock's by default.
    """
    require_owner(settings, "doctor")
    for path in sorted((settings.state / "watch").glob("*.json")):
        found = _read(path)
        if found is None or found.store != shown_address(settings.store) or found.at is None:
            continue
        age = (moment or datetime.now(UTC)) - datetime.fromisoformat(found.at)
        looked = found.at[:16].replace("T", " ")
        detail = f"last captured {looked}, files known: {len(found.files):,}"
        if found.missed:
            detail += f", {len(found.missed):,} could not be captured"
        is_old = age > _STALE
        hint = (
            "Hosts delete conversations after about a month; capture them: satchel watch --once"
            if is_old
            else None
        )
        state: State = "problem" if is_old else "note" if found.missed else "ok"
        yield Check(name=f"watch into {found.name}", state=state, detail=detail, hint=hint)


def _path(settings: Settings, name: str) -> Path:
    said = blake3(f"{shown_address(settings.store)}\0{name}".encode()).hexdigest()
    return settings.state / "watch" / f"{said[:_DIGITS]}.json"


def _read(path: Path) -> Standing | None:
    with suppress(SatchelError, msgspec.MsgspecError), reading(path) as stream:
        return msgspec.json.decode(stream.read(_MOST_BYTES), type=resolved(Standing))
    return None
