"""Secrets on their way in or out: counted, and replaced where that was asked for."""

from collections import Counter
from collections.abc import Sequence

from satchel.model.records import Model
from satchel.screening.records import screened, scrubbed, suspects


class Screening:
    """Looks at records one by one.

    Args:
        scrub: Whether secrets are replaced by tokens; those in what identifies a record stay.
    """

    def __init__(self, *, scrub: bool = False) -> None:
        self.scrub = scrub
        self._found = Counter[str]()
        self.kept = 0
        """How many were found and stay where they are."""

    def __call__(self, draft: Model) -> Model:
        """Return a record as it is to go on."""
        if self.scrub:
            draft, findings = scrubbed(draft)
        else:
            findings = screened(draft)
        for one in findings:
            self._found[one.kind] += 1
            self.kept += one.kept or not self.scrub
        return draft

    def many(self, drafts: Sequence[Model]) -> list[Model]:
        """Return some hundred records as they are to go on."""
        looked_at = list(drafts)
        for place in suspects(drafts):
            looked_at[place] = self(drafts[place])
        return looked_at

    @property
    def found(self) -> dict[str, int]:
        """How many secrets there were of each kind."""
        return dict(sorted(self._found.items()))
