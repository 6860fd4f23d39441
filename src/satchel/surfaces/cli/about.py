"""``formats``, ``doctor`` and ``config``: what is here and how it is set up."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rich.text import Text

from satchel.actions.diagnosing import diagnose
from satchel.actions.operating.conversions import list_formats
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options
from satchel.surfaces.cli._console import (
    facts,
    line,
    message,
    print_json,
    print_text,
    progress,
    state,
    table,
)
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group
from satchel.surfaces.cli._tree import Option as Flag

_PROBLEM = 1
_STYLE = {"ok": "green", "note": "yellow", "problem": "bold red"}

config = Group(help="Settings, and where each comes from.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, list_formats, _show_formats, extra=Length)
    app.command("completion")(completion_command)
    app.command("doctor")(doctor_command)
    app.add(config, name="config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(Options):
    """How much to show."""

    long: Annotated[bool, Option("All of them in full: versions, what each cannot hold.")] = False


def _show_formats(found: list[dict[str, Any]], length: Length) -> None:
    if length.long or len(found) == 1:
        for each in found:
            line(f"{each['name']}: {each['title']}")
            facts(
                (label.replace("_", " "), value if isinstance(value, str) else _plain(value))
                for label, value in each.items()
                if value not in ("", [], None) and label != "name"
            )
        return
    table(
        ["name", "direction", "streams", "lossless", "compared", "title"],
        [[each["name"], *_row(each)] for each in found],
    )
    message("What each cannot hold, and its version: satchel formats --long")


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(help="bash, zsh or fish.")],
    as_json: Json = False,
) -> None:
    """Print the script that makes a shell complete commands, options, banks and formats.

    For bash, add the output to ~/.bashrc; for zsh, to ~/.zshrc; for fish, save it as
    ~/.config/fish/completions/satchel.fish.

    Example: `satchel completion bash >> ~/.bashrc`
    """
    import click
    from click.shell_completion import get_completion_class

    from satchel.surfaces.cli._parser import COMPLETION

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"click has no completion for {shell}", field="shell")
    script = kind(click.Group("satchel"), {}, "satchel", COMPLETION).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        print_text(script + "\n")


def _row(found: dict[str, Any]) -> list[object]:
    lossless = found["writes"] and not found["lost_on_writing"]
    return [
        "read, write" if found["writes"] else "read",
        "yes" if found["streams"] else "",
        "yes" if lossless else "",
        found["checked"],
        found["title"],
    ]


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def doctor_command(
    deep: Annotated[
        bool,
        Flag("--deep", help="Look for everything that is wrong, and at each word of the index."),
    ] = False,
    fix: Annotated[
        bool,
        Flag(
            "--repair",
            help="Derive again what can be; what no longer holds is set aside, never deleted.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Check the installation, the keys, the store and its banks; only --repair changes anything.

    Each bank is compared with its log: records, columns, links, files. Exit status 1 for a problem.

    Example: `satchel doctor --deep`
    """
    from satchel.actions.amplihack.health import check_agents
    from satchel.actions.backing_up.kept.standing import check_backups
    from satchel.actions.bank_health import check_banks, repair_banks
    from satchel.actions.filing.checking import check_files
    from satchel.actions.hosts.standing import check_watching

    checks = diagnose(state.settings) + check_agents(state.settings)
    with progress("verifying", True, records=True) as tell:
        if fix:
            checks += repair_banks(state.settings, progress=tell)
        checks += check_banks(state.settings, deep=deep, progress=tell)
        checks += check_files(state.settings)
        checks += check_backups(state.settings)
        checks += check_watching(state.settings)
    if as_json:
        print_json(checks)
    else:
        table(
            ["", "", ""],
            [
                [Text(check.state, _STYLE[check.state]), check.name, check.detail]
                for check in checks
            ],
        )
        for check in checks:
            if check.hint:
                message(f"{check.name}: {check.hint}")
    return _PROBLEM if any(check.state == "problem" for check in checks) else 0


@config.command("show")
def show_command(as_json: Json = False) -> None:
    """Show every setting, its value and where that came from.

    Example: `satchel config show`
    """
    settings = state.settings
    if as_json:
        found = {"file": str(settings.file), "values": settings.values}
        print_json({**found, "notes": settings.notes})
        return
    where = "" if settings.file.exists() else " (there is none)"
    message(f"file: {settings.file}{where}")
    for note in settings.notes:
        message("note: ", note)
    table(
        ["setting", "value", "from", "variable"],
        [[one.name, one.value, one.origin, one.variable] for one in settings.values],
    )
