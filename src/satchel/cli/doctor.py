"""``formats``, ``completion``, ``doctor`` and ``config``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from rich.text import Text

from satchel.admin.doctor import Configuration, doctor, show_config
from satchel.bank.checks import Check
from satchel.cli._console import line, message, print_facts, print_text, table
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.config.settings import Settings
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options, operation
from satchel.transfer.verification import list_formats

_PROBLEM = 1
_STYLE = {"ok": "green", "note": "yellow", "problem": "bold red"}

config = Group(help="Show settings, and where each comes from.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, list_formats, _show_formats, extra=Length)
    command(app, print_completion, lambda made: print_text(made.script + "\n"))
    command(app, doctor, _show_checks, label="verifying", status=_status)
    app.add(config, name="config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(Options):
    """Options of the listing."""

    long: Annotated[bool, Option("Show versions and what each format cannot hold.")] = False


def _show_formats(formats: list[dict[str, Any]], length: Length) -> None:
    if length.long or len(formats) == 1:
        for each in formats:
            line(f"{each['name']}: {each['title']}")
            print_facts(
                (label.replace("_", " "), value if isinstance(value, str) else _plain(value))
                for label, value in each.items()
                if value not in ("", [], None) and label != "name"
            )
        return
    table(
        ["name", "direction", "streams", "lossless", "compared", "title"],
        [[each["name"], *_row(each)] for each in formats],
    )
    message("Versions, and what each format cannot hold: satchel formats --long")


@dataclass(frozen=True, slots=True)
class CompletionOptions(Options):
    """The shell."""

    shell: Annotated[Literal["bash", "zsh", "fish"], Option("Shell.", argument=True)]


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion script of a shell."""

    shell: str
    script: str


_SHELL = "A shell needs it on the command line only."


@operation(
    CompletionOptions,
    name="completion",
    example="satchel completion bash >> ~/.bashrc",
    absent={"python": _SHELL, "http": _SHELL, "mcp": _SHELL},
)
def print_completion(_: Settings, options: CompletionOptions) -> Completion:
    """Print the script that makes a shell complete commands, options, banks and formats.

    For bash, add the output to ~/.bashrc; for zsh, to ~/.zshrc; for fish, save it as
    ~/.config/fish/completions/satchel.fish.
    """
    import click
    from click.shell_completion import get_completion_class

    from satchel.cli.main import COMPLETION

    kind = get_completion_class(options.shell)
    if kind is None:
        raise UsageError(f"click has no completion for {options.shell}", field="shell")
    script = kind(click.Group("satchel"), {}, "satchel", COMPLETION).source()
    return Completion(shell=options.shell, script=script)


def _row(description: dict[str, Any]) -> list[object]:
    lossless = description["writes"] and not description["lost_on_writing"]
    return [
        "read, write" if description["writes"] else "read",
        "yes" if description["streams"] else "",
        "yes" if lossless else "",
        description["checked"],
        description["title"],
    ]


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def _show_checks(checks: Sequence[Check]) -> None:
    table(
        ["state", "check", "detail"],
        [[Text(check.state, _STYLE[check.state]), check.name, check.detail] for check in checks],
    )
    for check in checks:
        if check.hint:
            message(f"{check.name}: {check.hint}")


def _status(checks: Sequence[Check]) -> int:
    return _PROBLEM if any(check.state == "problem" for check in checks) else 0


def _show_config(configuration: Configuration) -> None:
    missing = "" if Path(configuration.file).exists() else " (there is none)"
    message(f"file: {configuration.file}{missing}")
    for note in configuration.notes:
        message("note: ", note)
    table(
        ["setting", "value", "from", "variable"],
        [[each.name, each.value, each.origin, each.variable] for each in configuration.values],
    )


command(config, show_config, _show_config)
