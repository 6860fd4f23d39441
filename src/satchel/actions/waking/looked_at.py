"""Which files were looked at whole, so that the same bytes are not looked through each time.

Of a file whose signer is trusted, signature, trust, the hash of all its bytes and how new it is are
judged every time. What is remembered is only that each of its records, their roots and their
provenance held: a property of the bytes and of who looked. So the name of a file is its digest with
the version that looked, and a single other byte, or another version, is looked at anew. Whoever
can write here has the keys' folder as well; what they could say is that something a trusted key
signed is in good order.
"""

from contextlib import suppress
from importlib.metadata import version

import msgspec
from blake3 import blake3

from satchel.actions.config import Settings
from satchel.disk.private import private_folder
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import SatchelError

MOST = 256
"""Files that are remembered; the oldest is forgotten first."""

_MOST_BYTES = 1 << 16


def was_looked_at(settings: Settings, digest: str) -> bool:
    """Tell whether all of a file was looked at before, by this version and under these limits."""
    return _named(settings, digest) in _there(settings)


def remember(settings: Settings, digest: str) -> None:
    """Remember that all of a file was looked at, and was good; it is no harm if that fails."""
    name = _named(settings, digest)
    kept = [one for one in _there(settings) if one != name][1 - MOST :]
    with suppress(SatchelError):
        private_folder(settings.state)
        with writing(settings.state / _FILE, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode([*kept, name]))


_FILE = "looked-at.json"


def _named(settings: Settings, digest: str) -> str:
    limits = msgspec.json.encode(settings.options.limits, order="deterministic")
    return f"{digest} {version('satchel')} {blake3(limits).hexdigest(length=8)}"


def _there(settings: Settings) -> list[str]:
    """Return what is remembered, oldest first; nothing where that is damaged."""
    with suppress(SatchelError, msgspec.MsgspecError), reading(settings.state / _FILE) as stream:
        return msgspec.json.decode(stream.read(_MOST_BYTES), type=list[str])[-MOST:]
    return []
