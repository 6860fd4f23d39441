"""Routes that are nothing but an operation on a bank: request, work and answer are declared."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Response

from satchel.http.admission import BodyKind, Owner, Served, takes
from satchel.http.answers import answer
from satchel.http.gateway import Caller, Gateway
from satchel.http.jobs import ReportProgress, start_job, with_progress
from satchel.http.operations import body, query
from satchel.ports.operations import Operation

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


def on_store(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on the store; what is open of its banks is opened again afterwards."""
    del bank
    result = operation.run(caller.settings, options)
    caller.forget()
    return result


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
    body_size: BodyKind | None = None,
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

    def endpoint(options: Any, caller: Caller, **place: str) -> Response:
        return answer(operation.json(run(caller, place[named], operation, options)), status)

    parameters = _parameters(method, path, operation, names, {named: str, "caller": caller})
    made = _described(endpoint, operation, parameters)
    if body_size is not None:
        takes(body_size)(made)
    router.add_api_route(path, made, methods=[method], status_code=status)


def add_job(
    router: APIRouter,
    path: str,
    operation: Operation[Any, Any, ..., Any],
    *,
    run: Run = on_bank,
    check: Callable[[Any], object] | None = None,
    **names: str,
) -> None:
    """Add the route of an operation that takes long: a job of the owner's, which is answered first.

    Args:
        router: As ``add_route``.
        path: After that of the router.
        operation: The operation.
        run: Runs it.
        check: Raises an error for options that are refused before the job begins.
        **names: Options that have another name in the request.
    """

    def endpoint(bank: str, options: Any, caller: Caller, gateway: Gateway) -> Response:
        if check is not None:
            check(options)

        def work(tell: ReportProgress) -> object:
            return operation.json(run(caller, bank, operation, with_progress(options, tell)))

        return start_job(gateway.works, operation.name, work)

    others = {_BANK: str, "caller": Owner, "gateway": Served}
    parameters = _parameters("POST", path, operation, names, others)
    made = _described(endpoint, operation, parameters)
    router.add_api_route(path, made, methods=["POST"], status_code=202)


def _parameters(
    method: str,
    path: str,
    operation: Operation[Any, Any, ..., Any],
    names: Mapping[str, str],
    others: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the parameters of an endpoint with their types: the options, and others."""
    in_path = {name: name for name in _PARAMETER.findall(path) if name not in names.values()}
    read: Callable[..., Any] = query if method in _WITHOUT_BODY else body
    return {"options": Annotated[Any, read(operation, **in_path, **names)], **others}


def _described(
    endpoint: Callable[..., Response],
    operation: Operation[Any, Any, ..., Any],
    parameters: Mapping[str, Any],
) -> Any:
    """Give an endpoint its parameters, and the name and the summary of an operation."""
    made: Any = endpoint
    made.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            for name, annotation in parameters.items()
        ]
    )
    made.__name__ = operation.run.__name__
    made.__doc__ = operation.help.partition("\n\n")[0]
    return made
