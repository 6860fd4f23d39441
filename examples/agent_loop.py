"""A small agent that remembers what the user says, also in the next run.

``python examples/agent_loop.py "my name is Ada" "I like tea" "what do you know?"``. Run it again
with other sentences. The memory is in ``SATCHEL_HOME``.
"""

import sys
from collections.abc import Iterator

from satchel import Bank, Satchel, SatchelError


def main(sentences: list[str]) -> None:
    """Answer each sentence as a turn of a conversation."""
    with Satchel.open() as satchel:
        bank = satchel.bank()
        for sentence in sentences:
            print(f"> {sentence}")
            for answer in turn(bank, sentence):
                print(answer)


def turn(bank: Bank, sentence: str) -> Iterator[str]:
    """Answer one sentence from memory, and store what it says."""
    happened = bank.remember({"type": "episodic", "observation": sentence, "actor": "user"})
    words = sentence.strip().rstrip(".!?")
    if words.startswith("my name is "):
        # With a key, a new name replaces the previous one.
        done = bank.remember(f"The user is called {words[11:]}", key="name", tags=["user"])
        yield "I will remember that." if done.is_new else "I know."
    elif words.startswith("I like "):
        bank.remember(f"The user likes {words[7:]}", parents=[happened.id], tags=["user", "taste"])
        yield "I will remember that."
    elif words.startswith("forget "):
        for memory in bank.list(type="semantic"):
            if words[7:] in memory.text:
                bank.forget(memory.id, reason=sentence)
                yield f"Forgotten: {memory.text}"
    else:
        known = bank.list(type="semantic", tags="user", oldest_first=True)
        yield from (memory.text for memory in known)
        if not known.memories:
            yield "I know nothing about you yet."


if __name__ == "__main__":
    try:
        main(sys.argv[1:] or ["my name is Ada", "I like tea", "what do you know?"])
    except SatchelError as error:
        sys.exit(str(error))
