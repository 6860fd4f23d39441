"""The witness stores the newest head of each bank, and never goes back by itself."""

import errno
import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from heads_kit import BANK, OTHER, root_at, signed

from satchel.crypto.keys import SigningKey
from satchel.errors import MalformedError, TargetError, WitnessError
from satchel.ledger.witness import Witness, WitnessOutcome
from satchel.ledger.witness_file import COMPACT_BYTES, MAX_LINE, AcceptedRollback, format_line


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """A witness that has seen nothing."""
    return Witness(tmp_path / "state" / "witness")


def heads_file(witness: Witness, bank: str = BANK) -> Path:
    """Return the file of heads of a bank."""
    return witness.folder / f"{bank.removeprefix('blake3:')}.heads"


def newest(witness: Witness, bank: str = BANK) -> tuple[int, int] | None:
    """Return epoch and size of the newest head, as a new reader sees it."""
    found = Witness(witness.folder).last(bank)
    cached = witness.cached_last(bank)
    assert found == cached
    return None if found is None else found.place


def write_heads(witness: Witness, count: int, epoch: int = 0) -> None:
    """Write many heads into a file at once, without a sync for each."""
    witness.record(signed(1, epoch))
    with heads_file(witness).open("ab") as stream:
        stream.writelines(format_line(signed(size, epoch)) for size in range(2, count + 1))


def test_the_witness_returns_the_newest_head(witness: Witness) -> None:
    """With all that was signed, so that others can verify it."""
    assert witness.last(BANK) is None
    assert witness.cached_last(BANK) is None
    for size in (1, 2, 5):
        assert witness.record(signed(size)) is WitnessOutcome.WRITTEN
        found = witness.last(BANK)
        assert found is not None
        assert (found.head.size, found.head.root) == (size, root_at(size))
        assert found.value == signed(size)
    assert [head.place for head in witness.heads(BANK)] == [(0, 1), (0, 2), (0, 5)]


def test_each_bank_has_a_private_file_named_by_its_id(witness: Witness) -> None:
    """Never by a name, which may be a path; no other user can read or enter."""
    witness.record(signed(3))
    witness.record(signed(1, bank=OTHER))
    assert witness.banks() == [BANK, OTHER]
    assert newest(witness, OTHER) == (0, 1)
    assert witness.folder.stat().st_mode & 0o777 == 0o700
    for path in witness.folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    for name in ("../../etc/passwd", "blake3:", "blake3:" + "A" * 64, BANK + "\n", BANK[7:], ""):
        with pytest.raises(MalformedError, match="not a bank ID"):
            witness.last(name)


def test_recording_a_head_again_writes_nothing(witness: Witness) -> None:
    """A caller that does not know whether it was recorded may repeat it."""
    witness.record(signed(4))
    before = heads_file(witness).read_bytes()
    assert witness.record(signed(4)) is WitnessOutcome.COVERED
    assert witness.record(signed(4, at="2026-01-01T00:00:00.000000Z")) is WitnessOutcome.COVERED
    assert heads_file(witness).read_bytes() == before


def test_a_late_older_head_is_covered_by_the_newest(witness: Witness) -> None:
    """Two processes commit n+1 and n+2 and acknowledge in the other order."""
    for size in (1, 2, 5, 9):
        witness.record(signed(size))
    before = heads_file(witness).read_bytes()
    for late in (8, 5, 3, 1):
        assert witness.record(signed(late)) is WitnessOutcome.COVERED
    assert heads_file(witness).read_bytes() == before
    assert newest(witness) == (0, 9)


def test_a_head_is_on_disk_before_it_is_acknowledged(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's name before its first line; a line left by another process is synced again."""
    calls: list[str] = []

    def trace(name: str) -> None:
        real = getattr(os, name)

        def traced(*arguments: Any) -> Any:
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, traced)

    assert witness.banks() == []
    witness.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("pwrite", "fdatasync", "fsync"):
        trace(name)
    witness.record(signed(1))
    assert calls == ["fsync", "pwrite", "fdatasync"]
    witness.record(signed(2))
    assert calls[3:] == ["pwrite", "fdatasync"]
    witness.record(signed(2))
    assert calls[5:] == ["fdatasync"]


def test_threads_of_one_process_wait_for_each_other(witness: Witness) -> None:
    """The lock also works between threads."""
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(witness.record, [signed(size) for size in range(1, 41)]))
    wrote = [size for size, result in enumerate(results, 1) if result is WitnessOutcome.WRITTEN]
    assert [head.head.size for head in witness.heads(BANK)] == wrote
    assert wrote[-1] == 40


@pytest.mark.parametrize("size", [1, 4, 200, 400])
def test_another_head_of_the_same_size_is_a_fork(witness: Witness, size: int) -> None:
    """Also if it contradicts an older head, however far back."""
    write_heads(witness, 400)
    before = heads_file(witness).read_bytes()
    with pytest.raises(WitnessError, match="forked") as caught:
        witness.record(signed(size, branch="theirs"))
    assert caught.value.exit_status == 3
    assert "which one is yours" in (caught.value.hint or "")
    assert heads_file(witness).read_bytes() == before


def test_an_epoch_may_begin_smaller_but_never_goes_back(witness: Witness) -> None:
    """An accepted rollback is recorded under the next epoch; the last one is over."""
    witness.record(signed(10))
    assert witness.record(signed(4, 1, branch="after")) is WitnessOutcome.WRITTEN
    assert newest(witness) == (1, 4)
    for size in (10, 11, 3):
        with pytest.raises(WitnessError, match="epoch 1 was witnessed"):
            witness.record(signed(size))
    assert newest(witness) == (1, 4)


def test_only_heads_with_a_valid_signature_are_recorded(witness: Witness) -> None:
    """Nobody can record a head in the name of another key."""
    other = SigningKey.generate()
    value = signed(3)
    forged = [
        {**value, "signed": {**value["signed"], "size": 4, "counts": {"bank": 4}}},
        {**value, "signatures": [{**value["signatures"][0], "key": other.did}]},
        {**value, "signatures": []},
        {"signed": value["signed"]},
        {},
    ]
    for head in forged:
        with pytest.raises(MalformedError):
            witness.record(head)
    assert not witness.folder.exists()


def test_a_head_too_long_for_a_line_is_refused(witness: Witness) -> None:
    """A line is read from the last few kB of the file, so it must fit there."""
    counts = {f"type-{number:04}": 1 for number in range(400)}
    with pytest.raises(WitnessError, match="too long"):
        witness.record(signed(400, counts=counts))
    assert witness.banks() == []


def test_only_the_end_of_a_long_file_is_read(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file grows by a line per commit; the cost of a read must not grow."""
    write_heads(witness, 199)
    read: list[int] = []
    real = os.pread

    def counting(handle: int, count: int, place: int) -> bytes:
        read.append(count)
        return real(handle, count, place)

    monkeypatch.setattr(os, "pread", counting)
    assert newest(witness) == (0, 199)
    assert max(read) <= 2 * MAX_LINE < heads_file(witness).stat().st_size


def test_a_torn_last_line_is_ignored_and_truncated(witness: Witness) -> None:
    """Crash during an append: at each byte of it, and with zeros from the disk."""
    witness.record(signed(1))
    whole = heads_file(witness).read_bytes()
    line = format_line(signed(2))
    for cut in range(len(line) + 1):
        for zeros in {0, 1, len(line) - cut}:
            heads_file(witness).write_bytes(whole + line[:cut] + bytes(zeros))
            if zeros and cut == len(line):
                continue  # bytes after a line that was closed: no crash of ours leaves that
            there = cut >= len(line) - 1  # only its LF may be missing
            assert newest(witness) == ((0, 2) if there else (0, 1))
            assert witness.record(signed(3)) is WitnessOutcome.WRITTEN
            expected = whole + (line if there else b"") + format_line(signed(3))
            assert heads_file(witness).read_bytes() == expected


def test_a_torn_first_line_counts_as_no_head(witness: Witness) -> None:
    """Nothing was acknowledged yet, so there is nothing to protect."""
    witness.record(signed(1))
    line = heads_file(witness).read_bytes()
    for torn in (b"", line[:3], line[:200], bytes(500)):
        heads_file(witness).write_bytes(torn)
        assert newest(witness) is None
        assert witness.banks() == []
        assert witness.heads(BANK) == []
    assert witness.record(signed(1)) is WitnessOutcome.WRITTEN
    assert heads_file(witness).read_bytes() == line


@pytest.mark.in_check(3)
@pytest.mark.parametrize(
    "change",
    [
        lambda byte: byte ^ 0x01,
        lambda byte: byte ^ 0x20,
        lambda byte: byte ^ 0x80,
        lambda byte: byte ^ 0xFF,
        lambda _: 0,
        lambda _: ord("\n"),
        lambda _: ord("0"),
    ],
    ids=["bit 0", "bit 5", "bit 7", "all bits", "NUL", "LF", "digit"],
)
def test_a_flipped_byte_never_returns_an_older_head(
    witness: Witness, change: Callable[[int], int]
) -> None:
    """The newest head is read unchanged, or the read is refused."""
    witness.record(signed(1))
    witness.record(signed(2))
    path = heads_file(witness)
    whole = path.read_bytes()
    last_line = len(whole) - len(format_line(signed(2)))
    for place, byte in enumerate(whole):
        if change(byte) == byte:
            continue
        path.write_bytes(whole[:place] + bytes([change(byte)]) + whole[place + 1 :])
        found, refusal = read_fresh(witness)
        if refusal is None:
            assert found == signed(2)
        else:
            assert place >= last_line - 1, "damage to an older line does not hide the newest"
            assert refusal.file == str(path)
            assert "move the file away" in (refusal.hint or "")
            with pytest.raises(WitnessError):
                witness.record(signed(3))
            assert witness.banks() == [BANK]
        if place < last_line:
            with pytest.raises(WitnessError):
                witness.heads(BANK)


def read_fresh(witness: Witness) -> tuple[dict[str, Any] | None, WitnessError | None]:
    """Return the newest head as a new reader finds it, or the error."""
    try:
        found = Witness(witness.folder).last(BANK)
    except WitnessError as error:
        return None, error
    return None if found is None else found.value, None


def test_missing_bytes_in_the_middle_are_detected_when_they_are_read(
    witness: Witness,
) -> None:
    """A removed line does not affect the newest head; a damaged line is refused."""
    for size in (1, 2, 3):
        witness.record(signed(size))
    path, lines = heads_file(witness), [format_line(signed(size)) for size in (1, 2, 3)]
    for damaged, line in (
        (lines[0] + b"junk\n" + lines[2], 2),
        (lines[0] + b"\n" + lines[2], 2),
        (lines[1] + lines[0] + lines[2], 2),
        (lines[0] + lines[0], 2),
        (format_line(signed(1, bank=OTHER)) + lines[2], 1),
    ):
        path.write_bytes(damaged)
        with pytest.raises(WitnessError) as caught:
            witness.heads(BANK)
        assert (caught.value.file, caught.value.line) == (str(path), line)
    path.write_bytes(lines[0] + b"junk\n" + lines[2])
    with pytest.raises(WitnessError):
        witness.record(signed(2))  # whether it was another head is unknown
    assert witness.record(signed(4)) is WitnessOutcome.WRITTEN


@pytest.mark.parametrize(
    "end",
    [
        b"\n",
        b"junk",
        b"junk\n",
        b"{}\n",
        b"x" * 3 * MAX_LINE,
        bytes(3 * MAX_LINE),
        b"x" * 3 * MAX_LINE + b"\n",
        format_line(signed(5, bank=OTHER)),
        format_line({**signed(6), "signatures": signed(7)["signatures"]}),
        format_line({"signed": {}, "signatures": []}),
        format_line({}),
        format_line(signed(5))[:-1] + b"x",
        format_line(signed(5))[:-1] + b"x" * 50,
    ],
    ids=lambda end: f"{end[:8]!r} of {len(end)}",
)
def test_attack_an_end_that_no_crash_leaves_is_refused(witness: Witness, end: bytes) -> None:
    """Attack: bytes after the newest head that hide it or add another."""
    witness.record(signed(4))
    with heads_file(witness).open("ab") as stream:
        stream.write(end)
    for look in (witness.last, witness.cached_last, witness.heads):
        with pytest.raises(WitnessError):
            look(BANK)
    with pytest.raises(WitnessError):
        witness.record(signed(5))
    with pytest.raises(WitnessError):
        witness.compact(BANK)


@pytest.mark.parametrize("suffix", [".heads", ".lock", ".removed"])
@pytest.mark.parametrize("kind", ["symlink", "dangling", "hardlink", "fifo", "folder"])
def test_attack_a_link_pipe_or_folder_in_place_of_a_file_is_refused(
    witness: Witness, tmp_path: Path, kind: str, suffix: str
) -> None:
    """Attack: make the program write to, wait for, or trust another file."""
    witness.record(signed(1))
    witness.note_removed(BANK, [0])
    path = heads_file(witness).with_suffix(suffix)
    theirs = tmp_path / "theirs"
    path.rename(theirs)
    content = theirs.read_bytes()
    if kind == "symlink":
        path.symlink_to(theirs)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "hardlink":
        path.hardlink_to(theirs)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    calls: list[Callable[[], Any]] = [
        lambda: witness.note_removed(BANK, [1]),
        lambda: witness.record(signed(2)),
    ]
    if suffix == ".heads":
        calls = [calls[1], lambda: witness.last(BANK), lambda: witness.cached_last(BANK)]
    elif suffix == ".removed":
        calls = [calls[0], lambda: witness.positions(BANK)]
    for call in calls:
        with pytest.raises(WitnessError) as caught:
            call()
        assert caught.value.file == str(path)
    assert theirs.read_bytes() == content
    assert not (tmp_path / "nowhere").exists()


def test_attack_a_link_in_place_of_the_folder_is_refused(witness: Witness, tmp_path: Path) -> None:
    """Attack: a folder of older heads is shown instead of ours."""
    witness.record(signed(1))
    witness.folder.rename(tmp_path / "theirs")
    witness.folder.symlink_to(tmp_path / "theirs")
    assert not witness.available
    with pytest.raises(WitnessError, match="did not create"):
        witness.last(BANK)
    with pytest.raises(WitnessError, match="did not create"):
        witness.record(signed(2))


def test_a_missing_folder_means_no_known_heads(tmp_path: Path) -> None:
    """A fresh container has no rollback protection; `available` reports it."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "absent", tmp_path / "absent" / "deep", tmp_path / "file" / "below"):
        witness = Witness(folder)
        assert not witness.available
        assert witness.last(BANK) is witness.cached_last(BANK) is None
        assert witness.banks() == []
        assert witness.heads(BANK) == []
        assert witness.positions(BANK) == ()
        assert not witness.forget(BANK)
        witness.compact(BANK)
        assert not folder.exists()
    witness = Witness(tmp_path / "absent")
    witness.record(signed(1))
    assert witness.available


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("folder_is_there", [True, False])
def test_a_read_only_witness_is_not_an_error(
    witness: Witness, monkeypatch: pytest.MonkeyPatch, number: int, *, folder_is_there: bool
) -> None:
    """Recorded heads still count; new ones return None: unwitnessed."""
    if folder_is_there:
        witness.record(signed(2))
        witness.note_removed(BANK, [1])
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *arguments, **options)

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "access", lambda *_: False)
    if not folder_is_there:
        monkeypatch.setattr(os, "mkdir", refused)
        monkeypatch.setattr(Path, "mkdir", refused)
    assert not witness.available
    assert witness.record(signed(3)) is None
    assert witness.note_removed(BANK, [2]) is False
    if folder_is_there:
        assert newest(witness) == (0, 2)
        assert witness.record(signed(2)) is WitnessOutcome.COVERED
        with pytest.raises(WitnessError, match="forked"):
            witness.record(signed(2, branch="theirs"))
        assert witness.positions(BANK) == (1,)


def test_attack_an_unreadable_file_is_not_treated_as_missing(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: removing the permission must not remove the protection."""
    witness.record(signed(2))
    real = os.open

    def closed(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".heads"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", closed)
    for call in (witness.last, witness.cached_last, witness.heads):
        with pytest.raises(WitnessError, match="cannot read"):
            call(BANK)
    with pytest.raises(WitnessError, match="cannot read"):
        witness.record(signed(3))
    assert witness.banks() == [BANK]


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "half"])
def test_a_failing_disk_leaves_the_file_unchanged(
    witness: Witness, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Fault: no space before, within or at the sync of a line."""
    witness.record(signed(1))
    before = heads_file(witness).read_bytes()
    real = os.pwrite

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def half(handle: int, data: bytes, place: int) -> int:
        return real(handle, data[:100], place) if len(data) > 400 else full()

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite" if call == "half" else call, half if call == "half" else full)
        with pytest.raises(TargetError, match="No space left") as caught:
            witness.record(signed(2))
    assert caught.value.file == str(heads_file(witness))
    assert "Free disk space" in (caught.value.hint or "")
    assert heads_file(witness).read_bytes() == before
    assert newest(witness) == (0, 1)
    assert witness.record(signed(2)) is WitnessOutcome.WRITTEN
    assert newest(witness) == (0, 2)


@pytest.fixture
def small_disk(mount_small: Callable[[str], Path]) -> Path:
    """A file system of 64 kB; making one needs root."""
    return mount_small("64k")


def test_a_full_file_system_keeps_the_newest_head(small_disk: Path) -> None:
    """Fault: a real file system that is full, and then has space again."""
    witness = Witness(small_disk / "witness")
    witness.record(signed(1))
    ballast = small_disk / "ballast"
    size = 1
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while stream.write(bytes(4096)):
            pass
    with suppress(TargetError):
        for size in range(2, 200):
            witness.record(signed(size))
    length = heads_file(witness).stat().st_size
    assert newest(witness) == (0, size - 1)
    assert size < 199, "it was never full"
    for _ in range(3):
        with pytest.raises(TargetError, match="No space left"):
            witness.record(signed(size))
        assert heads_file(witness).stat().st_size == length
    with pytest.raises(TargetError, match="No space left"):
        witness.note_removed(BANK, [3])
    assert witness.positions(BANK) == ()
    ballast.unlink()
    assert witness.record(signed(size)) is WitnessOutcome.WRITTEN
    assert witness.note_removed(BANK, [3])
    assert newest(witness) == (0, size)


def test_a_file_size_limit_within_a_line_is_an_error(witness: Witness) -> None:
    """Fault: the system accepts a part of the line and then no more."""
    witness.record(signed(1))
    before = heads_file(witness).read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, old[1]))
    try:
        with pytest.raises(TargetError, match="File too large"):
            witness.record(signed(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert heads_file(witness).read_bytes() == before
    assert witness.record(signed(2)) is WitnessOutcome.WRITTEN


def test_a_long_file_is_compacted_to_the_heads_that_matter(witness: Witness) -> None:
    """The newest head, the first, and the last of each epoch stay."""
    write_heads(witness, 300)
    witness.record(signed(40, 1))
    with heads_file(witness).open("ab") as stream:
        stream.writelines(format_line(signed(size, 2)) for size in range(1, 1400))
    size = 1400
    while heads_file(witness).stat().st_size > COMPACT_BYTES // 2:
        assert witness.record(signed(size, 2)) is WitnessOutcome.WRITTEN
        size += 1
        assert size < 3000, "it was never compacted"
    kept = [head.place for head in witness.heads(BANK)]
    assert newest(witness) == kept[-1] == (2, size - 1)
    assert {(0, 1), (0, 300), (1, 40)} <= set(kept)
    assert len(kept) > 400
    assert max(b[1] - a[1] for a, b in pairwise(kept) if a[0] == b[0]) <= 8
    assert heads_file(witness).stat().st_mode & 0o777 == 0o600
    assert witness.record(signed(size, 2)) is WitnessOutcome.WRITTEN
    assert witness.record(signed(7, 2)) is WitnessOutcome.COVERED
    with pytest.raises(WitnessError, match="forked"):
        witness.record(signed(size, 2, branch="theirs"))
    assert sorted(path.suffix for path in witness.folder.iterdir()) == [".heads", ".lock"]


def test_a_file_of_many_epochs_is_not_compacted(witness: Witness) -> None:
    """The heads of its epochs may exceed half of the bound; none is dropped."""
    witness.record(signed(1))
    with heads_file(witness).open("ab") as stream:
        stream.writelines(format_line(signed(2, epoch)) for epoch in range(1, 1200))
    before = heads_file(witness).read_bytes()
    witness.compact(BANK)
    assert heads_file(witness).read_bytes() == before


def test_a_short_file_is_not_compacted(witness: Witness) -> None:
    """Compaction drops nothing while there is space."""
    write_heads(witness, 50)
    before = heads_file(witness).read_bytes()
    witness.compact(BANK)
    assert heads_file(witness).read_bytes() == before


def set_compaction_size(patched: pytest.MonkeyPatch, bound: int) -> None:
    """Compact files at another size than 1 MiB."""
    for module in ("witness", "witness_file"):
        patched.setattr(f"satchel.ledger.{module}.COMPACT_BYTES", bound)


@pytest.mark.parametrize("call", ["fsync", "replace", "pread", "damage"])
def test_a_compaction_that_fails_does_not_fail_the_commit(
    witness: Witness, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Fault: no space for the second file, or a damaged old line, which must not vanish."""
    write_heads(witness, 20)
    path, size = heads_file(witness), 21
    if call == "damage":
        path.write_bytes(path.read_bytes().replace(b"2025", b"1999", 1))
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        set_compaction_size(patched, len(before) + 100)
        if call == "fsync":
            patched.setattr(os, "fsync", full)
        elif call == "replace":
            patched.setattr(os, "replace", full)
        elif call == "pread":
            patched.setattr("satchel.ledger.witness_file.all_lines", full)
        assert witness.record(signed(size)) is WitnessOutcome.WRITTEN
    assert path.read_bytes() == before + format_line(signed(size))
    assert newest(witness) == (0, size)
    if call != "damage":
        assert sorted(found.suffix for found in witness.folder.iterdir()) == [".heads", ".lock"]


def test_a_reader_calls_stat_once_when_nothing_changed(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs before every read of the bank."""
    witness.record(signed(1))
    witness.note_removed(BANK, [5])
    for path in witness.folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    found = witness.cached_last(BANK)
    assert witness.positions(BANK) == (5,)
    stats: list[Path] = []
    real = Path.lstat

    def counting(path: Path) -> os.stat_result:
        stats.append(path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)
        patched.setattr(Path, "lstat", counting)
        assert witness.cached_last(BANK) is found
        assert stats == [heads_file(witness)]
        assert witness.positions(BANK) == (5,)
        assert len(stats) == 2
    Witness(witness.folder).record(signed(2))
    assert newest(witness) == (0, 2)


def test_attack_a_reader_of_a_recent_file_reads_it_again(witness: Witness) -> None:
    """Attack on the clock: another head of the same length, file and time."""
    witness.record(signed(1))
    status = heads_file(witness).stat()
    assert newest(witness) == (0, 1)
    heads_file(witness).write_bytes(format_line(signed(2)))
    os.utime(heads_file(witness), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert heads_file(witness).stat().st_size == status.st_size
    assert newest(witness) == (0, 2)


def test_a_reader_notices_a_missing_or_new_file(witness: Witness) -> None:
    """The cache is not used once the file is another one."""
    witness.record(signed(3))
    os.utime(heads_file(witness), (1_700_000_000, 1_700_000_000))
    assert newest(witness) == (0, 3)
    assert Witness(witness.folder).forget(BANK)
    assert newest(witness) is None
    assert witness.banks() == []
    witness.record(signed(1, branch="begun again"))
    assert newest(witness) == (0, 1)
    assert witness.forget(BANK)
    assert not witness.forget(BANK)


def test_forgetting_a_bank_clears_a_damaged_file(witness: Witness) -> None:
    """An operator decides it; erased positions stay noted."""
    witness.record(signed(3))
    witness.note_removed(BANK, [1])
    heads_file(witness).write_bytes(b"junk\n")
    assert witness.forget(BANK)
    assert witness.positions(BANK) == (1,)
    assert witness.record(signed(3)) is WitnessOutcome.WRITTEN


def test_a_reader_retries_under_the_lock_after_a_race(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may see half of a new line; it is damaged only if it is so under the lock."""
    witness.record(signed(1))
    real, answers = os.pread, [b"half of a cut, half of a line\n"]

    def racing(handle: int, count: int, place: int) -> bytes:
        return answers.pop() if answers else real(handle, count, place)

    monkeypatch.setattr(os, "pread", racing)
    assert newest(witness) == (0, 1)
    assert answers == []


def test_erased_positions_are_stored_sorted_without_duplicates(witness: Witness) -> None:
    """Also in a process that starts later, and per bank."""
    assert witness.positions(BANK) == ()
    assert witness.note_removed(BANK, [7, 3, 7])
    assert witness.note_removed(BANK, {2**40, 0})
    assert witness.note_removed(BANK, [])
    assert witness.positions(BANK) == Witness(witness.folder).positions(BANK) == (0, 3, 7, 2**40)
    assert witness.positions(OTHER) == ()
    assert witness.banks() == []
    with pytest.raises(ValueError, match="start at 0"):
        witness.note_removed(BANK, [-1])


def test_erased_positions_of_another_process_are_seen_immediately(witness: Witness) -> None:
    """A reader with a cache must not return an erased record again."""
    witness.note_removed(BANK, [1])
    for number in range(2, 30):
        assert witness.positions(BANK)[-1] == number - 1
        Witness(witness.folder).note_removed(BANK, [number])
        assert witness.positions(BANK)[-1] == number


def test_positions_beyond_an_accepted_rollback_are_dropped(witness: Witness) -> None:
    """Other records take those positions, and nobody erased them."""
    witness.record(signed(60))
    witness.note_removed(BANK, [3, 40, 50])
    witness.record(signed(41, epoch=1), given_up=AcceptedRollback(epoch=0, size=40))
    assert witness.positions(BANK) == (3,)


def test_positions_that_were_noted_after_an_accepted_rollback_are_kept(witness: Witness) -> None:
    """A program that learns of the rollback late keeps what others noted in the meantime."""
    witness.record(signed(60))
    witness.record(signed(41, epoch=1), given_up=AcceptedRollback(epoch=0, size=40))
    witness.note_removed(BANK, [3, 40])
    witness.record(signed(42, epoch=1), given_up=AcceptedRollback(epoch=0, size=40))
    assert witness.positions(BANK) == (3, 40)
    fresh = Witness(witness.folder.parent / "fresh")
    fresh.note_removed(BANK, [50])
    fresh.record(signed(42, epoch=1), given_up=AcceptedRollback(epoch=0, size=40))
    assert fresh.positions(BANK) == (50,)


def test_attack_changed_positions_are_refused(witness: Witness) -> None:
    """Attack: a changed list would make erased text count as never erased."""
    witness.note_removed(BANK, [3, 40])
    path = heads_file(witness).with_suffix(".removed")
    whole = path.read_bytes()
    for place in range(len(whole)):
        for flip in (0x01, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            with pytest.raises(WitnessError) as caught:
                witness.positions(BANK)
            assert caught.value.file == str(path)
            with pytest.raises(WitnessError):
                witness.note_removed(BANK, [5])
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(WitnessError):
            witness.positions(BANK)
    heads_file(witness, OTHER).with_suffix(".removed").write_bytes(whole)
    with pytest.raises(WitnessError, match="another bank"):
        witness.positions(OTHER)


def test_the_file_holds_the_signed_heads_as_readable_lines(witness: Witness) -> None:
    """A line has its length, its checksum, and the JSON of a signed head."""
    witness.record(signed(3))
    length, _, body = heads_file(witness).read_bytes().split(b" ", 2)
    assert int(length, 16) == len(body) - 1
    assert msgspec.json.decode(body) == signed(3)
    assert sys.getsizeof(body) < MAX_LINE
