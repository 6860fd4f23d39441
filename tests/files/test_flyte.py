"""Our suite on the real flyte package: what it keeps, and where it is known to differ."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers
from satchel.files import MemoryStore

KNOWN = {
    "test_36_each_write_leaves_a_sidecar_and_where_wanted_a_version": (
        "versions of one second have no order: their names hold whole seconds, then the sha"
    ),
}
"""What flyte 2.12.1 does not keep, with the reason; anything else that fails is news."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+::(test_\w+)", re.MULTILINE)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_flyte_keeps_all_behaviors_but_those_that_are_known(tmp_path: Path) -> None:
    """So the suite asks for what the page's own implementation does."""
    contract = Path(__file__).with_name("flyte_contract.py")
    root = contract.parent.parent.parent
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            *(peers.environment("flyte") / "python", "-m", "pytest", "-q", "-rA", contract),
            *("-c", tmp_path / "pytest.ini", "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "--import-mode=importlib", "--noconftest"),
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert " passed" in done.stdout, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert set(_FAILED.findall(done.stdout)) == set(KNOWN), done.stdout[-6_000:]


REFUSED = {
    "create twice": "already exists",
    "key a/b": "single path segment",
    "key ..": "single path segment",
    "no key": "must not be empty",
    "/x": "must be relative",
    "../x": "traversal",
    "": "Empty path",
    "link.txt": "outside the memory root",
    "audit/x": "reserved",
    "meta/x": "reserved",
    "versions/x": "reserved",
    "messages.json": "messages.json",
    "memory/x": "read-only",
}
"""What is refused, and the words that code matches."""

_SPEAKER = """
import json, os, sys
from pathlib import Path

def messages(MemoryStore, context, root):
    where = {"org": "o", "project": "p", "domain": "d"}
    (root / "outside.txt").write_text("x")
    (root / "store").mkdir()
    (root / "store" / "link.txt").symlink_to(root / "outside.txt")
    store = MemoryStore(key="k", remote_path=str(root / "far"), root=root / "store",
                        read_only_prefixes=("memory/",))
    said = {}
    def ask(name, call):
        try:
            call()
        except Exception as error:
            said[name] = [[one.__name__ for one in type(error).__mro__], str(error)]
    with context:
        MemoryStore.create(key="twice", **where)
        ask("create twice", lambda: MemoryStore.create(key="twice", **where))
        for name, key in (("key a/b", "a/b"), ("key ..", ".."), ("no key", "")):
            ask(name, lambda: MemoryStore.create(key=key, **where))
        for path in ("/x", "../x", "", "link.txt", "audit/x", "meta/x", "versions/x",
                     "messages.json", "memory/x"):
            ask(path, lambda: store.write_text(path, "x"))
    return said
"""

_THEIRS = """
from flyte._context import internal_ctx
from flyte.ai.agents.memory import MemoryStore
from flyte.models import RawDataPath

root = Path(sys.argv[1])
context = internal_ctx().new_raw_data_path(RawDataPath(path=str(root / "raw")))
print(json.dumps(messages(MemoryStore, context, root)))
"""


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_refusals_have_the_classes_and_words_of_flyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said by both, side by side."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    done = subprocess.run(
        [peers.environment("flyte") / "python", "-c", _SPEAKER + _THEIRS, tmp_path / "theirs"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "home"))
    spoken: dict[str, Any] = {}
    exec(_SPEAKER, spoken)  # noqa: S102 - the same calls as there
    ours = spoken["messages"](MemoryStore, nullcontext(), tmp_path / "ours")
    for case, words in REFUSED.items():
        assert words in theirs[case][1], (case, theirs[case])
        assert words in ours[case][1], (case, ours[case])
        assert theirs[case][0][0] in ours[case][0], case
