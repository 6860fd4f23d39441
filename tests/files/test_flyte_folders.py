"""A folder that Flyte wrote: its versions are its history, and nothing in it vanishes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import quote

from satchel.files import MemoryStore


def flyte_folder(root: Path, **texts: list[str]) -> None:
    """Lay out what Flyte leaves after some writes; ``__`` in a name stands for a slash."""
    lines = []
    for name, states in texts.items():
        path = name.replace("__", "/") + ".txt"
        for second, text in enumerate(states):
            sha = hashlib.sha256(text.encode()).hexdigest()
            at = f"2026-03-01T10:00:{second:02}+00:00"
            version = f"versions/{quote(path, safe='')}/{at.replace(':', '-')}_{sha}.txt"
            for place in (path, version):
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                (root / place).write_text(text)
            event = {"ts": at, "op": "update" if second else "create", "path": path}
            event |= {"new_sha": sha, "actor": f"agent {second}", "version_file": version}
            lines.append(json.dumps({**event, "reason": "", "old_sha": ""}))
    (root / "audit").mkdir(exist_ok=True)
    (root / "audit" / "log.jsonl").write_text("".join(line + "\n" for line in lines))
    (root / "messages.json").write_text("[]")


def test_the_versions_of_a_folder_are_the_history_of_its_paths(tmp_path: Path) -> None:
    """Texts, times and actors; the next write continues them."""
    flyte_folder(tmp_path, user__a=["one", "two", "three"], b=["only"])
    (tmp_path / "versions" / "user%2Fa.txt" / "odd.txt").write_text("x")
    with MemoryStore(root=tmp_path, keep_versions=True) as store:
        history = store.history("user/a.txt")
        assert [(v.version, v.op, v.actor) for v in history] == [
            (1, "create", "agent 0"),
            (2, "update", "agent 1"),
            (3, "update", "agent 2"),
        ]
        assert [store.read_version("user/a.txt", n) for n in (1, 2, 3)] == ["one", "two", "three"]
        meta = store.get_meta("user/a.txt")
        assert meta is not None
        assert (meta.version, meta.updated_by) == (3, "agent 2")
        assert store.write_text("user/a.txt", "four", expected_version=3).version == 4
        assert store.unmanaged() == ()
        assert [problem for problem in store.repairs if "odd.txt" in problem]
        assert store.verify_audit().ok
        store.restore("user/a.txt", 1)
        assert store.read_text("user/a.txt") == "one"


def test_a_version_that_was_altered_is_named_and_not_taken_over(tmp_path: Path) -> None:
    """Its bytes have to have the digest in its name."""
    flyte_folder(tmp_path, a=["one", "two"])
    first = min((tmp_path / "versions" / "a.txt").iterdir())
    first.write_text("forged")
    with MemoryStore(root=tmp_path) as store:
        assert [version.sha for version in store.history("a.txt")] == [
            hashlib.sha256(b"two").hexdigest()
        ]
        assert [problem for problem in store.repairs if first.name in problem]


def test_a_name_like_one_of_the_stores_own_is_named_by_sync(tmp_path: Path) -> None:
    """``Audit/x`` is no path, since ``audit/`` is reserved in any case; it does not vanish."""
    (tmp_path / "Audit").mkdir()
    (tmp_path / "Audit" / "x").write_text("1")
    with MemoryStore(root=tmp_path) as store:
        assert store.list_paths() == []
        assert [reason for reason in store.sync().refused if "Audit" in reason]
