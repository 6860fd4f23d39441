"""Declarations of commands and groups.

A command is a function whose parameters are annotated with ``Argument`` or ``CommandOption``, or is
made from an operation (``_operations``). The parser needs only its specification, plain data that
``commands.json`` has for all commands. So help, completion and usage errors import no command, and
a command imports no other (``main``).
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_F = TypeVar("_F", bound=Callable[..., Any])

TYPE_NAMES = {bool: "switch", int: "integer", float: "number", str: "text", Path: "path"}
"""Names of parameter types in specifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument or option of a command."""

    name: str
    type: str
    """``switch``, ``integer``, ``number``, ``text`` or ``path``."""

    help: str = ""
    flags: list[str] = field(default_factory=list)
    """Flags of an option; an argument has none."""

    off: list[str] = field(default_factory=list)
    """Flags that turn a switch off."""

    metavar: str = ""
    choices: list[str] = field(default_factory=list)
    minimum: float | None = None
    maximum: float | None = None
    default: bool | int | float | str | None = None
    is_many: bool = False
    is_required: bool = False
    values: str = ""
    """Kind of completions: ``bank``, ``format``, ``key``, ``destination``, ``file``, or choices."""

    def plain(self) -> dict[str, Any]:
        """Return the members that differ from the defaults, for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        empty = {each.name: each.default for each in fields(self)}
        return {name: value for name, value in values.items() if value not in ([], empty[name])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """Specification of a command or group: its help and parameters."""

    help: str
    module: str = ""
    """The module of this folder that declares it."""

    parameters: list[Parameter] = field(default_factory=list)
    is_group: bool = False

    def plain(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        if self.is_group:
            return {"help": self.help, "module": self.module, "is_group": True}
        parameters = [each.plain() for each in self.parameters]
        return {"help": self.help, "module": self.module, "parameters": parameters}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Specification":
        """Return the specification of plain data."""
        parameters = [Parameter(**each) for each in plain.get("parameters", ())]
        return cls(**{**plain, "parameters": parameters})


@dataclass(frozen=True, slots=True, init=False)
class CommandOption:
    """An option of a command: an argument of ``Annotated``.

    Args:
        flags: Such as ``--output`` and ``-o``, made from the parameter's name by default. Two
            separated by ``/`` turn a switch on and off.
        help: Help text.
        metavar: Placeholder of the value in the help.
        minimum: Least number.
        maximum: Greatest number.
        values: Kind of completions: ``bank``, ``format``, ``key``, ``destination``.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str
    minimum: float | None
    maximum: float | None
    values: str

    def __init__(
        self,
        *flags: str,
        help: str = "",  # noqa: A002 - the usual name
        metavar: str = "",
        minimum: float | None = None,
        maximum: float | None = None,
        values: str = "",
    ) -> None:
        for name, value in (
            ("flags", flags),
            ("help", help),
            ("metavar", metavar),
            ("minimum", minimum),
            ("maximum", maximum),
            ("values", values),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A positional argument of a command: an argument of ``Annotated``."""

    help: str = ""
    metavar: str = ""
    minimum: float | None = None
    maximum: float | None = None
    values: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its function, help and parameters."""

    run: Callable[..., Any]
    help: str
    parameters: tuple[Parameter, ...]
    convert: Callable[[dict[str, Any]], dict[str, Any]] = lambda values: values
    """Converts parsed values to the arguments of the function."""


class Group:
    """A group of commands.

    Args:
        help: Help text.
    """

    def __init__(self, help: str = "") -> None:  # noqa: A002 - the usual name
        self.help = help
        self.commands: dict[str, Command | Group] = {}

    def command(self, name: str) -> Callable[[_F], _F]:
        """Add a function as a command; its docstring is the help."""

        def add(run: _F) -> _F:
            parameters, kinds = _declared(run)

            def convert(values: dict[str, Any]) -> dict[str, Any]:
                return {key: _converted(value, kinds[key]) for key, value in values.items()}

            self.commands[name] = Command(run, inspect.getdoc(run) or "", parameters, convert)
            return run

        return add

    def add(self, group: "Group", *, name: str) -> None:
        """Add a group below this one."""
        self.commands[name] = group

    def find(self, words: Iterable[str]) -> "Command | Group":
        """Return the command or group at some words.

        Raises:
            KeyError: If there is none.
        """
        node: Command | Group = self
        for word in words:
            if not isinstance(node, Group):
                raise KeyError(word)
            node = node.commands[word]
        return node


JSON = Parameter(name="as_json", type="switch", help="Print JSON.", flags=["--json"], default=False)
BANK = Parameter(
    name="in_bank",
    type="text",
    help="Bank name, ID or unique ID prefix. Default: the default bank.",
    flags=["--bank"],
    metavar="BANK",
    values="bank",
)


def specifications(group: Group, module: str, before: str = "") -> dict[str, Specification]:
    """Return the specifications of all commands below a group, by their words."""
    result = {}
    for name, node in group.commands.items():
        words = f"{before} {name}".strip()
        if isinstance(node, Group):
            result[words] = Specification(help=node.help, module=module, is_group=True)
            result |= specifications(node, module, words)
        else:
            result[words] = Specification(
                help=node.help, module=module, parameters=list(node.parameters)
            )
    return result


def _declared(run: Callable[..., Any]) -> tuple[tuple[Parameter, ...], Mapping[str, Any]]:
    """Return the parameters of a function, and the type of each value."""
    hints = get_type_hints(run, include_extras=True)
    parameters, kinds = [], dict[str, Any]()
    for name, parameter in inspect.signature(run).parameters.items():
        base, *extras = get_args(hints[name]) if _is_annotated(hints[name]) else (hints[name],)
        mark = next((each for each in extras if isinstance(each, CommandOption | Argument)), None)
        if mark is None:
            raise TypeError(f"{run.__qualname__}: {name} is neither an Option nor an Argument")
        kind, is_many = _kind(base)
        kinds[name] = kind
        empty = parameter.default is inspect.Parameter.empty
        default = None if empty else parameter.default
        common: dict[str, Any] = {
            "name": name,
            "help": mark.help,
            "metavar": mark.metavar,
            "minimum": mark.minimum,
            "maximum": mark.maximum,
            "values": mark.values or ("file" if kind is Path else ""),
            "is_many": is_many,
            "is_required": empty,
            "default": _plain_default(default),
            "choices": _choices(kind),
            "type": TYPE_NAMES.get(kind, "text"),
        }
        if isinstance(mark, CommandOption):
            flags = mark.flags or ("--" + name.replace("_", "-"),)
            pairs = [flag.partition("/") for flag in flags]
            common["flags"] = [on for on, _, _ in pairs]
            common["off"] = [off for _, _, off in pairs if off]
        parameters.append(Parameter(**common))
    return tuple(parameters), kinds


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _kind(hint: Any) -> tuple[type, bool]:
    """Return the type of a value, and whether it can be repeated."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    is_many = get_origin(hint) is list
    kind = get_args(hint)[0] if is_many else hint
    if kind not in TYPE_NAMES and not _choices(kind):
        raise TypeError(f"the command line has no values of {kind}")
    return kind, is_many


def _plain_default(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _choices(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    is_enum = isinstance(kind, type) and issubclass(kind, Enum)
    return [each.value for each in kind] if is_enum else []


def _converted(value: Any, kind: Any) -> Any:
    if value is None or get_origin(kind) is Literal or isinstance(value, kind):
        return value
    if isinstance(value, list | tuple):
        return [_converted(each, kind) for each in value]
    return kind(value)
