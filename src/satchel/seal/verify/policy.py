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

    def name(self, key: str) -> str | None:
        """Return the name a key has in the registry."""
        known = self.registry.find(key) if self.registry else None
        return None if known is None else known.name
