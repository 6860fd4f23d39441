"""Conversations like those of BEAM: short questions of a user, long answers of an assistant.

Made up by rule, the same in every run. What answers a question is on the user's side; the
assistant's answers use the same words at length.
"""

import json
import random
from pathlib import Path

_THINGS = {
    "budget tracker": ("login page", "expense chart", "weekly summary", "export button"),
    "garden plan": ("raised bed", "drip hose", "compost corner", "seed calendar"),
    "novel draft": ("opening scene", "harbour chapter", "villain's letter", "final dialogue"),
    "home network": ("guest password", "backup disk", "cabinet switch", "printer address"),
}
_FACTS = (
    ("finish the {thing} before {day}", "By which day did I want to finish the {thing}?"),
    ("spend {amount} euros on the {thing}", "How much money was meant for the {thing}?"),
    ("ask {person} to look at the {thing}", "Who should review the {thing}?"),
    ("name the {thing} after {animal}", "What animal is the {thing} called after?"),
)
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PEOPLE = ["Ada", "Bela", "Chiara", "Deniz", "Emi", "Farid", "Greta", "Hugo"]
_ANIMALS = ["petrel", "otter", "lynx", "heron", "badger", "marten", "osprey", "vole"]
_ADVICE = (
    "Start the {thing} with a list of what has to be there.",
    "Then split the {thing} into steps of an hour, and write down what each of them needs.",
    "Review the {project} once a week, and move what is late to the next list.",
    "Keep the {thing} small at first; more can be added to the {project} when it works.",
    "Ask somebody else to look at it, since two people see more than one.",
    "Finish what was begun before you start the next part of the {project}.",
    "Name each part plainly, so that you find it again after some months.",
    "Spend a little time every day, rather than all of it in one night.",
)


def write_long_turns(folder: Path, conversations: int = 2) -> Path:
    """Write conversations, each in its own folder, and return their parent folder."""
    for number in range(1, conversations + 1):
        chance = random.Random(number)  # noqa: S311 - the same in every run
        chat, asked = _conversation(chance)
        place = folder / str(number) / "probing_questions"
        place.mkdir(parents=True)
        (place.parent / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
        (place / "probing_questions.json").write_text(json.dumps(asked), encoding="utf-8")
    return folder


def _conversation(chance: random.Random) -> tuple[list[object], dict[str, list[object]]]:
    chat, count = list[object](), 0
    asked: dict[str, list[object]] = {"information_extraction": [], "abstention": []}
    for batch, (project, things) in enumerate(_THINGS.items(), 1):
        groups = list[object]()
        for thing in things:
            fact, question = chance.choice(_FACTS)
            told = fact.format(
                thing=thing,
                day=chance.choice(_DAYS),
                amount=chance.randrange(20, 400),
                person=chance.choice(_PEOPLE),
                animal=chance.choice(_ANIMALS),
            )
            words = f"For my {project} I want to {told}. Can you help? ->-> {batch},1"
            sources = {"first": [count]} if chance.random() < 0.5 else [count]
            asked["information_extraction"].append(
                {"question": question.format(thing=thing), "source_chat_ids": sources}
            )
            turns = [("user", words), ("assistant", _advice(chance, project, thing))]
            turns += [("user", "Thank you, go on."), ("assistant", _advice(chance, project, thing))]
            messages = list[object]()
            for role, text in turns:
                messages.append({"id": count, "role": role, "content": text})
                count += 1
            messages[0]["time_anchor"] = f"March-{batch:02}-2024"  # type: ignore[index]
            groups.append(messages)
        chat.append({"batch_number": batch, "turns": groups})
    asked["abstention"].append({"question": "What colour is my car?", "why_unanswerable": "never"})
    return chat, asked


def _advice(chance: random.Random, project: str, thing: str) -> str:
    parts = [chance.choice(_ADVICE).format(project=project, thing=thing) for _ in range(24)]
    return "\n\n".join(parts)
