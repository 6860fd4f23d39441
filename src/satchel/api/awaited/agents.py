"""``satchel.Agents`` for programs that await."""

from satchel.api import agents as plain
from satchel.api.operations import Awaited


class Agents(plain.Agents, Awaited):
    """As ``satchel.Agents``, awaited."""
