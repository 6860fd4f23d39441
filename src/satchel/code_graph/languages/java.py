"""Java."""

from satchel.code_graph.facts import ImportStatement
from satchel.code_graph.languages._grammar import (
    Grammar,
    Step,
    Syntax,
    SyntaxWalk,
    chain,
    plain_type,
)
from satchel.code_graph.languages.language import Language, ends_with, without_ending

_MEMBERS = {"field_access": ("object", "field"), "scoped_identifier": ("scope", "name")}
_NAMES = frozenset({"identifier", "type_identifier", "this", "super"})
_INHERITING = frozenset({"superclass", "super_interfaces", "extends_interfaces"})


def _chain(walk: SyntaxWalk, node: Syntax | None) -> str:
    return chain(walk, node, _MEMBERS, _NAMES)


def _definition(kind: str) -> Step:
    def step(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
        bases = list[str]()
        for part in node.children:
            if part.type in _INHERITING:
                bases += _types(walk, part)
        number = walk.define(node, kind, owner, bases=bases)
        _typed(walk, node, number, "this.")

    return step


def _types(walk: SyntaxWalk, part: Syntax) -> list[str]:
    types = list[str]()
    for child in part.named_children:
        some = child.named_children if child.type == "type_list" else [child]
        types += [plain_type(walk.text(each, 200)) for each in some]
    return [each for each in types if each]


def _method(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    _typed(walk, node, walk.define(node, "method", owner), "")


def _typed(walk: SyntaxWalk, node: Syntax, number: int, before: str) -> None:
    parameters = node.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else []:
        name = walk.field_text(parameter, "name")
        type_ = plain_type(walk.field_text(parameter, "type"))
        if name:
            walk.found.typed(number, before + name, type_)


def _variables(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    type_ = plain_type(walk.field_text(node, "type"))
    for variable in node.children_by_field_name("declarator"):
        name = walk.field_text(variable, "name")
        value = variable.child_by_field_name("value")
        own = type_
        if type_ == "var" and value is not None and value.type == "object_creation_expression":
            own = plain_type(walk.field_text(value, "type"))
        if own != "var" and node.type == "field_declaration":
            walk.found.typed(owner, f"this.{name}", own)
        if own != "var":
            walk.found.typed(owner, name, own)
    walk.later(node.named_children, owner)


def _call(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    name = walk.field_text(node, "name")
    on = node.child_by_field_name("object")
    if on is not None and on.type == "object_creation_expression":
        before = plain_type(walk.field_text(on, "type")) or "?"
    else:
        before = _chain(walk, on) if on is not None else ""
    walk.found.call(owner, f"{before}.{name}" if before else name, node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _created(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    type_ = plain_type(walk.field_text(node, "type"))
    walk.found.call(owner, type_, node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _import(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    del owner
    line = node.start_point[0] + 1
    named = [
        child for child in node.named_children if child.type in {"scoped_identifier", "identifier"}
    ]
    whole = walk.text(named[0], 400).replace(" ", "") if named else ""
    if any(child.type == "asterisk" for child in node.named_children):
        walk.found.take(whole, "*", "", line)
    elif whole:
        module, _, name = whole.rpartition(".")
        walk.found.take(module, name, name, line)


def leads_to(imported: ImportStatement, importer: str, target: str) -> bool:
    """Return whether an import refers to a file: its class, package, or a member."""
    del importer
    if not target.endswith(".java"):
        return False
    parts, module = without_ending(target), imported.module.split(".")
    if imported.name == "*":
        return ends_with(parts[:-1], module) or ends_with(parts, module)
    return ends_with(parts, [*module, imported.name]) or (
        module[-1][:1].isupper() and ends_with(parts, module)
    )


_OUTSIDE = (
    "String Integer Long Double Boolean Object List Map Set ArrayList HashMap HashSet Optional "
    "Exception RuntimeException IllegalArgumentException IllegalStateException"
)
_GRAMMAR = Grammar(
    language="java",
    package="tree_sitter_java",
    steps={
        "class_declaration": _definition("class"),
        "record_declaration": _definition("class"),
        "interface_declaration": _definition("interface"),
        "annotation_type_declaration": _definition("interface"),
        "enum_declaration": _definition("enum"),
        "method_declaration": _method,
        "constructor_declaration": _method,
        "compact_constructor_declaration": _method,
        "local_variable_declaration": _variables,
        "field_declaration": _variables,
        "method_invocation": _call,
        "object_creation_expression": _created,
        "import_declaration": _import,
    },
    branches=frozenset(
        {
            *("if_statement", "for_statement", "enhanced_for_statement", "while_statement"),
            *("do_statement", "ternary_expression", "switch_label", "catch_clause"),
        }
    ),
)

LANGUAGES = (
    Language(
        name="java",
        endings=(".java",),
        read=_GRAMMAR.read,
        leads_to=leads_to,
        receivers=frozenset({"this", "super"}),
        by_folder=True,
        methods_bare=True,
        outside=frozenset(_OUTSIDE.split()),
    ),
)
"""The language of this module."""
