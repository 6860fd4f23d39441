"""Commands whose arguments, options and help an operation declares."""

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_origin

from msgspec import UNSET
from msgspec.structs import replace

from satchel.cli._console import activity, print_json, state
from satchel.cli._tree import BANK, JSON, TYPE_NAMES, Command, Group, Parameter
from satchel.crypto.json_reader import JsonReader
from satchel.errors import UsageError
from satchel.ports.operations import Field, Operation, declared, texts

if TYPE_CHECKING:
    from satchel.bank.open_bank import OpenBank

_R = TypeVar("_R")

_STDOUT = "-"

Shown = Callable[[_R], int | None] | Callable[[_R, Any], int | None]
"""Prints a result; may return the exit status."""

Opens = Callable[..., AbstractContextManager[Any]]


def command(
    group: Group,
    operation: Operation[Any, Any, ..., _R],
    show: Shown[_R],
    *,
    context: Opens | None = None,
    bank: Opens | None = None,
    bank_help: str = BANK.help,
    label: str | None = "",
    unit: str = "records",
    internal: Callable[[Any], Mapping[str, Any]] | None = None,
    status: Callable[[_R], int] | None = None,
    extra: type[Any] | None = None,
    prepare: Callable[..., None] | None = None,
    choose: Callable[[Any, Any], Any] | None = None,
) -> None:
    """Add the command of an operation.

    With ``extra``, its options are one more argument of ``show``, ``context`` and ``bank``.

    Args:
        group: The group to add it to.
        operation: The operation.
        show: Prints the result.
        context: Opens what the operation works on, given its options; the settings by default.
        bank: Opens the bank that the operation works on, given the value of ``--bank`` and the
            options.
        bank_help: Help of ``--bank``, if it is not the bank to work on.
        label: Label of the progress bar; the operation's name if empty, and no bar if None, as for
            a server.
        unit: Unit of the progress: ``records`` or ``bytes``.
        internal: Returns further arguments that the command line supplies, other than the keys of
            owners (``owner``, ``owners``), whose passphrases are prompted for when needed.
        status: Returns the exit status for a result.
        extra: An options class that only the command line has, such as where to read from.
        prepare: Changes the values of the options by those of ``extra``. Resources that it enters
            into ``state.held`` stay open until the operation is done.
        choose: Completes the options after the bank is open, such as by a prompt.

    An option ``output`` may be ``-``, standard output. With an option ``propose``, a proposal for
    the other owners is written to a file.
    """
    offered, views = operation.offered("cli"), cast("Callable[..., int | None]", show)
    more_fields = () if extra is None else declared(cast("Any", extra))
    reports = label is not None and any(field.name == "progress" for field in operation.fields)

    def run(**values: Any) -> int:
        as_json, bank_name = values.pop(JSON.name), values.pop(BANK.name, None)
        arguments = _passed_options(offered, values)
        extras = () if extra is None else (extra(**_passed_options(more_fields, values)),)
        with ExitStack() as state.held:
            held = state.held
            if prepare is not None:
                prepare(arguments, *extras)
            output = arguments.get("output")
            if arguments.get("propose") is not None:
                held.enter_context(_proposed(arguments["propose"], as_json=as_json))
            if output is not None:
                arguments["output"] = held.enter_context(_output(output))
            if label is not None and not as_json:
                progress = held.enter_context(activity.shown(label or operation.name, unit))
                arguments |= {"progress": progress} if reports else {}
            options = operation.options(**arguments)
            internal_arguments = _internal(operation, options, internal)
            target = held.enter_context(_opened(bank, context, bank_name, (options, *extras)))
            options = options if choose is None else choose(target, options)
            result = operation.run(target, options, **internal_arguments)
        if output == _STDOUT:
            result = _on_stdout(result)
        exit_status = _print(operation.json(result)) if as_json else views(result, *extras)
        return (exit_status or 0) if status is None else status(result)

    general = (JSON,) if bank is None else (dataclasses.replace(BANK, help=bank_help), JSON)
    named = [field for field in more_fields if field.option.argument and field.is_required]
    others = _ordered((*offered, *(field for field in more_fields if field not in named)))
    parameters = (*map(_parameter, (*named, *others)), *general)
    text = f"{operation.help}\n\nExample: `{operation.example}`"
    cast("Any", run).__operation__ = operation
    group.commands[operation.name.rpartition(" ")[2]] = Command(run, text, parameters)


def _opened(
    bank: Opens | None, context: Opens | None, bank_name: str | None, options: tuple[Any, ...]
) -> AbstractContextManager[Any]:
    if bank is not None:
        return bank(bank_name, *options)
    return nullcontext(state.settings) if context is None else context(*options)


def open_to_read(bank: str | None, *_: object) -> "AbstractContextManager[OpenBank]":
    """Open the bank of a command that only reads."""
    from satchel.bank.open_bank import open_bank

    return open_bank(state.settings, bank)


def open_to_write(
    bank: str | None, options: object, *_: object
) -> "AbstractContextManager[OpenBank]":
    """Open the bank of a command that writes, for reading if it is a dry run."""
    from satchel.bank.open_bank import open_bank

    return open_bank(state.settings, bank, writes=not getattr(options, "dry_run", False))


def _on_stdout(result: Any) -> Any:
    """Return a result whose output is standard output, in it or in its export."""
    if hasattr(result, "export"):
        return replace(result, export=_on_stdout(result.export))
    if hasattr(result, "output_path"):
        return replace(result, output_path=_STDOUT)
    return replace(result, output=_STDOUT)


def _print(value: Any) -> int:
    if value is not None:  # a server prints while it runs
        print_json(value)
    return 0


def _passed_options(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the command line, in the form that the operation accepts."""
    passed = [field for field in fields if values[field.name] is not None]
    return {field.name: _value(field, values[field.name]) for field in passed}


def _internal(
    operation: Operation[Any, Any, ..., Any],
    options: Any,
    internal: Callable[[Any], Mapping[str, Any]] | None,
) -> dict[str, Any]:
    """Return the arguments of an operation besides its options, such as keys of owners."""
    arguments = dict[str, Any]()
    if operation.internal & {"owner", "owners"}:
        from satchel.cli._options import owner_key, owner_keys

        arguments["owner"] = partial(owner_key, getattr(options, "signing_key", None))
        if "owners" in operation.internal:
            arguments["owners"] = partial(
                owner_keys, options.signing_key, texts(options.co_signers)
            )
    if "permission" in operation.internal:
        from satchel.config.options import OWN

        arguments["permission"] = OWN
    arguments |= {} if internal is None else internal(options)
    return {name: each for name, each in arguments.items() if name in operation.internal}


def _proposed(path: str, *, as_json: bool) -> AbstractContextManager[None]:
    from satchel.cli._options import proposed

    return proposed(Path(path), as_json=as_json)


def _output(path: str) -> AbstractContextManager[Path]:
    from satchel.cli._options import output_file

    return output_file(Path(path))


def _ordered(offered: tuple[Field, ...]) -> list[Field]:
    """Return options in the order of the help: required ones first."""
    return sorted(offered, key=lambda field: not field.is_required)


def _value(field: Field, value: Any) -> Any:
    """Return the value of an option: JSON is parsed, lists are tuples."""
    if field.scalar is dict:
        return _mapping(field, value)
    if field.scalar is object:
        return _json(value, field.flag)
    return tuple(value) if isinstance(value, list) else value


def _mapping(field: Field, pairs: list[str]) -> dict[str, Any]:
    """Return NAME=TEXT pairs and JSON objects as one object."""
    result = dict[str, Any]()
    for each in pairs:
        value: Any
        if each.lstrip().startswith("{"):
            result |= _json(each, field.flag)
            continue
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(
                f"not NAME=TEXT: {each[:60]!r}", field=field.flag, hint="Or pass a JSON object."
            )
        if name in result and _takes_several(field.annotation):
            before = result[name]
            value = [*(before if isinstance(before, list) else [before]), value]
        result[name] = value
    return result


def _takes_several(annotation: Any) -> bool:
    """Return whether a name of a mapping may have several values."""
    value = get_args(annotation)[-1]
    return any(get_origin(each) in (Sequence, list) for each in get_args(value))


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


def _parameter(field: Field) -> Parameter:
    option = field.option
    # The operation validates choices and bounds: its errors name the field, and are the same on
    # each interface.
    is_text = bool(field.choices) or field.scalar in (dict, object)
    is_many = field.is_many or field.scalar is dict
    on, _, off = field.flag.partition("/")
    has_default = not (is_many or field.is_required or field.default is UNSET)
    return Parameter(
        name=field.name,
        type="text" if is_text else TYPE_NAMES.get(field.scalar, "text"),
        help=option.help if option.argument else _help(field),
        flags=[] if option.argument else [on, *([option.short] if option.short else [])],
        off=[off] if off and not option.argument else [],
        metavar=option.metavar or "|".join(field.choices),
        default=field.default if has_default else option.cli_default or None,
        is_many=is_many,
        is_required=field.is_required and not option.cli_default,
        values=option.values or "|".join(field.choices),
    )
