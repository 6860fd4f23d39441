"""Secrets on their way in or out: counted, and replaced where that was asked for."""

from collections import Counter

from satchel.memory.records import Model
from satchel.screen.records import screened, scrubbed


class Screening:
    """Looks at records one by one.

    Args:
        scrub: Whether secrets are replaced by tokens; those in what identifies a record stay.
    """

    def __init__(self, *, scrub: bool = False) -> None:
        self._scrub = scrub
        self._found = Counter[str]()
        self.kept = 0
        """How many were found and stay where they are."""

    def __call__(self, draft: Model) -> Model:
        """Return a record as it is to go on."""
        if self._scrub:
            draft, findings = scrubbed(draft)
        else:
            findings = screened(draft)
        for one in findings:
            self._found[one.kind] += 1
            self.kept += one.kept or not self._scrub
        return draft

    @property
    def found(self) -> dict[str, int]:
        """How many secrets there were of each kind."""
        return dict(sorted(self._found.items()))
