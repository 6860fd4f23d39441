"""Scratch maps and spools, in memory and on disk."""

import errno
import os
import tempfile
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import TargetError
from satchel.runtime import scratch
from satchel.runtime.scratch import ScratchMap, Spool

KEYS = st.binary(max_size=3)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "put", "extend", "discard", "get", "update", "add_new"]),
        KEYS,
        st.binary(),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 600))
def test_a_scratch_map_gives_the_same_answers_in_memory_and_on_disk(
    steps: list[tuple[str, bytes, bytes]], most: int
) -> None:
    """In any order of calls, with the move to disk after any number of keys."""

    def answers() -> list[object]:
        held, found = ScratchMap(), list[object]()
        for what, key, value in steps:
            if what == "extend":
                held.extend(key, value, most=4)
            elif what in ("update", "add_new"):
                found.append(getattr(held, what)([key, value[:3]]))
            elif what in ("add", "put"):
                found.append(getattr(held, what)(key, value))
            else:
                found.append(getattr(held, what)(key))
        found.append([(key, held.get(key), key in held) for key in held])
        held.close()
        return found

    here = answers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "MOST_IN_MEMORY", most)
        assert answers() == here


def test_the_memory_of_a_scratch_map_includes_its_keys() -> None:
    """Keys without a value, and small values, take memory as well."""
    tracemalloc.start(1)
    try:
        for value in (b"", b"v" * 32):
            before = tracemalloc.get_traced_memory()[0]
            held = ScratchMap()
            most = 0
            for number in range(scratch.MOST_IN_MEMORY // 50):
                held.add(number.to_bytes(32), value and number.to_bytes(32))
                most = max(most, tracemalloc.get_traced_memory()[0] - before)
            assert most < 2 * scratch.MOST_IN_MEMORY
            held.close()
    finally:
        tracemalloc.stop()


def test_a_spool_returns_what_was_written() -> None:
    """In memory and on disk alike."""
    for size in (10, 3_000_000):
        spool = Spool(memory_bytes=1000)
        spool.write(b"x" * size + b"\n")
        spool.write(b"y")
        assert spool.size == size + 2
        assert b"".join(spool.chunks()) == b"x" * size + b"\ny"
        assert [len(line) for line in spool.lines()] == [size + 1, 1]
        spool.close()
        spool.close()


def test_a_full_temporary_folder_is_a_typed_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the folder and how to choose another."""
    spool = Spool(memory_bytes=0)

    class Full:
        """A file on a full disk."""

        def write(self, data: bytes) -> None:
            """Raise an error of a full disk."""
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(spool, "_file", Full())
        with pytest.raises(TargetError) as caught:
            spool.write(b"x" * 3_000_000)
    assert caught.value.file == tempfile.gettempdir()
    assert "TMPDIR" in (caught.value.hint or "")
    spool.close()
