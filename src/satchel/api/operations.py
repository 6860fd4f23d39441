"""Methods made from operations, synchronous or awaited.

A class lists its operations once (``remember = method(operations.remember)``). On a subclass of
``AsyncCalls`` the same attribute is a coroutine function, so that ``satchel.aio`` needs no list of
its own. The modules of an operation are imported on its first use: see ``lazy``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial, update_wrapper
from importlib import import_module
from textwrap import fill
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from satchel.bank.lifetime import hints_for_python

if TYPE_CHECKING:
    from satchel.ports.operations import Field, Operation


class Deferred:
    """A member of a module that is not imported yet.

    Args:
        module: Name of the module.
        name: Name of the member.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def resolve(self) -> Any:
        """Import the module, and return the member.

        Raises:
            AttributeError: If the module has none of this name.
        """
        return getattr(import_module(self._module), self._name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the member."""
        return self.resolve()(*args, **options)


class LazyModule:
    """A placeholder of a module, whose attributes are ``Deferred``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Deferred:
        return Deferred(self._name, name)


def lazy(name: str) -> Any:
    """Return a placeholder of a module, which is imported on first use."""
    return LazyModule(name)


_C = TypeVar("_C")
_C_co = TypeVar("_C_co", covariant=True)
_O = TypeVar("_O")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_N = TypeVar("_N")

_WIDTH = 88


class HasContext(Protocol[_C_co]):
    """An object with methods made from operations."""

    def _context(self) -> AbstractContextManager[_C_co]:
        """Yield the object that an operation works on."""
        ...


class AsyncCalls:
    """A class with awaited methods; each runs in a thread.

    Args:
        plain: The object that they run on. A class that does not set one runs them on itself.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain


class Method(Generic[_P, _R]):
    """A method that is synchronous, or awaited on subclasses of ``AsyncCalls``."""

    def __init__(self, load: Callable[[], Callable[..., _R]]) -> None:
        self._load = load
        self._name = ""
        self._functions = dict[bool, FunctionType]()

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(
        self, instance: None, owner: type[AsyncCalls]
    ) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]: ...

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[Concatenate[Any, _P], _R]: ...

    @overload
    def __get__(
        self, instance: AsyncCalls, owner: type[Any]
    ) -> Callable[_P, Coroutine[Any, Any, _R]]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Callable[_P, _R]: ...

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        is_awaited = issubclass(owner, AsyncCalls)
        function = self._functions.get(is_awaited)
        if function is None:
            function = self._make_method(owner, is_awaited=is_awaited)
            self._functions[is_awaited] = function
        return function if instance is None else function.__get__(instance, owner)

    def _make_method(self, owner: type[Any], *, is_awaited: bool) -> FunctionType:
        plain = self._load()
        name = self._name or plain.__name__
        plain.__name__, plain.__qualname__ = name, f"{owner.__qualname__}.{name}"
        return cast("FunctionType", _in_a_thread(plain) if is_awaited else plain)


def _in_a_thread(plain: Callable[..., _R]) -> Callable[..., Coroutine[Any, Any, _R]]:
    async def call(self: Any, /, *args: Any, **options: Any) -> _R:
        from satchel.bank.threads import run_in_thread

        return await run_in_thread(partial(plain, getattr(self, "_plain", self), *args, **options))

    update_wrapper(call, plain)
    call.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    return call


@overload
def method(
    operation: Operation[_C, Any, _P, _R],
    *,
    check: Callable[[_R], None] | None = None,
    context: Callable[[Any], AbstractContextManager[_C]] | None = None,
) -> Method[_P, _R]: ...


@overload
def method(
    operation: Operation[_C, Any, _P, _R],
    *,
    context: Callable[[Any], AbstractContextManager[_C]] | None = None,
    into: Callable[[Any, _R], _N],
) -> Method[_P, _N]: ...


def method(
    operation: Operation[_C, Any, _P, Any],
    *,
    check: Callable[[Any], None] | None = None,
    context: Callable[[Any], AbstractContextManager[_C]] | None = None,
    into: Callable[[Any, Any], Any] | None = None,
) -> Method[_P, Any]:
    """Return a method that runs an operation with the options it is called with.

    Args:
        operation: The operation, or its placeholder (``lazy``).
        check: Raises an error for a result that is a failure.
        context: Yields the object that the operation works on; ``_context`` by default.
        into: Converts the object and the result to the return value.
    """

    def load() -> Callable[..., Any]:
        there: Any = operation.resolve() if isinstance(operation, Deferred) else operation
        declared: Operation[_C, Any, _P, Any] = there

        def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
            with hints_for_python():
                options = options_of(declared, *args, **kwargs)
                result = run_on(self, declared, options, context)
                if check is not None:
                    check(result)
                return result if into is None else into(self, result)

        documented(call, declared)
        if into is not None:
            method: Any = call
            returns = inspect.signature(into).return_annotation
            method.__signature__ = method.__signature__.replace(return_annotation=returns)
        return call

    return Method(load)


def call(function: Callable[Concatenate[Any, _P], _R]) -> Method[_P, _R]:
    """Make a method without an operation awaited on subclasses of ``AsyncCalls``."""

    def load() -> Callable[..., _R]:
        def there(*args: Any, **options: Any) -> _R:
            with hints_for_python():
                return function(*args, **options)

        return update_wrapper(there, function)

    return Method(load)


def options_of(
    operation: Operation[Any, _O, _P, Any], /, *args: _P.args, **kwargs: _P.kwargs
) -> _O:
    """Return the options of a call.

    Raises:
        TypeError: If an option does not exist, or is not offered in Python.
        UsageError: If a value is not valid.
    """
    offered = [field.name for field in operation.offered("python")]
    for name in kwargs:
        if name not in offered:
            raise TypeError(_unexpected(operation, name, offered))
    try:
        return operation.options(*args, **kwargs)
    except TypeError as error:
        constructor = f"{getattr(operation.options, '__qualname__', '')}.__init__()"
        named = f"{operation.name.rpartition(' ')[2]}()"
        raise TypeError(str(error).replace(constructor, named)) from None


def _unexpected(operation: Operation[Any, Any, ..., Any], name: str, offered: list[str]) -> str:
    """Return why an option is refused: the declared reason, or a similar name."""
    call = operation.name.rpartition(" ")[2]
    text = f"{call}() got an unexpected keyword argument {name!r}"
    absences = (each.option.python for each in operation.fields if each.name == name)
    absence = next(absences, None)
    if absence is not None:
        return f"{text}. {absence.why}"
    from difflib import get_close_matches

    near = get_close_matches(name, offered, n=1)
    return f"{text}. Did you mean {near[0]!r}?" if near else text


def run_on(
    target: HasContext[_C],
    operation: Operation[_C, _O, ..., _R],
    options: _O,
    context: Callable[[Any], AbstractContextManager[_C]] | None = None,
) -> _R:
    """Run an operation on the context of a bank, or another object.

    A target with ``_internal`` supplies further arguments of the operation.

    Args:
        target: The bank, or another object.
        operation: The operation.
        options: Its options.
        context: Yields the object that it works on; ``_context`` by default.
    """
    supply = getattr(target, "_internal", None)
    supplied = supply(options) if supply is not None and operation.internal else {}
    more = {name: value for name, value in supplied.items() if name in operation.internal}
    opened = target._context() if context is None else context(target)  # noqa: SLF001 - as above
    with opened as there:
        return operation.run(there, options, **more)


def function(
    operation: Operation[_C, Any, _P, _R], context: Callable[[Any], _C]
) -> Callable[_P, _R]:
    """Return a function of the package that runs an operation with the options it is called with.

    Args:
        operation: The operation.
        context: Returns what it works on, such as the settings of this machine, for the options.
    """

    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with hints_for_python():
            options = options_of(operation, *args, **kwargs)
            return operation.run(context(options), options)

    return documented(call, operation, first=None)


_Call = TypeVar("_Call", bound=Callable[..., Any])


_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def documented(
    call: _Call, operation: Operation[Any, Any, ..., Any], first: inspect.Parameter | None = _SELF
) -> _Call:
    """Give a method the signature and the documentation of an operation.

    Args:
        call: The method, or a function.
        operation: The operation.
        first: The parameter before the options, if there is one.
    """
    offered = operation.offered("python")
    annotations = {field.name: field.annotation for field in offered}
    accepted = inspect.signature(operation.options).parameters
    by_position = [each.name for each in accepted.values() if each.kind is not each.KEYWORD_ONLY]
    parameters = [] if first is None else [first]
    parameters += [
        accepted[name].replace(annotation=annotations[name])
        for name in dict.fromkeys([*by_position, *annotations])
        if name in annotations
    ]
    returns = inspect.signature(operation.run, eval_str=True).return_annotation
    method: Any = call
    method.__name__ = method.__qualname__ = operation.name.rpartition(" ")[2]
    method.__doc__ = _documentation(operation, offered)
    method.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    method.__operation__ = operation
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
