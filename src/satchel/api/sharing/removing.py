"""What has to go from a bank, from Python: memories for good, and personal data in them."""

from satchel.actions.access import everything
from satchel.actions.erasing import erasing, recovering, redacting
from satchel.actions.upkeep import pruning
from satchel.api.operations import method


class Removing:
    """What a bank lets go of."""

    erase = method(erasing.erase)
    redact = method(redacting.redact)
    recover = method(recovering.recover)
    prune = method(pruning.prune_memories)
    everything = method(everything.report_everything)
