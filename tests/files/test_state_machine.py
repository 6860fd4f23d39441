"""After any sequence of operations a store equals a plain dictionary."""

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
    """A store and a dictionary with every text of each path."""

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
        """Write unconditionally."""
        self.store.write_text(path, text)
        self._now(path, text)

    @rule(path=_PATHS, text=_TEXTS)
    def create(self, path: str, text: str) -> None:
        """Create a file that must not exist."""
        try:
            self.store.write_text(path, text, expected_sha="")
        except ConcurrencyError:
            assert path in self.texts
            return
        assert path not in self.texts
        self._now(path, text)

    @rule(path=_PATHS, text=_TEXTS)
    def append(self, path: str, text: str) -> None:
        """Append a text."""
        self.store.append_text(path, text)
        self._now(path, self.texts.get(path, "") + text)

    @rule(path=_PATHS)
    def delete(self, path: str) -> None:
        """Delete a file."""
        try:
            self.store.delete(path, expected_version=len(self.versions.get(path, [])) or None)
        except MemoryStoreError:
            assert path not in self.texts
            return
        self._now(path, None)

    @rule(old=_PATHS, new=_PATHS)
    def rename(self, old: str, new: str) -> None:
        """Rename a file to an unused path."""
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
        """Restore a former text."""
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
        """Edit the file with another program, and sync."""
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
        """Close and reopen the store."""
        self.store.close()
        self.store = MemoryStore(root=self.root)

    @invariant()
    def the_store_equals_the_model(self) -> None:
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
