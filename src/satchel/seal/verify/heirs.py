"""Unknown signers that replace a trusted key."""

from collections.abc import Iterator, Mapping, Sequence

from satchel.seal.verify.policy import TrustPolicy
from satchel.seal.verify.verification import Signer


def notes_of_heirs(
    heirs: Mapping[str, str], signers: Sequence[Signer], policy: TrustPolicy, bank: str
) -> Iterator[str]:
    """Yield how to trust signers that replace a key that is trusted here.

    It is the log of the bank that makes a succession count, and a file is not the log: so whoever
    reads it decides.

    Args:
        heirs: Keys that the file shows a succession for, and the key that each replaced.
        signers: Those of the file.
        policy: Whose signature counts.
        bank: The bank of the file.
    """
    for signer in signers:
        old = heirs.get(signer.key)
        if old is None or not signer.valid or signer.standing != "unknown":
            continue
        if policy.standing(old, bank) in ("trusted", "retired"):
            yield (
                f"{signer.key} replaces {old}, which is trusted here. If its owner confirms that:"
                f" satchel key trust {signer.key} --replaces {old}"
            )
