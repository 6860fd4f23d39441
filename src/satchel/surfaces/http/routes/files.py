"""Memory files of a bank: text at paths, changed only where it is what its author saw.

For the owner, and for who presents a token for everything: ``read``, and ``write`` to change.
"""

from typing import Annotated

from fastapi import Header, Query, Response

from satchel.api.files import files_of
from satchel.errors import NoMemoryFilesError
from satchel.surfaces.http.admission import Takes, routes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Asking
from satchel.surfaces.http.bodies import FileText

router = routes(prefix="/v1/files/{key}", tags=["files"])

IfMatch = Annotated[str | None, Header(alias="If-Match")]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match")]
Actor = Annotated[str, Header(alias="X-Actor", max_length=200)]
_NOBODY = "http"


@router.get("")
def list_files(
    key: str, caller: Asking, prefix: Annotated[str, Query(max_length=1000)] = ""
) -> Response:
    """List the paths there are; none for a bank that has no memory files yet."""
    try:
        with files_of(caller.satchel, key) as files:
            return answer({"paths": files.list_paths(prefix)})
    except NoMemoryFilesError:
        caller.bank(key)
        return answer({"paths": []})


@router.get("/history/{path:path}")
def file_history(key: str, path: str, caller: Asking) -> Response:
    """Return the versions of a file, the oldest first."""
    with files_of(caller.satchel, key) as files:
        return answer({"versions": [one._asdict() for one in files.history(path)]})


@router.get("/diff/{path:path}")
def diff_file(
    key: str,
    path: str,
    old: Annotated[int, Query(ge=1)],
    caller: Asking,
    new: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Return how two versions of a file differ, as unified diff; its text now by default."""
    with files_of(caller.satchel, key) as files:
        return answer({"path": path, "old": old, "new": new, "diff": files.diff(path, old, new)})


@router.get("/audit")
def audit(key: str, caller: Asking, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
    """Return the last lines of the audit."""
    with files_of(caller.satchel, key) as files:
        return answer({"lines": files.audit_tail_sync(limit)})


@router.get("/text/{path:path}")
def read_file(
    key: str,
    path: str,
    caller: Asking,
    version: Annotated[int | None, Query(ge=1)] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return a file's text, byte for byte; its ETag is the hash of that.

    A former ``version`` has no ETag: it is not what a condition of a write could be held against.
    """
    with files_of(caller.satchel, key) as files:
        if version is not None:
            return _plain(files.read_version(path, version))
        text, sha = files.read_text(path), files.current_sha(path)
        if not sha:
            raise NoMemoryFilesError("there is no such file", field="path")
    tag = f'"{sha}"'
    if if_none_match is not None and tag in {one.strip() for one in if_none_match.split(",")}:
        return Response(status_code=304, headers={"ETag": tag})
    return _plain(text, {"ETag": tag})


@router.put("/text/{path:path}")
@takes(Takes.TEXT)
def write_file(
    key: str,
    path: str,
    body: FileText,
    caller: Asking,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    keep_versions: bool = False,
    actor: Actor = _NOBODY,
) -> Response:
    """Write a file: with ``If-Match``, over that version; with ``If-None-Match: *``, a new one.

    With ``keep_versions`` the texts of all its versions are kept from now on, in all files.
    """
    expected = "" if if_none_match == "*" else _hash(if_match)
    with files_of(caller.satchel, key, create=True) as files:
        if keep_versions and not files.keep_versions:
            files.change_policy(keep_versions=True, actor=actor)
        meta = files.write_text(path, body.text, actor=actor, expected_sha=expected)
    return answer(meta, headers={"ETag": f'"{meta.sha256}"'})


@router.delete("/text/{path:path}")
def delete_file(
    key: str,
    path: str,
    caller: Asking,
    if_match: IfMatch = None,
    actor: Actor = _NOBODY,
) -> Response:
    """Delete a file; its versions stay."""
    with files_of(caller.satchel, key) as files:
        files.delete(path, actor=actor, expected_sha=_hash(if_match))
    return Response(status_code=204)


def _plain(text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


def _hash(said: str | None) -> str | None:
    return None if said is None or said.strip() == "*" else said.strip().strip('"')
