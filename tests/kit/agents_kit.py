"""Banks of agents in an open store."""

from bank_kit import owner

from satchel.bank.banks import create_bank_in
from satchel.bank.open_bank import OpenBank, open_bank_in
from satchel.config.settings import load_settings
from satchel.ports.store import Store


def bank_of(store: Store, agent: str) -> OpenBank:
    """Create and open the bank of an agent."""
    settings = load_settings()
    create_bank_in(settings, store, agent, owner())
    return open_bank_in(settings, store, agent, writes=True)
