"""Every byte flipped, every length cut: refused, or outside of what is signed and used."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from satchel.artifact.encodings import open_artifact
from satchel.artifact.verification import TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_file
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.errors import SatchelError

NAMES = ["pam.jsonl", "pam", "pam.cbor", "pam.jsonl.gz"]
DEPTHS = [pytest.param(False, id="trusted"), pytest.param(True, id="deep")]


def good(path: Path, data: bytes, policy: TrustPolicy, *, deep: bool) -> bool:
    """Tell whether these bytes verify as good; an error of our tree counts as no."""
    path.write_bytes(data)
    try:
        return bool(verify_file(path, policy, VerificationRequest(deep=deep)))
    except SatchelError:
        return False


def contents(path: Path, data: bytes) -> tuple[object, ...]:
    """Return everything that a reader would use of a file."""
    path.write_bytes(data)
    with open_artifact(path, DEFAULT_LIMITS) as found:
        body = b"".join(found.body.chunks())
        return found.statement_value, found.signatures, body


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("deep", DEPTHS)
def test_the_sample_itself_is_good(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, *, deep: bool
) -> None:
    """Without this, the tests below would prove nothing."""
    assert good(scratch, samples[name], trusting, deep=deep)


def judge(
    path: Path, original: bytes, changed: Iterable[bytes], policy: TrustPolicy, *, deep: bool
) -> None:
    """Require of every changed file: not good, or the same to every reader."""
    signed = contents(path, original)
    for data in changed:
        if good(path, data, policy, deep=deep):
            assert contents(path, data) == signed, data


def flips(data: bytes, seed: int) -> Iterable[bytes]:
    """Yield the data with each byte changed once, in a way that the seed chooses."""
    choose = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for place, byte in enumerate(data):
        masks = [1 << bit for bit in range(8)] + [byte, byte ^ 0xFF, byte ^ 0x20, byte ^ 0x7F]
        mask = choose.choice([mask for mask in masks if mask])
        yield data[:place] + bytes([byte ^ mask]) + data[place + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_refused_or_outside_of_what_is_signed(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Each byte changed once, a trusted signer or not: what is used is what was signed."""
    judge(scratch, samples[name], flips(samples[name], 1), trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_does_not_break_deep_verification(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """The deep look sees what the quick look sees, and raises nothing of its own."""
    changed = list(flips(samples[name], 2))[::8]
    judge(scratch, samples[name], changed, trusting, deep=True)


@pytest.mark.prove
@pytest.mark.parametrize("deep", DEPTHS)
@pytest.mark.parametrize("name", NAMES)
def test_two_dozen_values_of_every_byte_are_refused_or_outside_of_what_is_signed(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, *, deep: bool
) -> None:
    """The same as above, with more patience."""
    for seed in range(24):
        judge(scratch, samples[name], flips(samples[name], seed), trusting, deep=deep)


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_file_is_refused_at_every_length(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Only space after a document can be missing without anybody noticing."""
    data = samples[name]
    judge(scratch, data, (data[:end] for end in range(len(data))), trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [b"\0", b"x", b"{}", b"[]\n", b"\x1f\x8b", b"\xf6"], ids=repr)
def test_bytes_after_the_end_are_refused(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, more: bytes
) -> None:
    """A file ends where its statement says it does."""
    assert not good(scratch, samples[name] + more, trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_repeated_or_missing_stretch_is_refused(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Stretches of any length doubled, dropped or moved."""
    data, choose = samples[name], random.Random(3)  # noqa: S311 - repeatable, not secret
    changed = []
    for _ in range(200):
        start, end, to = sorted(choose.sample(range(len(data) + 1), 3))
        changed += [
            data[:end] + data[start:],
            data[:start] + data[end:],
            data[:start] + data[end:to] + data[start:end] + data[to:],
        ]
    judge(scratch, data, changed, trusting, deep=False)
