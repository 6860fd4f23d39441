"""Python, by the interpreter's own parser."""

import ast
import builtins
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from satchel.code_graph.facts import MODULE, TYPES, Facts, ImportStatement
from satchel.code_graph.languages._grammar import SymbolCollector
from satchel.code_graph.languages.language import Language, UnparsedError, ends_with, without_ending

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BRANCHES: tuple[type[ast.AST], ...] = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case),
    ast.comprehension,
)
_LEAVES = frozenset({ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.arg})
_LONGEST_CHAIN, _MOST_ARGUMENTS = 8, 100
_ROOTS = frozenset({"", "src", "lib", "python", "source"})
_Waiting = list[tuple[ast.AST, int]]


def read(source: bytes) -> Facts:
    """Return the facts of a Python file.

    Raises:
        UnparsedError: If it is not valid for this interpreter, or nested too deeply.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore warnings about invalid escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError, LookupError) as error:
        line = getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        raise UnparsedError(f"not valid Python{where}") from None
    except (RecursionError, MemoryError):
        raise UnparsedError("nested too deeply") from None
    collector = SymbolCollector("python", source.count(b"\n") + 1)
    waiting: _Waiting = [(tree, MODULE)]
    while waiting:
        node, owner = waiting.pop()
        step = _STEPS.get(type(node))
        if step is None:
            waiting += _children(node, owner)
        else:
            step(collector, node, owner, waiting)
    return collector.facts()


def _children(node: ast.AST, owner: int) -> _Waiting:
    """Return the relevant children of a node in reverse order."""
    children: _Waiting = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            children += [(each, owner) for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and type(value) not in _LEAVES:
            children.append((value, owner))
    children.reverse()
    return children


def _call(collector: SymbolCollector, node: ast.Call, owner: int, waiting: _Waiting) -> None:
    collector.call(owner, _chain(node.func), node.lineno)
    waiting += _children(node, owner)


def _branch(collector: SymbolCollector, node: ast.AST, owner: int, waiting: _Waiting) -> None:
    collector.branch(owner, 1 + len(getattr(node, "ifs", ())))
    waiting += _children(node, owner)


def _decision(collector: SymbolCollector, node: ast.BoolOp, owner: int, waiting: _Waiting) -> None:
    collector.branch(owner, len(node.values) - 1)
    waiting += _children(node, owner)


def _function(collector: SymbolCollector, node: _Function, owner: int, waiting: _Waiting) -> None:
    kind = "method" if collector.kind_of(owner) in TYPES else "function"
    number = collector.define(
        node.name,
        kind,
        owner,
        _lines(node),
        signature=_signature(node),
        doc=_doc(node),
    )
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            collector.typed(number, argument.arg, _type(argument.annotation))
    waiting += reversed([(child, number) for child in node.body])
    waiting += [(child, owner) for child in (*node.decorator_list, arguments)]


def _class(collector: SymbolCollector, node: ast.ClassDef, owner: int, waiting: _Waiting) -> None:
    bases = [_type(base) for base in node.bases]
    number = collector.define(
        node.name,
        "class",
        owner,
        _lines(node),
        signature=f"class {node.name}" + (f"({', '.join(map(_text, node.bases))})" * bool(bases)),
        doc=_doc(node),
        bases=bases,
    )
    waiting += reversed([(child, number) for child in node.body])
    waiting += [(child, owner) for child in (*node.decorator_list, *node.bases, *node.keywords)]


def _import(
    collector: SymbolCollector, node: ast.Import | ast.ImportFrom, owner: int, waiting: _Waiting
) -> None:
    del owner, waiting
    for alias in node.names:
        if isinstance(node, ast.Import):
            first = alias.name.partition(".")[0]
            # Without an alias only the first part is bound: each use repeats the rest.
            module, binds = (alias.name, alias.asname) if alias.asname else (alias.name, first)
            collector.take(module, "", binds, node.lineno)
        else:
            module = "." * node.level + (node.module or "")
            binds = "" if alias.name == "*" else alias.asname or alias.name
            collector.take(module, alias.name, binds, node.lineno)


def _assigned(
    collector: SymbolCollector, node: ast.Assign | ast.AnnAssign, owner: int, waiting: _Waiting
) -> None:
    """Set the type of a name that is assigned a new object, or declared."""
    waiting += _children(node, owner)
    target: ast.expr
    if isinstance(node, ast.AnnAssign):
        target, type_ = node.target, _type(node.annotation)
    elif len(node.targets) == 1:
        target, type_ = node.targets[0], _type_of_value(collector, node.value, owner)
    else:
        return
    if isinstance(target, ast.Name):
        if collector.kind_of(owner) in TYPES:
            collector.typed(owner, f"self.{target.id}", type_)
        collector.typed(owner, target.id, type_)
    elif isinstance(target, ast.Attribute) and _chain(target.value) == "self":
        collector.typed(collector.type_around(owner), f"self.{target.attr}", type_)


def _type_of_value(collector: SymbolCollector, value: ast.AST, owner: int) -> str:
    """Return the class of a value: of a new object, or of its name; ``?`` for any other."""
    for kinds, name in _LITERALS:
        if isinstance(value, kinds):
            return name
    if isinstance(value, ast.Name):
        return collector.type_of(owner, value.id) or "?"
    if not isinstance(value, ast.Call):
        return "?"
    func = value.func.value if isinstance(value.func, ast.Subscript) else value.func
    callee = _chain(func)
    return callee if callee in _MAKERS or callee.rpartition(".")[2][:1].isupper() else "?"


_LITERALS: tuple[tuple[tuple[type[ast.AST], ...], str], ...] = (
    ((ast.List, ast.ListComp), "list"),
    ((ast.Dict, ast.DictComp), "dict"),
    ((ast.Set, ast.SetComp), "set"),
    ((ast.Tuple,), "tuple"),
    ((ast.JoinedStr,), "str"),
)
_BUILT = "list dict set frozenset tuple str bytes bytearray int float open"
_MAKERS = frozenset(_BUILT.split())


def _lines(node: _Function | ast.ClassDef) -> tuple[int, int]:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return first, node.end_lineno or node.lineno


def _doc(node: _Function | ast.ClassDef) -> str:
    return ast.get_docstring(node, clean=False) or ""


def _signature(node: _Function) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    arguments = node.args
    if (
        len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
        > _MOST_ARGUMENTS
    ):
        return f"{word} {node.name}(…)"
    returns = f" -> {_text(node.returns)}" if node.returns is not None else ""
    return f"{word} {node.name}({_text(node.args)}){returns}"


def _text(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return "…"


def _chain(node: ast.AST) -> str:
    """Return names joined by dots, as written; ``?`` for an expression without a name."""
    parts = list[str]()
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST_CHAIN:
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif _is_super(node):
        parts.append("super")
    else:
        parts.append("?")
    return ".".join(reversed(parts))


def _is_super(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _type(node: ast.AST) -> str:
    """Return the name of a type, without its parameters or ``None``."""
    for _ in range(_LONGEST_CHAIN):
        if isinstance(node, ast.Subscript):
            node = node.slice if _chain(node.value).endswith("Optional") else node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [node.left, node.right]
            some = [each for each in sides if not _is_none(each)]
            if len(some) != 1:
                return ""
            node = some[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.strip()
            return text if text.replace(".", "").isidentifier() else ""
        else:
            break
    type_name = _chain(node)
    return "" if "?" in type_name else type_name


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


_STEPS: dict[type[ast.AST], Callable[[SymbolCollector, Any, int, _Waiting], None]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Call: _call,
    ast.BoolOp: _decision,
    ast.Assign: _assigned,
    ast.AnnAssign: _assigned,
    **dict.fromkeys(_BRANCHES, _branch),
}


def leads_to(imported: ImportStatement, importer: str, target: str) -> bool:
    """Return whether an import refers to a file: relative by its dots, else from a root."""
    parts = without_ending(target)
    if parts[-1] == "__init__":
        parts = parts[:-1]
    module = imported.module
    level = len(module) - len(module.lstrip("."))
    names = [part for part in module[level:].split(".") if part]
    return any(
        _is_module(parts, each, importer, level) for each in _possible_modules(imported, names)
    )


def _possible_modules(imported: ImportStatement, module: list[str]) -> Iterator[list[str]]:
    yield module
    if imported.name not in {"", "*"}:
        yield [*module, imported.name]  # the imported name may be a module


def _is_module(parts: list[str], module: list[str], importer: str, level: int) -> bool:
    here = importer.split("/")[:-1]
    if level:
        above = here[: len(here) - level + 1] if level <= len(here) + 1 else None
        return above is not None and parts == above + module
    if not ends_with(parts, module):
        return False
    before = parts[: len(parts) - len(module)]
    if len(module) > 1:
        return True
    return (before[-1] if before else "") in _ROOTS or here[: len(before)] == before


LANGUAGES = (
    Language(
        name="python",
        endings=(".py", ".pyi"),
        read=read,
        leads_to=leads_to,
        receivers=frozenset({"self", "cls", "super"}),
        index_names=frozenset({"__init__"}),
        outside=frozenset(dir(builtins)),
    ),
)
"""The language of this module."""
