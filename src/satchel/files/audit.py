"""The audit log: requests and refusals, each line chained to the previous one.

The lines are in the manifest; ``audit/log.jsonl`` is a copy in Flyte's form, after the lines of a
store that was adopted. A line's ``prev`` is the digest of the previous line, and the manifest
stores the last digest, so that changed, removed and inserted lines are detected.
"""

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError
from satchel.files.manifest import FilesManifest, ManifestRows
from satchel.files.tree import StoreFolder

LOG = "audit/log.jsonl"

_BLOCK = 1 << 16
_LONGEST_LINE = 1 << 20
_SHOWN = 1_000


class AuditResult(NamedTuple):
    """Result of verifying the audit log."""

    events: int
    """Number of lines in the manifest."""

    adopted_bytes: int
    """Bytes of the log from before the store was adopted; covered by the digest, not verified."""

    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no line was changed, removed or inserted."""
        return not self.problems


def add_event(rows: ManifestRows, facts: dict[str, Any]) -> None:
    """Append a line to the audit log."""
    seq = (rows.one("SELECT max(seq) FROM event") or 0) + 1
    line = json.dumps({**facts, "seq": seq, "prev": rows.fact("audit_head", "")}, sort_keys=True)
    ends = _ended(rows) + len(line) + 1
    rows.do("INSERT INTO event VALUES (?, ?, ?)", seq, line, ends)
    rows.state("audit_head", _digest(line))


def shortened(text: str) -> str:
    """Return untrusted text as it is written into the line of a refusal."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def adopt(rows: ManifestRows, tree: StoreFolder) -> str | None:
    """Adopt an existing log, and return the repairs."""
    repair = None
    digest, size, last = hashlib.sha256(), 0, b"\n"
    try:
        with tree.opened(LOG, os.O_RDWR) as handle:
            while block := os.pread(handle, _BLOCK, size):
                digest.update(block)
                size += len(block)
                last = block[-1:]
            if last != b"\n":
                os.pwrite(handle, b"\n", size)
                digest.update(b"\n")
                size += 1
                repair = f"{LOG} ended in the middle of a line; the line was completed"
    except FileNotFoundError:
        pass
    rows.state("audit_base", size)
    if size:
        rows.state("audit_head", digest.hexdigest())
    return repair


def write_out(rows: ManifestRows, tree: StoreFolder) -> str | None:
    """Update the log in the folder from the manifest, and return the repairs."""
    base, ends = rows.fact("audit_base", 0), _ended(rows)
    if ends == base:
        return None
    with tree.opened(LOG, os.O_RDWR | os.O_CREAT) as handle:
        size = os.fstat(handle).st_size
        repair = None
        if size > ends:
            repair = (
                f"{size - ends:,} bytes not written by Satchel were removed from the end of {LOG}"
            )
            _set_aside(rows, os.pread(handle, min(size - ends, _LONGEST_LINE), ends))
            os.ftruncate(handle, ends)
        elif size < base:
            repair = f"{LOG} lost {base - size:,} bytes from before it was adopted"
            os.ftruncate(handle, base)
        for line, end in rows.all(
            "SELECT line, ends FROM event WHERE ends > ? ORDER BY seq", min(size, ends)
        ):
            data = line.encode() + b"\n"
            start = end - len(data)
            if size > start:  # truncated by a crash or a full disk
                repair = f"{LOG} ended in the middle of a line; it was rewritten"
            os.pwrite(handle, data, start)
    return repair


def tail(manifest: FilesManifest, tree: StoreFolder, number: int) -> list[dict[str, Any]]:
    """Return the last events, oldest first, in memory for these only."""
    if number <= 0:
        return []
    with manifest.looking() as rows:
        if not rows.fact("policy_audit", 1):
            return []
        lines = rows.all("SELECT line FROM event ORDER BY seq DESC LIMIT ?", number)
        events = deque(json.loads(line) for (line,) in lines)
        base = rows.fact("audit_base", 0)
    events.reverse()
    if len(events) < number and base:
        for line in _backwards(tree, base):
            if (event := _event(line)) is not None:
                events.appendleft(event)
                if len(events) == number:
                    break
    return list(events)


def examine(manifest: FilesManifest, tree: StoreFolder) -> AuditResult:
    """Verify the whole audit log against its chain, and the log in the folder against both."""
    problems: list[str] = []
    with manifest.looking() as rows:
        base, head = rows.fact("audit_base", 0), rows.fact("audit_head", "")
        try:
            with tree.opened(LOG, os.O_RDONLY) as handle:
                events = _examine_lines(rows, handle, base, head, problems)
        except FileNotFoundError:
            events = rows.one("SELECT count(*) FROM event")
            if events:
                problems.append(f"{LOG} is missing")
        except MemoryStoreError as error:
            events = rows.one("SELECT count(*) FROM event")
            problems.append(str(error))
    return AuditResult(events, base, tuple(problems))


def _examine_lines(
    rows: ManifestRows, handle: int, base: int, head: str, problems: list[str]
) -> int:
    prev, at = "", 0
    digest = hashlib.sha256()
    while at < base and (block := os.pread(handle, min(_BLOCK, base - at), at)):
        digest.update(block)
        at += len(block)
    if base:
        prev = digest.hexdigest()
    count = 0
    for seq, line, ends in rows.all("SELECT seq, line, ends FROM event ORDER BY seq"):
        count += 1
        event = json.loads(line)
        if seq != count or event.get("seq") != seq or event.get("prev") != prev:
            problems.append(f"event {seq} does not follow the one before it")
        data = line.encode() + b"\n"
        if os.pread(handle, len(data), ends - len(data)) != data:
            problems.append(f"event {seq} differs in {LOG}")
        prev = _digest(line)
        if len(problems) >= 20:  # noqa: PLR2004 - enough to see what happened
            break
    if prev != head and not problems:
        problems.append("the last event differs from the one written last")
    if os.fstat(handle).st_size > _ended(rows):
        problems.append(f"{LOG} continues after the last event")
    return count


def _set_aside(rows: ManifestRows, data: bytes) -> None:
    sha = hashlib.sha256(data).hexdigest()
    rows.keep(sha, data)
    rows.state(f"set_aside:{sha}", LOG)


def _ended(rows: ManifestRows) -> int:
    found: int | None = rows.one("SELECT ends FROM event ORDER BY seq DESC LIMIT 1")
    return rows.fact("audit_base", 0) if found is None else found


def _backwards(tree: StoreFolder, end: int) -> Iterator[bytes]:
    """Yield the lines before a position in the log, newest first."""
    try:
        with tree.opened(LOG, os.O_RDONLY) as handle:
            rest = b""
            while end > 0:
                start = max(0, end - _BLOCK)
                block = os.pread(handle, end - start, start) + rest
                end = start
                (*lines,) = block.split(b"\n")
                rest = lines.pop(0)
                yield from reversed([line for line in lines if line])
                if len(rest) > _LONGEST_LINE:
                    rest = b""  # not a line of the audit log
            if rest:
                yield rest
    except FileNotFoundError:
        return


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
