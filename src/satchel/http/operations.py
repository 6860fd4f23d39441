"""Bodies and query parameters of requests, made from the options of an operation."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Body as FromBody
from fastapi import Depends, Query
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as Bounds

from satchel.ports.operations import Field, Operation, Options, operation


class RequestBody(BaseModel):
    """What is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    def said(self, *but: str) -> dict[str, Any]:
        """Return what was said, without what was not."""
        return {
            name: value
            for name, value in self.model_dump(exclude_unset=True).items()
            if name not in but
        }


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
        supplied: Options that are given for the caller, with their values.
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
        return operation.options(**(supplied or {}), **named, **given.said())

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
        supplied: Options that are given for the caller, with their values.
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
    """Declare that a route is of an operation all of whose options are in its path."""

    def mark(endpoint: _Endpoint) -> _Endpoint:
        endpoint.__operation__ = operation  # type: ignore[attr-defined]
        return endpoint

    return mark


def of_server(name: str) -> Callable[[_Endpoint], _Endpoint]:
    """Declare a route about the server itself, without options, as an operation of that name."""

    def mark(endpoint: _Endpoint) -> _Endpoint:
        return serves(operation(_NoOptions, name=name, absent=OF_SERVER)(endpoint))(endpoint)

    return mark


@dataclass(frozen=True)
class _NoOptions(Options):
    """No options."""


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
    """Return the type of a query parameter: a list is repeated, and empty where it is not given."""
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
