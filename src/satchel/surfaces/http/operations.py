"""Bodies and query parameters of requests, made from the options of an operation."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Body as FromBody
from fastapi import Depends, Query
from pydantic import Field as Bounds
from pydantic import create_model

from satchel.ports.operations import Field, Operation
from satchel.surfaces.http.bodies import Body

_O = TypeVar("_O")


def body(operation: Operation[Any, _O, ..., Any]) -> Any:
    """Return a dependency that reads the options of an operation from a JSON body."""
    name = "".join(word.title() for word in operation.name.replace("-", " ").split())
    members: dict[str, Any] = {
        field.name: (_type(field), _bounds(field)) for field in operation.offered("http")
    }
    model = create_model(name, __base__=Body, __doc__=operation.options.__doc__, **members)

    def read(given: Any) -> _O:
        return operation.options(**given.said())

    read.__annotations__["given"] = Annotated[model, FromBody()]
    return _depends(read, operation)


def query(operation: Operation[Any, _O, ..., Any]) -> Any:
    """Return a dependency that reads the options of an operation from query parameters.

    Raises:
        TypeError: If an option is JSON.
    """
    for field in operation.offered("http"):
        if field.scalar is dict:
            raise TypeError(f"{field.name} of {operation.name} cannot be a query parameter")

    def read(**given: Any) -> _O:
        return operation.options(
            **{name: value for name, value in given.items() if value not in (None, [])}
        )

    fields = operation.offered("http")
    read.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default(field),
                annotation=Annotated[_type(field), Query(**_limits(field))],
            )
            for field in fields
        ]
    )
    return _depends(read, operation)


def _depends(read: Callable[..., _O], operation: Operation[Any, _O, ..., Any]) -> Any:
    read.__operation__ = operation  # type: ignore[attr-defined]
    return Depends(read)


def _type(field: Field) -> Any:
    scalar: Any = field.scalar
    if field.choices:
        scalar = Literal[field.choices]
    elif scalar is dict:
        scalar = dict[str, Any]
    if field.is_many:
        return list[scalar]
    return scalar | None if field.is_optional else scalar


def _default(field: Field) -> Any:
    if field.is_required:
        return inspect.Parameter.empty
    return [] if field.is_many else field.default


def _bounds(field: Field) -> Any:
    default = _default(field)
    limits = {"description": field.option.help.replace(" Repeatable.", ""), **_limits(field)}
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
