"""Tools whose arguments an operation declares."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from mcp.types import CallToolResult
from pydantic import Field as Described
from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from satchel.ports.operations import Field, Operation, declared


def _or_none(value: Any, usual: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else usual(value)


if TYPE_CHECKING:
    Text = str | None
else:
    Text = Annotated[str, WrapValidator(_or_none)]


InBank = Annotated[Text, Described(description="Bank. Default: the default bank.")]


def tool(
    operation: Operation[Any, Any, ..., Any],
    call: Callable[..., Any],
    *,
    name: str = "",
    returns: Any = CallToolResult,
    extra: type[Any] | None = None,
    supplied: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the function of a tool: it takes the options that models get, and a bank.

    Args:
        operation: The operation.
        call: Does it, given the name of a bank and the options, and those of ``extra``.
        name: Of the tool, if it is not that of the operation.
        returns: What the call returns.
        extra: An options class of what only the tool takes; its docstring describes the tool.
        supplied: Options that are given for the caller, with their values.
    """
    offered = operation.offered("mcp")
    more = () if extra is None else declared(cast("Any", extra))
    names = {_name(field): field.name for field in offered}

    def run(**given: Any) -> Any:
        bank = given.pop("bank", None)
        values = {name: value for name, value in given.items() if value is not None}
        beside = {field.name: values.pop(field.name) for field in more if field.name in values}
        options = operation.options(
            **(supplied or {}), **{names[name]: value for name, value in values.items()}
        )
        return call(bank, options) if extra is None else call(bank, options, extra(**beside))

    parameters = [_parameter(field) for field in (*more, *offered)]
    parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    parameters.append(
        inspect.Parameter("bank", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=InBank)
    )
    help_ = operation.help.split("\n\n")[0] if extra is None else inspect.getdoc(extra) or ""
    made: Any = run
    made.__name__ = name or operation.name.replace(" ", "_")
    made.__doc__ = help_.replace("\n", " ")
    made.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    made.__annotations__["return"] = returns
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
