"""The core tools: memories stored, searched, listed, shown, updated and forgotten.

Importing this imports what the schemas of the tools need; each call imports the rest.
"""

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations

from satchel.api.bank import Bank
from satchel.api.operations import run_on
from satchel.bank import operations
from satchel.bank.listing import ListRequest as Listed
from satchel.bank.operations import (
    ForgetOptions,
    ListOptions,
    RememberOptions,
    ShowOptions,
    UpdateOptions,
)
from satchel.errors import SatchelError
from satchel.mcp import answers
from satchel.mcp.operations import tool
from satchel.mcp.principal import ToolCaller, current_caller
from satchel.ports.operations import texts
from satchel.recall.operations import RecallOptions, recall_in

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
REMOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

_Options = TypeVar("_Options")

Declared = tuple[Callable[..., Any], ToolAnnotations]
"""A tool, and what a host is told about what it does."""


class CoreTools:
    """The core tools, on behalf of whoever asks, and what resources and prompts are made of.

    Args:
        usual: Who asks where nobody else does; None where each request says who it is.
    """

    def __init__(self, usual: ToolCaller | None) -> None:
        self._usual = usual

    def remember(self, bank: str | None, options: RememberOptions) -> CallToolResult:
        """Store a memory."""
        from satchel.recall.embedding import keep_up

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            made = operations.remember.run(opened, _by_model(options))
            keep_up(opened)  # recall is declared as read-only, and makes no vectors
        return answers.stored(made)

    def recall(self, bank: str | None, options: RecallOptions) -> CallToolResult:
        """Search memories."""
        from satchel.rehydrate.listing import recalled_listing

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001 - as run_on does
            return answers.listing_result(recalled_listing(opened, options))

    def list_memories(self, bank: str | None, options: ListOptions) -> CallToolResult:
        """List memories, newest first."""
        from satchel.rehydrate.listing import newest_listing

        wanted = Listed(types=texts(options.type), tags=texts(options.tags), limit=options.limit)
        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            return answers.listing_result(newest_listing(opened, wanted))

    def show(self, bank: str | None, options: ShowOptions) -> CallToolResult:
        """Show a memory with its versions."""
        from satchel.rehydrate.listing import shown_listing

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            return answers.listing_result(shown_listing(opened, options.memory))

    def update(self, bank: str | None, options: UpdateOptions) -> CallToolResult:
        """Store a new version of a memory."""
        from satchel.recall.embedding import keep_up

        with reported(), self._bank(bank)._context() as opened:  # noqa: SLF001
            made = operations.update.run(opened, _by_model(options))
            keep_up(opened)  # recall is declared as read-only, and makes no vectors
        return answers.updated(made)

    def forget(self, bank: str | None, options: ForgetOptions) -> CallToolResult:
        """Forget memories."""
        with reported():
            done = run_on(self._bank(bank), operations.forget, _by_model(options))
        return answers.forget_result([each.id for each in done])

    def context(self, task: str, bank: str | None = None) -> str:
        """Return the memory that matters for a task, as text."""
        with reported():
            return self._bank(bank).rehydrate(task).text

    def about(self) -> str:
        """Return what the store has, for a person."""
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
    """Return options that say that a model asked."""
    return cast("_Options", replace(cast("Any", options), actor="agent:mcp"))


def core_tools(tools: CoreTools) -> Iterator[Declared]:
    """Yield the tools that every host gets."""
    yield tool(operations.remember, tools.remember), ADDS
    yield tool(recall_in, tools.recall), READS
    yield tool(operations.list_memories, tools.list_memories), READS
    yield tool(operations.show, tools.show), READS
    yield tool(operations.update, tools.update), ADDS
    yield tool(operations.forget, tools.forget), REMOVES


@contextmanager
def reported() -> Iterator[None]:
    """Report to an agent what went wrong: our sentence, and no path of this machine."""
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
