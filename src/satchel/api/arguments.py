"""The optional arguments of the Python API."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from satchel.seal.artifact.body import Progress


class VerifyArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.verify``."""

    deep: bool
    """Look at every record even when a trusted signer vouches for the whole."""

    require_fresh: bool
    """Count an older copy as a failure."""

    entry: str | None
    """Follow this entry's chain back to the roots."""

    keys: tuple[str, ...]
    """Keys to believe this once: did:key, hex, or files."""

    threshold: int | None
    """How many distinct trusted keys must have signed."""

    on_progress: Progress | None
    """Called with bytes done and bytes there are."""


class ConvertArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.convert``."""

    from_: str | None
    """Format of the input, when it is not to be recognised."""

    to: str | None
    """Format of the output, when its name does not say it."""

    profile: Literal["pam-sdk-1.0"] | None
    key_name: str | None
    """The signing key; the default one, made on first use, when not given."""

    passphrase: str | None
    sign: bool
    """False leaves a new artifact unsigned."""

    overwrite: bool
    fail_on_loss: bool
    """Write nothing when something would be lost."""

    unsafe_accept: Sequence[Literal["unsigned", "stranger", "entries-only", "incomplete"]]
    """Verdicts on a sealed input that are put up with."""

    trusted_keys: Sequence[str]
    on_progress: Progress | None
    """Called with bytes done and bytes there are, from the start again for each pass."""
