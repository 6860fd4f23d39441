"""Writing an output, which takes its name when it has been read again and is what was asked for."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from satchel.actions.receipts.of_outputs import Errand, ReadOutput, compare_output
from satchel.actions.receipts.sidecars import put_beside, remove_stale
from satchel.ports.format import Writing
from satchel.ports.place import Target
from satchel.ports.records import RecordSet
from satchel.seal.verify.policy import TrustPolicy
from satchel.seal.verify.verification import Outcome
from satchel.seal.verify.verifying import Request
from satchel.transfer.receipts.account import End, told
from satchel.transfer.writing import digest_of, read_back, write


class Judging(NamedTuple):
    """How a sealed output is verified."""

    policy: TrustPolicy
    request: Request
    known: Outcome | None = None
    """The verdict on the same seal before it was written again."""


class Put(NamedTuple):
    """What is there now."""

    there: End
    again: ReadOutput
    verdict: str | None
    """On a sealed output."""


def put_out(
    errand: Errand,
    records: RecordSet,
    writing: Writing,
    judging: Judging,
    *,
    overwrite: bool,
    meanwhile: Callable[[], None] | None = None,
) -> Put:
    """Write records, read them back, and only then give the output its name.

    Args:
        errand: The transfer; its report is told what is lost.
        records: What to write.
        writing: How.
        judging: How a sealed output is verified.
        overwrite: Whether what has the name may be replaced.
        meanwhile: Refuses, with an error, what happened to the input while it was written.

    Raises:
        TargetError: If it cannot be written, or reads back as something else. What had the name
            before has it still.
        LossError: If all or nothing was asked for, and something would not survive.
    """
    outlet, beside = errand.outlet, errand.sidecar
    whole = errand.fail_on_loss and beside is None
    target = Target(outlet.path, overwrite=overwrite, outlet=outlet)
    known = frozenset(errand.report.losses)
    with outlet.proving(), nullcontext() if beside is None else beside.proving():
        write(errand.writer, records, target, writing, whole=whole, accepted=errand.accepted)
        if meanwhile is not None:
            meanwhile()
        verdict = read_back(outlet, errand.writer, *judging)
        sidecar = None if beside is None else put_beside(errand, beside, records, writing, known)
        again = compare_output(errand, records, writing, sidecar)
        with outlet.stored() as made:
            digest, size = digest_of(made)
    if sidecar is None:
        remove_stale(errand)
    if outlet.kept is not None:
        errand.report.note(f"the previous file was renamed to {told(outlet.kept.name)}")
    there = End(
        name=errand.called,
        format=errand.format,
        digest=digest,
        bytes=size,
        records=sum(again.records.values()),
    )
    return Put(there, again, verdict)
