"""Verifying a file against this machine's trust."""

from dataclasses import dataclass, field
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.signing import read_public_key
from satchel.seal.artifact.body import Progress
from satchel.seal.judging import verify_file
from satchel.seal.verify.verification import Verification
from satchel.seal.verify.verifying import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How far to look and whom to believe."""

    deep: bool = False
    require_fresh: bool = False
    entry: str | None = None
    keys: tuple[str, ...] = field(default_factory=tuple)
    """Keys to believe this once: did:key, hex, or files."""

    threshold: int | None = None
    on_progress: Progress | None = None


def verify(path: Path, settings: Settings, options: VerifyOptions | None = None) -> Verification:
    """Verify a sealed file; what is wrong with it is in the result.

    Raises:
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is no sealed file.
        UsageError: If the entry asked for is not in it.
    """
    asked = options or VerifyOptions()
    keys = frozenset(read_public_key(key) for key in asked.keys)
    return verify_file(
        path,
        settings.policy(keys, asked.threshold),
        Request(
            deep=asked.deep,
            require_fresh=asked.require_fresh or settings.options.verify.require_fresh,
            entry=asked.entry,
            limits=settings.options.limits,
            on_progress=asked.on_progress,
        ),
    )
