"""Tools whose arguments an operation declares."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from mcp.types import CallToolResult
from pydantic import Field as Described

from satchel.ports.operations import Field, Operation
from satchel.surfaces.mcp.texts import Text

_O = TypeVar("_O")

InBank = Annotated[Text, Described(description="Bank. Default: the default bank.")]


def tool(
    operation: Operation[Any, _O, ..., Any],
    call: Callable[[str | None, _O], CallToolResult],
) -> Callable[..., Any]:
    """Return the function of a tool: it takes the options that models get, and a bank.

    Args:
        operation: The operation.
        call: Does it, given the name of a bank and the options.
    """
    offered = operation.offered("mcp")
    names = {_name(field): field.name for field in offered}

    def run(**given: Any) -> Any:
        bank = given.pop("bank", None)
        said = {names[name]: value for name, value in given.items() if value is not None}
        return call(bank, operation.options(**said))

    parameters = [_parameter(field) for field in offered]
    parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    parameters.append(
        inspect.Parameter("bank", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=InBank)
    )
    made: Any = run
    made.__name__ = operation.name.replace(" ", "_")
    made.__doc__ = operation.help.split("\n\n")[0].replace("\n", " ")
    made.__signature__ = inspect.Signature(parameters, return_annotation=CallToolResult)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    made.__annotations__["return"] = CallToolResult
    made.__operation__ = operation
    return run


def _name(field: Field) -> str:
    return field.option.mcp if isinstance(field.option.mcp, str) else field.name


def _parameter(field: Field) -> inspect.Parameter:
    option = field.option
    kind: Any = Literal[field.choices] if field.choices else field.scalar
    if field.is_many:
        kind = list[kind] if field.is_required else list[kind] | kind | None
    elif kind is str:
        kind = str if field.is_required else Text
    elif not field.is_required:
        kind = kind | None
    limits = {
        "ge": option.minimum,
        "le": option.maximum,
        "max_length": option.max_items if field.is_many else option.max_length,
        "min_length": 1 if field.is_many and field.is_required else None,
    }
    told: dict[str, Any] = {name: each for name, each in limits.items() if each is not None}
    description = Described(description=option.help.replace(" Repeatable.", ""), **told)
    return inspect.Parameter(
        _name(field),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required else None,
        annotation=Annotated[kind, description],
    )
