"""The reference of the Python interface, made from signatures, options, results and errors."""

import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import pairwise
from os import PathLike
from textwrap import dedent
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from docs.interfaces import CLASSES
from satchel import errors
from satchel.ports.operations import Operation

INTRODUCTION = """
# Python reference

The public names are those on this page and on two more: [memory files and
amplihack](python-files.md), and [results](python-results.md), which lists what calls return. Other
names may change at any time. [The Python guide](../python/README.md) shows how they are used.

- Parameters after `*` in a signature are keyword-only.
- A parameter that accepts a sequence of strings also accepts one string: `tags="food"`.
- A path is a `str` or an `os.PathLike`. A time is ISO 8601 text, such as `2026-03-01` or
  `2026-03-01T09:30:00Z`.
- `MemoryType` stands for `Literal["episodic", "identity", "procedural", "semantic", "working"]`.
- `...` as a default means that the value does not change if you omit the argument.
- Results are immutable. `msgspec.to_builtins(result)` returns them as plain values, for JSON.
- Every error is a [`SatchelError`](#module-satchelerrors).
- Descriptions of parameters are those of the command's help, so they may mention commands.
"""

AIO = """
`satchel.aio` has the names of `satchel` for programs that use `asyncio`: the same options, results
and errors, with `await` before each call. A call runs in a thread and does not block the event
loop. What differs:

| | `satchel` | `satchel.aio` |
|---|---|---|
| open a store | `with Satchel.open() as store:` | `async with Satchel.open() as store:` |
| | `store = Satchel.open()` | `store = await Satchel.open()` |
| close it | `store.close()` | `await store.close()` |
| open a bank | `store.bank("ada")` | `await store.bank("ada")` |
| store a memory | `bank.remember("...")` | `await bank.remember("...")` |
| messages | `for each in bank.sessions.messages("monday"):` | `async for each in ...` |
| memory files | `bank.files` | `await bank.files.open()` |
| amplihack's memory | `HierarchicalMemory("agent")` | `await HierarchicalMemory.open("agent")` |

If an awaited call is cancelled, it may already have begun in its thread. It is completed there, and
what it wrote is stored; the `CancelledError` has a note that says so.
"""

FILES = """
# Python reference: memory files and amplihack

A part of [the Python reference](python.md).
"""

RESULTS = """
# Python reference: results

What calls return, in alphabetical order; a part of [the Python reference](python.md). Results are
immutable. An attribute without a description is what its name says.
"""

MODULES = {
    "satchel": "`Satchel.open` opens a store, and `store.bank()` a bank in it, on which most calls "
    "are methods.\nThe functions work on files and need no store. Each name is loaded when it is "
    "first used, so\n`import satchel` is quick.",
    "satchel.ama": "Reads AMA archives ([Astrocyte](../guides/astrocyte.md)), one memory at a "
    "time, without a store.",
    "satchel.files": "Files at paths that several agents can write, with versions and an audit "
    "trail. Names and arguments\nare those of `flyte.ai.agents.memory`; the guide is "
    "[Memory files](../guides/memory-files.md).",
    "satchel.amplihack": "amplihack's names for its memory; the guide is "
    "[amplihack](../guides/amplihack.md).",
}
"""What is said of a module before its names."""

OWNERS = {
    "Sessions": "sessions",
    "Tokens": "tokens",
    "BankOwners": "owners",
    "Quarantine": "quarantine",
    "Code": "code",
}
"""Classes that an attribute of a bank returns."""

_SECTION = re.compile(
    r"^(Args and Raises|Args|Raises|Returns|Yields|Attributes):(.*)$", re.MULTILINE
)
_ROLE = re.compile(r"``([^`]*)``")
_ITEM = re.compile(r"^(\*{0,2}[A-Za-z_][\w.]*(?:, \*{0,2}[A-Za-z_][\w.]*)*):\s*(.*)$")
_LONGEST = 88
RESULTS_PAGE = "python-results.md"
ERRORS = "python.md#module-satchelerrors"
MEMORY_TYPES = {"episodic", "identity", "procedural", "semantic", "working"}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    results = dict[type, None]()
    page = INTRODUCTION.strip().splitlines()
    page += module("satchel", results)
    page += ["", "## Module `satchel.aio`", *AIO.rstrip().splitlines()]
    page += ["", f"Names: {', '.join(f'`{name}`' for name in _exported('satchel.aio'))}."]
    page += [*module("satchel.ama", results), *error_lines()]
    more = FILES.strip().splitlines()
    more += [*module("satchel.files", results), *module("satchel.amplihack", results)]
    values = RESULTS.strip().splitlines()
    values += [line for each in every_record(results) for line in record_lines(each)]
    more = [line.replace("](#module-satchelerrors)", f"]({ERRORS})") for line in more]
    named = {"python.md": page, "python-files.md": more, "python-results.md": values}
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in named.items()}


def module(name: str, results: dict[type, None]) -> list[str]:
    """Return the lines of a module: functions, then classes."""
    imported = import_module(name)
    public = {each: getattr(imported, each) for each in _exported(name)}
    classes = [each for each in public.values() if inspect.isclass(each)]
    classes = [each for each in classes if not issubclass(each, Exception)]
    results |= {each: None for each in classes if is_record(each)}
    classes = [each for each in classes if each not in results]
    if name == "satchel":
        classes = [*CLASSES, *(each for each in classes if each not in CLASSES)]
    functions = {
        title: each
        for title, each in public.items()
        if callable(each) and not inspect.isclass(each)
    }
    lines = ["", f"## Module `{name}`", "", MODULES[name]]
    if functions:
        lines += [
            "",
            *contents(functions),
            *contents({each.__name__: each for each in classes})[2:],
        ]
    for title, each in functions.items():
        lines += callable_lines(each, title, "###", results)
    for each in classes:
        lines += class_lines(each, results)
    return lines


def contents(targets: Mapping[str, Any]) -> list[str]:
    """Return a table of what follows: names, linked, and the first sentence of each."""
    lines = ["| | |", "|---|---|"]
    for name, each in targets.items():
        sentence = re.split(r"(?<=\.)\s", _one_line(prose(each, first=True)), maxsplit=1)[0]
        anchor = name.replace(".", "").lower()
        lines.append(f"| [`{name.rpartition('.')[2]}`](#{anchor}) | {sentence} |")
    return lines


def _exported(name: str) -> list[str]:
    return sorted(import_module(name).__all__, key=str.lower)


def class_lines(kind: type, results: dict[type, None]) -> list[str]:
    """Return the lines of a class with its attributes and methods."""
    lines = ["", f"### `{kind.__name__}`", ""]
    if kind.__name__ in OWNERS:
        lines += [f"`bank.{OWNERS[kind.__name__]}`", ""]
    lines += [prose(kind)]
    own = vars(kind).get("__init__") or next(
        (vars(each)["__init__"] for each in kind.__mro__[1:-1] if "__init__" in vars(each)), None
    )
    if own is not None and not _is_internal(own) and not issubclass(kind, enum.Enum):
        lines += ["", *code_block(kind.__name__, _without_self(inspect.signature(own)))]
        lines += [*argument_lines(own), *raise_lines(own)]
    if issubclass(kind, enum.Enum):
        lines += ["", "Values: " + ", ".join(f"`{each.name}`" for each in kind) + "."]
        return lines
    properties = [(name, each) for name, each in members(kind) if isinstance(each, property)]
    if properties:
        lines += ["", "| attribute | type | |", "|---|---|---|"]
        for name, each in properties:
            returns = annotation(inspect.signature(each.fget).return_annotation)  # type: ignore[arg-type]
            lines.append(f"| `{name}` | {cell(returns)} | {_one_line(prose(each, first=True))} |")
    methods = {
        f"{kind.__name__}.{name}": each
        for name, each in members(kind)
        if callable(each) and not isinstance(each, property)
    }
    if methods:
        lines += ["", *contents(methods)]
    for name, each in methods.items():
        lines += callable_lines(each, name, "####", results)
    return lines


def _is_internal(function: Any) -> bool:
    """Return whether the package makes objects of a class, and callers do not."""
    names = list(inspect.signature(function).parameters)[1:]
    return not names or names[0] in {"opened", "settings", "bank", "plain", "args", "context"}


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class: its own, then those of its bases."""
    names = dict.fromkeys(
        name
        for each in kind.__mro__
        if each.__module__.startswith("satchel.")
        for name in vars(each)
        if not name.startswith("_")
    )
    for name in names:
        static = inspect.getattr_static(kind, name)
        yield name, static if isinstance(static, property) else getattr(kind, name)


def callable_lines(function: Any, name: str, heading: str, results: dict[type, None]) -> list[str]:
    """Return the lines of a function or method: signature, help, parameters, result, errors."""
    signature = inspect.signature(function)
    if not isinstance(function, type) and next(iter(signature.parameters), "") == "self":
        signature = _without_self(signature)
    lines = ["", f"{heading} `{name}`", "", *code_block(name.rpartition(".")[2], signature), ""]
    lines += [prose(function)]
    same = section(function, "Args and Raises")
    lines += ["", f"Parameters and errors: {_one_line(same)}"] if same else argument_lines(function)
    returned = signature.return_annotation
    found = [each for each in named_types(returned) if is_record(each)]
    results.update(dict.fromkeys(found))
    if returned not in (None, inspect.Signature.empty, type(None), "None"):
        lines += ["", f"Returns {linked(returned)}."]
    return [*lines, *raise_lines(function)]


def _without_self(signature: inspect.Signature) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:])


def code_block(name: str, signature: inspect.Signature) -> list[str]:
    """Return a signature as a block of code, on one line where it is short enough."""
    parameters, starred = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        parameters.append(parameter(each))
    returns = ""
    if signature.return_annotation is not inspect.Signature.empty:
        returns = f" -> {annotation(signature.return_annotation)}"
    short = f"{name}({', '.join(parameters)}){returns}"
    if len(short) <= _LONGEST:
        return ["```py", short, "```"]
    return ["```py", f"{name}(", *(f"    {each}," for each in parameters), f"){returns}", "```"]


def parameter(each: inspect.Parameter) -> str:
    """Return a parameter as it stands in a signature."""
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    text = f"{stars}{each.name}"
    if each.annotation is not each.empty:
        text += f": {annotation(each.annotation)}"
    if each.default is not each.empty:
        text += f" = {value(each.default)}"
    return text


def value(default: Any) -> str:
    """Return a default as it is written in Python."""
    if default is msgspec.UNSET:
        return "..."
    if isinstance(default, enum.Enum):
        return value(default.value)
    if isinstance(default, str):
        return json.dumps(default, ensure_ascii=False)
    if isinstance(default, tuple):
        comma = "," if len(default) == 1 else ""
        return f"({_joined(map(value, default))}{comma})"
    return str(default.__name__) if inspect.isfunction(default) else repr(default)


def annotation(hint: Any) -> str:
    """Return a type as people write it: without modules, ``Path`` for what is path-like."""
    if isinstance(hint, str):
        return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", hint)
    return " | ".join(dict.fromkeys(_alternatives(hint)))


def _alternatives(hint: Any) -> Iterator[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _alternatives(inner[0])
    elif origin in (Union, UnionType):
        parts = [part for each in inner for part in _alternatives(each)]
        yield from sorted(parts, key=lambda part: part == "None")
    elif origin is Literal:
        yield (
            "MemoryType" if set(inner) == MEMORY_TYPES else f"Literal[{_joined(map(value, inner))}]"
        )
    elif hint is type(None):
        yield "None"
    elif hint is msgspec.UnsetType:
        return
    elif origin is PathLike:
        yield "Path"
    elif origin is not None and inner:
        yield f"{_name(origin)}[{_joined(map(_argument, inner))}]"
    else:
        yield _name(hint)


def _argument(hint: Any) -> str:
    if isinstance(hint, list):
        return f"[{_joined(map(annotation, hint))}]"
    return "..." if hint is ... else annotation(hint)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _name(hint: Any) -> str:
    return str(getattr(hint, "__name__", None) or hint).rpartition(".")[2]


def argument_lines(function: Any) -> list[str]:
    """Return the parameters with their help: of declared options, else of the docstring."""
    operation = getattr(function, "__operation__", None)
    if isinstance(operation, Operation):
        fields = {field.name: field for field in operation.offered("python")}
        rows = [
            (name, fields[name].option.help.replace(" Repeatable.", ""))
            for name in inspect.signature(function).parameters
            if name in fields
        ]
    else:
        rows = items(section(function, "Args"))
    if not rows:
        return []
    return ["", *(f"- `{name}`: {_one_line(text)}" for name, text in rows)]


def raise_lines(function: Any) -> list[str]:
    """Return the errors of a docstring, each linked."""
    rows = items(section(function, "Raises"))
    if not rows:
        return []
    lines = ["", "Raises:", ""]
    for name, text in rows:
        names = (
            f"[`{each}`](#module-satchelerrors)" if hasattr(errors, each) else f"`{each}`"
            for each in name.split(", ")
        )
        lines.append(f"- {', '.join(names)}: {_one_line(text)}")
    return lines


def prose(target: Any, *, first: bool = False) -> str:
    """Return a docstring as Markdown, without the sections for parameters and errors."""
    text = _docstring(target)
    found = _SECTION.search(text)
    text = text[: found.start()].rstrip() if found else text
    if first:
        text = text.split("\n\n")[0]
    return _ROLE.sub(r"`\1`", text)


def _docstring(target: Any) -> str:
    operation = getattr(target, "__operation__", None)
    if isinstance(operation, Operation):
        return operation.help
    return dedent(inspect.getdoc(target) or "")


def section(target: Any, name: str) -> str:
    """Return a section of a docstring, such as ``Raises``."""
    text = inspect.getdoc(target) or ""
    pieces = _SECTION.split(text)
    for heading, rest, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        if heading == name:
            indented = re.match(r"(?:\n?[ \t][^\n]*|\n(?=\n? ))*", body)
            return rest.strip() or (indented[0] if indented else "")
    return ""


def items(text: str) -> list[tuple[str, str]]:
    """Return the named entries of a section, with their texts."""
    rows: list[tuple[str, str]] = []
    for line in dedent(text.strip("\n")).splitlines():
        found = _ITEM.match(line)
        if found:
            rows.append((found[1].lstrip("*"), found[2]))
        elif rows and line.startswith(" "):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
    return rows


def _one_line(text: str) -> str:
    return _ROLE.sub(r"`\1`", " ".join(text.split())).replace("|", "\\|")


def cell(text: str) -> str:
    """Return a type as a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


class Attribute(NamedTuple):
    """An attribute of a result."""

    name: str
    type: str
    help: str


def is_record(kind: Any) -> bool:
    """Return whether a class is a value with fields."""
    if not inspect.isclass(kind) or not kind.__module__.startswith("satchel."):
        return False
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or named_tuple


def named_types(hint: Any) -> Iterator[type]:
    """Yield the classes that a type is made of."""
    if inspect.isclass(hint) and get_origin(hint) is None:
        yield hint
    for each in get_args(hint):
        yield from named_types(each)


def every_record(results: Iterable[type]) -> list[type]:
    """Return results and the records that their attributes have, by name."""
    records, waiting = dict[type, None](), list(results)
    while waiting:
        kind = waiting.pop()
        if kind in records:
            continue
        records[kind] = None
        for hint in hints(kind).values():
            waiting += [each for each in named_types(hint) if is_record(each)]
    return sorted(records, key=lambda each: each.__name__)


@cache
def hints(kind: type) -> dict[str, Any]:
    """Return the types of a record's public attributes: fields, then properties."""
    module_names = vars(sys.modules[kind.__module__])
    declared = typing.get_type_hints(kind, module_names)
    fields = {name: declared[name] for name in _fields(kind) if name in declared}
    hints_of_members = {
        name: hint for name, hint in fields.items() if not name.startswith(("_", "text_of_"))
    }
    for name, each in members(kind):
        if isinstance(each, property) and not name.startswith("text_of_"):
            try:
                hint = typing.get_type_hints(each.fget, module_names)["return"]  # type: ignore[arg-type]
            except NameError:
                hint = inspect.signature(each.fget).return_annotation  # type: ignore[arg-type]
            hints_of_members[name] = hint
    return hints_of_members


def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return tuple(getattr(kind, "_fields", ()))


def attributes(kind: type) -> list[Attribute]:
    """Return the public attributes of a record with their docstrings."""
    documented: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        if each.__module__.startswith("satchel."):
            documented |= dict(items(section(each, "Args"))) | dict(
                items(section(each, "Attributes"))
            )
            documented |= _strings_after_fields(each)
    rows = []
    for name, hint in hints(kind).items():
        static = inspect.getattr_static(kind, name, None)
        text = (
            prose(static, first=True) if isinstance(static, property) else documented.get(name, "")
        )
        rows.append(Attribute(name, annotation(hint), _one_line(text)))
    return rows


@cache
def _strings_after_fields(kind: type) -> dict[str, str]:
    """Return the docstrings that stand below the fields of a class in its source."""
    tree = ast.parse(dedent(inspect.getsource(kind))).body[0]
    docstrings = dict[str, str]()
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for before, after in pairwise(body):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            docstrings[before.target.id] = inspect.cleandoc(str(after.value.value)).split("\n\n")[0]
    return docstrings


def record_lines(kind: type) -> list[str]:
    """Return the lines of a result."""
    lines = ["", f"## `{kind.__name__}`", "", prose(kind), ""]
    rows = attributes(kind)
    if rows:
        lines += ["| attribute | type | |", "|---|---|---|"]
        lines += [f"| `{each.name}` | {cell(each.type)} | {each.help} |" for each in rows]
    return lines


def linked(hint: Any) -> str:
    """Return a type, and links to the classes in it."""
    text = annotation(hint)
    links = {each.__name__: RESULTS_PAGE for each in named_types(hint) if is_record(each)}
    links |= {each.__name__: "" for each in CLASSES if re.search(rf"\b{each.__name__}\b", text)}
    shown = [f"[`{name}`]({page}#{name.lower()})" for name, page in sorted(links.items())]
    if len(shown) == 1 and text in links:
        return shown[0]
    return f"`{text}`: {', '.join(shown)}" if shown else f"`{text}`"


def error_lines() -> list[str]:
    """Return the tree of errors, with what each has besides the attributes of all."""
    lines = ["", "## Module `satchel.errors`", ""]
    lines += [
        "Catch `SatchelError` for everything that the package raises on purpose. Every error has:"
    ]
    lines += ["", "| attribute | type | |", "|---|---|---|"]
    lines += ["| `message` | `str` | what is wrong, in one sentence |"]
    for name, text in items(section(errors.SatchelError, "Args")):
        if name != "message":
            type_ = "int" if name in {"line", "byte"} else "str"
            lines.append(f"| `{name}` | `{type_} \\| None` | {_one_line(text)} |")
    lines += ["| `place` | `str` | file, line or byte, and field in words |"]
    lines += ["| `code` | `str` | a stable code, such as `usage` |"]
    lines += ["| `exit_status` | `int` | the exit status of the commands |"]
    lines += ["| `http_status` | `int` | the status of the HTTP interface |"]
    lines += ["", "| error | a kind of | code | when | more attributes |", "|---|---|---|---|---|"]
    lines += [_error_row(each, base) for each, base in error_tree(errors.SatchelError)]
    return lines


def error_tree(top: type[Exception]) -> Iterator[tuple[Any, str]]:
    """Yield the errors below one, each with the name of its base, in depth first order."""
    for each in sorted(top.__subclasses__(), key=lambda kind: kind.__name__):
        if each.__module__ == errors.__name__:
            yield each, top.__name__
            yield from error_tree(each)


def _error_row(kind: Any, base: str) -> str:
    own = vars(kind).get("__init__")
    inherited = inspect.signature(errors.SatchelError.__init__).parameters
    names = [] if own is None else list(inspect.signature(own).parameters)
    more = [
        name for name in names if name not in inherited and name not in {"more", "place", "where"}
    ]
    meaning = _one_line(prose(kind, first=True))
    shown = ", ".join(f"`{name}`" for name in more)
    return f"| `{kind.__name__}` | `{base}` | `{kind.code}` | {meaning} | {shown} |"
