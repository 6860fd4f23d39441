"""Methods whose keyword arguments an operation declares."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from textwrap import fill
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from satchel.ports.operations import Field, Operation

_C = TypeVar("_C")
_C_co = TypeVar("_C_co", covariant=True)
_O = TypeVar("_O")
_P = ParamSpec("_P")
_R = TypeVar("_R")

_WIDTH = 88


class HasContext(Protocol[_C_co]):
    """What methods of operations belong to."""

    def _context(self) -> AbstractContextManager[_C_co]:
        """Give what an operation works on, for as long as it runs."""
        ...


def method(
    operation: Operation[_C, Any, _P, _R],
    *,
    check: Callable[[_R], None] | None = None,
    context: Callable[[Any], AbstractContextManager[_C]] | None = None,
) -> Callable[Concatenate[Any, _P], _R]:
    """Return a method that runs an operation with the options it is called with.

    Args:
        operation: The operation.
        check: Raises an error where the result is a failure that has an exit status elsewhere.
        context: Gives what the operation works on, if that is not what ``_context`` gives.
    """

    def call(self: Any, /, *args: _P.args, **given: _P.kwargs) -> _R:
        options = operation.options(*args, **given)
        if context is None:
            result = run_on(self, operation, options)
        else:
            with context(self) as target:
                result = operation.run(target, options)
        if check is not None:
            check(result)
        return result

    return documented(call, operation)


def run_on(target: HasContext[_C], operation: Operation[_C, _O, ..., _R], options: _O) -> _R:
    """Run an operation on what a bank, or the like, works on."""
    with target._context() as context:  # noqa: SLF001 - of the protocol above
        return operation.run(context, options)


_Call = TypeVar("_Call", bound=Callable[..., Any])


def documented(call: _Call, operation: Operation[Any, Any, ..., Any]) -> _Call:
    """Give a method the signature and the documentation of an operation."""
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    offered = operation.offered("python")
    signature = inspect.signature(operation.options)
    annotations = {field.name: field.annotation for field in offered}
    parameters += [
        parameter.replace(annotation=annotations[name])
        for name, parameter in signature.parameters.items()
        if name in annotations
    ]
    returns = inspect.signature(operation.run, eval_str=True).return_annotation
    made: Any = call
    made.__name__ = made.__qualname__ = operation.name.rpartition(" ")[2]
    made.__doc__ = _documentation(operation, offered)
    made.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    made.__operation__ = operation
    return call


def _documentation(operation: Operation[Any, Any, ..., Any], offered: tuple[Field, ...]) -> str:
    text = [operation.help]
    if offered:
        text.append("Args:\n" + "\n".join(map(_argument, offered)))
    _, raises, errors = (inspect.getdoc(operation.run) or "").partition("\n\nRaises:\n")
    if raises:
        text.append("Raises:\n" + errors)
    return "\n\n".join(text)


def _argument(field: Field) -> str:
    help_ = field.option.help.replace(" Repeatable.", "")
    return fill(f"{field.name}: {help_}", _WIDTH, initial_indent="    ", subsequent_indent=" " * 8)
