"""Commands whose arguments, options and help an operation declares."""

import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

from msgspec import UNSET

from satchel.errors import UsageError
from satchel.ports.operations import Field, Operation, declared
from satchel.seal.encoding.strict_json import JsonReader
from satchel.surfaces.cli._console import print_json, progress, state
from satchel.surfaces.cli._tree import BANK, JSON, TYPE_NAMES, Command, Group, Parameter

_R = TypeVar("_R")

_PATIENCE = 1.0  # seconds

Shown = Callable[[_R], int | None] | Callable[[_R, Any], int | None]
"""Prints a result for a person; may return the exit status."""

Opens = Callable[..., AbstractContextManager[Any]]


def command(
    group: Group,
    operation: Operation[Any, Any, ..., _R],
    show: Shown[_R],
    *,
    context: Opens | None = None,
    bank: Opens | None = None,
    label: str = "",
    internal: Callable[[Any], Mapping[str, Any]] | None = None,
    status: Callable[[_R], int] | None = None,
    extra: type[Any] | None = None,
    prepare: Callable[..., None] | None = None,
    choose: Callable[[Any, Any], Any] | None = None,
) -> None:
    """Add the command of an operation.

    With ``extra``, its options are one more argument of ``show``, ``context`` and ``bank``.

    Args:
        group: What it is added to.
        operation: What it does.
        show: Prints the result.
        context: Gives what the operation works on, by its options; the settings by default.
        bank: Gives the bank that the operation works on, by the value of ``--bank`` and its
            options.
        label: Of the progress bar, where the operation reports progress.
        internal: Returns what the command line supplies besides the options.
        status: Returns the exit status for a result.
        extra: An options class of what only the command line offers, such as where to read from.
        prepare: Changes the values of the options by those of ``extra``. What it enters into
            ``state.held`` stays open until the operation is done.
        choose: Completes the options once it is open what the operation works on, such as by asking
            at a terminal.
    """
    fields = operation.offered("cli")
    more_fields = () if extra is None else declared(cast("Any", extra))
    with_progress = bool(label) and any(each.name == "progress" for each in operation.fields)

    def opened(wanted: str | None, *options: Any) -> AbstractContextManager[Any]:
        if bank is not None:
            return bank(wanted, *options)
        return nullcontext(state.settings) if context is None else context(*options)

    def result_of(given: dict[str, Any], wanted: str | None, more: tuple[Any, ...]) -> _R:
        shown = progress(label, True, records=True, after=_PATIENCE)
        with shown if with_progress else nullcontext() as tell:
            options = operation.options(**given, **({"progress": tell} if with_progress else {}))
            supplied = {} if internal is None else internal(options)
            with opened(wanted, options, *more) as there:
                if choose is not None:
                    options = choose(there, options)
                return operation.run(there, options, **supplied)

    def run(**values: Any) -> int:
        as_json, wanted = values.pop(JSON.name), values.pop(BANK.name, None)
        given = _given(fields, values)
        more = () if extra is None else (extra(**_given(more_fields, values)),)
        with state.holding():
            if prepare is not None:
                prepare(given, *more)
            result = result_of(given, wanted, more)
        if as_json:
            print_json(operation.json(result))
            return 0 if status is None else status(result)
        shown = cast("Callable[..., int | None]", show)(result, *more)
        return (shown or 0) if status is None else status(result)

    _add(group, operation, run, (*fields, *more_fields), in_bank=bank is not None)


def _add(
    group: Group,
    operation: Operation[Any, Any, ..., Any],
    run: Callable[..., int],
    fields: Iterable[Field],
    *,
    in_bank: bool,
) -> None:
    parameters = [_parameter(field) for field in fields]
    if in_bank:
        parameters.append(BANK)
    parameters.append(JSON)
    text = f"{operation.help}\n\nExample: `{operation.example}`"
    cast("Any", run).__operation__ = operation
    group.commands[operation.name.rpartition(" ")[2]] = Command(run, text, tuple(parameters))


def _given(fields: Iterable[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a person gave, by name."""
    return {
        each.name: _value(each, values[each.name])
        for each in fields
        if values[each.name] is not None
    }


def _value(field: Field, value: Any) -> Any:
    """Return what a person wrote as the option takes it: JSON is read, lists are tuples."""
    if field.scalar is dict:
        return _mapping(field, value)
    if field.scalar is object:
        return _json(value, _flag(field))
    return tuple(value) if isinstance(value, list) else value


def _mapping(field: Field, given: list[str]) -> dict[str, Any]:
    """Return NAME=TEXT pairs and JSON objects as one object."""
    result = dict[str, Any]()
    for each in given:
        if each.lstrip().startswith("{"):
            result |= _json(each, _flag(field))
            continue
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(
                f"not NAME=TEXT: {each[:60]!r}", field=_flag(field), hint="Or give a JSON object."
            )
        result[name] = value
    return result


def _json(text: str, name: str) -> Any:
    reader = JsonReader(io.BytesIO(text.encode("utf-8", "surrogateescape")), name)
    value = reader.value()
    reader.end()
    return value


def _help(field: Field) -> str:
    """Return the help of an option, with its bounds."""
    least, most = field.option.minimum, field.option.maximum
    if least is not None and most is not None:
        return f"{field.option.help} {least:,} to {most:,}."
    return field.option.help


def _flag(field: Field) -> str:
    return field.option.flag or "--" + field.name.replace("_", "-")


def _parameter(field: Field) -> Parameter:
    option = field.option
    # Choices and bounds are the operation's to judge: its errors name the field, and are the same
    # on each interface.
    is_text = bool(field.choices) or field.scalar in (dict, object)
    is_many = field.is_many or field.scalar is dict
    on, _, off = _flag(field).partition("/")
    has_default = not (is_many or field.is_required or field.default is UNSET)
    return Parameter(
        name=field.name,
        type="text" if is_text else TYPE_NAMES.get(field.scalar, "text"),
        help=option.help if option.argument else _help(field),
        flags=[] if option.argument else [on],
        off=[off] if off and not option.argument else [],
        metavar=option.metavar or "|".join(field.choices),
        default=field.default if has_default else None,
        is_many=is_many,
        is_required=field.is_required and option.argument,
        values=option.values or "|".join(field.choices),
    )
