"""Import and export: files on the server, in allowed folders, and uploads and downloads."""

from asyncio import to_thread
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from satchel.api.bank import export_to
from satchel.errors import ContainmentError
from satchel.http.admission import AnyCaller, BodyKind, Owner, Served, routes, takes
from satchel.http.answers import ARTIFACTS, BYTES, JSON, answer, media_type, received
from satchel.http.gateway import Caller, Gateway
from satchel.http.jobs import ReportProgress, retry_while_locked
from satchel.http.operations import body, gives_file, query, takes_file
from satchel.ports.format import formats
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet
from satchel.runtime.scratch import PrivateFolder
from satchel.transfer.export_operations import (
    ExportBankRequest,
    ExportRequest,
    export,
    export_bank,
    require_bank_name,
)
from satchel.transfer.import_operations import (
    ImportBankRequest,
    ImportRequest,
    import_,
    import_bank,
)

router = routes(tags=["moving"])

_ANY_PATH = {"path": "-"}

UploadName = Annotated[str, Query(max_length=200)]

_OUTSIDE = (
    "Use a path in the folders that the operator allows. Or use the streams:"
    " GET /v1/banks/BANK/download, POST /v1/banks/BANK/upload."
)
_OPERATOR = (
    "Portability path containment is required. Provide one of: allowed_roots=…,"
    " ASTROCYTE_PORTABILITY_ROOTS env var, or allow_uncontained=True. "
    "The operator allows folders: set SATCHEL_PORTABILITY_ROOTS on the server. Or use the"
    " streams: GET /v1/banks/BANK/download, POST /v1/banks/BANK/upload."
)


@router.post("/v1/export")
def export_(options: Annotated[ExportBankRequest, body(export_bank)], caller: Owner) -> Response:
    """Export a bank to a file on the server, in the folders that the operator allows."""
    try:
        with caller.satchel._banks() as banks:  # noqa: SLF001 - as its method does
            done = export_bank.run(banks, options)
    except ContainmentError as error:
        raise _with_hint(error, caller) from error
    result: dict[str, object] = {
        "bank_id": options.bank_id,
        "path": options.path,
        "exported_count": done.entries,
    }
    result |= {"receipt": done.receipt, "losses": done.losses, "notes": done.notes}
    return answer(result | ({"sidecar": done.sidecar} if done.sidecar else {}))


@router.post("/v1/import")
def import_file(
    options: Annotated[ImportBankRequest, body(import_bank)], caller: Owner
) -> Response:
    """Import a file on the server into a bank, which is created if there is none."""
    try:
        with caller.satchel._banks() as banks:  # noqa: SLF001 - as its method does
            done = import_bank.run(banks, options)
    except ContainmentError as error:
        raise _with_hint(error, caller) from error
    caller.forget()
    counts = done.banks[0].done
    result = {
        "imported": counts.added,
        "skipped": counts.known + counts.twice + counts.skipped,
        "errors": [str(one) for one in done.refused],
    }
    return answer({**result, "banks": done.banks, "receipts": done.receipts, "plan": done.plan})


@router.get("/v1/banks/{bank}/download", responses=gives_file(BYTES, *ARTIFACTS.values(), JSON))
def download(
    bank: str,
    options: Annotated[ExportRequest, query(export, supplied=_ANY_PATH)],
    caller: AnyCaller,
) -> Response:
    """Return a bank as a file of any writable format; the receipt's ID is in a header.

    With ``dry_run`` there is no file: the response reports what it would contain and lose.
    """
    private = PrivateFolder()
    format_ = options.to or "pam"
    try:
        name = _file_name(format_)
        unsigned = options.unsigned or not caller.is_owner
        options = replace(options, path=name, to=format_, unsigned=unsigned)
        with Outlet.named(private.folder / name, called=f"download of {name}") as outlet:
            done = export_to(caller.bank(bank), outlet, export, options)
    except BaseException:
        private.close()
        raise
    if options.dry_run:
        private.close()
        return answer(done)
    headers = {"X-Satchel-Receipt": done.receipt or "", "X-Satchel-Lost": str(done.lost)}
    if done.output_digest is not None:
        headers["ETag"] = f'"{done.output_digest}"'
    return FileResponse(
        private.folder / name,
        media_type=media_type(format_),
        filename=name,
        headers=headers,
        background=BackgroundTask(private.close),
    )


@router.post("/v1/banks/{bank}/upload", openapi_extra=takes_file())
@takes(BodyKind.FILE)
async def upload(
    bank: str,
    options: Annotated[ImportRequest, query(import_, supplied=_ANY_PATH)],
    request: Request,
    caller: Owner,
    gateway: Served,
    name: UploadName = "upload",
    wait: bool = True,
) -> Response:
    """Import the body, a file of any readable format, into a bank; created if there is none.

    With ``wait=false`` it is a job: status 202, and its URL.
    """
    private = await received(request, name)
    return await _imported(
        _Upload(private, name, require_bank_name(bank)), options, caller, gateway, wait=wait
    )


@router.post("/v1/upload", openapi_extra=takes_file())
@takes(BodyKind.FILE)
async def upload_banks(
    options: Annotated[ImportRequest, query(import_, supplied=_ANY_PATH)],
    request: Request,
    caller: Owner,
    gateway: Served,
    name: UploadName = "upload",
    wait: bool = True,
) -> Response:
    """Import the body into one bank for each user in it, or by ``maps``.

    With ``wait=false`` it is a job: status 202, and its URL.
    """
    private = await received(request, name)
    return await _imported(_Upload(private, name, None), options, caller, gateway, wait=wait)


@dataclass(frozen=True, slots=True)
class _Upload:
    """A received file."""

    private: PrivateFolder
    name: str
    """Its name, given by the sender."""

    bank: str | None


async def _imported(
    upload: _Upload, options: ImportRequest, caller: Caller, gateway: Gateway, *, wait: bool
) -> Response:
    def bring(tell: ReportProgress) -> object:
        with OpenFile.named(upload.private.file) as file:
            file.path = Path(PurePosixPath(upload.name).name)
            with caller.satchel._imported() as usual:  # noqa: SLF001 - as its method does
                target = replace(usual, bank=upload.bank, source=file)
                return import_.run(target, replace(options, progress=tell))

    def work(tell: ReportProgress) -> object:
        try:
            return retry_while_locked(partial(bring, tell), tell)
        finally:
            upload.private.close()
            caller.forget()

    try:
        job = await to_thread(gateway.jobs.begin, "import", work)
    except BaseException:
        upload.private.close()
        raise
    if not wait:
        return answer(job.status(), 202, {"Location": f"/v1/jobs/{job.id}"})
    return answer(await job.result())


def _file_name(format: str) -> str:
    """Return the name of a download, with the suffix of its format; a folder is packed."""
    info = formats[format].info if format in formats else None
    if info is None or info.traits.folder:
        return "memory.zip" if info else "memory"
    suffix = info.suffixes[0] if info.suffixes else ""
    return f"memory{suffix}" if suffix.startswith(".") or not suffix else suffix


def _with_hint(error: ContainmentError, caller: Owner) -> ContainmentError:
    """Return an error of a path, with a hint for the caller or the operator."""
    has_roots = caller.settings.options.portability.roots is not None
    error.hint, error.command_hint = _OUTSIDE if has_roots else _OPERATOR, None
    return error
