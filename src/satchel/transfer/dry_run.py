"""Dry runs of outgoing transfers: the records are written to a temporary file and read back."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from tempfile import TemporaryFile
from typing import BinaryIO, Self, cast

import msgspec

from satchel.model.values import Scope, resolved, tool_version
from satchel.ports.format import Target, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.receipts.receipt import (
    CARRIED,
    VERSION,
    RecordCounter,
    TargetPlan,
    Tenant,
    TransferEnd,
    TransferPlan,
    by_type,
    lines_of,
    lost_in,
    notes_in,
    receipt_text,
    refusals_in,
)
from satchel.runtime.files import OpenFile
from satchel.runtime.scratch import temporary_space
from satchel.transfer.import_plan import Owner, owner_of
from satchel.transfer.outputs import (
    OutputJob,
    Transfer,
    is_verified_by_seal,
    loss_summary,
    read_back_output,
    require_no_loss,
)

_MOST_TENANTS = 1000
_PASSES = 1.5
"""Factor from the time of a trial to that of the transfer: read, write, read back."""


class ScratchTarget(Target):
    """A target with the same name whose bytes go to a temporary file, to be read back.

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
        """Open the file, truncated.

        Raises:
            TargetError: If the temporary folder is full.
        """
        with temporary_space():
            self._file.seek(0)
            self._file.truncate()
            yield self._file
            self._file.flush()

    def written(self) -> OpenFile:
        """Open the written file for reading; the caller closes it."""
        return OpenFile(os.dup(self._file.fileno()), self.path)


class _Scoped(msgspec.Struct, gc=False):
    scope: Scope | None = None


_decode = msgspec.json.Decoder(resolved(_Scoped)).decode


def plan_output(
    job: OutputJob, records: RecordSet, writing: WriteContext, census: RecordCounter
) -> TransferPlan:
    """Return the plan of a transfer to a file; losses are added to its report.

    The records are written to a temporary file and read back, so the plan is exact.

    Raises:
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the format can hold none of the records.
    """
    known = Report() if job.sidecar is not None else job.report
    trial = replace(writing, report=known)
    with ScratchTarget(job.output) as scratch:
        job.writer.write(records, scratch, trial)
        if not is_verified_by_seal(job.writer):
            read_back_output(job, records, trial, scratch.written).differences.into(known)
    if job.sidecar is not None:
        if known.total:
            job.report.note(f"written to the sidecar: {loss_summary(known)}")
        for note in known.notes:
            job.report.note(note)
    if job.fail_on_loss:
        require_no_loss(job.report, job.output, job.accepted)
    target = TargetPlan(
        name=job.called,
        makes=job.outlet.status is None,
        created=sum(by_type(records, CARRIED).values()),
    )
    return plan_transfer(job, records, target, census)


def plan_transfer(
    transfer: Transfer, records: RecordSet, target: TargetPlan, census: RecordCounter
) -> TransferPlan:
    """Return the plan of a transfer whose report has the losses.

    Args:
        transfer: The transfer.
        records: The records.
        target: Plan for the output.
        census: Counts the records.
    """
    owners = Counter[Owner]()
    for kind, line in lines_of(records):
        census.add([(kind, line)])
        owners[owner_of(_decode(line).scope)] += 1
    return TransferPlan(
        version=VERSION,
        kind=transfer.kind,
        tool=tool_version(),
        input=transfer.input,
        output=TransferEnd(name=target.name, format=transfer.format, records=census.types.total()),
        read=dict(sorted(census.types.items())),
        targets=[target],
        embedding=census.embedding,
        seconds=census.seconds_for(_PASSES),
        bytes_per_second=census.rate(census.size),
        tenants=[
            Tenant(sort=owner[0] or "nobody", name=receipt_text(owner[1]), records=number)
            for owner, number in owners.most_common(_MOST_TENANTS)
        ],
        tenants_left=max(0, len(owners) - _MOST_TENANTS),
        cannot_hold=lost_in(transfer.report, transfer.accepted),
        refused=transfer.report.left_out,
        refusals=refusals_in(transfer.report),
        secrets=transfer.screening.found if transfer.screening else {},
        notes=notes_in(transfer.report),
    )
