"""The look for erased bytes goes into packed and encrypted files, or says that it could not."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from bank_kit import keep

from satchel.bank.machine_keys import create_identity, lock_for
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import Limits
from satchel.crypto.encryption import Lock, Unlocker, encrypt, new_identity
from satchel.erasure.erase import ErasureResult, erase
from satchel.erasure.fragments import NestedFileScanner
from satchel.erasure.selection import EraseOptions, conditions_of
from satchel.ports.store import Extent

pytestmark = pytest.mark.usefixtures("private_umask")

ADA = "Ada Lovelace keeps bees on the roof of the observatory"


def _gone(bank: OpenBank) -> ErasureResult:
    return erase.run(bank, EraseOptions(where=conditions_of(["user=ada"]), scan=True))


def _aged(data: bytes, lock: Lock) -> bytes:
    sink = io.BytesIO()
    encrypt(io.BytesIO(data), sink, lock)
    return sink.getvalue()


def _zipped(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", data)
    return sink.getvalue()


def test_what_is_packed_or_encrypted_for_this_machine_is_looked_into(bank: OpenBank) -> None:
    """Each alone, and one in the other; a remnant is told with where it is, and status 1."""
    keep(bank, ADA, scope={"user": "ada"})
    settings = load_settings()
    create_identity(settings, "here")
    lock, folder, data = lock_for(settings, ["here"]), settings.home / "kept", ADA.encode()
    folder.mkdir()
    (folder / "one.gz").write_bytes(gzip.compress(b"x" * 100) + gzip.compress(data))
    (folder / "two.zip").write_bytes(_zipped(data))
    (folder / "three.age").write_bytes(_aged(data, lock))
    (folder / "four.gz.age").write_bytes(_aged(gzip.compress(data), lock))
    (folder / "clean.gz").write_bytes(gzip.compress(b"nothing of that sort" * 10))
    done = _gone(bank)
    found = {Path(one.name).name for one in done.scanned if one.found}
    assert found == {
        "one.gz (gzip)",
        "two.zip (member 0)",
        "three.age (age)",
        "four.gz.age (age) (gzip)",
    }
    assert done.exit_status == 1
    assert not [name for name in done.unreached if "inside" in name]


def test_what_cannot_be_looked_into_is_named_as_not_reached(bank: OpenBank) -> None:
    """Encrypted for others, of a kind that nothing here unpacks, cut: never passed for clean."""
    keep(bank, ADA, scope={"user": "ada"})
    folder = load_settings().home / "kept"
    folder.mkdir()
    other = Lock(recipients=(new_identity()[1],), passphrase=None)
    (folder / "theirs.age").write_bytes(_aged(ADA.encode(), other))
    (folder / "some.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 40)
    (folder / "bad.gz").write_bytes(b"\x1f\x8b" + b"\xff" * 40)
    (folder / "bad.zip").write_bytes(_zipped(ADA.encode())[:-20])
    done = _gone(bank)
    for name in ("theirs.age", "some.zst", "bad.gz", "bad.zip"):
        assert any(f"contents of {folder / name}: " in one for one in done.unreached), name
    assert done.exit_status == 0


@pytest.mark.parametrize("packed", [gzip.compress, _zipped], ids=["gzip", "zip"])
def test_a_decompression_bomb_costs_no_more_than_its_bound(packed: object) -> None:
    """What expands without end is left, and named."""
    bomb = packed(b"\0" * 3_000_000)  # type: ignore[operator]  # either of the two
    inside = NestedFileScanner(Unlocker(), Limits(expansion=10, expansion_free_bytes=100_000))
    assert list(inside.within(Extent("bomb", lambda: iter([bomb])))) == []
    assert "expands to more than 10 times" in inside.closed[0]


def test_what_is_packed_again_and_again_is_left_after_some_times() -> None:
    """A file that unpacks to itself would never end."""
    data = ADA.encode()
    for _ in range(5):
        data = gzip.compress(data)
    inside = NestedFileScanner(Unlocker())
    assert len(list(inside.within(Extent("deep", lambda: iter([data]))))) == 3
    assert "too many archives" in inside.closed[0]
