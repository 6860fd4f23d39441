"""Disclosure of single memories of a bank, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method

if TYPE_CHECKING:
    from satchel.actions.operating import disclosures
else:
    disclosures = lazy("satchel.actions.operating.disclosures")


class Disclosing:
    """A bank as single memories of it are disclosed, with proofs."""

    disclose = method(disclosures.disclose)
