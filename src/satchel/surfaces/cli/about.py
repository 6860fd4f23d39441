"""``formats``, ``doctor`` and ``config``: what is here and how it is set up."""

from typing import Annotated, Literal

import msgspec
from rich.text import Text

from satchel.actions.diagnosing import diagnose
from satchel.errors import UsageError
from satchel.ports.registry import formats
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
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group, Option

_PROBLEM = 1
_STYLE = {"ok": "green", "note": "yellow", "problem": "bold red"}

config = Group(help="Settings, and where each comes from.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("formats")(formats_command)
    app.command("completion")(completion_command)
    app.command("doctor")(doctor_command)
    app.add(config, name="config")


def formats_command(
    name: Annotated[str | None, Argument(help="One format, in full.")] = None,
    long: Annotated[
        bool, Option("--long", help="All of them in full: versions, what each cannot hold.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the formats that can be read and written.

    A format streams if its first memory is there before the last byte was read, and is lossless if
    it holds all that a memory has. It was compared with what others write on the day that is shown.

    Example: `satchel formats mem0`
    """
    chosen = [name] if name else list(formats)
    if as_json:
        print_json([{"name": each, **_info(each)} for each in chosen])
    elif name or long:
        for each in chosen:
            line(f"{each}: {formats[each].info.title}")
            facts(
                (label.replace("_", " "), value if isinstance(value, str) else _plain(value))
                for label, value in _info(each).items()
                if value not in ("", [], None)
            )
    else:
        table(
            ["name", "", "streams", "lossless", "compared", "what it is"],
            [[each, *_row(each)] for each in formats],
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


def _row(name: str) -> list[object]:
    info = formats[name].info
    lossless = info.traits.writes and not info.lost_on_writing
    return [
        "read, write" if info.traits.writes else "read",
        "yes" if info.traits.streams else "",
        "yes" if lossless else "",
        info.checked,
        info.title,
    ]


def _info(name: str) -> dict[str, object]:
    info = msgspec.to_builtins(formats[name].info)
    traits = info.pop("traits")
    traits["components"] = sorted(traits["components"])
    return {**info, **traits}


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def doctor_command(
    deep: Annotated[
        bool,
        Option("--deep", help="Look for everything that is wrong, and at each word of the index."),
    ] = False,
    fix: Annotated[
        bool,
        Option(
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
