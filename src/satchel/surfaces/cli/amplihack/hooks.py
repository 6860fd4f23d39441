"""``satchel hook``: what agent hosts run at the start and at the end of a session."""

import sys
from typing import Annotated

from satchel.actions.amplihack.context import BUDGET
from satchel.actions.amplihack.hosting import (
    LONGEST_REQUEST,
    Asked,
    asked_from,
    host_answer,
    start_session,
    stop_session,
)
from satchel.actions.amplihack.roles import GENERAL
from satchel.surfaces.cli._console import count, message, print_json
from satchel.surfaces.cli._options import Json, owner_key, tell_secrets
from satchel.surfaces.cli._tree import Group, Option
from satchel.surfaces.cli.amplihack._backend import Backend, settings_of

hook = Group(help="What agent hosts run; JSON on stdin.")

Agent = Annotated[
    str, Option("--agent", help="Whose memory it is: a bank of that name, made when needed.")
]


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(hook, name="hook")


@hook.command("session-start")
def start_command(
    agent: Agent = GENERAL,
    budget: Annotated[
        int, Option("--budget", minimum=1, help="Tokens that the memories may take.")
    ] = BUDGET,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Give a new session what the agent learned in all earlier ones, as hosts take it.

    With --json the memories themselves. Nothing is written.

    Example: `echo '{"session_id": "s2"}' | satchel hook session-start --agent builder`
    """
    asked = _asked()
    found = start_session(settings_of(backend), asked, agent, budget=budget)
    print_json(found if as_json else host_answer("SessionStart", found.context, asked))


@hook.command("session-stop")
def stop_command(
    agent: Agent = GENERAL,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Store what a session taught: the whole transcript counts, secrets in it are replaced.

    What the agent knows already is not stored again. The transcript has to be below the home
    directory, the session's own folder, or where SATCHEL_PORTABILITY_ROOTS says.

    Example: `echo '{"session_id": "s1", "output": "Redis needs 4 GB"}' | satchel hook session-stop`
    """
    asked = _asked()
    done = stop_session(settings_of(backend), asked, agent, lambda: owner_key(None))
    print_json(done if as_json else host_answer("Stop", "", asked))
    if not as_json:
        message(f"stored {count(len(done.stored), 'learning')}, {done.known:,} known already")
        if done.passed_over:
            message(f"{count(done.passed_over, 'line')} of the transcript could not be read")
        tell_secrets(done.secrets, 0)


def _asked() -> Asked:
    return asked_from(sys.stdin.buffer.read(LONGEST_REQUEST + 1))
