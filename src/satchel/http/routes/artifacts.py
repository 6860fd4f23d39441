"""Artifacts: sealed copies of a bank, stored by the server under their digest."""

import shutil
from asyncio import to_thread
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from fastapi import Header, Query, Request, Response
from fastapi.responses import FileResponse

from satchel.api.bank import export_to
from satchel.artifact.verification import Verification
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import UnreadableError
from satchel.http.admission import AnyCaller, BodyKind, Owner, Served, routes, takes
from satchel.http.answers import ARTIFACTS, BYTES, answer, media_type, received
from satchel.http.gateway import Caller
from satchel.http.operations import body, gives_file, query, takes_file
from satchel.model.values import now, resolved
from satchel.ports.operations import Option, Options, operation
from satchel.runtime.files import PRIVATE_FILE, OpenFile, atomic_write
from satchel.runtime.output import Outlet
from satchel.runtime.private_files import private_folder
from satchel.runtime.scratch import PrivateFolder
from satchel.transfer.disclosure import DiscloseOptions
from satchel.transfer.disclosure import disclose_memories as disclose
from satchel.transfer.export_operations import (
    ARTIFACT_SUFFIXES,
    ArtifactRequest,
    ExportRequest,
    create_artifact,
    export,
)
from satchel.transfer.export_records import Export
from satchel.transfer.verification import FileSource, VerifyRequest, verify_file

router = routes(tags=["artifacts"])

_DIGITS = 64

IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match")]


class StoredArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a stored artifact."""

    artifact_id: str
    """Digest of its bytes, also the ETag."""

    created_at: str
    size_bytes: int
    entry_count: int
    bank: str
    name: str
    """Digest of its file."""


@router.post("/pam/artifacts", status_code=201)
def make_artifact(
    options: Annotated[ArtifactRequest, body(create_artifact)], caller: Owner, gateway: Served
) -> Response:
    """Seal a bank, or a part of it, and store the artifact."""
    private = PrivateFolder()
    try:
        name = f"memory{ARTIFACT_SUFFIXES[options.to]}"
        with Outlet.named(private.folder / name, called=f"artifact of {name}") as outlet:
            done = export_to(caller.bank(options.bank), outlet, create_artifact, options)
        kept = _store(gateway.settings, outlet.path, done)
    finally:
        private.close()
    return answer(kept, 201, {"Location": f"/pam/artifacts/{kept.artifact_id}"})


@dataclass(frozen=True, slots=True)
class DownloadOptions(Options):
    """Which artifact."""

    artifact: Annotated[str, Option("ID of the artifact.", argument=True)]


@operation(
    DownloadOptions,
    name="artifact download",
    absent=NOT_FOR_MODELS
    | dict.fromkeys(("cli", "python"), "It is a file on the server; export writes one here."),
)
def download(settings: Settings, options: DownloadOptions) -> StoredArtifact:
    """Download an artifact. The holder of a token gets one of the memories that the token covers.

    Args:
        settings: The settings of the server.
        options: Which artifact.

    Raises:
        UnreadableError: If there is no such artifact.
    """
    return _stored_artifact(settings, options.artifact)


@router.get("/pam/artifacts/{artifact}", responses=gives_file(BYTES, *ARTIFACTS.values()))
def get_artifact(
    options: Annotated[DownloadOptions, query(download, artifact="artifact")],
    caller: AnyCaller,
    gateway: Served,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return an artifact's bytes; for the holder of a token, those of a disclosure."""
    artifact = download.run(gateway.settings, options)
    if not caller.is_owner:
        return _permitted_part(artifact, caller)
    tag = f'"{artifact.artifact_id}"'
    if if_none_match is not None and tag in {each.strip() for each in if_none_match.split(",")}:
        return Response(status_code=304, headers={"ETag": tag})
    path = _folder(gateway.settings) / artifact.artifact_id
    return FileResponse(
        path, media_type=_media_type(artifact), filename=artifact.name, headers={"ETag": tag}
    )


@router.post("/pam/artifacts/{artifact}/disclose", responses=gives_file(media_type("pam")))
def disclose_memories(
    artifact: str,
    options: Annotated[DiscloseOptions, body(disclose, supplied={"output": "-"})],
    caller: AnyCaller,
    gateway: Served,
) -> Response:
    """Return a disclosure of memories of an artifact's bank."""
    source = _stored_artifact(gateway.settings, artifact)
    private = PrivateFolder()
    try:
        name = "disclosed.pam"
        with (
            Outlet.named(private.folder / name, called=f"download of {name}") as outlet,
            caller.bank(source.bank)._context() as opened,  # noqa: SLF001 - of its own package
        ):
            disclose.run(opened, options, outlet=outlet)
        data = outlet.path.read_bytes()
    finally:
        private.close()
    return Response(data, media_type=media_type("pam"))


@router.post("/v1/verify/upload", openapi_extra=takes_file())
@takes(BodyKind.FILE)
async def verify(
    options: Annotated[VerifyRequest, query(verify_file, supplied={"path": "-"})],
    request: Request,
    _: Owner,
    gateway: Served,
    name: Annotated[str, Query(max_length=200)] = "artifact.pam",
) -> Response:
    """Verify the body, a sealed file. The result has each step and every problem."""
    private = await received(request, name)

    def verified() -> Verification:
        with OpenFile.named(private.file) as file:
            return verify_file.run(FileSource(settings=gateway.settings, file=file), options)

    try:
        found = await to_thread(verified)
        return answer(found.to_json() | {"file": name})
    finally:
        private.close()


def _permitted_part(artifact: StoredArtifact, caller: Caller) -> Response:
    """Return the memories of an artifact's bank that a token covers, unsigned."""
    private = PrivateFolder()
    try:
        called = f"download of {artifact.name}"
        with Outlet.named(private.folder / artifact.name, called=called) as outlet:
            options = ExportRequest(artifact.name, unsigned=True)
            export_to(caller.bank(artifact.bank), outlet, export, options)
        return Response(outlet.path.read_bytes(), media_type=_media_type(artifact))
    finally:
        private.close()


def _media_type(kept: StoredArtifact) -> str:
    name = next(one for one, suffix in ARTIFACT_SUFFIXES.items() if kept.name == f"memory{suffix}")
    return media_type(name)


def _folder(settings: Settings) -> Path:
    return private_folder(settings.home / "artifacts")


def _store(settings: Settings, path: Path, done: Export) -> StoredArtifact:
    """Store a file under its digest: its bytes first, then its metadata."""
    digest = (done.output_digest or "").rpartition(":")[2]
    artifact = StoredArtifact(
        artifact_id=digest,
        created_at=now(),
        size_bytes=path.stat().st_size,
        entry_count=done.entries,
        bank=done.bank,
        name=path.name,
    )
    folder = _folder(settings)
    with path.open("rb") as file, atomic_write(folder / digest, mode=PRIVATE_FILE) as copy:
        shutil.copyfileobj(file, copy)
    with atomic_write(folder / f"{digest}.json", mode=PRIVATE_FILE) as about:
        about.write(msgspec.json.encode(artifact))
    return artifact


def _stored_artifact(settings: Settings, artifact: str) -> StoredArtifact:
    digits = artifact.lower()
    if len(digits) != _DIGITS or set(digits) - set("0123456789abcdef"):
        raise UnreadableError("no such artifact", field="artifact")
    try:
        data = (_folder(settings) / f"{digits}.json").read_bytes()
    except OSError:
        raise UnreadableError("no such artifact", field="artifact") from None
    return msgspec.json.decode(data, type=resolved(StoredArtifact))
