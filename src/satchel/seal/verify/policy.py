"""Which signatures are trusted: a value that the caller makes."""

from dataclasses import dataclass, field

from satchel.seal.signing.trust import Profile, SeenRecord, TrustRegistry
from satchel.seal.verify.verification import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Which keys count, and how many are needed."""

    registry: TrustRegistry | None = None
    """The keys that this machine trusts; None trusts no key but ``keys``."""

    keys: frozenset[str] = field(default_factory=frozenset)
    """Further keys to trust for this call, as did:key."""

    seen: SeenRecord | None = None
    """Earlier verifications; None records nothing."""

    remembers: bool = True
    """Whether this verification is recorded; otherwise it is only compared."""

    threshold: int = 1
    """How many distinct trusted keys must have signed."""

    def standing(self, key: str, bank: str | None, profile: Profile = "satchel") -> Standing:
        """Return how far a key is trusted for files of a bank; None is a file without one."""
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
        """Return whether a key is trusted as the adopter of this bank."""
        known = self.registry.find(key) if self.registry else None
        if known is not None and known.state == "revoked":
            return False
        return key in self.keys or (known is not None and (known.own or bank in known.banks))

    def name(self, key: str) -> str | None:
        """Return the name a key has in the registry."""
        known = self.registry.find(key) if self.registry else None
        return None if known is None else known.name
