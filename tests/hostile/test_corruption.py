"""Flipped bytes and truncated files: refused, or outside of the signed and used content."""

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


def is_good(path: Path, data: bytes, policy: TrustPolicy, *, deep: bool) -> bool:
    """Return whether these bytes verify as good; a ``SatchelError`` counts as no."""
    path.write_bytes(data)
    try:
        return bool(verify_file(path, policy, VerificationRequest(deep=deep)))
    except SatchelError:
        return False


def contents(path: Path, data: bytes) -> tuple[object, ...]:
    """Return everything that a reader uses of a file."""
    path.write_bytes(data)
    with open_artifact(path, DEFAULT_LIMITS) as found:
        body = b"".join(found.body.chunks())
        return found.statement_value, found.signatures, body


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("deep", DEPTHS)
def test_the_unchanged_sample_is_good(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, *, deep: bool
) -> None:
    """Otherwise the tests below would prove nothing."""
    assert is_good(scratch, samples[name], trusting, deep=deep)


def assert_detected(
    path: Path, original: bytes, changed: Iterable[bytes], policy: TrustPolicy, *, deep: bool
) -> None:
    """Assert for each changed file: not good, or the same content."""
    signed = contents(path, original)
    for data in changed:
        if is_good(path, data, policy, deep=deep):
            assert contents(path, data) == signed, data


def flips(data: bytes, seed: int) -> Iterable[bytes]:
    """Yield the data with each byte changed once, as the seed determines."""
    choose = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for place, byte in enumerate(data):
        masks = [1 << bit for bit in range(8)] + [byte, byte ^ 0xFF, byte ^ 0x20, byte ^ 0x7F]
        mask = choose.choice([mask for mask in masks if mask])
        yield data[:place] + bytes([byte ^ mask]) + data[place + 1 :]


@pytest.mark.in_check(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_refused_or_outside_the_signed_content(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Each byte changed once."""
    assert_detected(scratch, samples[name], flips(samples[name], 1), trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_does_not_break_deep_verification(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """It detects what the quick one detects, and raises no other error."""
    changed = list(flips(samples[name], 2))[::8]
    assert_detected(scratch, samples[name], changed, trusting, deep=True)


@pytest.mark.prove
@pytest.mark.parametrize("deep", DEPTHS)
@pytest.mark.parametrize("name", NAMES)
def test_24_values_of_every_byte_are_refused_or_outside_the_signed_content(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, *, deep: bool
) -> None:
    """The same with more values."""
    for seed in range(24):
        assert_detected(scratch, samples[name], flips(samples[name], seed), trusting, deep=deep)


@pytest.mark.in_check(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_file_is_refused_at_every_length(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Only white space after a document can be missing."""
    data = samples[name]
    assert_detected(scratch, data, (data[:end] for end in range(len(data))), trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [b"\0", b"x", b"{}", b"[]\n", b"\x1f\x8b", b"\xf6"], ids=repr)
def test_bytes_after_the_end_are_refused(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str, more: bytes
) -> None:
    """A file ends where its statement ends."""
    assert not is_good(scratch, samples[name] + more, trusting, deep=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_repeated_missing_or_moved_part_is_refused(
    samples: dict[str, bytes], scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Parts of any length."""
    data, choose = samples[name], random.Random(3)  # noqa: S311 - repeatable, not secret
    changed = []
    for _ in range(200):
        start, end, to = sorted(choose.sample(range(len(data) + 1), 3))
        changed += [
            data[:end] + data[start:],
            data[:start] + data[end:],
            data[:start] + data[end:to] + data[start:end] + data[to:],
        ]
    assert_detected(scratch, data, changed, trusting, deep=False)
