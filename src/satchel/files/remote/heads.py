"""Heads that follow one another: the first of a store, and those after a save."""

import hashlib
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace

from satchel.files.keeping.policy import Policy
from satchel.files.remote.arriving import Leaving
from satchel.files.remote.packs import Head

RECENT = 16


def first_head(policy: Policy) -> Head:
    """Return the head of a store in which there is nothing yet."""
    return Head(
        store=secrets.token_hex(16),
        nonce=secrets.token_hex(16),
        revision=0,
        clock=0,
        audit_seq=0,
        audit_head="",
        read_only=policy.read_only.paths,
        audit=policy.audit,
        keep_versions=policy.keep_versions,
    )


def followed(head: Head) -> Head:
    """Return a head that follows another, with a nonce of its own, and those before it."""
    recent = (*head.recent, head.nonce)[-RECENT:]
    return replace(head, nonce=secrets.token_hex(16), recent=recent)


def chained(head: Head, sent: Leaving) -> Head:
    """Return the head after what is sent, whose events are chained to those before them."""
    seq, prev = head.audit_seq, head.audit_head
    lines = []
    for line in sent.contents.events:
        seq += 1
        said = {**json.loads(line), "seq": seq, "prev": prev}
        lines.append(json.dumps(said, sort_keys=True))
        prev = hashlib.sha256(lines[-1].encode()).hexdigest()
    sent.contents.events = lines
    return replace(
        followed(head),
        revision=max(head.revision + 1, head.revision + len(sent.contents.versions)),
        clock=max(head.clock, time.time_ns() // 1_000),
        audit_seq=seq,
        audit_head=prev,
    )


def unchained(head: Head, events: Iterable[str]) -> tuple[int, list[str]]:
    """Return how many events there are, and where they do not follow one another to the head."""
    problems = list[str]()
    prev, seq = "", 0
    for line in events:
        said = json.loads(line)
        seq += 1
        if said.get("prev") != prev or said.get("seq") != seq:
            problems.append(f"event {seq} does not follow the one before it")
        prev = hashlib.sha256(line.encode()).hexdigest()
    if head.audit_head != prev:
        problems.append("the last event differs from the one written last")
    return seq, problems
