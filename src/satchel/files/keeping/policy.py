"""What a store lets happen: kept in the store, so no second opener is without it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from satchel.files.keeping.manifest import Rows
from satchel.files.paths import Prefixes


@dataclass(frozen=True)
class Policy:
    """The rules of a store."""

    read_only: Prefixes
    audit: bool
    keep_versions: bool

    @classmethod
    def of(
        cls, read_only_prefixes: Iterable[str] | str, *, audit: bool, keep_versions: bool
    ) -> "Policy":
        """Return the rules that somebody says.

        Raises:
            MemoryStoreError: If a prefix is no path.
        """
        return cls(Prefixes(read_only_prefixes), bool(audit), bool(keep_versions))

    @classmethod
    def read(cls, rows: Rows) -> "Policy | None":
        """Return the rules that a store has; None where it has none yet."""
        prefixes = rows.fact("policy_read_only")
        if prefixes is None:
            return None
        return cls(
            Prefixes(json.loads(prefixes)),
            bool(rows.fact("policy_audit", 1)),
            bool(rows.fact("policy_versions", 0)),
        )

    def encoded(self) -> str:
        """Return the rules as one text; equal rules have equal texts."""
        return json.dumps([sorted(self.read_only.paths), self.audit, self.keep_versions])

    def write(self, rows: Rows) -> None:
        """Give a store these rules."""
        rows.state("policy_read_only", json.dumps(list(self.read_only.paths)))
        rows.state("policy_audit", int(self.audit))
        rows.state("policy_versions", int(self.keep_versions))

    def and_also(self, prefixes: Prefixes) -> "Policy":
        """Return these rules with more that is read-only; nothing is taken away."""
        both = Prefixes((*self.read_only.paths, *prefixes.paths))
        return Policy(both, self.audit, self.keep_versions)
