"""Memory files of a bank: texts at paths, with conditional writes.

For the owner, and for holders of a token for the whole bank: ``read``, and ``write`` for changes.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Response

from satchel.api.bank import files_of
from satchel.errors import NoMemoryFilesError
from satchel.files import operations
from satchel.files.operations import (
    FileDeleteOptions,
    FileListOptions,
    FileReadOptions,
    FileWriteOptions,
    OpenFiles,
)
from satchel.http.admission import AnyCaller, BodyKind, routes, takes
from satchel.http.answers import answer
from satchel.http.gateway import Caller
from satchel.http.operations import add_route, body, query
from satchel.ports.operations import Operation

router = routes(prefix="/v1/files/{store}", tags=["files"])

IfMatch = Annotated[str | None, Header(alias="If-Match")]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match")]
Actor = Annotated[str, Header(alias="X-Actor", max_length=200)]
_NOBODY = "http"


def _on_files(
    caller: Caller, store: str, operation: Operation[OpenFiles, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on an existing file store."""
    with files_of(caller.satchel, store) as files:
        return operation.run(OpenFiles(caller.settings, files), options)


_add = partial(add_route, router, caller=AnyCaller, run=_on_files, named="store")
_add("GET", "/history/{path:path}", operations.file_history)
_add("GET", "/diff/{path:path}", operations.diff_file)
_add("GET", "/audit", operations.audit_files)


@router.get("")
def list_files(
    store: str, options: Annotated[FileListOptions, query(operations.list_files)], caller: AnyCaller
) -> Response:
    """List files; none for a bank without memory files."""
    try:
        found = _on_files(caller, store, operations.list_files, options)
        return answer(operations.list_files.json(found))
    except NoMemoryFilesError:
        caller.bank(store)
        return answer({"files": []})


@router.get("/text/{path:path}")
def read_file(
    store: str,
    options: Annotated[FileReadOptions, query(operations.read_file, path="path")],
    caller: AnyCaller,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return a file's text, byte for byte; its ETag is the hash of the text.

    A former ``version`` has no ETag, as a write cannot depend on it.
    """
    with files_of(caller.satchel, store) as files:
        content = operations.read_file.run(OpenFiles(caller.settings, files), options)
    headers = {} if content.sha256 is None else {"ETag": f'"{content.sha256}"'}
    tags = {each.strip() for each in (if_none_match or "").split(",")}
    if headers and headers["ETag"] in tags:
        return Response(status_code=304, headers=headers)
    return Response(content.content, media_type="text/plain; charset=utf-8", headers=headers)


@router.put("/text/{path:path}")
@takes(BodyKind.TEXT)
def write_file(
    store: str,
    options: Annotated[FileWriteOptions, body(operations.write_file, path="path")],
    caller: AnyCaller,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    actor: Actor = _NOBODY,
) -> Response:
    """Write a file: with ``If-Match`` over that version, with ``If-None-Match: *`` a new one."""
    expected = "" if if_none_match == "*" else _hash(if_match)
    wanted = replace(options, actor=actor, expected_sha=expected)
    with files_of(caller.satchel, store, create=True) as files:
        meta = operations.write_file.run(OpenFiles(caller.settings, files), wanted)
    return answer(meta, headers={"ETag": f'"{meta.sha256}"'})


@router.delete("/text/{path:path}")
def delete_file(
    store: str,
    options: Annotated[FileDeleteOptions, query(operations.delete_file, path="path")],
    caller: AnyCaller,
    if_match: IfMatch = None,
    actor: Actor = _NOBODY,
) -> Response:
    """Delete a file; its versions are kept."""
    wanted = replace(options, actor=actor, expected_sha=_hash(if_match))
    _on_files(caller, store, operations.delete_file, wanted)
    return Response(status_code=204)


def _hash(said: str | None) -> str | None:
    return None if said is None or said.strip() == "*" else said.strip().strip('"')
