"""What a bank shares with others, from Python."""

from satchel.actions.importing.imported import Owners
from satchel.actions.moving import disclosing
from satchel.actions.opened import OpenBank
from satchel.api.lifetime import Lifetime
from satchel.api.operations import method
from satchel.api.sharing.owning import Owners as OwnersOf
from satchel.api.sharing.tokens import Tokens


class Sharing:
    """A bank as its memory is shared: in part, and with proofs."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime, owner: Owners) -> None:
        self._opened = opened
        self._lifetime = lifetime
        self._owner = owner

    @property
    def tokens(self) -> Tokens:
        """Its capability tokens: what others may do with which part of it."""
        return Tokens(self._opened, self._lifetime, self._owner)

    @property
    def owners(self) -> OwnersOf:
        """Who owns it, and how many of them have to sign what is decided about it."""
        return OwnersOf(self._opened, self._lifetime)

    disclose = method(disclosing.disclose)
