"""Rust."""

from satchel.code_graph.facts import MODULE, ImportStatement
from satchel.code_graph.languages._grammar import (
    Grammar,
    Step,
    Syntax,
    SyntaxWalk,
    chain,
    plain_type,
)
from satchel.code_graph.languages.language import Language, ends_with, without_ending

_MEMBERS = {
    "field_expression": ("value", "field"),
    "scoped_identifier": ("path", "name"),
    "scoped_type_identifier": ("path", "name"),
}
_NAMES = frozenset({"identifier", "type_identifier", "self", "crate", "super"})
_DEEPEST_USE = 32


def _chain(walk: SyntaxWalk, node: Syntax | None) -> str:
    if node is not None and node.type == "generic_function":
        node = node.child_by_field_name("function")
    return chain(walk, node, _MEMBERS, _NAMES)


def _definition(kind: str) -> Step:
    def step(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
        bounds = node.child_by_field_name("bounds")
        some = bounds.named_children if bounds is not None else []
        bases = [plain_type(walk.text(one, 200)) for one in some]
        number = walk.define(node, kind, owner, bases=bases)
        if kind == "struct":
            _fields(walk, node, number)

    return step


def _fields(walk: SyntaxWalk, node: Syntax, number: int) -> None:
    body = node.child_by_field_name("body")
    for field in body.named_children if body is not None else []:
        name = walk.field_text(field, "name")
        walk.found.typed(number, f"self.{name}", plain_type(walk.field_text(field, "type")))


def _impl(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """An ``impl`` is outside of its type; its methods get the type's name."""
    type_ = plain_type(walk.field_text(node, "type"))
    trait = plain_type(walk.field_text(node, "trait"))
    if trait and type_:
        walk.found.add_bases(_within(walk, owner, type_), [trait])
    body = node.child_by_field_name("body")
    for item in body.named_children if body is not None else []:
        if item.type == "function_item" and type_:
            _function_of(walk, item, owner, type_)
        else:
            walk.later([item], owner)


def _function_of(walk: SyntaxWalk, node: Syntax, owner: int, type_: str) -> None:
    number = walk.define(node, "method", owner, within=_within(walk, owner, type_))
    for word in ("self", "Self"):
        walk.found.typed(number, word, type_)
    _typed(walk, node, number)


def _within(walk: SyntaxWalk, owner: int, type_: str) -> str:
    """Return the qualified name of a type from the scope of a symbol."""
    return type_ if owner == MODULE else f"{walk.found.qualified(owner)}.{type_}"


def _function(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    _typed(walk, node, walk.define(node, walk.method_or_function(owner), owner))


def _typed(walk: SyntaxWalk, node: Syntax, number: int) -> None:
    parameters = node.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else []:
        name = walk.field_text(parameter, "pattern").removeprefix("mut ")
        type_ = plain_type(walk.field_text(parameter, "type"))
        walk.found.typed(number, name, type_)


def _let(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    name = walk.field_text(node, "pattern")
    type_ = plain_type(walk.field_text(node, "type"))
    value = node.child_by_field_name("value")
    if not type_ and value is not None and value.type == "struct_expression":
        type_ = plain_type(walk.field_text(value, "name"))
    if not type_ and value is not None and value.type == "call_expression":
        callee = _chain(walk, value.child_by_field_name("function"))
        before = callee.rpartition(".")[0]  # Config::new() returns a Config by convention
        type_ = before if before.rpartition(".")[2][:1].isupper() else ""
    walk.found.typed(owner, name, type_)
    walk.later(node.named_children, owner)


def _call(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    text = _chain(walk, node.child_by_field_name("function"))
    walk.found.call(owner, text, node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _use(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    del owner
    line = node.start_point[0] + 1
    waiting = [(node.child_by_field_name("argument"), "", 0)]
    while waiting:
        clause, before, depth = waiting.pop()
        if clause is None or depth > _DEEPEST_USE:
            continue
        if clause.type == "scoped_use_list":
            path = _joined(before, _path(walk, clause.child_by_field_name("path")))
            waiting.append((clause.child_by_field_name("list"), path, depth + 1))
        elif clause.type == "use_list":
            waiting += [(each, before, depth + 1) for each in reversed(clause.named_children)]
        elif clause.type == "use_wildcard":
            inner = clause.named_children[0] if clause.named_children else None
            walk.found.take(_joined(before, _path(walk, inner)), "*", "", line)
        else:
            _take(walk, clause, before, line)


def _take(walk: SyntaxWalk, node: Syntax, before: str, line: int) -> None:
    alias = ""
    if node.type == "use_as_clause":
        alias = walk.field_text(node, "alias")
        path = _path(walk, node.child_by_field_name("path"))
    else:
        path = _path(walk, node)
    whole = before if path == "self" else _joined(before, path)
    module, _, name = whole.rpartition(".")
    walk.found.take(module, name, alias or name, line)


def _path(walk: SyntaxWalk, node: Syntax | None) -> str:
    return walk.text(node, 400).replace("::", ".").replace(" ", "")


def _joined(before: str, after: str) -> str:
    return ".".join(part for part in (before, after) if part)


def leads_to(imported: ImportStatement, importer: str, target: str) -> bool:
    """Return whether a ``use`` refers to a file: by its path in the crate, or in a named one."""
    parts, here = _module_of(target), _module_of(importer)
    module = [part for part in imported.module.split(".") if part]
    crate = _crate_of(target) == _crate_of(importer)
    while module[:1] in (["self"], ["super"]):
        here = here[:-1] if module[0] == "super" else here
        module = module[1:]
        if module[:1] not in (["self"], ["super"]):
            module = ["crate", *here, *module]
    if module[:1] == ["crate"]:
        return crate and _is_at(parts, module[1:], imported.name)
    if crate and _is_at(parts, [*here, *module], imported.name):
        return True
    name = _crate_of(target).rpartition("/")[2].replace("-", "_")
    return bool(module) and module[0] == name and _is_at(parts, module[1:], imported.name)


def _is_at(parts: list[str], module: list[str], name: str) -> bool:
    return parts == module or (bool(name) and ends_with(parts, [*module, name]))


def _crate_of(path: str) -> str:
    before, found, _ = path.rpartition("src/")
    return before.rstrip("/") if found else ""


def _module_of(path: str) -> list[str]:
    """Return the module path of a file in its crate."""
    parts = without_ending(path.rpartition("src/")[2])
    return parts[:-1] if parts[-1] in {"lib", "main", "mod"} else parts


_GRAMMAR = Grammar(
    language="rust",
    package="tree_sitter_rust",
    steps={
        "struct_item": _definition("struct"),
        "union_item": _definition("struct"),
        "enum_item": _definition("enum"),
        "trait_item": _definition("trait"),
        "type_item": _definition("type"),
        "mod_item": _definition("module"),
        "impl_item": _impl,
        "function_item": _function,
        "function_signature_item": _function,
        "let_declaration": _let,
        "call_expression": _call,
        "use_declaration": _use,
    },
    branches=frozenset(
        {
            *("if_expression", "for_expression", "while_expression", "loop_expression"),
            *("match_arm", "try_expression"),
        }
    ),
)

LANGUAGES = (
    Language(
        name="rust",
        endings=(".rs",),
        read=_GRAMMAR.read,
        leads_to=leads_to,
        receivers=frozenset({"self", "Self"}),
        index_names=frozenset({"mod", "lib"}),
        outside=frozenset(["Some", "Ok", "Err", "None", "Box", "Vec", "String", "drop"]),
    ),
)
"""The language of this module."""
