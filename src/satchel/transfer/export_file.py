"""Writing a set of records as any format that writes: chosen, tried, written, read back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from io import RawIOBase
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Self, cast

from blake3 import blake3

from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_file
from satchel.errors import LossError, TargetError, UsageError
from satchel.ports.format import Format, Target, WriteContext
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.ports.registry import formats
from satchel.receipts.account import is_accepted
from satchel.runtime.files import InputPath, OpenFile, open_input
from satchel.runtime.output import Outlet
from satchel.runtime.scratch import CHUNK, making_temporary

NEVER = frozenset({Outcome.MALFORMED, Outcome.TAMPERED, Outcome.FORK})
"""Verdicts on a file that nobody can put up with."""


class _Trial(Target):
    """A target of the same name, of which nothing is kept."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with _Nowhere() as stream:
            yield cast("BinaryIO", stream)


class _Nowhere(RawIOBase):
    """Takes bytes, and keeps none; unlike the null device, it does not claim to have them."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return memoryview(data).nbytes


class ScratchTarget(Target):
    """A target of the same name whose bytes go into a nameless file, to be read back and forgotten.

    A context manager.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @cached_property
    def _file(self) -> BinaryIO:
        return cast("BinaryIO", TemporaryFile())

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the file, empty.

        Raises:
            TargetError: If the temporary folder is full.
        """
        with making_temporary():
            self._file.seek(0)
            self._file.truncate()
            yield self._file
            self._file.flush()

    def written(self) -> OpenFile:
        """Open what was written, to read it back; the caller closes it."""
        return OpenFile(os.dup(self._file.fileno()), self.path)


def chosen_format(
    output: Path, name: str | None = None, *, otherwise: str | None = None
) -> tuple[str, Format]:
    """Return the format to write: the one named, or the one that the output's name ends in.

    Args:
        output: Where to write.
        name: The format's name.
        otherwise: The one for a name that says nothing; None to refuse it.

    Raises:
        UsageError: If it cannot be told, or cannot be written.
        UnknownFormatError: If there is none of that name.
    """
    name = name or formats.by_suffix(output.name) or otherwise
    if name is None:
        raise UsageError(
            "the output's name does not show its format",
            file=str(output),
            hint="Use --to, or a name that ends in .pam.jsonl, .pam or .pam.cbor.",
        )
    found = formats[name]
    if not found.info.traits.writes:
        raise UsageError(f"{name} can be read, but not written")
    return name, found


def is_own(name: str) -> bool:
    """Tell whether a format is an encoding of our artifact, which holds whatever a bank has."""
    return formats[name].info.traits.sealed and name != "pam_sdk"


def tried(writer: Format, records: RecordSet, output: Path, writing: WriteContext) -> Report:
    """Return what writing would lose; nothing is written."""
    report = Report()
    trial = replace(writing, report=report)
    writer.write(records, _Trial(output), trial)
    return report


def write(
    writer: Format,
    records: RecordSet,
    target: Target,
    writing: WriteContext,
    *,
    whole: bool,
    accepted: tuple[str, ...] = (),
) -> None:
    """Write records; with ``whole`` all of them or nothing, except for losses that are accepted.

    Raises:
        LossError: With ``whole``, if something would not survive.
        TargetError: If the output cannot be written. No partial file remains.
    """
    if whole:
        require_no_loss(tried(writer, records, target.path, writing), target.path, accepted)
    writer.write(records, target, writing)


def require_no_loss(report: Report, output: Path, accepted: tuple[str, ...] = ()) -> None:
    """Refuse to go on if something would not survive that nobody said may be lost.

    Raises:
        LossError: Naming it.
    """
    lost = [loss for loss in report.losses.values() if not is_accepted(loss.name, accepted)]
    if lost:
        fields = sorted({loss.name for loss in lost})
        raise LossError(
            f"{sum(loss.count for loss in lost)} values would be lost: {', '.join(fields)}",
            file=str(output),
            hint="Drop --fail-on-loss to write what the format can hold.",
        )


def read_back(
    output: Outlet,
    writer: Format,
    policy: TrustPolicy,
    request: VerificationRequest,
    known: Outcome | None = None,
) -> str | None:
    """Verify what is now on the disk, and return the verdict; a bad file is taken away again.

    Records that were sealed or proved just now need no second proof: that their bytes are on the
    disk, which the body hash under the signature says, is all that is left to show of them.

    Args:
        output: The file.
        writer: Its format; of one that is not sealed there is nothing to verify.
        policy: Whose signature counts.
        request: How far to look.
        known: The verdict on the same seal before it was written again.

    Raises:
        TargetError: If it does not verify.
    """
    if not writer.info.traits.sealed:
        return None
    with output.written() as written:
        verdict = verify_file(written, policy, request)
    if verdict.outcome in NEVER and known not in NEVER:
        output.remove()
        raise TargetError(
            f"what was written reads back as {verdict.outcome}; it was removed",
            file=str(output),
            hint="The disk may be failing.",
        )
    return verdict.outcome.value


def digest_of(path: InputPath) -> tuple[str, int]:
    """Return the digest and size of a file."""
    found, size = blake3(), 0
    with open_input(path) as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
            size += len(chunk)
    return f"blake3:{found.hexdigest()}", size
