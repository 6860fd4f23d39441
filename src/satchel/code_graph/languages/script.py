"""JavaScript and TypeScript, also with JSX."""

from posixpath import join, normpath

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

_MEMBERS = {
    "member_expression": ("object", "property"),
    "nested_identifier": ("object", "property"),
    "nested_type_identifier": ("module", "name"),
}
_NAMES = frozenset({"identifier", "this", "super", "type_identifier", "property_identifier"})
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "function"})
_OWN_ALIASES = ("@/", "~/")


def _chain(walk: SyntaxWalk, node: Syntax | None) -> str:
    while node is not None and node.type in {"non_null_expression", "parenthesized_expression"}:
        node = node.named_children[0] if node.named_children else None
    return chain(walk, node, _MEMBERS, _NAMES)


def _whole(node: Syntax) -> Syntax:
    """Return the ``export`` or ``const`` around a definition, which its comment precedes."""
    above = node.parent
    if above is not None and above.type in {"lexical_declaration", "variable_declaration"}:
        node, above = above, above.parent
    return above if above is not None and above.type == "export_statement" else node


def _class(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    bases = list[str]()
    for heritage in node.children:
        if heritage.type == "class_heritage":
            for child in heritage.named_children:
                many = child.type in {"extends_clause", "implements_clause"}
                bases += _bases(walk, child.named_children if many else [child])
    walk.define(node, "class", owner, bases=bases, whole=_whole(node))


def _interface(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    bases = list[str]()
    for child in node.children:
        if child.type in {"extends_type_clause", "extends_clause"}:
            bases += _bases(walk, child.named_children)
    walk.define(node, "interface", owner, bases=bases, whole=_whole(node))


def _bases(walk: SyntaxWalk, nodes: list[Syntax]) -> list[str]:
    bases = []
    for node in nodes:
        if node.type == "type_arguments":
            continue
        named = node.child_by_field_name("name") if node.type == "generic_type" else node
        text = _chain(walk, named)
        if "?" not in text:
            bases.append(text)
    return bases


def _function(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    number = walk.define(node, "function", owner, whole=_whole(node))
    _typed(walk, node, number)


def _method(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    name = walk.field_text(node, "name").lstrip("#")
    number = walk.define(node, walk.method_or_function(owner), owner, name=name)
    _typed(walk, node, number)


def _named_value(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """A name that is assigned a function, a class, or a new object."""
    value = node.child_by_field_name("value")
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    plain = walk.text(name, 200).lstrip("#")
    is_field = node.type in {"public_field_definition", "field_definition"}
    if value is not None and value.type in _FUNCTIONS:
        kind = walk.method_or_function(owner) if is_field else "function"
        whole = node if is_field else _whole(node)
        number = walk.define(node, kind, owner, name=plain, whole=whole)
        _typed(walk, value, number)
        return
    type_ = plain_type(walk.field_text(node, "type"))
    if value is not None and value.type == "new_expression":
        type_ = _chain(walk, value.child_by_field_name("constructor"))
    if type_ and "?" not in type_:
        walk.found.typed(owner, f"this.{plain}" if is_field else plain, type_)
    elif value is not None and value.type == "call_expression":
        _require(walk, value, plain)
    walk.later(node.named_children, owner)


def _require(walk: SyntaxWalk, call: Syntax, binds: str) -> None:
    """CommonJS: ``const x = require('./x')``."""
    if walk.text(call.child_by_field_name("function"), 20) != "require":
        return
    arguments = call.child_by_field_name("arguments")
    first = arguments.named_children[:1] if arguments is not None else []
    if not first or first[0].type != "string":
        return
    module, line = walk.text(first[0]).strip("'\"`"), call.start_point[0] + 1
    if binds.isidentifier():
        walk.found.take(module, "", binds, line)
    elif binds.startswith("{"):  # const { a, b: c } = require('./x')
        for part in binds.strip("{} ").split(","):
            name, _, alias = (each.strip() for each in part.partition(":"))
            if name.isidentifier():
                walk.found.take(module, name, alias or name, line)


def _typed(walk: SyntaxWalk, node: Syntax, number: int) -> None:
    parameters = node.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else []:
        type_ = plain_type(walk.field_text(parameter, "type"))
        name = walk.field_text(parameter, "pattern")
        walk.found.typed(number, name, type_)
        if parameter.children and parameter.children[0].type == "accessibility_modifier":
            walk.found.typed(walk.found.type_around(number), f"this.{name}", type_)


def _call(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    field = "constructor" if node.type == "new_expression" else "function"
    walk.found.call(owner, _chain(walk, node.child_by_field_name(field)), node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _element(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    """JSX: a component is a call; HTML tags are in lower case."""
    name = _chain(walk, node.child_by_field_name("name"))
    if name[:1].isupper():
        walk.found.call(owner, name, node.start_point[0] + 1)
    walk.later(node.named_children, owner)


def _import(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    del owner
    source = node.child_by_field_name("source")
    if source is None:
        return
    module, line = walk.text(source).strip("'\"`"), node.start_point[0] + 1
    clause = next((each for each in node.named_children if each.type == "import_clause"), None)
    if clause is None:
        walk.found.take(module, "", "", line)
        return
    for binding in clause.named_children:
        if binding.type == "identifier":
            walk.found.take(module, "default", walk.text(binding), line)
        elif binding.type == "namespace_import":
            walk.found.take(module, "", walk.text(binding.named_children[-1]), line)
        else:
            _take_specifiers(walk, binding, module, line)


def _export(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
    source = node.child_by_field_name("source")
    if source is not None:
        module, line = walk.text(source).strip("'\"`"), node.start_point[0] + 1
        clause = next((one for one in node.named_children if one.type == "export_clause"), None)
        if clause is None:
            walk.found.take(module, "*", "", line)
        else:
            _take_specifiers(walk, clause, module, line)
        return
    walk.later(node.named_children, owner)


def _take_specifiers(walk: SyntaxWalk, clause: Syntax, module: str, line: int) -> None:
    for specifier in clause.named_children:
        name = walk.text(specifier.child_by_field_name("name"))
        alias = walk.text(specifier.child_by_field_name("alias"))
        if name:
            walk.found.take(module, name, alias or name, line)


def _definition(kind: str) -> Step:
    def step(walk: SyntaxWalk, node: Syntax, owner: int) -> None:
        walk.define(node, kind, owner, whole=_whole(node))

    return step


_STEPS: dict[str, Step] = {
    "class_declaration": _class,
    "abstract_class_declaration": _class,
    "class": _class,
    "interface_declaration": _interface,
    "enum_declaration": _definition("enum"),
    "type_alias_declaration": _definition("type"),
    "internal_module": _definition("module"),
    "module": _definition("module"),
    "function_declaration": _function,
    "generator_function_declaration": _function,
    "function_signature": _function,
    "method_definition": _method,
    "method_signature": _method,
    "abstract_method_signature": _method,
    "variable_declarator": _named_value,
    "field_definition": _named_value,
    "public_field_definition": _named_value,
    "call_expression": _call,
    "new_expression": _call,
    "jsx_opening_element": _element,
    "jsx_self_closing_element": _element,
    "import_statement": _import,
    "export_statement": _export,
}
_OUTSIDE = (
    "require fetch setTimeout setInterval clearTimeout parseInt parseFloat String Number Boolean "
    "Object Array Map Set WeakMap Promise Error TypeError Date RegExp Symbol JSON Math console"
)
_BRANCHES = frozenset(
    {
        *("if_statement", "for_statement", "for_in_statement", "while_statement", "do_statement"),
        *("ternary_expression", "switch_case", "catch_clause"),
    }
)


def leads_to(imported: ImportStatement, importer: str, target: str) -> bool:
    """Return whether an import refers to a file, by a path from here or from the root."""
    module = imported.module
    parts = without_ending(target)
    if module.startswith("."):
        path = normpath(join("/".join(importer.split("/")[:-1]), module))
        if path.startswith(".."):
            return False
        return parts in _module_paths([] if path == "." else path.split("/"))
    if not module.startswith(_OWN_ALIASES):
        return False
    return any(ends_with(parts, candidate) for candidate in _module_paths(module.split("/")[1:]))


def _module_paths(module: list[str]) -> list[list[str]]:
    """Return the candidates of a module: a file, with or without suffix, or a folder's index."""
    if not module:
        return [["index"]]
    return [[*module[:-1], module[-1].partition(".")[0]], [*module, "index"]]


def _language(name: str, package: str, entry: str, endings: tuple[str, ...]) -> Language:
    grammar = Grammar(language=name, package=package, entry=entry, steps=_STEPS, branches=_BRANCHES)
    return Language(
        name=name,
        endings=endings,
        read=grammar.read,
        leads_to=leads_to,
        receivers=frozenset({"this", "super"}),
        index_names=frozenset({"index"}),
        family="script",
        outside=frozenset(_OUTSIDE.split()),
    )


LANGUAGES = (
    _language("javascript", "tree_sitter_javascript", "language", (".js", ".jsx", ".mjs", ".cjs")),
    _language(
        "typescript", "tree_sitter_typescript", "language_typescript", (".ts", ".mts", ".cts")
    ),
    _language("tsx", "tree_sitter_typescript", "language_tsx", (".tsx",)),
)
"""The language of this module."""
