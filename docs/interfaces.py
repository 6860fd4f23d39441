"""Which interface offers which operation and which of its options, found by looking at each."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi.routing import APIRoute

import satchel
from satchel.api.bank import Bank, BankOwners, Code, Quarantine, Sessions, Tokens
from satchel.api.machine import Agents, Backups, Keys
from satchel.api.operations import Deferred
from satchel.cli._tree import Command, Group
from satchel.cli.main import tree
from satchel.http.app import routers
from satchel.mcp.server import server
from satchel.ports.operations import INTERFACES, Field, Operation, operations

CLASSES = (
    satchel.Satchel,
    Bank,
    Sessions,
    Tokens,
    BankOwners,
    Quarantine,
    Code,
    Backups,
    Keys,
    Agents,
)

Place = tuple[str, str]
"""An operation's name, and where it is: a command, a method, a route, a tool."""


def offered() -> dict[str, dict[str, list[str]]]:
    """Return where each operation is, by its name and the interface."""
    found = {"cli": of_commands(), "python": of_methods(), "http": of_routes(), "mcp": of_tools()}
    table: dict[str, dict[str, list[str]]] = {}
    for interface, places in found.items():
        for name, place in places:
            row = table.setdefault(name, {each: [] for each in INTERFACES})
            row[interface].append(place)
    for name in operations:
        table.setdefault(name, {each: [] for each in INTERFACES})
    return table


def of_commands() -> Iterator[Place]:
    """Yield the commands that operations declare."""

    def walk(node: Command | Group, words: tuple[str, ...]) -> Iterator[Place]:
        if isinstance(node, Command):
            yield from _place(node.run, " ".join(words))
            return
        for name, inner in node.commands.items():
            yield from walk(inner, (*words, name))

    return walk(tree(), ())


def of_methods() -> Iterator[Place]:
    """Yield the methods and functions that operations declare."""
    for name in satchel.__all__:
        yield from _place(getattr(satchel, name), name)
    for kind in CLASSES:
        for name in dir(kind):
            yield from _place(getattr(kind, name), f"{kind.__name__}.{name}")


def of_routes() -> Iterator[Place]:
    """Yield the routes that operations declare."""
    for route in _routes(router.routes for router in routers()):
        for method in sorted(route.methods or ()):
            yield from _place(route.endpoint, f"{method} {route.path.replace(':path}', '}')}")
        for dependency in route.dependant.dependencies:
            for method in sorted(route.methods or ()):
                yield from _place(dependency.call, f"{method} {route.path.replace(':path}', '}')}")


def _routes(groups: Iterable[Iterable[Any]]) -> Iterator[APIRoute]:
    for group in groups:
        for route in group:
            if isinstance(route, APIRoute):
                yield route


def of_tools() -> Iterator[Place]:
    """Yield the MCP tools that operations declare."""
    made = server(None)
    for tool in asyncio.run(made.list_tools()):
        found = made._tool_manager.get_tool(tool.name)  # noqa: SLF001 - it has no other way
        yield from _place(getattr(found, "fn", None), tool.name)


def _place(call: Any, where: str) -> Iterator[Place]:
    operation = getattr(call, "__operation__", None)
    if isinstance(operation, Deferred):
        operation = operation.resolve()
    if isinstance(operation, Operation):
        yield operation.name, where


def table() -> list[str]:
    """Return the reference of operations, as Markdown."""
    names = {"cli": "Command", "python": "Python", "http": "HTTP", "mcp": "MCP"}
    lines = []
    for name, places in sorted(offered().items()):
        operation = operations[name]
        lines += [f"## {name}", "", operation.help, ""]
        for interface in INTERFACES:
            where = ", ".join(f"`{place}`" for place in places[interface])
            lines.append(f"- {names[interface]}: {where or operation.absent[interface]}")
        if not operation.fields:
            lines.append("")
            continue
        lines += ["", "| option | command | Python | HTTP | MCP | |", "|---|---|---|---|---|---|"]
        notes = dict[str, str]()
        for field in operation.fields:
            cells = []
            for interface in INTERFACES:
                why = absence(operation, field, interface)
                if why:
                    mark = notes.setdefault(why, str(len(notes) + 1))
                    cells.append(f"({mark})")
                elif interface == "cli":
                    cells.append(f"`{_flag(field)}`")
                else:
                    cells.append("yes")
            lines.append(f"| `{field.name}` | {' | '.join(cells)} | {field.option.help} |")
        lines += ["", *(f"{mark}. {why}" for why, mark in notes.items()), ""]
    return lines


def absence(operation: Operation[Any, Any, ..., Any], field: Field, interface: str) -> str:
    """Return why an interface does not offer an option of an operation; empty where it does."""
    if interface in operation.absent:
        return operation.absent[interface]
    if interface == "mcp":
        return "" if field.option.mcp else operation.for_models
    found = field.option.absence(interface)
    return "" if found is None else found.why


def _flag(field: Any) -> str:
    if field.option.argument:
        return str(field.option.metavar or field.name.upper())
    return str(field.flag)
