"""Contents of exports of chat products."""

import io
import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any

from satchel.conformance.subject import parsed


def values_in(data: bytes) -> list[Any]:
    """Return the JSON values in an export: one file, or an archive of them."""
    if not data.startswith(b"PK"):
        return parsed(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.endswith((".md", ".gz"))]
        return [value for name in names for value in parsed(archive.read(name))]


_QUESTION = re.compile(r"Prompted&nbsp;([^<&]+)<br>[^<]*:\d\d")


_LABELED = re.compile(r"</b>([^<>&]+)<br>")


def activities_in(data: bytes) -> list[Any]:
    """Return the same for Gemini's activities; for an HTML page, the questions."""
    if data.startswith(b"<div"):
        return [_LABELED.findall(data.decode(errors="replace"))]
    page = data.lstrip().startswith(b"<html")
    return [_QUESTION.findall(data.decode(errors="replace"))] if page else values_in(data)


_WORDS = (  # noqa: SIM905 - a list of them would be a page
    "the of and to in is you that it he was for on are as with his they at be this have from or one"
    " had by but not what all were we when your can said there use each which she do how their will"
    " other about out many then them these so some her would make like him into time has look two"
    " more write go see number no way could people my than first water been call who oil its now"
    " find long down day did get come made may part over new sound take only little work know place"
    " year live me back give most very after thing our just name good sentence man think say great"
    " help through much before line right mean old any same tell boy follow came want show also tea"
    " form three small set put end does another well large must big even such because turn here why"
    " Lisbon harbour shop boat winter opens asks guests morning letters answers Mira Rosa Kenta"
).split()
_THEN, _TURNS, _TEXTS, _LENGTH = 1_772_355_600.0, 20, 300, 1_600


def large_export(path: Path, total: int, *, shard: int = 20 * 2**20) -> int:
    """Write a sharded, compressed export of ChatGPT of this size; return its number of messages."""
    chance = random.Random(1)  # noqa: S311 - nothing here is secret
    texts = [" ".join(chance.choices(_WORDS, k=_LENGTH)) for _ in range(_TEXTS)]
    made = number = place = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        while made < total:
            with out.open(f"conversations-{place:03}.json", "w") as sink:
                size = sink.write(b"[")
                while size < shard and made + size < total:
                    comma = b"," if size > 1 else b""
                    talk = json.dumps(_talk_of(number, texts, chance)).encode()
                    size += sink.write(comma + talk)
                    number += 1
                made += size + sink.write(b"]")
            place += 1
    return number * _TURNS


def _talk_of(number: int, texts: list[str], chance: random.Random) -> dict[str, Any]:
    nodes, last = dict[str, Any](), None
    when = _THEN + number
    for turn in range(_TURNS):
        name = f"n{number}-{turn}"
        message = {
            "id": name,
            "author": {"role": "assistant" if turn % 2 else "user", "name": None, "metadata": {}},
            "create_time": when,
            "content": {
                "content_type": "text",
                "parts": [f"{number} {turn} {chance.choice(texts)}"],
            },
            "status": "finished_successfully",
            "metadata": {"model_slug": "gpt-5"},
            "recipient": "all",
        }
        nodes[name] = {"id": name, "parent": last, "children": [], "message": message}
        last = name
    return {
        "title": f"Talk {number}",
        "create_time": when,
        "update_time": when,
        "mapping": nodes,
        "current_node": last,
        "conversation_id": f"c{number}",
    }
