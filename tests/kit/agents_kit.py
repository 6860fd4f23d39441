"""Banks of agents in a store that is open."""

from bank_kit import owner

from satchel.bank.banks import create_bank_in
from satchel.bank.open_bank import OpenBank, open_bank_in
from satchel.config.settings import load_settings
from satchel.ports.store import Store


def bank_of(store: Store, agent: str) -> OpenBank:
    """Start the bank of an agent."""
    settings = load_settings()
    create_bank_in(settings, store, agent, owner())
    return open_bank_in(settings, store, agent, writes=True)
