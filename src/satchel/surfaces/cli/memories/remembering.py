"""``satchel init`` and ``satchel remember``."""

from typing import Annotated

import typer

from satchel.actions import starting
from satchel.actions.memories.remembering import remember
from satchel.surfaces.cli._console import count, facts, line, message, print_json, short, state
from satchel.surfaces.cli._options import (
    InBank,
    Json,
    Owner,
    Scrub,
    owner_key,
    tell_secrets,
)
from satchel.surfaces.cli.memories import _members as say

Name = Annotated[str | None, typer.Argument(help="Of the bank; `default` when there is none yet.")]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Your own name for it: said again, it replaces what it named."),
]


Speaker = Annotated[
    str | None,
    typer.Option("--actor", help="Who says it: with --run the speaker; else for the history."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("init")(init_command)
    app.command("remember")(remember_command)


def init_command(name: Name = None, key: Owner = None, as_json: Json = False) -> None:
    """Make what is needed to begin: a home, your key, a store and a bank. Safe to repeat.

    Example: `satchel init assistant`
    """
    done = starting.initialise(state.settings, name, lambda: owner_key(key))
    if as_json:
        print_json(done)
        return
    bank = done.name or done.bank or f"{count(done.banks, 'bank')}: satchel banks list"
    facts([("home", done.home), ("store", done.store), ("bank", bank)])
    if "bank" in done.made:
        message("Keep a copy of your key in another place: satchel keys export --secret")
        message('Then: satchel remember "..."')
    elif not done.made:
        message("It was all there already.")


def remember_command(
    text: say.Text = None,
    file: say.File = None,
    record: say.RecordFile = None,
    data: say.Data = None,
    component: say.Component = None,
    tag: say.Tags = None,
    parent: say.Parents = None,
    key: Key = None,
    kind: say.Kind = None,
    metadata: say.Metadata = None,
    user: say.User = None,
    agent: say.Agent = None,
    run: say.RunOf = None,
    app: say.App = None,
    occurred_at: say.Occurred = None,
    valid_from: say.ValidFrom = None,
    valid_until: say.ValidUntil = None,
    expires_at: say.Expires = None,
    salience: say.Salience = None,
    actor: Speaker = None,
    scrub: Scrub = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Keep a memory. On a new machine, that makes a key, a store and a bank as well.

    Prints its id. With --key, what was remembered under the same key before (for the same owner
    and kind) becomes an older version of it.

    Example: `satchel remember "Ada takes her tea without sugar" --tag tea --user ada`
    """
    members = say.members_of(
        text,
        file,
        record,
        {
            "data": data,
            "type": component,
            "tags": tag,
            "kind": kind,
            "metadata": metadata,
            "user": user,
            "agent": agent,
            "run": run,
            "app": app,
            "occurred_at": occurred_at,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "expires_at": expires_at,
            "salience": salience,
        },
    )
    settings = state.settings
    with starting.opened_to_fill(settings, bank, lambda: owner_key(None), _told) as there:
        done = remember(
            there,
            members,
            key=key,
            parents=parent or (),
            actor=actor,
            scrub_secrets=scrub,
        )
        name = there.name or there.id
    if as_json:
        print_json(done)
        return
    line(done.id)
    tell_secrets(done.secrets, done.secrets_kept)
    if done.flagged:
        message(
            f"it reads like a prompt ({'; '.join(done.flagged)}), so it is withheld from what a"
            f" model is given: satchel quarantine release {short(done.id)}"
        )
    if not done.is_new:
        message(f"{name} has this already")
    elif done.replaces is not None:
        message(f"in {name}, in place of {done.replaces}")
    else:
        message(f"in {name}")


def _told(done: starting.Started) -> None:
    message(f"made the bank {done.name!r} in {done.store}")
