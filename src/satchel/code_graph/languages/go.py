"""Go."""

from satchel.code_graph.facts import ImportStatement
from satchel.code_graph.languages._grammar import Grammar, Syntax, SyntaxWalk, chain, plain_type
from satchel.code_graph.languages.language import Language, ends_with

_MEMBERS = {"selector_expression": ("operand", "field"), "qualified_type": ("package", "name")}
_NAMES = frozenset({"identifier", "type_identifier", "package_identifier"})
_KINDS = {"struct_type": "struct", "interface_type": "interface"}


def _chain(walk: SyntaxWalk, node: Syntax | None) -> str:
    while node is not None and node.type in {"parenthesized_expression", "pointer_type"}:
        node = node.named_children[0] if node.named_children else None
    return chain(walk, node, _MEMBERS, _NAMES)


def _type(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    type_ = node.child_by_field_name("type")
    kind = _KINDS.get(type_.type, "type") if type_ is not None else "type"
    bases = _embedded(walk, type_) if type_ is not None else []
    above = node.parent
    single = above is not None and above.type == "type_declaration" and above.named_child_count == 1
    number = walk.define(node, kind, owner, bases=bases, whole=above if single else node)
    if kind == "struct" and type_ is not None:
        _fields(walk, type_, number)


def _embedded(walk: SyntaxWalk, type_: Syntax) -> list[str]:
    """Return the types that a struct or an interface embeds."""
    types = list[str]()
    for part in type_.named_children:
        for element in part.named_children if part.type == "field_declaration_list" else [part]:
            if element.type == "field_declaration" and element.child_by_field_name("name") is None:
                types.append(plain_type(walk.field_text(element, "type")))
            elif element.type == "type_elem" and element.named_child_count == 1:
                types.append(plain_type(walk.text(element, 200)))
    return [each for each in types if each]


def _fields(walk: SyntaxWalk, struct: Syntax, number: int) -> None:
    for part in struct.named_children:
        for field in part.named_children:
            name = walk.field_text(field, "name")
            type_ = plain_type(walk.field_text(field, "type"))
            walk.found.typed(number, f"self.{name}", type_)


def _function(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    _typed(walk, node, walk.define(node, "function", owner))


def _method(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """A method is outside of its type, and may be in another file of the folder."""
    receiver = node.child_by_field_name("receiver")
    declared = receiver.named_children[0] if receiver and receiver.named_children else None
    type_ = plain_type(walk.field_text(declared, "type")) if declared else ""
    number = walk.define(node, "method", owner, within=type_)
    if declared is not None:
        walk.found.typed(number, walk.field_text(declared, "name"), type_)
    _typed(walk, node, number)


def _typed(walk: SyntaxWalk, node: Syntax, number: int) -> None:
    parameters = node.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else []:
        type_ = plain_type(walk.field_text(parameter, "type"))
        for name in parameter.children_by_field_name("name"):
            walk.found.typed(number, walk.text(name, 200), type_)


def _short_variable(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """``x := T{}`` and ``x := &T{}``."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None and left.named_child_count == 1:
        value = right.named_children[0] if right.named_children else None
        if value is not None and value.type == "unary_expression":
            value = value.child_by_field_name("operand")
        if value is not None and value.type == "composite_literal":
            type_ = plain_type(walk.field_text(value, "type"))
            walk.found.typed(owner, walk.text(left, 200), type_)
    walk.later(node.named_children, owner)


def _call(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    text = _chain(walk, node.child_by_field_name("function"))
    walk.found.call(owner, text, node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _element(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """A method that an interface requires."""
    walk.define(node, "method", owner)


def _import(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    del owner
    module = walk.text(node.child_by_field_name("path")).strip('"`')
    alias = walk.text(node.child_by_field_name("name"))
    last = [part for part in module.split("/") if not _is_version(part)][-1:]
    if alias == ".":
        walk.found.take(module, "*", "", node.start_point[0] + 1)
    else:
        binds = "" if alias == "_" else alias or "".join(last)
        walk.found.take(module, "", binds, node.start_point[0] + 1)


def _is_version(part: str) -> bool:
    return part[:1] == "v" and part[1:].isdigit()


def leads_to(imported: ImportStatement, importer: str, target: str) -> bool:
    """Return whether an import refers to the folder of a file: the import ends with its path."""
    folder = target.split("/")[:-1]
    if not target.endswith(".go") or folder == importer.split("/")[:-1]:
        return False
    return ends_with(imported.module.split("/"), folder)


_OUTSIDE = (
    "append cap clear close complex copy delete imag len make max min new panic print println real "
    "recover string int int64 int32 uint uint8 byte rune float64 bool error"
)
_GRAMMAR = Grammar(
    language="go",
    package="tree_sitter_go",
    steps={
        "type_spec": _type,
        "type_alias": _type,
        "function_declaration": _function,
        "method_declaration": _method,
        "method_elem": _element,
        "short_var_declaration": _short_variable,
        "call_expression": _call,
        "import_spec": _import,
    },
    branches=frozenset(
        {
            *("if_statement", "for_statement", "expression_case", "type_case"),
            "communication_case",
        }
    ),
)

LANGUAGES = (
    Language(
        name="go",
        endings=(".go",),
        read=_GRAMMAR.read,
        leads_to=leads_to,
        by_folder=True,
        outside=frozenset(_OUTSIDE.split()),
    ),
)
"""The language of this module."""
