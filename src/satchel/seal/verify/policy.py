"""Whose signature is enough: a value that the caller makes."""

from dataclasses import dataclass, field

from satchel.seal.signing.trust import Profile, SeenRecord, TrustRegistry
from satchel.seal.verify.verification import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Which keys count, and how many are needed."""

    registry: TrustRegistry | None = None
    """The keys this machine believes; None believes no key but ``keys``."""

    keys: frozenset[str] = field(default_factory=frozenset)
    """Further keys to believe this once, as did:key."""

    seen: SeenRecord | None = None
    """What verified before; None remembers nothing."""

    remembers: bool = True
    """Whether what verifies now is added to it; else it is only compared with."""

    threshold: int = 1
    """How many distinct trusted keys must have signed."""

    def standing(self, key: str, bank: str | None, profile: Profile = "satchel") -> Standing:
        """Return what a key is worth for files of a bank (None: made without one)."""
        known = self.registry.find(key) if self.registry else None
        if known is not None and known.state == "revoked":
            return "revoked"
        if key in self.keys:
            return "trusted"
        if known is None or known.profile != profile:
            return "unknown"
        if known.role != "owner":
            return "other role"
        if known.banks and bank not in known.banks:
            return "other bank"
        return known.state

    def adopts(self, key: str, bank: str | None) -> bool:
        """Tell whether a key is believed as the one that took over this very bank."""
        known = self.registry.find(key) if self.registry else None
        if known is not None and known.state == "revoked":
            return False
        return key in self.keys or (known is not None and (known.own or bank in known.banks))

    def name(self, key: str) -> str | None:
        """Return the name a key has in the registry."""
        known = self.registry.find(key) if self.registry else None
        return None if known is None else known.name
