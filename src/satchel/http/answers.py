"""Responses: values as JSON, and errors as problem documents (RFC 9457)."""

import errno
import re
from typing import Any

import msgspec
from anyio import open_file
from fastapi import Request, Response

from satchel.errors import EmptyInputError, SatchelError, TargetError
from satchel.runtime.scratch import PrivateFolder

JSON, PROBLEM = "application/json", "application/problem+json"
_OPTION = re.compile(r"(?<![\w-])--?[a-z]")
_SAID = {
    "Use --overwrite (overwrite=True) to replace it.": 'Say "overwrite": true to replace it.',
    "Use --overwrite (overwrite=True) to replace both.": 'Say "overwrite": true to replace both.',
}
"""Hints for requests, in place of those that name an option."""

_NO_TARGET = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES}
)
_TYPE = "urn:satchel:problem:"


BYTES = "application/octet-stream"
ARTIFACTS = {"pam": "application/pam+json", "pam_cbor": "application/pam+cbor"}
"""Media types of sealed artifacts by format; source: docs/spec/README.md."""


def media_type(name: str) -> str:
    """Return the media type of a file in the format of a name."""
    return ARTIFACTS.get(name, BYTES)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value of the Python API as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def problem(
    status: int, code: str, title: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return a problem document.

    Args:
        status: HTTP status.
        code: Stable code, as in ``satchel.errors``.
        title: The message, one sentence.
        headers: Further headers.
        **more: Further members, such as ``field`` and ``hint``.
    """
    said = {"type": _TYPE + code, "title": title, "status": status, "code": code, **more}
    return Response(msgspec.json.encode(said), status, headers, PROBLEM)


def problem_of(error: SatchelError, *, trusted: bool) -> Response:
    """Return an error as a problem document.

    Args:
        error: The error.
        trusted: Whether the caller may see names of this machine, and hints for its operator.
    """
    members = error.problem() if trusted else error.public()
    if "hint" in members:
        members["hint"] = _for_requests(str(members["hint"]))
        if not members["hint"]:
            del members["hint"]
    title, status = str(members.pop("message")), _status(error)
    headers = {"Retry-After": "1"} if status in (423, 503) else None
    return problem(status, str(members.pop("code")), title, headers, **members)


def _status(error: SatchelError) -> int:
    """Return the HTTP status of an error; an impossible target is the caller's error."""
    cause = error.__cause__
    if isinstance(error, TargetError) and isinstance(cause, OSError) and cause.errno in _NO_TARGET:
        return 422
    return error.http_status


def _for_requests(hint: str) -> str:
    """Return a hint without the sentences that name options of commands."""
    sentences = re.split(r"(?<=[.!?])\s+", hint)
    said = [_SAID.get(one, one) for one in sentences]
    return " ".join(one for one in said if not _OPTION.search(one))


async def received(request: Request, name: str) -> PrivateFolder:
    """Store a request's body in a private file.

    Raises:
        EmptyInputError: If the body is empty.
    """
    private, size = PrivateFolder(name), 0
    try:
        async with await open_file(private.file, "wb") as file:
            async for part in request.stream():
                size += len(part)
                await file.write(part)
    except BaseException:
        private.close()
        raise
    if size == 0:
        private.close()
        raise EmptyInputError("the body is empty")
    return private
