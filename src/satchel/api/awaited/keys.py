"""``satchel.Keys`` for programs that await."""

from satchel.api.operations import Awaited
from satchel.api.upkeep import keys as plain


class Keys(plain.Keys, Awaited):
    """As ``satchel.Keys``, awaited."""
