"""Activities of Gemini: cases outside of the shared suite."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import InputError, UnknownFormatError
from satchel.formats.gemini import moment_in, words_of
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "gemini"


def _read(path: Path, **given: Any) -> tuple[list[dict[str, Any]], ReadContext]:
    reading = ReadContext(**given)
    return [one.value for one in read_records(formats["gemini"], Location(path), reading)], reading


def _activity(title: str, time: str, **more: Any) -> dict[str, Any]:
    return {"header": "Gemini Apps", "title": f"Prompted {title}", "time": time, **more}


def _texts(found: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in found if one["event"] == "message"]


def test_skip_bad_skips_only_the_malformed_activity(tmp_path: Path) -> None:
    """In a JSON list and in an HTML page."""
    path = tmp_path / "a.json"
    good = [_activity(text, f"2026-03-0{n}T09:00:00Z") for n, text in ((2, "two"), (1, "one"))]
    path.write_text(json.dumps([good[0], {"header": "Gemini Apps", "title": 7}, 5, good[1]]))
    with pytest.raises(InputError):
        _read(path)
    found, reading = _read(path, skip_bad=True)
    assert (_texts(found), reading.report.left_out) == (["one", "two"], 2)

    page = tmp_path / "a.html"
    page.write_bytes((_SAMPLES / "bad-not-utf8.html").read_bytes())
    found, reading = _read(page, skip_bad=True)
    assert "Qual chá?" in _texts(found)
    assert reading.report.left_out == 1


def test_a_later_export_only_adds_new_activities(tmp_path: Path) -> None:
    """Earlier activities give the same records."""
    days = [_activity(f"q{n}", f"2026-03-01T0{n}:00:00Z") for n in range(5, 0, -1)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(days[2:]))
    before = [one.value for one in read_records(formats["gemini"], Location(path), ReadContext())]
    path.write_text(json.dumps(days))
    after, _ = _read(path)

    plain = [{k: v for k, v in one.items() if k not in ("id", "nonce")} for one in before]
    again = [{k: v for k, v in one.items() if k not in ("id", "nonce")} for one in after]
    for one, other in zip(plain, again, strict=False):
        assert one["origin"] == other["origin"]
        assert one.get("state") == other.get("state")
    assert _texts(after) == [f"q{n}" for n in range(1, 6)]


def test_activities_of_other_products_are_reported_and_skipped(tmp_path: Path) -> None:
    """A Takeout file may contain all activities of a person."""
    search = {"header": "Search", "title": "Searched for tea", "time": "2026-03-01T09:00:00Z"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([_activity("one", "2026-03-01T09:00:00Z"), search, search]))
    found, reading = _read(path)

    assert _texts(found) == ["one"]
    assert reading.report.ignored == {"activity of Search": 2}


def test_duplicate_activities_are_imported_once(tmp_path: Path) -> None:
    """They are counted; two with the same beginning are both imported."""
    one = _activity("one", "2026-03-01T09:00:00Z")
    other = {**one, "safeHtmlItem": [{"html": "<p>x</p>"}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([one, other, one]))
    found, reading = _read(path)

    assert sorted(_texts(found)) == ["one", "one", "x"]
    assert reading.report.ignored.total() == 1


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("Jul 25, 2026, 11:07:57 PM PDT", "2026-07-25T23:07:57-07:00"),
        ("Jan 1, 2026, 12:00:01 AM UTC", "2026-01-01T00:00:01+00:00"),
        ("18 Sept 2025, 12:02:52 CET", "2025-09-18T12:02:52+01:00"),
        ("3 May 2026, 09:00:00 GMT+05:30", "2026-05-03T09:00:00+05:30"),
        ("Jul 25, 2026, 11:07:57 PM CST", None),
        ("Feb 30, 2026, 11:07:57 PM UTC", None),
        ("10 de mai. de 2026, 03:46:09 BRT", "2026-05-10T03:46:09-03:00"),
        ("04.07.2026, 09:15:00 MESZ", "2026-07-04T09:15:00+02:00"),
        ("4 juil. 2026, 09:15:00 CEST", "2026-07-04T09:15:00+02:00"),
        ("4 juin 2026, 09:15:00 CEST", "2026-06-04T09:15:00+02:00"),
        ("4 juli 2026 09:15:00 CEST", "2026-07-04T09:15:00+02:00"),
        ("4. jul. 2026 09.15.00 CEST", "2026-07-04T09:15:00+02:00"),
        ("4.7.2026 klo 9.15.00 EEST", "2026-07-04T09:15:00+03:00"),
        ("4 lug 2026, 09:15:00 CEST", "2026-07-04T09:15:00+02:00"),
        ("2026/07/04 9:15:00 JST", "2026-07-04T09:15:00+09:00"),
        ("2026年7月4日 下午3:15:00 GMT+08:00", "2026-07-04T15:15:00+08:00"),
        ("2026. 7. 4. 오전 12:15:00 KST", "2026-07-04T00:15:00+09:00"),
        ("4 lip 2026, 09:15:00 CEST", None),
        ("07/04/2026, 09:15:00 CEST", None),
    ],
)
def test_a_time_of_a_page_is_parsed_or_kept_as_text(said: str, moment: str | None) -> None:
    """No time is guessed: CST has several meanings."""
    assert moment_in(said) == moment


@given(st.text(alphabet="<>/&;abprli \n\"'!-", max_size=80))
def test_any_html_is_text_without_tags(html: str) -> None:
    """For all pages."""
    assert "<p>" not in words_of(html)


def test_the_text_of_html_has_the_displayed_lines() -> None:
    """Paragraphs, lists, tables and code; entities are characters."""
    html = "<p>One &amp;\n two</p><ul><li>a</li><li>b</li></ul><pre>x\n  y</pre><br>end"
    assert words_of(html) == "One & two\n\n- a\n- b\n\nx\n  y\n\nend"


@pytest.mark.parametrize("attack", ["<", "<p", "<!--", "&", '<div class="'])
def test_attack_unclosed_tags_are_parsed_in_linear_time(attack: str) -> None:
    """A quadratic reader would time out."""
    assert len(words_of(attack * 100_000)) <= len(attack) * 100_000


def _zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_very_long_first_prompt_does_not_prevent_recognition(tmp_path: Path) -> None:
    """The time follows it, after the bytes that are used to recognize the format."""
    rows = json.dumps([_activity("x" * 6000, "2026-03-01T09:00:00Z")])
    path = tmp_path / "MyActivity.json"
    path.write_text(rows)
    assert formats.recognize(Location(path)) == "gemini"

    other = {f"Takeout/Chrome/{number}.json": "{}" for number in range(80)}
    files = {**other, "Takeout/My Activity/Gemini Apps/MyActivity.json": rows}
    path = _zip(tmp_path / "t.zip", files)
    assert formats.recognize(Location(path)) == "gemini"
    assert _texts(_read(path)[0]) == ["x" * 6000]


@pytest.mark.parametrize(
    ("title", "prompt"),
    [
        ("Gav instruktionen\u00a0vilken v\u00e4xelriktare?", "vilken v\u00e4xelriktare?"),
        (
            "\u9001\u4fe1\u3057\u305f\u30e1\u30c3\u30bb\u30fc\u30b8:\u00a0\u304a\u8336",
            "\u304a\u8336",
        ),
        ("Bonjour\u00a0! \u00c7a va\u00a0?", "Bonjour\u00a0! \u00c7a va\u00a0?"),
        ("Prompted\u00a0Hello", "Hello"),
    ],
)
def test_the_prompt_is_extracted_in_any_language(title: str, prompt: str, tmp_path: Path) -> None:
    """Google's prefix ends in a no-break space; French has one before punctuation."""
    card = (
        '<div class="outer-cell"><div class="header-cell"><p>Gemini-appar</p></div>'
        f'<div class="content-cell">{title}<br>4 juli 2026 09:15:00 CEST<br><p>Ja.</p></div></div>'
    )
    path = tmp_path / "MinAktivitet.html"
    path.write_text(f"<html><body>{card}</body></html>", "utf-8")
    assert formats.recognize(Location(path)) == "gemini"
    found, _ = _read(path)

    assert _texts(found) == [prompt, "Ja."]
    assert {one["created_at"] for one in found} == {"2026-07-04T07:15:00.000000Z"}


def test_a_regenerated_turn_is_a_fork_and_the_last_answer_is_current(tmp_path: Path) -> None:
    """Two turns with one number are two answers; an empty turn is counted."""
    turns = [
        {"user_turn": {"prompt": "q", "turn_index": 0}},
        {"system_turn": {"text": [{"data": "first"}], "turn_index": 1}},
        {"system_turn": {"text": [{"data": "second"}], "turn_index": 1}},
        {"user_turn": {"prompt": "go on", "turn_index": 2}},
        {"someone": {}},
        7,
    ]
    name = "Takeout/Gemini in Workspace/Conversation History/conversation_5.txt"
    text = json.dumps({"title": "T", "conversation_turns": turns})
    path = _zip(tmp_path / "t.zip", {name: text})
    assert formats.recognize(Location(path)) == "gemini"
    found, reading = _read(path)

    assert _texts(found) == ["q", "second", "go on", "first"]
    assert sum(one["event"] == "fork" for one in found) == 1
    assert found[0]["origin"]["id"] == "conversation_5"
    assert reading.report.total == 2


def test_gems_become_identity_memories(tmp_path: Path) -> None:
    """With labels in any language; an empty page has no gem."""
    page = (
        "<div><b>Nom :</b>Chef<br><b>Consignes :</b>Tu cuisines.<br><b>Ton :</b> doux<br>"
        '<b>Fichiers :</b><br><a href="https://example.org/a">a.pdf</a><br></div>'
    )
    path = _zip(tmp_path / "t.zip", {"Takeout/Gemini/gemini_gems_data.html": page})
    assert formats.recognize(Location(path)) == "gemini"
    (gem,), _ = _read(path)

    assert gem["custom_instructions"] == "Tu cuisines.\nTon : doux"
    assert gem["scope"] == {"namespace": ["gems", "Chef"]}
    assert gem["origin"]["as_written"] == {"links": ["https://example.org/a"]}
    with pytest.raises(UnknownFormatError):
        formats.recognize(
            Location(_zip(tmp_path / "e.zip", {"gemini_gems_data.html": "<div></div>"}))
        )


@pytest.mark.parametrize(
    ("header", "is_gemini"),
    [("Gemini\u5e94\u7528", True), ("Gemini-Apps", True), ("Bardzo", False), ("Search", False)],
)
def test_the_product_is_recognized_in_any_language(
    header: str, *, is_gemini: bool, tmp_path: Path
) -> None:
    """Its name is never translated, and may be without a following space."""
    path = tmp_path / "a.json"
    first = _activity("one", "2026-03-01T09:00:00Z")
    path.write_text(json.dumps([first, {**first, "header": header, "title": "Prompted two"}]))
    assert ("two" in _texts(_read(path)[0])) is is_gemini
