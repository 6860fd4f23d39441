"""Whatever is done to a store, in whatever order, it is what a plain dictionary would be."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from satchel.files import ConcurrencyError, MemoryStore, MemoryStoreError

_PATHS = st.sampled_from(["a.md", "b.md", "d/a.md", "d/e/b.md", "caf\u00e9.md"])
_TEXTS = st.text("ab\r\n\u00e9", max_size=6)


class Files(RuleBasedStateMachine):
    """A store beside a dictionary, with every text each path ever had."""

    shas = Bundle("shas")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.store = MemoryStore(root=self.root, keep_versions=True)
        self.texts: dict[str, str] = {}
        self.versions: dict[str, list[str | None]] = {}

    def teardown(self) -> None:
        """Remove the folder."""
        self.store.close()
        shutil.rmtree(self.root)

    def _now(self, path: str, text: str | None) -> None:
        if text is None:
            del self.texts[path]
        else:
            self.texts[path] = text
        self.versions.setdefault(path, []).append(text)

    @rule(path=_PATHS, text=_TEXTS)
    def write(self, path: str, text: str) -> None:
        """Unconditionally."""
        self.store.write_text(path, text)
        self._now(path, text)

    @rule(path=_PATHS, text=_TEXTS)
    def create(self, path: str, text: str) -> None:
        """Only where there is nothing."""
        try:
            self.store.write_text(path, text, expected_sha="")
        except ConcurrencyError:
            assert path in self.texts
            return
        assert path not in self.texts
        self._now(path, text)

    @rule(path=_PATHS, text=_TEXTS)
    def append(self, path: str, text: str) -> None:
        """At the end."""
        self.store.append_text(path, text)
        self._now(path, self.texts.get(path, "") + text)

    @rule(path=_PATHS)
    def delete(self, path: str) -> None:
        """What is there."""
        try:
            self.store.delete(path, expected_version=len(self.versions.get(path, [])) or None)
        except MemoryStoreError:
            assert path not in self.texts
            return
        self._now(path, None)

    @rule(old=_PATHS, new=_PATHS)
    def rename(self, old: str, new: str) -> None:
        """To where there is nothing."""
        try:
            self.store.rename(old, new)
        except MemoryStoreError:
            assert old not in self.texts or new in self.texts
            return
        text = self.texts[old]
        self._now(old, None)
        self._now(new, text)

    @rule(path=_PATHS, number=st.integers(1, 4))
    def restore(self, path: str, number: int) -> None:
        """A former text."""
        known = self.versions.get(path, [])
        try:
            self.store.restore(path, number)
        except MemoryStoreError:
            assert number > len(known) or known[number - 1] is None
            return
        text = known[number - 1]
        assert text is not None
        self._now(path, text)

    @rule(path=_PATHS, text=_TEXTS)
    def edit_from_outside(self, path: str, text: str) -> None:
        """By something that knows nothing of us, and taken in."""
        if self.texts.get(path) == text:
            return
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        assert self.store.unmanaged() == (path,)
        self.store.sync()
        self._now(path, text)

    @rule()
    def reopen(self) -> None:
        """As after the end of the program."""
        self.store.close()
        self.store = MemoryStore(root=self.root)

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        """Listing, texts, versions, sidecars and audit."""
        assert self.store.list_paths() == sorted(self.texts)
        for path, text in self.texts.items():
            assert self.store.read_text(path) == text
            meta = self.store.get_meta(path)
            assert meta is not None
            assert meta.version == len(self.versions[path])
        for path, texts in self.versions.items():
            history = self.store.history(path)
            assert [one.sha != "" for one in history] == [text is not None for text in texts]
            for one, former in zip(history, texts, strict=True):
                if former is not None:
                    assert self.store.read_version(path, one.version) == former
        assert self.store.verify_audit().ok
        assert self.store.repairs == []


TestFiles = Files.TestCase
TestFiles.settings = settings(max_examples=4, stateful_step_count=12, deadline=None)
