"""Entry point of the command line: parses the arguments, runs the command, prints errors, exits.

Help, usage errors and completion need only ``commands.json``, which is generated from the
declarations of all commands (``python -m docs.generate``). They import no command; a command
imports only its own module.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from satchel.cli._console import ReaderGoneError, print_error, state
from satchel.cli._tree import JSON, Command, Group, Parameter, Specification, specifications
from satchel.errors import SatchelError, TargetError, UsageError

GARBAGE_AFTER = 100_000
"""Objects after which the garbage collector runs.

Records are trees without cycles, which reference counting frees. With the interpreter's default of
700, the collector takes a fifth of the time of a large conversion, and a third of a long listing.
"""

_INTERRUPTED = 130
_HOOK_FAILED = 1
_BROKEN_PIPE = 141


def main() -> None:
    """Run the command and exit with its status."""
    gc.set_threshold(GARBAGE_AFTER)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # locales without UTF-8 show escapes
    status = run(sys.argv[1:])
    gc.freeze()  # the last collections take a tenth of the time of a short command
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command with ``arguments`` and return its exit status."""
    state.reset(json="--json" in arguments)
    try:
        result = run_command(arguments)
        sys.stdout.flush()
    except SatchelError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return _interrupted()
    except (BrokenPipeError, ReaderGoneError):
        # The reader closed the pipe, as `| head` does.
        _drop_stdout()
        return _BROKEN_PIPE
    except OSError as error:  # of a file that no operation handles, such as stdout
        _drop_stdout()
        what = f"the system refused: {error.strerror or error}"
        return _failed(TargetError(what, file=error.filename))
    finally:
        state.finish()
    return _interrupted() if result == _INTERRUPTED else int(result or 0)


def _interrupted() -> int:
    sys.stderr.write("interrupted\n")
    return _INTERRUPTED


def _failed(error: SatchelError) -> int:
    if state.debug:
        import traceback

        traceback.print_exception(error)
    print_error(error)
    # To an agent host, 2 from a hook means "block": the session could not start, or never end.
    is_usage = error.exit_status == UsageError.exit_status
    return _HOOK_FAILED if state.is_hook and is_usage else error.exit_status


def _drop_stdout() -> None:
    """Redirect the interpreter's last flush to null, so that it prints no error."""
    with suppress(OSError, ValueError):  # stdout may not be a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


COMPLETION = "_SATCHEL_COMPLETE"
"""Variable with which a shell requests completions."""

INDEX = Path(__file__).with_name("commands.json")

PANELS = {
    "Start": ("init", "connect", "doctor"),
    "Memory": ("remember", "recall", "list", "show", "update", "forget", "history"),
    "Move": ("import", "export", "convert", "verify", "inspect", "diff"),
    "Protect": ("backup", "encrypt", "erase", "redact"),
    "Work with agents": ("serve", "mcp", "rehydrate", "session", "file", "agent"),
    "Manage": ("bank", "key", "token", "store", "job", "receipt", "config"),
}
"""The commands of the first screen, by panel."""

MORE = {
    "Memory": ("correct", "restore", "links", "path", "stats", "embed", "duplicates"),
    "Move": ("undo", "pull", "push", "migrate", "sink", "disclose", "formats"),
    "Protect": ("decrypt", "recover", "prune", "everything"),
    "Work with agents": (
        *("promote", "quarantine", "code", "watch", "hook", "evaluate", "amplihack"),
    ),
    "Manage": ("completion",),
}
"""The other commands, by the same panels; the first screen only lists their names."""

MODULES = (
    *("memories", "recall", "rehydrate"),
    *("evaluation", "vectors", "agents", "sessions"),
    *("code", "conversion", "imports", "exports", "receipts", "replication"),
    *("backup", "serve", "mcp", "connect"),
    *("watch", "redaction", "erasure", "amplihack"),
    *("files", "keys", "tokens"),
    *("encryption", "banks", "doctor"),
)
"""The modules of this folder that declare commands."""

_SUGGESTED = {
    **dict.fromkeys(("search", "find", "query", "ask"), "recall"),
    **dict.fromkeys(("add", "save", "new", "put", "note"), "remember"),
    **dict.fromkeys(("get", "view", "cat", "read"), "show"),
    **dict.fromkeys(("delete", "rm", "remove", "del"), "forget"),
    **dict.fromkeys(("edit", "set", "change", "modify"), "update"),
    **dict.fromkeys(("status", "check", "health", "info"), "doctor"),
    **dict.fromkeys(("ls", "all"), "list"),
    **dict.fromkeys(("log", "versions"), "history"),
    **dict.fromkeys(("load", "ingest"), "import"),
    **dict.fromkeys(("dump", "save-as"), "export"),
    **dict.fromkeys(("create", "setup", "start"), "init"),
    **dict.fromkeys(("install", "configure"), "connect"),
    **dict.fromkeys(("server", "http", "web", "ui"), "serve"),
    **dict.fromkeys(("copy", "clone"), "push"),
    **dict.fromkeys(("purge", "destroy"), "erase"),
}
"""Verbs of other programs, with the command to suggest."""

_OF_GROUPS = {
    **dict.fromkeys(("create", "now", "start"), "run"),
    **dict.fromkeys(("ls", "all"), "list"),
    **dict.fromkeys(("add", "new", "make"), "create"),
    **dict.fromkeys(("delete", "remove", "rm"), "delete"),
    **dict.fromkeys(("get", "view", "cat"), "show"),
    **dict.fromkeys(("check", "test"), "verify"),
}

_HOOK = ("hook",)
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_METAVARS = {"path": "PATH", "integer": "N", "number": "N"}
_TYPES = {"integer": click.INT, "number": click.FLOAT, "switch": click.BOOL}


def tree() -> Group:
    """Import all modules, and return their commands."""
    root = Group()
    for module in MODULES:
        import_module(f"satchel.cli.{module}").add_to(root)
    return root


def made_index() -> str:
    """Return the text of ``commands.json``: one line for each command."""
    rows = dict[str, Specification]()
    for module in MODULES:
        group = Group()
        import_module(f"satchel.cli.{module}").add_to(group)
        rows |= specifications(group, module)
    lines = [
        f"{json.dumps(words)}: {json.dumps(record.plain(), ensure_ascii=False)}"
        for words, record in rows.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


@cache
def index() -> dict[str, Specification]:
    """Return the specifications of all commands and groups, by their words."""
    plain = json.loads(INDEX.read_text("utf-8"))
    return {words: Specification.of(each) for words, each in plain.items()}


class _Help(click.Command):
    """Help as one page: usage, text, arguments, options, an example."""

    record: Specification

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        text, _, example = self.record.help.partition("\n\nExample: ")
        for paragraph in text.split("\n\n"):
            formatter.write_paragraph()
            if "\n- " in f"\n{paragraph}":
                formatter.write(paragraph + "\n")
            else:
                formatter.write_text(" ".join(paragraph.split()))
        self.format_options(ctx, formatter)
        if example:
            with formatter.section(click.style("Example", bold=True)):
                formatter.write(f"  {example.strip('`')}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments, options = [], []
        for param in self.get_params(ctx):
            if isinstance(param, _Argument):
                if param.described:
                    arguments.append((param.make_metavar(ctx), param.described))
            elif (record := param.get_help_record(ctx)) is not None:
                options.append(record)
        for heading, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(click.style(heading, bold=True)):
                    formatter.write_dl(rows)


class _Argument(click.Argument):
    described = ""


class _Leaf(_Help):
    """A command, imported when it is run."""


class _Branch(_Help, click.Group):
    """A group, whose commands are made on demand."""

    words: tuple[str, ...] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_children(self.words))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        name = " ".join((*self.words, cmd_name))
        return _command(name) if name in index() and " " not in cmd_name else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        subcommand = self.get_command(ctx, name)
        state.is_hook = self.words == _HOOK
        if subcommand is None and not ctx.resilient_parsing and not name.startswith("-"):
            words = " ".join(("satchel", *self.words))
            raise UsageError(
                f"{words} has no command {name!r}",
                hint=_suggestion(words, name, self.list_commands(ctx)),
            )
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = list(_children(self.words))
        panels = {"Commands": names} if self.words else PANELS
        for heading, listed in panels.items():
            with formatter.section(click.style(heading, bold=True)):
                formatter.write_dl([(name, _first_line(self.words, name)) for name in listed])
        if not self.words:
            with formatter.section(click.style("More commands", bold=True)):
                formatter.write_text(", ".join(name for names in MORE.values() for name in names))
        super().format_options(ctx, formatter)


def _suggestion(words: str, name: str, names: Sequence[str]) -> str:
    """Return a hint for an unknown command."""
    known = (_SUGGESTED if words == "satchel" else _OF_GROUPS).get(name)
    close = [known] if known in names else get_close_matches(name, names, n=3)
    if close:
        return f"Did you mean: {' or '.join(f'{words} {each}' for each in close)}?"
    return f"See: {words} --help"


def _children(words: tuple[str, ...]) -> Iterable[str]:
    depth = len(words)
    for each in index():
        parts = tuple(each.split())
        if len(parts) == depth + 1 and parts[:depth] == words:
            yield parts[-1]


def _first_line(words: tuple[str, ...], name: str) -> str:
    text = " ".join(index()[" ".join((*words, name))].help.partition("\n\n")[0].split())
    first, dot, _ = text.partition(". ")
    return first + "." if dot else text


def _command(name: str) -> click.Command:
    record, words = index()[name], tuple(name.split())
    if not record.is_group:
        return leaf(words, record, lambda: _imported(words, record))
    branch = _Branch(words[-1], no_args_is_help=True)
    branch.words, branch.record = words, record
    branch.context_settings = _SETTINGS
    return branch


def leaf(words: Sequence[str], record: Specification, load: Callable[[], Command]) -> click.Command:
    """Return a command that is loaded after its command line is parsed.

    Args:
        words: Its name, with the words before it.
        record: Its specification.
        load: Returns the command.
    """
    many = {each.name for each in record.parameters if each.is_many}

    def run(**values: Any) -> Any:
        from satchel.cli._console import state

        if state.json and JSON.name in values:
            values[JSON.name] = True
        arguments = {
            name: (list(value) or None) if name in many else value for name, value in values.items()
        }
        command = load()
        return command.run(**command.convert(arguments))

    leaf_command = _Leaf(words[-1], callback=run)
    leaf_command.params = [_parameter(each) for each in record.parameters]
    used_flags = {flag for each in record.parameters for flag in (*each.flags, *each.off)}
    leaf_command.params += [
        _global(each, hidden=True) for each in GLOBAL if used_flags.isdisjoint(each.flags)
    ]
    leaf_command.record, leaf_command.context_settings = record, _SETTINGS
    return leaf_command


def _imported(words: Sequence[str], record: Specification) -> Command:
    group = Group()
    import_module(f"satchel.cli.{record.module}").add_to(group)
    command = group.find(words)
    if not isinstance(command, Command):
        raise TypeError(f"{' '.join(words)} is a group")
    return command


def _parameter(record: Parameter) -> click.Parameter:
    kind: Any = _TYPES.get(record.type, click.STRING)
    if record.choices:
        kind = click.Choice(record.choices)
    elif record.minimum is not None or record.maximum is not None:
        is_whole = record.type == "integer"
        least, most = record.minimum, record.maximum
        kind = (
            click.IntRange(
                None if least is None else int(least), None if most is None else int(most)
            )
            if is_whole
            else click.FloatRange(least, most)
        )
    complete = _completion(record.values)
    default: dict[str, Any] = {} if record.default is None else {"default": record.default}
    if not record.flags:
        argument = _Argument(
            [record.name],
            type=kind,
            required=record.is_required,
            nargs=-1 if record.is_many else 1,
            **default,
            shell_complete=complete,
        )
        name = record.metavar or record.name.upper()
        dots = "..." if record.is_many else ""
        argument.metavar = f"{name if record.is_required else f'[{name}]'}{dots}"
        argument.described = record.help
        return argument
    is_switch = record.type == "switch"
    names = list(record.flags)
    if record.off:
        names[-1] += "/" + record.off[0]
    return click.Option(
        [*names, record.name],
        type=kind,
        is_flag=True if is_switch else None,
        multiple=record.is_many,
        **default,
        required=record.is_required,
        show_default=not is_switch and record.default not in (None, ""),
        metavar=record.metavar or _METAVARS.get(record.type),
        help=record.help,
        shell_complete=complete,
    )


def _completion(values: str) -> Any:
    if not values:
        return None

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        del param
        if values == "file":
            return [CompletionItem(incomplete, type="file")]

        ctx.find_root().invoke(_set_state, **ctx.find_root().params)
        return [each for each in values_of(values) if each.startswith(incomplete)]

    return complete


def _global_parameter(
    name: str, help_: str, *, type_: str = "text", values: str = "file", is_many: bool = False
) -> Parameter:
    flag = "--" + name.replace("_", "-")
    return Parameter(
        name=name, type=type_, help=help_, flags=[flag], values=values, is_many=is_many
    )


_STORE = "Store: a path, ladybug:///FOLDER or postgresql://USER@HOST/DB. Also SATCHEL_STORE."
_BACKEND = "Kind of store: sqlite, graph-db or postgres. Also SATCHEL_MEMORY_BACKEND."
_IDENTITY = (
    "File with an age identity that decrypts what is read. Repeatable. Also SATCHEL_IDENTITY."
)

GLOBAL = (
    _global_parameter(
        "home", "Folder of keys, trust and the store. Also SATCHEL_HOME.", type_="path"
    ),
    _global_parameter("config", "Configuration file. Also SATCHEL_CONFIG.", type_="path"),
    _global_parameter("store", _STORE),
    _global_parameter("backend", _BACKEND, values="sqlite|graph-db|postgres"),
    _global_parameter("token", "File with a capability token to present. Also SATCHEL_TOKEN."),
    _global_parameter("identity", _IDENTITY, type_="path", is_many=True),
    _global_parameter(
        "passphrase_file",
        "File or descriptor with the passphrase of an encrypted file.",
        type_="path",
    ),
    Parameter(
        name="debug", type="switch", help="Print tracebacks.", flags=["--debug"], default=False
    ),
)
"""Options that every command takes, before or after its words."""


_AFTER = "global_"


def _global(record: Parameter, *, hidden: bool = False) -> click.Parameter:
    parameter = _parameter(record)
    if isinstance(parameter, click.Option) and hidden:
        parameter.hidden, parameter.expose_value, parameter.callback = True, False, _set_later
        # An argument of the command may have the same name.
        parameter.name = f"{_AFTER}{record.name}"
    return parameter


def _set_later(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Set a global option that is given after the command."""
    if value and not ctx.resilient_parsing:
        _set_state(**{(param.name or "").removeprefix(_AFTER): value})


def _set_state(**values: Any) -> None:
    from satchel.cli._console import state

    for name, value in values.items():
        if not value:
            continue
        if name == "identity":
            state.identities = tuple(map(Path, value))
        else:
            is_path = name in ("home", "config", "passphrase_file")
            setattr(state, name, Path(value) if is_path else value)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if not value or ctx.resilient_parsing:
        return
    _print_versions()
    ctx.exit()


def _print_versions() -> None:
    """Print the versions of the program, its format and Python; with --json, of its libraries."""
    import platform
    from importlib.metadata import version

    from satchel.cli._console import line, print_json

    if state.json:
        from satchel.bank.checks import versions

        print_json(versions())
        return
    from satchel.artifact import ARTIFACT_FORMAT

    line(f"satchel {version('satchel')}")
    line(f"artifact format {ARTIFACT_FORMAT}")
    line(f"python {platform.python_version()}")


_ROOT_HELP = """Portable, verifiable memory for AI agents: store, search, move, share and back up.

Exit status: 0 success, 1 differences or loss, 2 usage or configuration, 3 refused by
verification, 4 malformed or unreadable input, 5 target failed, 130 interrupted."""


def _root() -> click.Command:
    root = _Branch("satchel", callback=_set_state, no_args_is_help=True)
    root.params = [_global(each) for each in GLOBAL]
    root.params += [
        click.Option(["--json"], is_flag=True, hidden=True, expose_value=False),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print versions.",
        ),
    ]
    root.record = Specification(help=_ROOT_HELP, is_group=True)
    root.context_settings = _SETTINGS
    return root


def run_command(arguments: Sequence[str]) -> Any:
    """Run a command line, and return the result of the command.

    Raises:
        UsageError: If the arguments are not valid.
        KeyboardInterrupt: If a prompt was interrupted.
    """
    words = list(arguments)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    elif words == ["version"]:
        words = ["--version"]
    root = _root()
    if COMPLETION in os.environ:
        return shell_complete(root, {}, "satchel", COMPLETION, os.environ[COMPLETION])
    try:
        with root.make_context("satchel", words) as context:
            return root.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return UsageError.exit_status
    except click.ClickException as error:
        raise _usage_error(error) from None


def _usage_error(error: click.ClickException) -> UsageError:
    """Return an error of the command line as a ``UsageError`` of one line."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "satchel"
    text = error.format_message().rstrip(".")
    option = getattr(error, "option_name", None) or next(
        (each for each in getattr(getattr(error, "param", None), "opts", ())), None
    )
    return UsageError(
        text[:1].lower() + text[1:],
        field=option.lstrip("-") if option else None,
        hint=f"See: {path} --help",
    )


def values_of(kind: str) -> list[str]:
    """Return possible values for completion; none if the store or home cannot be read.

    Args:
        kind: ``bank``, ``format``, ``key``, ``destination``, or choices separated by ``|``.
    """
    list_values = _LISTED.get(kind)
    if list_values is None:
        return kind.split("|")
    if kind in _OWNERS and state.settings.token is not None:
        return []
    with suppress(SatchelError, OSError):
        return sorted(list_values())
    return []


def _banks() -> Iterable[str]:
    from satchel.bank.banks import list_banks

    return [bank.name for bank in list_banks(state.settings) if bank.name]


def _formats() -> Iterable[str]:
    from satchel.ports.format import formats

    return list(formats)


def _keys() -> Iterable[str]:
    return state.settings.keyring.names()


def _destinations() -> Iterable[str]:
    return state.settings.options.backup.destinations


_LISTED: dict[str, Callable[[], Iterable[str]]] = {
    "bank": _banks,
    "format": _formats,
    "key": _keys,
    "destination": _destinations,
}

_OWNERS = {"bank", "key", "destination"}
"""Kinds that the holder of a token may not list."""


if __name__ == "__main__":
    main()
