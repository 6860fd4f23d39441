"""Writing an output, which takes its name when it has been read again and is what was asked for."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest
from satchel.config.options import OWN, PathPermission, file_to_read
from satchel.config.settings import Settings
from satchel.crypto.encryption import ENCRYPTED_SUFFIX as ENCRYPTED
from satchel.crypto.encryption import Lock, encrypted_outlet
from satchel.errors import EmptyInputError, SatchelError, TargetExistsError
from satchel.ports.format import Format, Place, ReadContext, Target, WriteContext
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.receipts.account import TransferEnd, receipt_text
from satchel.receipts.archive import folder_of
from satchel.receipts.receipt import receipts_in
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet
from satchel.transfer.export_file import digest_of, read_back, write
from satchel.transfer.outputs import OutputCheck, OutputJob, Sidecar, compare_output, nothing_in
from satchel.transfer.sidecars import SUFFIX, Output, SidecarBuilder, head_of

_NEEDLESS = "the format can hold everything: no sidecar was written"
_MOST_BESIDE = 1000
"""Files of a folder in which the sidecar of one that was renamed is looked for."""


def name_for(output: Path, *, encrypted: bool) -> str:
    """Return the name of an output's sidecar, which is encrypted where that is."""
    bare = output.name.removesuffix(ENCRYPTED)
    return f"{bare}{SUFFIX}{ENCRYPTED}" if encrypted else f"{output.name}{SUFFIX}"


def sidecar_outlet(outlet: Outlet, lock: Lock) -> Outlet:
    """Return where the sidecar of an output goes, encrypted for the same; its holder closes it."""
    return encrypted_outlet(outlet.beside(name_for(outlet.path, encrypted=lock.is_set)), lock)


def refuse_other(outlet: Outlet, writer: Format, *, wanted: bool, overwrite: bool) -> None:
    """Refuse an output whose name has a sidecar already, which would be of another file then.

    Raises:
        TargetExistsError: If there is one, and it is not to be replaced.
    """
    if overwrite or (wanted and writer.info.traits.within):
        return
    for name in _names(outlet.path):
        with outlet.beside(name) as there:
            if there.status is not None:
                raise TargetExistsError(
                    "the sidecar already exists",
                    file=str(there),
                    hint="Use --overwrite (overwrite=True) to replace both.",
                )


def put_beside(
    errand: OutputJob,
    outlet: Outlet,
    records: RecordSet,
    writing: WriteContext,
    known: frozenset[tuple[str, str]],
) -> Sidecar | None:
    """Write the sidecar of what was written just now; None where that holds everything.

    Args:
        errand: The transfer.
        outlet: Where it goes.
        records: What the output was to have.
        writing: How it was written.
        known: What was lost before anything was written.

    Raises:
        TargetError: If it cannot be written.
        InputError: If what was written cannot be read.
    """
    limits, writer = errand.settings.options.limits, errand.writer
    if writer.info.traits.sealed and writer.info.traits.exact:
        errand.report.note(_NEEDLESS)
        return None
    with errand.outlet.written() as there:
        digest, size = digest_of(there)
        reading = ReadContext(limits=limits, only_ours=writing.around)
        items = writer.read(Place(there.path, held=there), reading)
        try:
            made = SidecarBuilder(records, items, keeps_ids=writer.info.traits.keeps_ids)
        except EmptyInputError as error:
            errand.outlet.remove()
            raise nothing_in(errand) from error
        with closing(made) as making:
            if not making.is_needed:
                errand.report.note(_NEEDLESS)
                return None
            replaces = errand.replaces or writer.info.traits.within
            with outlet.writing(overwrite=replaces) as sink:
                making.write(sink, errand.format, Output(digest=digest, bytes=size))
    with outlet.stored() as there:
        found, length = digest_of(there)
    end = TransferEnd(name=receipt_text(str(outlet.path)), digest=found, bytes=length)
    return Sidecar(end, known, digest, Report())


def remove_stale(errand: OutputJob) -> None:
    """Take away the sidecar of what was replaced: it would be read as that of what is there now."""
    if not errand.replaces:
        return
    for name in _names(errand.outlet.path):
        with errand.outlet.beside(name) as there:
            if there.status is not None:
                there.remove()
                errand.report.note(
                    f"the sidecar of the previous file was removed: {receipt_text(name)}"
                )


@contextmanager
def open_sidecar(
    settings: Settings, source: Path, named: Path | OpenFile | None, digest: str
) -> Iterator[OpenFile | None]:
    """Open the sidecar of an input, decrypted where it is encrypted; None where there is none.

    Args:
        settings: Where files may be.
        source: The input.
        named: The sidecar, where somebody says which; else it is looked for beside the input, by
            its name, and by the digest that it names.
        digest: Of the input.

    Raises:
        SatchelError: If one that is named, or has the right name, cannot be read.
    """
    folder = source.absolute().parent
    # Whoever may name the input has not named this: a link there leads nowhere.
    permission = OWN if named else PathPermission(allowed_roots=[folder.resolve()])
    path = named or _beside(settings, folder.resolve() / source.name, digest)
    if path is None:
        yield None
        return
    with file_to_read(settings, path, permission) as file:
        yield file


def _beside(settings: Settings, source: Path, digest: str) -> Path | None:
    for name in _names(source):
        path = source.with_name(name)
        if path.is_symlink() or path.exists():
            return path
    others = islice(source.parent.glob(f"*{SUFFIX}"), _MOST_BESIDE)
    return next((one for one in sorted(others) if _is_of(settings, one, digest)), None)


def was_written_with_one(settings: Settings, digest: str) -> bool:
    """Tell whether a receipt that is kept here says that a file was written with a sidecar."""
    kept = folder_of(settings)
    if not kept.is_dir():
        return False
    newest = sorted(kept.glob("*.json"), reverse=True)[:_MOST_BESIDE]
    return any(_says_so(path, digest) for path in newest)


def _says_so(path: Path, digest: str) -> bool:
    with suppress(SatchelError, OSError):
        if digest.encode() in path.read_bytes():
            accounts = [account for _, account in receipts_in(path)]
            return any(
                one is not None and one.output.digest == digest and one.sidecar for one in accounts
            )
    return False


def _is_of(settings: Settings, path: Path, digest: str) -> bool:
    try:
        with file_to_read(settings, path, PathPermission(allowed_roots=[path.parent])) as file:
            return head_of(file).output.digest == digest
    except SatchelError:
        return False


def _names(output: Path) -> dict[str, None]:
    """Return what the sidecar of a file may be called."""
    both = (name_for(output, encrypted=one) for one in (False, True))
    bare = output.with_name(output.name.removesuffix(ENCRYPTED) or output.name)
    return dict.fromkeys([*both, name_for(bare, encrypted=False)])


class OutputVerification(NamedTuple):
    """How a sealed output is verified."""

    policy: TrustPolicy
    request: VerificationRequest
    known: Outcome | None = None
    """The verdict on the same seal before it was written again."""


class OutputResult(NamedTuple):
    """What is there now."""

    there: TransferEnd
    again: OutputCheck
    verdict: str | None
    """On a sealed output."""


def write_output(
    errand: OutputJob,
    records: RecordSet,
    writing: WriteContext,
    judging: OutputVerification,
    *,
    overwrite: bool,
    meanwhile: Callable[[], None] | None = None,
) -> OutputResult:
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
        errand.report.note(f"the previous file was renamed to {receipt_text(outlet.kept.name)}")
    there = TransferEnd(
        name=errand.called,
        format=errand.format,
        digest=digest,
        bytes=size,
        records=sum(again.records.values()),
    )
    return OutputResult(there, again, verdict)
