"""Operations: options, help and bounds declared once; every interface is derived from them.

An operation is a function of a context (settings, or an open bank) and one options class:

    @dataclass(frozen=True, kw_only=True)
    class PruneOptions(Options):
        days: Annotated[int | None, Option("Keep backups of the last N days.", minimum=0)] = None

    @operation(PruneOptions, name="backup prune", example="satchel backup prune --days 30")
    def prune_backups(settings: Settings, options: PruneOptions) -> list[Pruned]:
        \"\"\"Remove the backups that no retention rule keeps.\"\"\"

The command line (``cli._operations``), Python (``api.operations``), HTTP
(``http.operations``) and MCP take parameters, types, bounds and texts from here. A field
without an ``Option`` belongs to no interface: what runs the operation supplies it (``progress``).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from functools import cache, update_wrapper
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import UNSET, UnsetType

from satchel.errors import UsageError
from satchel.ports import absent_options

if TYPE_CHECKING:
    import asyncio

_C = TypeVar("_C")
_D = TypeVar("_D")
_N = TypeVar("_N")
_O = TypeVar("_O")
_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R")

INTERFACES = ("cli", "python", "http", "mcp")

PathText = str | PathLike[str]

_LARGEST = (1 << 63) - 1
"""The largest number that stores accept; larger ones are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Marks an option that an interface does not offer.

    Args:
        why: One sentence, printed in the reference.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an operation: an argument of ``Annotated`` in an options class.

    Args:
        help: One or two sentences. The same on every interface.
        flag: On the command line, such as ``--bank``; made from the field's name by default. Two
            flags separated by ``/`` switch a boolean on and off.
        short: A flag of one letter, such as ``-o``.
        argument: Positional on the command line.
        metavar: What the command line shows for the value.
        cli_default: What the command line takes if a required option is not given.
        cli: ``Absent`` where the command line does not offer it.
        python: ``Absent`` where Python does not offer it.
        http: ``Absent`` where HTTP does not offer it.
        mcp: Whether a model gets it; a name where the tool calls it something else.
        minimum: The minimum of a number.
        maximum: The maximum of a number.
        max_length: Of a text, in characters.
        max_items: Of a list.
        examples: Values for the OpenAPI document.
        parse: Parses the value; called on every interface.
        values: What completes it in the shell: ``bank``, ``format``, ``key``, ``destination`` or
            ``file``.
        is_text_or_object: Of a text that HTTP takes as a JSON object as well, such as a document.
    """

    help: str
    flag: str = ""
    short: str = ""
    argument: bool = False
    metavar: str = ""
    cli_default: str = ""
    cli: Absent | None = None
    python: Absent | None = None
    http: Absent | None = None
    mcp: bool | str = False
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    max_items: int | None = None
    examples: Sequence[Any] = ()
    parse: Callable[[Any], Any] | None = None
    values: str = ""
    is_text_or_object: bool = False

    def absence(self, interface: str) -> Absent | None:
        """Return why an interface does not offer it; None where it does, or is MCP."""
        return cast("Absent | None", getattr(self, interface)) if interface != "mcp" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A declared field of an options class."""

    name: str
    annotation: Any
    """As annotated, without ``Annotated``."""

    default: Any
    option: Option
    scalar: type
    """``bool``, ``int``, ``float``, ``str``; ``dict`` for an object, ``object`` for any JSON."""

    choices: tuple[str, ...] = ()
    """Of a ``Literal`` type."""

    takes_numbers: bool = False
    """Whether a text may be a whole number as well."""

    is_many: bool = False
    is_optional: bool = False

    @property
    def is_required(self) -> bool:
        """Whether it is required."""
        return self.default is MISSING

    @property
    def member(self) -> str:
        """Its name in JSON: ``from`` of an option that Python has to call ``from_``."""
        return self.name.removesuffix("_")

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return self.option.flag or "--" + self.member.replace("_", "-")

    def settle(self, value: Any) -> Any:
        """Return a value, checked and parsed.

        Raises:
            UsageError: If the value is out of bounds or no choice; names the option.
        """
        if value is UNSET or (value is None and (self.is_optional or self.default is None)):
            return value
        if self.is_many:
            if self.scalar is dict and isinstance(value, str | bytes | Mapping):
                raise self._refused("must be a list of objects")
            value = (value,) if isinstance(value, str | PathLike) else tuple(value)
            if self.option.max_items is not None and len(value) > self.option.max_items:
                raise self._refused(f"must have at most {self.option.max_items:,} items")
        if self.option.parse is not None:
            return self.option.parse(value)
        if self.is_many:
            return tuple(self._checked(item) for item in value)
        return self._checked(value)

    def _checked(self, value: Any) -> Any:
        if isinstance(value, PathLike):
            value = fspath(value)
        if self.choices and value not in self.choices:
            raise UsageError(
                f"unknown value {value!r}",
                field=self.name,
                hint=f"Choose from: {', '.join(self.choices)}.",
            )
        if isinstance(value, str):
            most = self.option.max_length
            if most is not None and len(value) > most:
                raise self._refused(f"must have at most {most:,} characters")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if value != value:  # noqa: PLR0124 - not a number
                raise self._refused("must be a number")
            self._check_number(value)
        return value

    def _check_number(self, value: float) -> None:
        least, most = self.option.minimum, self.option.maximum
        if isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
            raise self._refused("must have at most 64 bits")
        if least is not None and most is not None and not least <= value <= most:
            raise self._refused(f"must be from {least:,} to {most:,}, not {value:,}")
        if least is not None and value < least:
            raise self._refused(f"must be {least:,} or more, not {value:,}")
        if most is not None and value > most:
            raise self._refused(f"must be {most:,} or less, not {value:,}")

    def _refused(self, what: str) -> UsageError:
        return UsageError(f"{self.name.replace('_', ' ')} {what}", field=self.name)


class Options:
    """Base of options classes: values are checked and normalized when one is made.

    An option whose default is ``UNSET`` tells "not given" apart from None.

    A single text where several are accepted becomes a tuple of one; a path becomes text; the value
    of an option with ``parse`` is what that returns.

    Raises:
        UsageError: If a value is invalid; names the option.
    """

    are_last: ClassVar[bool] = False
    """Set by a base whose options are common to many operations: help texts list them last."""

    def __post_init__(self) -> None:
        for field in declared(cast("Any", type(self))):
            given = getattr(self, field.name)
            value = field.settle(given)
            if value is not given:
                object.__setattr__(self, field.name, value)


@cache
def declared(kind: Any) -> tuple[Field, ...]:
    """Return the declared options, in the order of help texts.

    Raises:
        TypeError: If a declaration has no help, or if type checkers see another signature than
            Python offers.
    """
    hints = get_type_hints(kind, include_extras=True)
    options = []
    common = [each for each in kind.__mro__ if vars(each).get("are_last")]
    last = {name for each in common for name in vars(each)["__annotations__"]}
    for field in sorted(fields(kind), key=lambda field: field.name in last):
        hint = hints[field.name]
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        option = next((extra for extra in extras if isinstance(extra, Option)), None)
        if option is None:
            continue
        if not option.help:
            raise TypeError(f"{kind.__name__}.{field.name} has no help")
        if (option.python is None) is (absent_options.MARK in field.metadata):
            raise TypeError(
                f"{kind.__name__}.{field.name}: python=Absent() and unoffered.field() go together"
            )
        default = field.default if field.default_factory is MISSING else field.default_factory()
        options.append(_field(field.name, get_args(hint)[0], default, option))
    return tuple(options)


def _field(name: str, type_: Any, default: Any, option: Option) -> Field:
    many, optional, choices = False, False, tuple[str, ...]()
    scalars = set[type]()
    waiting = [type_]
    while waiting:
        each = waiting.pop()
        origin = get_origin(each)
        if origin in (Union, UnionType):
            waiting += get_args(each)
        elif origin is Literal:
            choices += tuple(choice for choice in get_args(each) if choice not in choices)
            scalars.add(str)
        elif each is NoneType:
            optional = True
        elif origin is not None and issubclass(origin, Sequence):
            many = True
            waiting.append(get_args(each)[0])
        elif each is Any:
            scalars.add(object)
        elif (origin or each) in (Mapping, dict):
            scalars.add(dict)
        elif each is UnsetType:
            optional = True
        elif each in (bool, int, float):
            scalars.add(each)
        else:
            scalars.add(str)
    scalar = next(iter(scalars)) if len(scalars) == 1 else str
    return Field(
        name=name,
        annotation=type_,
        default=default,
        option=option,
        scalar=scalar,
        choices=choices,
        takes_numbers=int in scalars and len(scalars) > 1,
        is_many=many,
        is_optional=optional,
    )


@dataclass(eq=False, kw_only=True)
class Operation(Generic[_C, _O, _P, _R]):
    """An operation: its function, its options, and its names on interfaces.

    Args:
        name: The words of the command, such as ``backup run``.
        options: The options class.
        run: The function.
        example: A command line.
        items: Name of the results of an operation that returns a list: its JSON is always one
            object, such as ``{"backups": [...]}``.
        absent: Why an interface does not offer the operation at all, by interface.
        for_models: Why MCP offers only some of the options, where it does.
        alias_of: Name of the operation that this one is an alias of, if any.
        why: Why the alias exists.
    """

    name: str
    options: Callable[_P, _O]
    run: Callable[Concatenate[_C, _O, ...], _R]
    example: str = ""
    items: str = ""
    absent: Mapping[str, str]
    for_models: str = ""
    alias_of: str = ""
    why: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The declared options."""
        return declared(self.options)

    @property
    def internal(self) -> frozenset[str]:
        """Names of the parameters that callers within the package supply, such as ``owner``."""
        parameters = inspect.signature(self.run).parameters.values()
        return frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)

    @property
    def help(self) -> str:
        """The docstring of the function, without the sections for programmers."""
        text = inspect.getdoc(self.run) or ""
        text = text.split("\n\nArgs:\n")[0].split("\n\nRaises:\n")[0]
        return f"{text}\n\nAnother name of `{self.alias_of}`. {self.why}" if self.alias_of else text

    def offered(self, interface: str) -> tuple[Field, ...]:
        """Return the options that an interface offers."""
        if interface == "mcp":
            return tuple(field for field in self.fields if field.option.mcp)
        return tuple(field for field in self.fields if field.option.absence(interface) is None)

    def json(self, result: _R) -> Any:
        """Return a result as JSON: always one object.

        Raises:
            TypeError: If the operation returns a list that has no name.
        """
        if hasattr(result, "to_json"):
            return result.to_json()
        if not isinstance(result, list | tuple) or hasattr(result, "_asdict"):
            return _plain(result)
        if not self.items:
            raise TypeError(f"{self.name} returns a list: declare its name with items=")
        return {self.items: [_plain(each) for each in result]}

    def alias(
        self,
        options: Callable[_Q, _N],
        *,
        name: str,
        why: str,
        absent: Mapping[str, str] | None = None,
    ) -> Callable[
        [Callable[[_D, _N], AbstractContextManager[tuple[_C, _O]]]], Operation[_D, _N, _Q, _R]
    ]:
        """Declare an alias of the operation, with the options of another product.

        The decorated function converts the context and the options of the alias to those of this
        operation; its docstring describes the differences.

        Args:
            options: The options class of the alias.
            name: The alias, as the words of a command.
            why: Who uses that name: a sentence.
            absent: Why an interface does not offer it, by interface.
        """

        def declare(
            adapt: Callable[[_D, _N], AbstractContextManager[tuple[_C, _O]]],
        ) -> Operation[_D, _N, _Q, _R]:
            def run(context: _D, given: _N) -> _R:
                with adapt(context, given) as (target, same):
                    return self.run(target, same)

            made: Any = update_wrapper(run, adapt)
            returns = inspect.signature(self.run, eval_str=True).return_annotation
            made.__signature__ = inspect.signature(adapt).replace(return_annotation=returns)
            declared_alias = operation(options, name=name, items=self.items, absent=absent)(run)
            declared_alias.alias_of, declared_alias.why = self.name, why
            return declared_alias

        return declare

    def __call__(self, context: _C, /, *args: _P.args, **options: _P.kwargs) -> _R:
        """Run the operation; ``run`` takes its options as one object."""
        return self.run(context, self.options(*args, **options))


def values_of(options: Options, kind: type[Options]) -> dict[str, Any]:
    """Return the options that a base of an options class declares, by name."""
    return {field.name: getattr(options, field.name) for field in fields(cast("Any", kind))}


def _plain(value: Any) -> Any:
    """Return a value whose JSON is an object; the JSON of a named tuple would be a list."""
    return value._asdict() if hasattr(value, "_asdict") else value


operations: dict[str, Operation[Any, Any, Any, Any]] = {}
"""All operations whose modules are imported, by name."""


def operation(
    options: Callable[_P, _O],
    *,
    name: str,
    example: str = "",
    items: str = "",
    absent: Mapping[str, str] | None = None,
    for_models: str = "",
) -> Callable[[Callable[Concatenate[_C, _O, ...], _R]], Operation[_C, _O, _P, _R]]:
    """Declare a function of a context and an options class as an operation.

    Args:
        options: The options class.
        name: The words of the command.
        example: A command line for the help.
        items: Name of the results, if it returns a list.
        absent: Why an interface does not offer it, by interface.
        for_models: Why MCP offers only some of the options.
    """

    def declare(run: Callable[Concatenate[_C, _O, ...], _R]) -> Operation[_C, _O, _P, _R]:
        result = Operation(
            name=name,
            options=options,
            run=run,
            example=example,
            items=items,
            absent=absent or {},
            for_models=for_models,
        )
        update_wrapper(cast("Any", result), run, updated=())
        operations[name] = result
        return result

    return declare


def texts(value: PathText | Sequence[PathText] | None) -> tuple[str, ...]:
    """Return one text, several or none as a tuple."""
    if value is None:
        return ()
    if isinstance(value, str | PathLike):
        return (fspath(value),)
    return tuple(fspath(each) for each in value)


def path_text(value: PathText | None) -> str | None:
    """Return a path as text."""
    return None if value is None else fspath(value)


class ProgressStep(NamedTuple):
    """Progress of a transfer."""

    done: int
    """Records that are done."""

    total: int
    """All records."""

    record: str | None
    """ID of the last record that is done, if there is one."""


OnStep = Callable[[ProgressStep], None]
"""Called after each step; an exception ends the work."""


OnRecord = Callable[[int, int, str | None], Any]
"""Called with the records done, all records, and the ID of the last one; may be ``async``.

An exception ends the transfer and is raised by the call, with a note about what remains.
"""


AWAITING: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("AWAITING", default=None)
"""Event loop that awaits the call in this thread; None if none does."""


def step_callback(callback: OnRecord | None) -> OnStep | None:
    """Return a function that calls a caller's progress callback, synchronous or ``async``.

    Raises:
        UsageError: On a step, if the callback is ``async`` and no event loop can run it.
    """
    if callback is None:
        return None

    def on_step(step: ProgressStep) -> None:
        loop = AWAITING.get()
        if loop is not None:  # run in the loop that awaits the call, in its thread
            import asyncio

            asyncio.run_coroutine_threadsafe(_call_and_wait(callback, step), loop).result()
            return
        result = callback(*step)
        if inspect.isawaitable(result):
            _run_awaitable(result)

    return on_step


async def _call_and_wait(callback: OnRecord, step: ProgressStep) -> None:
    result = callback(*step)
    if inspect.isawaitable(result):
        await result


def _run_awaitable(awaitable: Awaitable[Any]) -> None:
    """Run the awaitable of an ``async`` callback in an event loop of its own."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(_wait_for(awaitable))
        return
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    raise UsageError(
        "an async callback cannot run while the event loop waits for this call",
        hint="Use satchel.aio, or a plain callback.",
    )


async def _wait_for(awaitable: Awaitable[Any]) -> None:
    await awaitable
