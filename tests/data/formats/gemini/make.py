"""Writes the samples of Gemini's activities; run it again and nothing changes.

``python tests/data/formats/gemini/make.py``. Every name and text is invented.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from chats_kit import activities_in

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
STYLE = "body{font-family:sans-serif}" * 300


def activity(title: str, time: str, *answers: str, **more: Any) -> dict[str, Any]:
    """An activity as the export has it."""
    said = {"safeHtmlItem": [{"html": one} for one in answers]} if answers else {}
    return {
        "header": "Gemini Apps",
        "title": title,
        "time": time,
        "products": ["Gemini Apps"],
        "activityControls": ["Gemini Apps Activity"],
        **said,
        **more,
    }


def activities() -> list[dict[str, Any]]:
    """A few days, the newest first."""
    link = "https://gemini.google.com/app/0123456789abcdef"
    return [
        activity("Gave feedback: Good response", "2026-03-03T08:10:00.125Z"),
        activity("Prompted Which tea for guests?", "2026-03-03T08:00:00.125Z",
                 "<p>Green tea.</p>", "<p>Black <b>tea</b>.</p>"),
        activity("送信したメッセージ: お茶", "2026-03-02T22:00:00.125Z", "<p>緑茶です。</p>",
                 header="Gemini アプリ", subtitles=[{"name": "添付"}]),
        activity("Prompted\u00a0And on Sundays?", "2026-03-01T10:00:00.125Z",
                 "<ul><li>Closed</li><li>All day</li></ul>", titleUrl=link),
        activity("Prompted When do you open?\nMira asks.", "2026-03-01T09:00:00.125Z",
                 "<p>At nine.</p><pre><code>9:00\n  sharp</code></pre>", titleUrl=link),
        activity("Used Gemini Apps", "2026-02-28T10:00:00.125Z", imageFile="a.png"),
        activity("Used Gemini Apps", "2026-02-28T09:00:00.125Z",
                 details=[{"name": "Request", "value": "Name a tea."},
                          {"name": "Response", "value": "Oolong."}]),
    ]  # fmt: skip


def page() -> str:
    """The same as a page."""
    cards = [
        ("Prompted&nbsp;Which cup &amp; which tea?", "Jul 25, 2026, 11:07:57\u202fPM PDT",
         "<p>The <b>blue</b> one.</p>"),
        ('Prompted&nbsp;And then?<br>Attached 1 file.<br>-&nbsp;<a href="a.png">a.png</a>',
         "18 Sept 2025, 12:02:52 CET", "<p>Pour.</p>"),
        ("Prompted&nbsp;Qual chá?", "10 de mai. de 2026, 03:46:09 BRT", "<p>Verde.</p>"),
        ("Created Gemini Canvas titled Tea", "Jul 25, 2026, 11:07:50\u202fPM PDT", ""),
    ]  # fmt: skip
    made = "".join(
        '<div class="outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp"><div class="mdl-grid">'
        '<div class="header-cell mdl-cell mdl-cell--12-col"><p class="mdl-typography--title">'
        'Gemini Apps<br></p></div><div class="content-cell mdl-cell mdl-cell--6-col '
        f'mdl-typography--body-1">{title}<br>{when}<br>{answer}</div><div class="content-cell '
        'mdl-cell mdl-cell--6-col mdl-typography--text-right"></div><div class="content-cell '
        'mdl-cell mdl-cell--12-col mdl-typography--caption"><b>Products:</b><br>&emsp;Gemini Apps'
        "<br></div></div></div>"
        for title, when, answer in cards
    )
    start = f'<html><head><title>My Activity History</title><style type="text/css">{STYLE}</style>'
    return f'{start}</head><body><div class="mdl-grid">{made}</div></body></html>'


def talk() -> dict[str, Any]:
    """A conversation that has a file of its own, with an answer that was made again."""
    when = "2026-08-09T17:29:42+00:00"
    thought = {"headline": "Teas", "description": "Thinks of teas."}
    cards = {"cards": [{"content": "Sencha: 70 degrees"}]}
    return {
        "title": "Teas",
        "creation_time": when,
        "last_modification_time": "2026-08-09T17:34:58.153871+00:00",
        "conversation_turns": [
            {"user_turn": {"prompt": "Which tea?", "turn_index": 0, "turn_last_modified": when}},
            {"system_turn": {"text": [{"data": "Oolong."}], "turn_index": 1}},
            {"system_turn": {"text": [{"data": "Sencha."}, cards], "images": ["a"],
                             "model_thoughts": [thought], "turn_index": 1}},
            {"user_turn": {"prompt": "Thanks.", "turn_index": 2, "turn_deleted_time": when}},
        ],
    }  # fmt: skip


def gems() -> str:
    """Two Gems, one with files."""
    return (
        "<div><b>Name:</b>Tea &amp; co<br><b>Instructions:</b>You know tea."
        '<br><b>Files:</b><br><a href="https://example.org/a">list.pdf</a><br>'
        "<b>Name:</b>Plain<br><b>Instructions:</b>Be short.<br><b>Files:</b><br></div>"
    )


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    rows, made = activities(), io.BytesIO()
    searched = {**activity("Used Gemini Apps", rows[0]["time"]), "header": "Search"}
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name, value in (
            ("Takeout/My Activity/Gemini Apps/MyActivity.json", rows),
            ("Takeout/My Activity/Search/MyActivity.json", [searched]),
        ):
            info = zipfile.ZipInfo(name, (2026, 3, 1, 9, 0, 0))
            out.writestr(info, json.dumps(value, ensure_ascii=False))
    good = {
        "activity.json": _json(rows),
        "page.html": page().encode(),
        "takeout.zip": made.getvalue(),
        "conversation_1.txt": _json(talk()),
        "gems.html": gems().encode(),
    }
    bad = {
        "title-number.json": _json([rows[1], {**rows[2], "title": 7}]),
        "no-header.json": _json([{**rows[1], "header": None}]),
        "answers-text.json": _json([{**rows[1], "safeHtmlItem": "x"}]),
        "html-number.json": _json([{**rows[1], "safeHtmlItem": [{"html": 7}]}]),
        "not-an-object.json": _json([rows[1], 7]),
        "cut.json": _json(rows)[:-30],
        "turns-text.txt": _json({**talk(), "conversation_turns": "none"}),
        "empty.json": b"[]",
        "no-contents.html": page().replace("content-cell", "other").encode(),
        "cut.html": page()[:-400].encode(),
        "not-utf8.html": page().replace("blue", "\\").encode().replace(b"\\", b"\xff"),
        "cut.zip": made.getvalue()[:-30],
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("gemini", formats["gemini"], HERE, activities_in)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


if __name__ == "__main__":
    main()
