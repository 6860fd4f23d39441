"""What ``doctor`` says of agents that have a store of their own."""

from satchel.amplihack.agents import agents_apart, is_in_common
from satchel.bank.checks import Check
from satchel.bank.connections import shown_address
from satchel.config.settings import Settings
from satchel.config.store_selection import own_path, own_stores
from satchel.errors import SatchelError


def check_agents(settings: Settings) -> list[Check]:
    """Say where agents are that have a store of their own, and which have memory twice."""
    try:
        return [_agent(settings, name) for name in agents_apart(settings)]
    except SatchelError as error:
        hint = error.hint or error.place
        return [Check(name="agents", state="problem", detail=error.message, hint=hint)]


def _agent(settings: Settings, agent: str) -> Check:
    kinds = own_stores(settings.home, agent)
    places = [f"{kind}: {own_path(settings.home, agent, kind)}" for kind in kinds]
    if is_in_common(settings, agent):
        places.append(f"the bank {agent} in {shown_address(settings.store)}")
    if len(places) == 1:
        return Check(name=f"agent {agent}", state="ok", detail=places[0])
    hint = f"Commands use the first. Export the others with --store and import them: {agent}."
    return Check(name=f"agent {agent}", state="note", detail="; ".join(places), hint=hint)
