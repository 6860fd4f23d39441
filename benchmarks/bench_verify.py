"""The time of a verification, against the least that any verification needs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from benchmarks import data
from benchmarks.measure import Table, best_of, report, slowness
from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_artifact

CHUNK = 1 << 20
TRUSTING = TrustPolicy(keys=frozenset([data.KEY.did]))


def test_a_trusted_file_is_verified_at_the_speed_of_hashing(tmp_path: Path) -> None:
    """The signature covers the whole file, so no record is parsed."""
    _trusted(tmp_path, count=300, rounds=1)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_trusted_file_of_200_mb_is_verified_within_3_times_reading_and_hashing(
    tmp_path: Path,
) -> None:
    """One pass, no parsing: 3 is the bound, 1 is the minimum."""
    assert _trusted(tmp_path, count=0, size=200_000_000) <= 3


def test_a_deep_verification_checks_every_record(tmp_path: Path) -> None:
    """IDs, shape, root and provenance of each."""
    _deep(tmp_path, count=300, rounds=1)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_deep_verification_takes_at_most_twice_the_minimum(tmp_path: Path) -> None:
    """Or 100,000 entries per second. The minimum: decode each line, encode it sorted, hash it."""
    ratio, rate = _deep(tmp_path, count=100_000)
    assert ratio <= 2 or rate * slowness() >= 100_000


def _trusted(folder: Path, count: int, size: int = 0, rounds: int = 5) -> float:
    file = folder / "memory.pam.jsonl"
    count = count or _entries_for(folder, size)
    data.write_artifact_of(file, data.sealed(data.entries(count)))
    assert file.stat().st_size >= size
    best = best_of({"hash": lambda: _hash(file), "verify": _verify(file, deep=False)}, rounds)
    ratio = best["verify"] / best["hash"]
    report(
        "trusted",
        Table(
            "Trusted verify of a .pam.jsonl",
            ["bytes", "entries", "times reading and hashing", "bound"],
            [[file.stat().st_size, count, ratio, 3]],
        ),
    )
    return ratio


def _entries_for(folder: Path, size: int) -> int:
    trial = data.write_artifact_of(folder / "trial.pam.jsonl", data.sealed(data.entries(2000)))
    return int(size / trial.stat().st_size * 2000 * 1.01)


def _deep(folder: Path, count: int, rounds: int = 5) -> tuple[float, float]:
    """Return the worst ratio found, and the rate that goes with it."""
    measured: dict[str, tuple[int, float, float]] = {}
    for name, drafts in (
        ("plain entries", data.entries(count)),
        ("imported entries, with scope and origin", map(data.as_imported, data.entries(count))),
    ):
        file = data.write_artifact_of(folder / "memory.pam.jsonl", data.sealed(drafts))
        work: dict[str, Callable[[], object]] = {
            "least": partial(_minimum, file),
            "deep": _verify(file, deep=True),
        }
        best = best_of(work, rounds)
        ratio, rate = best["deep"] / best["least"], count / best["deep"]
        measured[name] = (file.stat().st_size // count, ratio, rate)
        file.unlink()
    report(
        "deep",
        Table(
            "Deep verify",
            ["lines", "bytes each", "times decode, encode, hash", "entries a second"],
            [[name, size, ratio, int(rate)] for name, (size, ratio, rate) in measured.items()],
            "Bound: at most 2 times, or at least 100,000 entries a second on the reference"
            " machine. All cores against one.",
        ),
    )
    _, ratio, rate = max(measured.values(), key=lambda row: row[1])
    return ratio, rate


def _verify(file: Path, *, deep: bool) -> Callable[[], object]:
    def verify() -> None:
        found = verify_artifact(file, TRUSTING, VerificationRequest(deep=deep))
        assert found.outcome is Outcome.GOOD, found

    return verify


def _hash(file: Path) -> str:
    digest = blake3(max_threads=1)
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _minimum(file: Path) -> None:
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder(order="sorted").encode
    with file.open("rb") as stream:
        for line in stream:
            blake3(encode(decode(line))).hexdigest()
