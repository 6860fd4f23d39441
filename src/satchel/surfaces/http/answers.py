"""Answers: values as JSON, and errors as problem documents (RFC 9457)."""

from typing import Any

import msgspec
from fastapi import Response

from satchel.errors import SatchelError

PROBLEM = "application/problem+json"
_TYPE = "urn:satchel:problem:"


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value of the Python API as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def problem(
    status: int, code: str, title: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return a problem document.

    Args:
        status: Of the answer.
        code: Stable, as in ``satchel.errors``.
        title: What is wrong, in one sentence.
        headers: Further ones.
        **more: Further members, such as ``field`` and ``hint``.
    """
    said = {"type": _TYPE + code, "title": title, "status": status, "code": code, **more}
    return Response(msgspec.json.encode(said), status, headers, PROBLEM)


def problem_of(error: SatchelError, *, trusted: bool) -> Response:
    """Return what was raised as a problem document.

    Args:
        error: What was raised.
        trusted: Whether who asked may know names of this machine's, and what its operator can do.
    """
    said = error.problem() if trusted else error.public()
    title = str(said.pop("message"))
    headers = {"Retry-After": "1"} if error.http_status in (423, 503) else None
    return problem(error.http_status, str(said.pop("code")), title, headers, **said)
