"""Routes that are nothing but an operation on a bank: request, work and answer are declared."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Response

from satchel.ports.operations import Operation
from satchel.surfaces.http.admission import Takes, takes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner
from satchel.surfaces.http.gateway import Caller
from satchel.surfaces.http.operations import body, query

_PARAMETER = re.compile(r"{(\w+)(?::path)?}")
_BANK = "bank"
_WITHOUT_BODY = ("GET", "DELETE")

Run = Callable[[Caller, str, Operation[Any, Any, ..., Any], Any], Any]
"""Runs an operation for a caller on the bank, or the like, of a name."""


def on_bank(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on a bank that is there."""
    return caller.run(bank, operation, options)


def first_on_bank(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on a list of memories of which the path names one; return its result."""
    return caller.run(bank, operation, options)[0]


def add_route(  # noqa: PLR0913 - what a route is
    router: APIRouter,
    method: str,
    path: str,
    operation: Operation[Any, Any, ..., Any],
    *,
    caller: Any = Owner,
    status: int = 200,
    body_size: Takes | None = None,
    run: Run = on_bank,
    named: str = _BANK,
    **names: str,
) -> None:
    """Add the route of an operation whose answer is its result.

    The options are read from the path and the query, or from the path and a JSON body; the text in
    the document is that of the operation.

    Args:
        router: What it is added to; its path has the bank.
        method: Such as ``GET``.
        path: After that of the router.
        operation: The operation.
        caller: Who may ask: ``Owner`` or ``Asking``.
        status: Of the answer.
        body_size: How large the body may be, where it is not small.
        run: Runs the operation.
        named: Name of the path's parameter for the bank, or the like.
        **names: Options that have another name in the request.
    """
    in_path = {name: name for name in _PARAMETER.findall(path) if name not in names.values()}
    read: Callable[..., Any] = query if method in _WITHOUT_BODY else body

    def endpoint(options: Any, caller: Caller, **place: str) -> Response:
        result = run(caller, place[named], operation, options)
        return answer(operation.json(result), status)

    parameters = {
        named: str,
        "options": Annotated[Any, read(operation, **in_path, **names)],
        "caller": caller,
    }
    made: Any = endpoint
    made.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            for name, annotation in parameters.items()
        ]
    )
    made.__name__ = operation.run.__name__
    made.__doc__ = operation.help.partition("\n\n")[0]
    if body_size is not None:
        takes(body_size)(made)
    router.add_api_route(path, made, methods=[method], status_code=status)
