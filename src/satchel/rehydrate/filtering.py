"""Stage 2, filter: what the presented token does not cover is not there.

The view does it on proved bytes, before anything else reads (docs/spec/6-keys-and-tokens.md); this
says so, and what else was asked to be left out.
"""

from satchel.ledger.view import View
from satchel.ports.rows import Filter
from satchel.rehydrate.asked import Around, Asked
from satchel.rehydrate.rehydrated import Stage


def wanted(asked: Asked) -> Filter:
    """Return what columns tell of what is wanted."""
    return Filter(
        types=asked.components, user=asked.user, agent=asked.agent, run=asked.run, app=asked.app
    )


def filtered(view: View, asked: Asked, around: Around, before: Stage) -> Stage:
    """Return what was left out before anything was read."""
    covered = around.allowed or ("all of the bank" if view.is_whole else "a part of the bank")
    told = [f"open: {covered}"]
    told += [
        f"{name} {getattr(asked, name)}"
        for name in ("user", "agent", "run", "app", "trust")
        if getattr(asked, name) is not None
    ]
    return Stage(name="filter", detail="; ".join(told), entries=before.entries)
