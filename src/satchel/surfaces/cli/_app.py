"""The command line as a whole: options before the verb, and the verbs."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from satchel.errors import UsageError
from satchel.surfaces.cli._console import print_error, print_json, state

MODULES = {
    "memories.commands": (
        *("init", "remember", "list", "show", "history", "stats", "update", "correct"),
        *("forget", "restore", "links", "path"),
    ),
    "recalling": ("recall",),
    "waking.rehydrating": ("rehydrate",),
    "waking.quarantine": ("promote", "quarantine"),
    "evaluating.group": ("evaluate",),
    "memories.embedding": ("embed", "duplicates"),
    "agents.commands": ("agent",),
    "sessions.talks": ("sessions",),
    "sessions.points": ("fork", "distill", "checkpoint"),
    "code.commands": ("code",),
    "sealing": ("convert", "inspect", "verify"),
    "importing": ("import", "undo"),
    "exporting": ("export", "diff"),
    "receipts": ("receipts", "receipt"),
    "jobs": ("jobs",),
    "copies": ("pull", "push"),
    "operating.migrating": ("migrate",),
    "operating.sinking": ("sink",),
    "operating.stores": ("store",),
    "backing_up.commands": ("backup",),
    "operating.serving": ("serve",),
    "operating.mcp": ("mcp",),
    "operating.connecting": ("connect",),
    "operating.watching": ("watch",),
    "removing.redacting": ("redact", "recover"),
    "removing.erasing": ("erase", "prune", "everything"),
    "amplihack.memory": ("memory",),
    "amplihack.hooks": ("hook",),
    "filing.group": ("files",),
    "keys": ("keys",),
    "sharing.tokens": ("token",),
    "sharing.disclosing": ("disclose",),
    "sharing.encrypting": ("encrypt", "decrypt"),
    "banks": ("banks",),
    "about": ("formats", "doctor", "config"),
}
"""Which module of this folder has which verbs, in the order of the help.

Only the one that is asked for is imported.
"""

_WITH_VALUE = frozenset(
    {"--home", "--config", "--store", "--backend", "--token", "--identity", "--passphrase-file"}
)


def _version(value: bool) -> None:
    if value:
        from satchel.actions.diagnosing import versions

        found = versions()
        if state.json:
            print_json(found)
        else:
            typer.echo(
                f"satchel {found['satchel']}\n"
                f"artifact format {found['artifact format']}\n"
                f"python {found['python']}"
            )
        raise typer.Exit


def options(
    home: Annotated[
        Path | None, typer.Option(help="Folder of keys and trust; also SATCHEL_HOME.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file; also SATCHEL_CONFIG.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where banks are: a path, ladybug:///FOLDER or postgresql://USER@HOST/DB; also"
            " SATCHEL_STORE."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Kind of store: sqlite, graph-db or postgres; also SATCHEL_MEMORY_BACKEND."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="Capability token to present: a file; also SATCHEL_TOKEN."),
    ] = None,
    identity: Annotated[
        list[Path] | None,
        typer.Option(
            help="File with an identity that decrypts what is read. Repeatable; also"
            " SATCHEL_IDENTITY."
        ),
    ] = None,
    passphrase_file: Annotated[
        Path | None,
        typer.Option(help="File or descriptor with the passphrase of an encrypted file."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Versions, then exit."),
    ] = False,
) -> None:
    """Carry the memory of an AI agent: seal it, prove it, move it.

    Exit status: 0 ok, 1 differences or loss, 2 usage or configuration, 3 refused by verification,
    4 input malformed or unreadable, 5 target failed, 130 interrupted.
    """
    del version
    if as_json:
        raise UsageError("--json stands after the command")
    state.home, state.config, state.store, state.backend = home, config, store, backend
    state.debug = debug
    state.token, state.identities = token, tuple(identity or ())
    state.passphrase_file = passphrase_file


class _AsWritten:
    """Stands for Rich's emoji in help texts, which would make one of ``did:key:...``."""

    @staticmethod
    def replace(text: str) -> str:
        """Return a text as it is."""
        return text


def _plain_help(cls: type[TyperCommand | TyperGroup]) -> None:
    """Let commands of a class show their help without emoji; nothing is loaded before they do."""
    shown = cls.format_help

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        from typer import rich_utils

        vars(rich_utils)["Emoji"] = _AsWritten
        shown(self, ctx, formatter)

    cls.format_help = format_help  # type: ignore[method-assign]


for _class in (TyperCommand, TyperGroup):
    _plain_help(_class)


def app_of(modules: Iterable[str] = MODULES) -> typer.Typer:
    """Return the command line with the verbs of some modules, all of them by default."""
    app = typer.Typer(
        name="satchel",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for module in modules:
        import_module(f"satchel.surfaces.cli.{module}").add_to(app)
    return app


def _modules_for(arguments: list[str]) -> Iterable[str]:
    """Return the module of the verb that is asked for; all of them where that is not plain."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--version":
            return ()
        if argument in _WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return [name for name, verbs in MODULES.items() if argument in verbs] or MODULES
    return MODULES


def run_app(arguments: list[str]) -> Any:
    """Run the verb that arguments name, and return what it returns.

    Raises:
        KeyboardInterrupt: If a person ended a prompt.
    """
    app = app_of(_modules_for(arguments))
    try:
        return app(arguments, prog_name="satchel", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except TyperException as error:
        return _misused(error)


def _misused(error: TyperException) -> int:
    """Say what was wrong with the command line; file names in it cannot drive the terminal."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if not text and not state.json:
        return UsageError.exit_status  # no arguments at all: the help was shown instead
    usage = context.get_usage() if context is not None else None
    print_error(UsageError(text or "what to do was not said", hint=usage))
    return UsageError.exit_status
