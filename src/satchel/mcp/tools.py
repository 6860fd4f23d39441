"""The core tools: memories stored, searched, listed, shown, updated and forgotten.

A tool is made from an operation, which declares its arguments. Importing this module imports what
the schemas of the tools need; each call imports the rest.
"""

import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ValidatorFunctionWrapHandler, WrapValidator
from pydantic import Field as Described

from satchel.api.bank import Bank
from satchel.api.operations import run_on
from satchel.bank import operations
from satchel.bank.listings import ListRequest as Listed
from satchel.bank.operations import (
    ForgetOptions,
    ListOptions,
    RememberOptions,
    ShowOptions,
    UpdateOptions,
)
from satchel.errors import SatchelError
from satchel.mcp.principal import ToolCaller, current_caller
from satchel.model.values import ID_PREFIX
from satchel.ports.operations import Field, Operation, declared, texts
from satchel.recall.search import RecallOptions, recall_in

if TYPE_CHECKING:
    from satchel.bank.changes import MemoryUpdate, RememberResult
    from satchel.rehydrate.memory_lines import ContextListing
    from satchel.rehydrate.request import RehydrateResult
    from satchel.sessions.branches import ForkResult


def _or_none(value: Any, usual: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else usual(value)


if TYPE_CHECKING:
    Text = str | None
else:
    Text = Annotated[str, WrapValidator(_or_none)]


InBank = Annotated[Text, Described(description="Bank. Default: the default bank.")]


def tool(
    operation: Operation[Any, Any, ..., Any],
    call: Callable[..., Any],
    *,
    name: str = "",
    returns: Any = CallToolResult,
    extra: type[Any] | None = None,
    supplied: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the function of a tool: it takes the options that models get, and a bank.

    Args:
        operation: The operation.
        call: Runs it, given the name of a bank and the options, and those of ``extra``.
        name: Name of the tool, if not that of the operation.
        returns: Type of the result.
        extra: An options class that only the tool has; its docstring describes the tool.
        supplied: Values of options that the caller cannot set.
    """
    offered = operation.offered("mcp")
    more = () if extra is None else declared(cast("Any", extra))
    names = {_tool_parameter(field): field.name for field in offered}

    def run(**arguments: Any) -> Any:
        bank = arguments.pop("bank", None)
        values = {name: value for name, value in arguments.items() if value is not None}
        extra_values = {
            field.name: values.pop(field.name) for field in more if field.name in values
        }
        options = operation.options(
            **(supplied or {}), **{names[name]: value for name, value in values.items()}
        )
        return call(bank, options) if extra is None else call(bank, options, extra(**extra_values))

    parameters = [_parameter(field) for field in (*more, *offered)]
    parameters.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    parameters.append(
        inspect.Parameter("bank", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=InBank)
    )
    help_ = operation.help.split("\n\n")[0] if extra is None else inspect.getdoc(extra) or ""
    described: Any = run
    described.__name__ = name or operation.name.replace(" ", "_")
    described.__doc__ = help_.replace("\n", " ")
    described.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    described.__annotations__ = {each.name: each.annotation for each in parameters}
    described.__annotations__["return"] = returns
    described.__operation__ = operation
    return run


def _tool_parameter(field: Field) -> str:
    return field.option.mcp if isinstance(field.option.mcp, str) else field.name


def _parameter(field: Field) -> inspect.Parameter:
    option = field.option
    kind: Any = Literal[field.choices] if field.choices else field.scalar
    if field.is_many:
        kind = list[kind] if field.is_required else list[kind] | kind | None
    elif kind is str:
        kind = str if field.is_required else Text
    elif not field.is_required:
        kind = kind | None
    limits = {
        "ge": option.minimum,
        "le": option.maximum,
        "max_length": option.max_items if field.is_many else option.max_length,
        "min_length": 1 if field.is_many and field.is_required else None,
    }
    told: dict[str, Any] = {name: each for name, each in limits.items() if each is not None}
    description = Described(description=option.help.replace(" Repeatable.", ""), **told)
    return inspect.Parameter(
        _tool_parameter(field),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required else None,
        annotation=Annotated[kind, description],
    )


_SHORT = 12
_MOST_WITHHELD = 100


def listing_result(listing: "ContextListing") -> CallToolResult:
    """Return memories for the model, as text."""
    notes = list[str]()
    if listing.withheld:
        first = ", ".join(_short(each.id) for each in listing.withheld[:_SHORT])
        notes.append(
            f"{len(listing.withheld)} withheld as possible prompt injections: {first}. The user"
            " can review one with `satchel show ID`, and release it with `satchel quarantine"
            " release ID`."
        )
    if listing.unpromoted:
        notes.append(
            f"{len(listing.unpromoted)} imported memories withheld: they would set your identity "
            "or instructions. The user can promote one with `satchel promote ID`."
        )
    values: dict[str, Any] = {"entries": listing.ids, "tokens": listing.tokens}
    if listing.over_budget:
        values["over_budget"] = listing.over_budget
    if listing.withheld:
        values["withheld"] = [
            {"id": _short(each.id), "reasons": each.reasons} for each in listing.withheld
        ]
    return _result("\n".join([listing.text, *notes]), values)


def remember_result(stored: "RememberResult") -> CallToolResult:
    """Return the result of storing a memory."""
    text = (
        f"Stored as {_short(stored.id)}."
        if stored.is_new
        else f"Already stored: {_short(stored.id)}."
    )
    if stored.flagged:
        text += (
            f" It looks like a prompt injection ({', '.join(stored.flagged)}): recall withholds it."
        )
    if stored.secrets_kept:
        kinds = ", ".join(stored.secrets)
        text += f" It contains what looks like a secret ({kinds}). Tell the user."
    return _result(text, {"id": stored.id, "is_new": stored.is_new, "flagged": stored.flagged})


def update_result(update: "MemoryUpdate") -> CallToolResult:
    """Return the result of updating a memory."""
    if not update.is_new:
        return _result(f"Unchanged: {_short(update.id)}.", {"id": update.id, "is_new": False})
    replaced = f" It replaces {_short(update.replaces)}." if update.replaces else ""
    values = {"id": update.id, "replaces": update.replaces, "is_new": True}
    return _result(f"Updated: {_short(update.id)}.{replaced}", values)


def forget_result(ids: Sequence[str]) -> CallToolResult:
    """Return which memories were forgotten."""
    return _result(f"Forgot {', '.join(map(_short, ids)) or 'nothing'}.", {"ids": list(ids)})


def rehydrate_result(context: "RehydrateResult") -> CallToolResult:
    """Return memory for the model, with its entries and what was omitted as values."""
    omitted, withheld = context.left_out, context.quarantined[:_MOST_WITHHELD]
    values = {
        "entries": [each.id for each in context.entries],
        "left_out": {name: getattr(omitted, name) for name in omitted.__struct_fields__},
        "withheld": [{"id": each.id, "reasons": each.reasons} for each in withheld],
        "tokens_used": context.tokens,
        "tokenizer": context.tokenizer,
        "notice": context.notice,
    }
    return _result(context.text or "No memory is relevant.", values)


def fork_result(fork: "ForkResult") -> CallToolResult:
    """Return the conversation that continues another."""
    name = f" {fork.name!r}" if fork.name else ""
    text = f"Forked{name} as {_short(fork.id)}, with {fork.messages} messages."
    return _result(text, {"session": fork.id, "from_session": fork.source})


def _short(identity: str) -> str:
    return identity.removeprefix(ID_PREFIX)[:_SHORT]


def _result(text: str, values: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=values)


class BankAnswer(BaseModel):
    """One bank."""

    id: str
    name: str | None
    records: int | None
    problem: str | None


class BanksAnswer(BaseModel):
    """The banks of the store."""

    banks: list[BankAnswer]


class VerifyAnswer(BaseModel):
    """Result of verifying a bank or an artifact."""

    outcome: str
    problems: list[str]
    memories: int | None = None


class ExportAnswer(BaseModel):
    """A sealed copy of memory."""

    artifact: str = Described(description="The file's bytes, in base64.")
    format: str
    entry_count: int
    size_bytes: int
    receipt: str | None


class ImportAnswer(BaseModel):
    """Result of importing an artifact, with its relevant memories."""

    status: str
    entries_imported: int
    entries_filtered: int
    entries_summarized: int
    tokens_used: int
    text: str = Described(description="Relevant memories, delimited as data.")
    notice: str
    receipts: list[str]


READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
REMOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

_Options = TypeVar("_Options")

Declared = tuple[Callable[..., Any], ToolAnnotations]
"""A tool with its annotations for hosts."""


class CoreTools:
    """The core tools, and the contents of resources and prompts, for the present caller.

    Args:
        usual: The caller of requests that name none; None if each request has one.
    """

    def __init__(self, usual: ToolCaller | None) -> None:
        self._usual = usual

    def remember(self, bank: str | None, options: RememberOptions) -> CallToolResult:
        """Store a memory."""
        from satchel.recall.vector_updates import keep_up

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            made = operations.remember.run(opened, _by_model(options))
            keep_up(opened)  # recall is declared read-only, and computes no vectors
        return remember_result(made)

    def recall(self, bank: str | None, options: RecallOptions) -> CallToolResult:
        """Search memories."""
        from satchel.rehydrate.memory_lines import recalled_listing

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001 - as run_on does
            return listing_result(recalled_listing(opened, options))

    def list_memories(self, bank: str | None, options: ListOptions) -> CallToolResult:
        """List memories, newest first."""
        from satchel.rehydrate.memory_lines import newest_listing

        wanted = Listed(types=texts(options.type), tags=texts(options.tags), limit=options.limit)
        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            return listing_result(newest_listing(opened, wanted))

    def show(self, bank: str | None, options: ShowOptions) -> CallToolResult:
        """Show a memory with its versions."""
        from satchel.rehydrate.memory_lines import shown_listing

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            return listing_result(shown_listing(opened, options.memory))

    def update(self, bank: str | None, options: UpdateOptions) -> CallToolResult:
        """Store a new version of a memory."""
        from satchel.recall.vector_updates import keep_up

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            made = operations.update.run(opened, _by_model(options))
            keep_up(opened)  # recall is declared read-only, and computes no vectors
        return update_result(made)

    def forget(self, bank: str | None, options: ForgetOptions) -> CallToolResult:
        """Forget memories."""
        with reported():
            done = run_on(self._bank(bank), operations.forget, _by_model(options))
        return forget_result([each.id for each in done])

    def context(self, task: str, bank: str | None = None) -> str:
        """Return the memory that matters for a task, as text."""
        with reported():
            return self._bank(bank).rehydrate(task).text

    def about(self) -> str:
        """Return the contents of the store, for a person."""
        with reported():
            lines = [
                f"{one.name or one.id}: {one.records} records"
                for one in self._asker.satchel.list_banks()
            ]
        return "\n".join(lines) or "no banks yet"

    @property
    def _asker(self) -> ToolCaller:
        return current_caller(self._usual)

    def _bank(self, name: str | None) -> Bank:
        return self._asker.bank_called(name)


def _by_model(options: _Options) -> _Options:
    """Return options of a call by a model."""
    return cast("_Options", replace(cast("Any", options), actor="agent:mcp"))


def core_tools(tools: CoreTools) -> Iterator[Declared]:
    """Yield the core tools."""
    yield tool(operations.remember, tools.remember), ADDS
    yield tool(recall_in, tools.recall), READS
    yield tool(operations.list_memories, tools.list_memories), READS
    yield tool(operations.show, tools.show), READS
    yield tool(operations.update, tools.update), ADDS
    yield tool(operations.forget, tools.forget), REMOVES


@contextmanager
def reported() -> Iterator[None]:
    """Raise errors as tool errors with our message, and without paths of this machine."""
    try:
        yield
    except SatchelError as error:
        said = error.public()
        field = f" ({said['field']})" if "field" in said else ""
        raise ToolError(f"{said['code']}: {said['message']}{field}") from None
    except Exception as error:  # noqa: BLE001 - a defect of ours, which may name anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = {"error": type(error).__name__, "where": f"{where.name}:{where.lineno}"}
        sys.stderr.write(json.dumps(line) + "\n")
        raise ToolError("internal: internal error; see the server's log") from None
