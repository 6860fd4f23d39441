"""Routes made from operations: bodies, query parameters, endpoints, examples for the document."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Body as FromBody
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as Bounds

from satchel.http.admission import BodyKind, Owner, Served, takes
from satchel.http.answers import BYTES, answer
from satchel.http.gateway import Caller, Gateway
from satchel.http.jobs import ReportProgress, start_job, with_progress
from satchel.ports.operations import Field, NoOptions, Operation, operation


class RequestBody(BaseModel):
    """A JSON body; unknown members are refused."""

    model_config = ConfigDict(extra="forbid")

    def sent(self) -> dict[str, Any]:
        """Return the members that the client sent."""
        return self.model_dump(exclude_unset=True)


OF_SERVER = dict.fromkeys(("cli", "python", "mcp"), "It is about a running server: use HTTP.")
"""Why only HTTP offers an operation."""

_O = TypeVar("_O")
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def body(
    operation: Operation[Any, _O, ..., Any],
    *,
    supplied: Mapping[str, Any] | None = None,
    **in_path: str,
) -> Any:
    """Return a dependency that reads the options of an operation from a JSON body.

    Args:
        operation: The operation.
        supplied: Values of options that the caller cannot set.
        **in_path: Options that the path has, each with the name of the path's parameter.
    """
    name = "".join(word.title() for word in operation.name.replace("-", " ").split())
    members: dict[str, Any] = {
        field.name: (_type(field), _bounds(field))
        for field in operation.offered("http")
        if field.name not in in_path
    }
    model = create_model(name, __base__=RequestBody, __doc__=operation.options.__doc__, **members)

    def read(given: Any, **path: Any) -> _O:
        named = {to: path[at] for to, at in in_path.items()}
        return operation.options(**(supplied or {}), **named, **given.sent())

    parameters = [_parameter("given", Annotated[model, FromBody()])]
    return _depends(read, operation, [*parameters, *_path(in_path)])


def query(
    operation: Operation[Any, _O, ..., Any],
    *,
    supplied: Mapping[str, Any] | None = None,
    **names: str,
) -> Any:
    """Return a dependency that reads the options of an operation from the path and the query.

    Args:
        operation: The operation.
        supplied: Values of options that the caller cannot set.
        **names: Options that have another name in the request, such as that of the path's
            parameter.

    Raises:
        TypeError: If an option is JSON.
    """
    fields = operation.offered("http")
    for field in fields:
        if field.scalar in (dict, object):
            raise TypeError(f"{field.name} of {operation.name} cannot be a query parameter")
    called = {field.name: names.get(field.name, field.name) for field in fields}

    def read(**given: Any) -> _O:
        values = {name: given[called[name]] for name in called}
        return operation.options(
            **(supplied or {}),
            **{name: value for name, value in values.items() if value not in (None, [])},
        )

    parameters = [
        _parameter(called[field.name], _annotated_query(field), field)
        if field.name not in names or not field.option.argument or not field.is_required
        else _parameter(called[field.name], str)
        for field in fields
    ]
    return _depends(read, operation, parameters)


def serves(operation: Operation[Any, Any, ..., Any]) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the operation of a route whose options are all in its path."""

    def mark(endpoint: _Endpoint) -> _Endpoint:
        endpoint.__operation__ = operation  # type: ignore[attr-defined]
        return endpoint

    return mark


def of_server(name: str) -> Callable[[_Endpoint], _Endpoint]:
    """Declare a route about the server itself, without options, as an operation of that name."""

    def mark(endpoint: _Endpoint) -> _Endpoint:
        return serves(operation(NoOptions, name=name, absent=OF_SERVER)(endpoint))(endpoint)

    return mark


def _path(names: dict[str, str]) -> list[inspect.Parameter]:
    return [_parameter(name, str) for name in names.values()]


def _parameter(name: str, annotation: Any, field: Field | None = None) -> inspect.Parameter:
    default = inspect.Parameter.empty if field is None else _default(field)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _depends(
    read: Callable[..., _O],
    operation: Operation[Any, _O, ..., Any],
    parameters: list[inspect.Parameter],
) -> Any:
    made: Any = read
    made.__signature__ = inspect.Signature(parameters)
    made.__operation__ = operation
    return Depends(read)


def _type(field: Field) -> Any:
    scalar: Any = field.scalar
    if field.choices:
        scalar = Literal[field.choices]
    elif field.option.is_text_or_object:
        scalar = str | dict[str, Any]
    elif field.takes_numbers:
        scalar = int | str
    elif scalar is dict:
        scalar = dict[str, Any]
    elif scalar is object:
        scalar = Any
    if field.is_many:
        return list[scalar] | None if field.is_optional else list[scalar]
    return scalar | None if field.is_optional else scalar


def _in_query(field: Field) -> Any:
    """Return the type of a query parameter; a list is repeated, and empty by default."""
    return _type(replace(field, is_optional=False)) if field.is_many else _type(field)


def _annotated_query(field: Field) -> Any:
    limits = _limits(field)
    if field.member != field.name:
        limits["alias"] = field.member
    return Annotated[_in_query(field), Query(**limits)]


def _default(field: Field) -> Any:
    if field.is_required:
        return inspect.Parameter.empty
    if field.default is UNSET:
        return None
    return [] if field.is_many and field.default == () else field.default


def _bounds(field: Field) -> Any:
    default = _default(field)
    limits = {"description": field.option.help.replace(" Repeatable.", ""), **_limits(field)}
    if field.member != field.name:
        limits["alias"] = field.member
    return Bounds(**limits) if default is inspect.Parameter.empty else Bounds(default, **limits)


def _limits(field: Field) -> dict[str, Any]:
    option = field.option
    limits = {
        "ge": option.minimum,
        "le": option.maximum,
        "max_length": option.max_items if field.is_many else option.max_length,
        "examples": list(option.examples) or None,
    }
    return {name: value for name, value in limits.items() if value is not None}


_PARAMETER = re.compile(r"{(\w+)(?::path)?}")
_BANK = "bank"
_WITHOUT_BODY = ("GET", "DELETE")

Run = Callable[[Caller, str, Operation[Any, Any, ..., Any], Any], Any]
"""Runs an operation for a caller on the bank, or other object, of a name."""


def on_bank(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on an existing bank."""
    return caller.run(bank, operation, options)


def on_store(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on the store; its banks are reopened afterwards."""
    del bank
    result = operation.run(caller.settings, options)
    caller.forget()
    return result


def first_on_bank(
    caller: Caller, bank: str, operation: Operation[Any, Any, ..., Any], options: Any
) -> Any:
    """Run an operation on a list with the memory in the path; return its result."""
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
    """Add the route of an operation that returns its result.

    The options are read from the path and the query, or from the path and a JSON body; the
    description in the OpenAPI document is that of the operation.

    Args:
        router: The router; its path has the bank.
        method: Such as ``GET``.
        path: Path below that of the router.
        operation: The operation.
        caller: Permitted callers: ``Owner`` or ``AnyCaller``.
        status: HTTP status of the response.
        body_size: Kind of the body, if it is not small.
        run: Runs the operation.
        named: Name of the path's parameter for the bank, or other object.
        **names: Options that have another name in the request.
    """

    def endpoint(options: Any, caller: Caller, **place: str) -> Response:
        return answer(operation.json(run(caller, place[named], operation, options)), status)

    parameters = _endpoint_parameters(
        method, path, operation, names, {named: str, "caller": caller}
    )
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
    """Add the route of a long operation, which runs as a job of the owner; its state is returned.

    Args:
        router: As ``add_route``.
        path: Path below that of the router.
        operation: The operation.
        run: Runs the operation.
        check: Raises an error for options that are refused before the job starts.
        **names: Options that have another name in the request.
    """

    def endpoint(bank: str, options: Any, caller: Caller, gateway: Gateway) -> Response:
        if check is not None:
            check(options)

        def work(tell: ReportProgress) -> object:
            return operation.json(run(caller, bank, operation, with_progress(options, tell)))

        return start_job(gateway.jobs, operation.name, work)

    others = {_BANK: str, "caller": Owner, "gateway": Served}
    parameters = _endpoint_parameters("POST", path, operation, names, others)
    made = _described(endpoint, operation, parameters)
    router.add_api_route(path, made, methods=["POST"], status_code=202)


def _endpoint_parameters(
    method: str,
    path: str,
    operation: Operation[Any, Any, ..., Any],
    names: Mapping[str, str],
    others: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the parameters of an endpoint, with their types."""
    in_path = {name: name for name in _PARAMETER.findall(path) if name not in names.values()}
    read: Callable[..., Any] = query if method in _WITHOUT_BODY else body
    return {"options": Annotated[Any, read(operation, **in_path, **names)], **others}


def _described(
    endpoint: Callable[..., Response],
    operation: Operation[Any, Any, ..., Any],
    parameters: Mapping[str, Any],
) -> Any:
    """Set the parameters of an endpoint, and the name and summary of its operation."""
    described: Any = endpoint
    described.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            for name, annotation in parameters.items()
        ]
    )
    described.__name__ = operation.run.__name__
    described.__doc__ = operation.help.partition("\n\n")[0]
    return described


_ID = "blake3:" + "0" * 64

_PATH_EXAMPLES: dict[str, Any] = {
    "bank": "assistant",
    "entry": _ID,
    "memory": _ID,
    "to": _ID,
    "token": _ID,
    "artifact": "0" * 64,
    "session": "planning",
    "other": "planning (2)",
    "store": "notes",
    "path": "plans/today.md",
    "old": 1,
    "job": "0" * 32,
    "receipt": _ID,
}
"""Examples of required parameters, by name."""


def takes_file() -> dict[str, Any]:
    """Return the OpenAPI description of a route with a file as its body."""
    said = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {BYTES: said}}}


def gives_file(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a route that returns a file, by media type."""
    said = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"description": "The file.", "content": dict.fromkeys(kinds, said)}}


def with_examples(document: dict[str, Any]) -> dict[str, Any]:
    """Add an example to each request of an OpenAPI document, in place."""
    schemas = document.get("components", {}).get("schemas", {})
    for methods in document["paths"].values():
        for described in methods.values():
            for parameter in described.get("parameters", ()):
                if parameter.get("required"):
                    parameter["example"] = _PATH_EXAMPLES[parameter["name"]]
            for media in described.get("requestBody", {}).get("content", {}).values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                if name:
                    media["example"] = _body_example(schemas[name])
    return document


def _body_example(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the examples of the fields of a body."""
    return {
        name: said["examples"][0]
        for name, said in schema.get("properties", {}).items()
        if "examples" in said
    }
