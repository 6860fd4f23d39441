"""Every operation is offered by every interface, or its declaration says why not."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import satchel
from docs.interfaces import CLASSES, offered, table
from satchel import aio
from satchel.api import asynchronous
from satchel.api.operations import Deferred
from satchel.ports.operations import INTERFACES, Operation, operations

OFFERED = offered()


@pytest.mark.parametrize("name", OFFERED)
@pytest.mark.parametrize("interface", INTERFACES)
def test_an_interface_offers_an_operation_or_the_declaration_says_why_not(
    name: str, interface: str
) -> None:
    """One or the other, and the reason is a sentence."""
    reason = operations[name].absent.get(interface, "")
    assert bool(OFFERED[name][interface]) != bool(reason)
    assert not reason or reason.endswith(".")


@pytest.mark.parametrize("name", OFFERED)
def test_an_option_missing_from_an_interface_has_a_reason(
    name: str,
) -> None:
    """And another interface offers it; help texts are sentences, too."""
    for field in operations[name].fields:
        assert field.option.help.endswith((".", ":")), field.name
        absences = [field.option.absence(each) for each in ("cli", "python", "http")]
        assert None in absences
        assert all(absence.why.endswith(".") for absence in absences if absence is not None)


@pytest.mark.parametrize("name", [name for name in OFFERED if operations[name].alias_of])
def test_an_alias_names_its_operation_and_a_reason(name: str) -> None:
    """Its operation is not an alias."""
    alias = operations[name]
    assert not operations[alias.alias_of].alias_of
    assert alias.why.endswith(".")
    assert f"`{alias.alias_of}`" in alias.help


@pytest.mark.parametrize("name", [name for name in OFFERED if OFFERED[name]["mcp"]])
def test_an_option_withheld_from_models_has_a_reason(name: str) -> None:
    """One for all such options of an operation; none if there is no such option."""
    operation = operations[name]
    is_partial = any(not field.option.mcp for field in operation.fields)
    assert operation.for_models.endswith(".") if is_partial else not operation.for_models


def test_no_cell_of_the_table_of_options_is_empty() -> None:
    """Each has the interface's name of the option, or the reason why it is missing."""
    rows = [line for line in table() if line.startswith("| `")]
    assert rows
    assert all(cell.strip() for row in rows for cell in row.split("|")[1:-1])


AWAITED = (
    *(aio.Satchel, aio.Bank, aio.Backups, aio.Keys, aio.Agents),
    *(
        asynchronous.Sessions,
        asynchronous.Tokens,
        asynchronous.Owners,
        asynchronous.Quarantine,
        asynchronous.Code,
    ),
)


def functions() -> list[tuple[str, Callable[..., Any], Operation[Any, Any, ..., Any]]]:
    """Return the functions of the package that operations declare."""
    found = [(name, getattr(satchel, name)) for name in satchel.__all__]
    found += [(f"aio.{name}", getattr(aio, name)) for name in aio.__all__]
    return [(name, call, call.__operation__) for name, call in found if is_derived(call)]


def is_derived(call: Any) -> bool:
    """Return whether an operation declares a function."""
    return isinstance(getattr(call, "__operation__", None), Operation)


def declared(call: Any) -> Operation[Any, Any, ..., Any]:
    """Return the operation that declares a method, imported if necessary."""
    found = call.__operation__
    operation = found.resolve() if isinstance(found, Deferred) else found
    assert isinstance(operation, Operation)
    return operation


def methods() -> list[tuple[str, Callable[..., Any], Operation[Any, Any, ..., Any]]]:
    """Return the methods of the Python API that operations declare."""
    return [
        (f"{kind.__module__}.{kind.__name__}.{name}", call, declared(call))
        for kind in (*CLASSES, *AWAITED)
        for name, call in inspect.getmembers(kind, lambda each: hasattr(each, "__operation__"))
    ]


@pytest.mark.parametrize(("name", "call", "operation"), methods() + functions())
def test_a_call_shows_its_parameters_at_run_time(
    name: str, call: Callable[..., Any], operation: Operation[Any, Any, ..., Any]
) -> None:
    """``help()``, ``inspect.signature`` and Jupyter show names, types, defaults and meanings."""
    parameters = dict(inspect.signature(call).parameters)
    for first in list(parameters.values()):
        if (
            first.kind is first.POSITIONAL_ONLY or first.name == "self"
        ):  # the object it is called on
            del parameters[first.name]
    assert set(parameters) == {field.name for field in operation.offered("python")}
    assert all(each.annotation is not inspect.Parameter.empty for each in parameters.values())
    assert inspect.signature(call).return_annotation is not inspect.Signature.empty
    text = inspect.getdoc(call) or ""
    assert all(f"{each}: " in text for each in parameters), name


def _call(call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Call a function, and await the result if it is a coroutine."""
    result = call(*args, **options)
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.parametrize(("name", "call", "operation"), methods() + functions())
def test_a_call_accepts_only_the_keywords_of_its_signature(
    name: str, call: Callable[..., Any], operation: Operation[Any, Any, ..., Any]
) -> None:
    """An option that Python lacks is refused like an unknown one, with the reason."""
    shown = inspect.signature(call).parameters
    works_on = [each for each in shown.values() if each.kind is each.POSITIONAL_ONLY]
    reasons = {field.name: field.option.python for field in operation.fields}
    for option in inspect.signature(operation.options).parameters:
        with pytest.raises(TypeError, match="unexpected keyword argument") as refused:
            _call(call, *(object() for _ in works_on), **{option: None, "no_such_option": None})
        refused_name = "no_such_option" if option in shown else option
        assert f"argument {refused_name!r}" in str(refused.value), name
        reason = None if option in shown else reasons.get(option)
        assert reason is None or str(refused.value).endswith(reason.why)
