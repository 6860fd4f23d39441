"""``satchel.Backups`` for programs that await."""

from satchel.api.operations import Awaited
from satchel.api.upkeep import backups as plain


class Backups(plain.Backups, Awaited):
    """As ``satchel.Backups``, awaited."""
