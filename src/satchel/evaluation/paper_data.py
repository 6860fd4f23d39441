"""The paper's representative memory: 127 entries of the five components, from the probe sets."""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import msgspec

from satchel.artifact.reader import Encoding
from satchel.artifact.writer import ArtifactBuilder, Header, sign_statement, write_artifact
from satchel.crypto.sealed_records import Sealed, seal, seeded_nonces
from satchel.crypto.signatures import SigningKey
from satchel.evaluation.carriers import DatedMemory, dated_memories
from satchel.evaluation.probes import shipped_sets
from satchel.model.entries import Entry
from satchel.model.text import memory_text
from satchel.runtime.atomic_files import atomic_write

MIX = {"episodic": 42, "semantic": 35, "procedural": 20, "working": 25, "identity": 5}
"""Source: the paper, section 5.4."""

_SEED = b"satchel evaluate paper"

_ANSWERS = (
    (
        "Thanks for telling me. I will keep that in mind for everything that follows, and I "
        "will say so when something I propose would go against it. Before we go on, let me sum "
        "up where we are: the parts that were open this morning are mostly settled, two "
        "questions are still to be answered, and nothing that was agreed on earlier has to be "
        "changed because of this. If it turns out that I misunderstood you, tell me and I will "
        "correct it. Shall I go on with the next point now, or would you like to look at the "
        "details first? Both are fine with me, and neither takes long."
    ),
    (
        "That makes sense. Here is how I would go about it. First I would look at what is there "
        "already, so that we do not do anything twice. Then I would make the smallest change "
        "that shows whether the idea works at all, and only after that spend time on the rest. "
        "There are three things that could go wrong: the numbers could be older than we think, "
        "somebody else could be working on the same part, or the rule could have an exception "
        "that nobody wrote down. None of them is likely, but each is cheap to check. I can "
        "prepare a short list of what to check and in which order, and you decide which of them "
        "are worth it. In the meantime I have noted what you said, with the date, so that we "
        "can come back to it later without looking for it again."
    ),
    (
        "Understood. To be sure that we mean the same, I repeat it in my own words and add what "
        "follows from it. It changes what comes next a little: the step that I had planned "
        "first can wait, and the one after it becomes more important. It does not change the "
        "goal, nor the date by which we want to be done. I would suggest that we keep the old "
        "plan beside the new one for a while, until it is clear that nothing was forgotten. If "
        "you agree I will write both down, mark the differences, and come back to you with a "
        "proposal of at most one page. You asked me earlier to be brief; if this was too long, "
        "say so, and next time I will only confirm."
    ),
)
"""What an assistant says to it; made up, as long as such answers often are."""


def sample_memories() -> list[DatedMemory]:
    """Return the memories, the same in every run; few components have enough, and are repeated."""
    there = dated_memories(shipped_sets())
    found = list[DatedMemory]()
    for component, count in MIX.items():
        some = [one for one in there if one.memory.entry.__struct_config__.tag == component]
        for at, one in enumerate(islice(cycle(some), count)):
            found.append(_numbered(one, at // len(some)))
    return found


def entries() -> list[Entry]:
    """Return drafts of the memories, with their times."""
    return [
        msgspec.structs.replace(one.memory.entry, created_at=one.at) for one in sample_memories()
    ]


def sealed() -> list[Sealed]:
    """Return the memories sealed."""
    nonces = seeded_nonces(_SEED)
    return [seal(entry, nonces=nonces) for entry in entries()]


def write_artifact_file(
    path: Path, records: Iterator[Sealed] | list[Sealed], encoding: Encoding, key: SigningKey
) -> Path:
    """Write records as an artifact that a key signs, and return where."""
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with atomic_write(path, overwrite=True) as sink:
            write_artifact(sink, encoding, body, statement, sign_statement(statement, [key]))
    return path


def conversation() -> bytes:
    """Return a conversation in which the memories were told, as chats are kept."""
    messages = list[dict[str, str]]()
    for at, one in enumerate(sample_memories()):
        said = memory_text(one.memory.entry)
        messages.append({"role": "user", "timestamp": one.at, "content": said})
        answer = _ANSWERS[at % len(_ANSWERS)]
        messages.append({"role": "assistant", "timestamp": one.at, "content": answer})
    return msgspec.json.encode({"messages": messages})


def latest(memories: list[DatedMemory]) -> list[DatedMemory]:
    """Return memories without what they say of replacing others."""
    return [
        DatedMemory(one.at, one.world, msgspec.structs.replace(one.memory, replaces=None))
        for one in memories
    ]


def _numbered(one: DatedMemory, turn: int) -> DatedMemory:
    """Return a memory that is not the same as an earlier one."""
    if not turn:
        return one
    entry = msgspec.structs.replace(one.memory.entry, tags=(f"copy-{turn}",))
    return DatedMemory(one.at, one.world, msgspec.structs.replace(one.memory, entry=entry))
