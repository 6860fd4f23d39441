"""What has to go from a bank, from Python: memories for good, and personal data in them."""

from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method

if TYPE_CHECKING:
    from satchel.actions.access import everything
    from satchel.actions.erasing import erasing, recovering, redacting
    from satchel.actions.upkeep import pruning
else:
    everything = lazy("satchel.actions.access.everything")
    erasing = lazy("satchel.actions.erasing.erasing")
    recovering = lazy("satchel.actions.erasing.recovering")
    redacting = lazy("satchel.actions.erasing.redacting")
    pruning = lazy("satchel.actions.upkeep.pruning")


class Removing:
    """What a bank lets go of."""

    erase = method(erasing.erase)
    redact = method(redacting.redact)
    recover = method(recovering.recover)
    prune = method(pruning.prune_memories)
    everything = method(everything.report_everything)
