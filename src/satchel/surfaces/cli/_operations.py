"""Commands whose arguments, options and help an operation declares."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal, TypeVar

import typer

from satchel.ports.operations import Field, Operation
from satchel.surfaces.cli._console import print_json, progress, state

_R = TypeVar("_R")

Shown = Callable[[_R], int | None]
"""Prints a result for a person; may return the exit status."""


def command(
    app: typer.Typer,
    operation: Operation[Any, Any, ..., _R],
    show: Shown[_R],
    *,
    context: Callable[[Any], AbstractContextManager[Any]] | None = None,
    label: str = "",
    internal: Callable[[Any], Mapping[str, Any]] | None = None,
    status: Callable[[_R], int] | None = None,
) -> None:
    """Add the command of an operation.

    Args:
        app: What it is added to.
        operation: What it does.
        show: Prints the result.
        context: Gives what the operation works on; the settings by default.
        label: Of the progress bar, where the operation reports progress.
        internal: Returns what the command line supplies besides the options.
        status: Returns the exit status for a result.
    """
    offered = operation.offered("cli")
    names = {field.name for field in offered}
    supplied = {"progress"} & {field.name for field in operation.fields} if label else set[str]()

    def run(**values: Any) -> int:
        as_json = values.pop("as_json")
        given = {name: value for name, value in values.items() if name in names}
        bar = progress(label, True, records=True) if supplied else nullcontext()
        with bar as tell:
            options = operation.options(
                **{name: _value(value) for name, value in given.items() if value is not None},
                **dict.fromkeys(supplied, tell),
            )
            more = {} if internal is None else internal(options)
            with nullcontext(state.settings) if context is None else context(options) as there:
                result = operation.run(there, options, **more)
        if as_json:
            print_json(result)
            return 0 if status is None else status(result)
        shown = show(result)
        return (shown or 0) if status is None else status(result)

    parameters = [_parameter(field) for field in offered]
    json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
    parameters.append(
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=json)
    )
    made: Any = run
    made.__name__ = operation.name.replace(" ", "_").replace("-", "_")
    made.__doc__ = f"{operation.help}\n\nExample: `{operation.example}`"
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    made.__operation__ = operation
    app.command(operation.name.rpartition(" ")[2])(made)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _parameter(field: Field) -> inspect.Parameter:
    option = field.option
    scalar: Any = Literal[field.choices] if field.choices else field.scalar
    if scalar is dict:
        scalar = str
    kind = list[scalar] if field.is_many else scalar
    if not (field.scalar is bool and field.default is not None):
        kind = kind | None
    default = None if field.is_many or field.is_required else field.default
    metavar = option.metavar or None
    if option.argument:
        name = metavar or field.name.upper()
        shown = f"[{name}]..." if field.is_many else f"[{name}]"
        mark: Any = typer.Argument(help=option.help, metavar=shown)
    else:
        bounds: dict[str, Any] = {}
        if field.scalar in (int, float):
            bounds = {"min": option.minimum, "max": option.maximum}
        flag = option.flag or "--" + field.name.replace("_", "-")
        mark = typer.Option(flag, help=option.help, metavar=metavar, **bounds)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, mark],
    )
