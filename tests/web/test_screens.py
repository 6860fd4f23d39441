"""What the main views look like, at two widths and in both themes, beside reference images.

Fonts and browsers differ, so two things are compared that survive that: how light and which color
each cell of a coarse grid is on average, and where the landmarks of a view are. The references are
made with ``make screens``; look at them before they are committed.
"""

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from web_kit import BrowserTab, wait_for_view, web_server

SCREENS = Path(__file__).parent / "screens"
WIDTHS = {1280: 900, 390: 844}
THEMES = ("light", "dark")
CELL = 24
MOST_APART, FAR, MOST_FAR = 0.03, 0.2, 0.05
"""Mean difference of cells; what is far for one; and how many may be so far. From 0 to 1."""

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "web-page.png"
"""The picture in the README: a memory as the page shows it. ``make screens`` makes it, too."""

LANDMARKS = (
    "header, #pages, main, h1, .tabs, form, .cards, .drawing, .list, .sides, table, div.bar,"
    " section.part"
)

# A screenshot as its grid: the mean of each cell, as a small PNG, and as numbers.
_GRID = """async ([png, cell]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const [width, height] = [Math.floor(image.width / cell), Math.floor(image.height / cell)];
  const whole = new OffscreenCanvas(image.width, image.height).getContext("2d");
  whole.drawImage(image, 0, 0);
  const { data } = whole.getImageData(0, 0, width * cell, height * cell);
  const sums = new Float64Array(width * height * 4);
  for (let at = 0; at < data.length; at += 1) {
    const place = at >> 2, x = Math.floor((place % (width * cell)) / cell);
    const y = Math.floor(place / (width * cell) / cell);
    sums[(y * width + x) * 4 + (at & 3)] += data[at];
  }
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d"), grid = pen.createImageData(width, height);
  sums.forEach((sum, at) => { grid.data[at] = Math.round(sum / (cell * cell)); });
  pen.putImageData(grid, 0, 0);
  return { width, height, png: canvas.toDataURL().split(",")[1], cells: [...grid.data] };
}"""

_PLACES = """(landmarks) => Object.fromEntries([...document.querySelectorAll(landmarks)]
  .filter((one) => one.checkVisibility()).map((one) => [one, one.getBoundingClientRect()])
  .filter(([, box]) => box.top < innerHeight && box.bottom > 0).map(([one, box], at, all) => {
    const name = one.id || one.className.split(" ")[0] || one.tagName.toLowerCase();
    const before = all.slice(0, at).filter(([other]) =>
      (other.id || other.className.split(" ")[0] || other.tagName.toLowerCase()) === name).length;
    return [`${name} ${before + 1}`, [box.left / innerWidth, box.top / innerHeight,
      box.width / innerWidth]];
  }))"""


def _fill(client: TestClient) -> dict[str, str]:
    """Make banks of which everything that is drawn is the same in each run."""
    where = "/v1/banks/diary"
    bank = client.post("/v1/banks", json={"name": "diary"}).json()["id"]
    client.post("/v1/banks", json={"name": "notes of a project"})
    ids = list[str]()
    for number in range(14):
        entry = {
            "text": f"On day {number} Ada wrote down what she had seen at the harbour",
            "occurred_at": f"2025-{1 + number % 7:02}-{10 + number}T12:00:00Z",
            "tags": ["harbour"] if number % 2 else ["sea"],
            "user": "ada",
            "parents": ids[-1:] if number % 3 else [],
        }
        ids.append(client.post(f"{where}/entries", json=entry).json()["id"])
    client.post(f"{where}/entries/{ids[0]}/correct", json={"text": "Ada saw nothing at all"})
    messages = [{"role": role, "content": "Where do we sail?"} for role in ("user", "assistant")]
    client.post(f"{where}/sessions", json={"name": "sailing", "messages": messages * 2})
    return {
        "home": "",
        "bank": f"b/{bank}?sort=created",
        "memory": f"b/{bank}/e/{ids[2]}",
        "conversations": f"b/{bank}/sessions",
        "log": f"b/{bank}/log",
        "selection": f"b/{bank}?sort=created&tag=sea",
        "settings": "settings",
    }


def _fill_picture(client: TestClient) -> str:
    """Fill a bank for the picture of the README; return the address of its view."""
    where = "/v1/banks/assistant"
    bank = client.post("/v1/banks", json={"name": "assistant"}).json()["id"]
    ids = list[str]()
    for month, text, tags, parents in (
        (1, "Ada's team deploys on Fridays", ["work"], []),
        (1, "Ada is allergic to hazelnuts", ["food"], []),
        (2, "Ada takes her tea without sugar", ["food"], []),
        (3, "The staging server is called heron", ["work"], []),
        (4, "Ada plans a trip to Lisbon in May", ["travel"], []),
        (5, "Ada moved to Lisbon", ["travel", "home"], [4]),
        (5, "Send parcels to Rua da Rosa 12, Lisbon", ["home"], [5]),
        (6, "Check releases on heron before Friday's deployment", ["work"], [0, 3]),
    ):
        entry = {
            "text": text,
            "occurred_at": f"2026-{month:02}-{10 + len(ids)}T09:30:00Z",
            "tags": tags,
            "user": "ada",
            "parents": [ids[parent] for parent in parents],
        }
        ids.append(client.post(f"{where}/entries", json=entry).json()["id"])
    changed = {"text": "Ada's team deploys on Thursdays"}
    client.post(f"{where}/entries/{ids[0]}/correct", json=changed)
    return f"b/{bank}/e/{ids[-1]}"


def _prepare(page: Any, name: str) -> None:
    """Bring a view into the state in which it is compared, once it is there."""
    wait_for_view(page)
    if name == "home":
        page.locator(".card dt", has_text="Last change").nth(1).wait_for()
    if name == "selection":
        page.get_by_role("checkbox", name="Select: ").nth(1).check()
        page.get_by_role("checkbox", name="Select: ").nth(2).check()
        page.evaluate("scrollTo(0, document.querySelector('.list-head').offsetTop - 120)")
    if name == "settings":
        # Names of folders, versions and keys are others on each machine.
        page.evaluate(
            "document.querySelectorAll('.part .mono').forEach((one) => { one.textContent = 'x'; })"
        )


@pytest.fixture
def views(browser: Any, own_home: object) -> Iterator[tuple[Any, str, dict[str, str]]]:
    """A server with fixed banks, and the addresses of its main views."""
    del own_home
    with web_server() as (address, served):
        yield browser, address, _fill(served.client())


def _shot(page: Any) -> str:
    return base64.b64encode(page.screenshot(animations="disabled", caret="hide")).decode()


def _apart(one: list[int], other: list[int]) -> tuple[float, float]:
    """Return how different two grids are: on average, and the share of cells that are far apart."""
    cells = [
        max(abs(one[at + part] - other[at + part]) for part in range(3)) / 255
        for at in range(0, len(one), 4)
    ]
    return sum(cells) / len(cells), sum(each > FAR for each in cells) / len(cells)


def _moved(found: dict[str, list[float]], wanted: dict[str, list[float]]) -> list[str]:
    """Return which landmarks are missing, new, or elsewhere than they were."""
    wrong = sorted(found.keys() ^ wanted.keys())
    for name in found.keys() & wanted.keys():
        (x, y, wide), (x0, y0, wide0) = found[name], wanted[name]
        if abs(x - x0) > 0.03 or abs(wide - wide0) > 0.1 or abs(y - y0) > 0.03 + 0.12 * abs(y0):
            wrong.append(f"{name}: {found[name]} instead of {wanted[name]}")
    return wrong


@pytest.mark.prove
@pytest.mark.parametrize("width", WIDTHS)
def test_main_views_look_as_their_reference_images(
    views: tuple[Any, str, dict[str, str]], width: int
) -> None:
    """Each view by its grid and its landmarks; a landmark near the fold may be on either side."""
    browser, address, places = views
    measuring, wrong = browser.new_page(), dict[str, Any]()
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, reduced_motion="reduce", locale="en-GB"
    )
    context.set_default_timeout(60_000)
    tab = BrowserTab(context.new_page(), address)
    for name, where in places.items():
        tab.go(where)
        _prepare(tab.page, name)
        for theme in THEMES:
            tab.page.emulate_media(color_scheme=theme)
            found = _compared(tab.page, measuring, SCREENS / f"{name}-{width}-{theme}.png")
            if found:
                wrong[f"{name}, {theme}"] = found
    assert tab.errors == []
    context.close()
    measuring.close()
    assert wrong == {}


def test_the_picture_in_the_readme_is_current(browser: Any, own_home: object) -> None:
    """Its words are those of the page; the rest as any view is compared."""
    del own_home
    with web_server() as (address, served):
        where = _fill_picture(served.client())
        context = browser.new_context(
            viewport={"width": 1200, "height": 760},
            color_scheme="light",
            reduced_motion="reduce",
            locale="en-GB",
        )
        context.set_default_timeout(60_000)
        tab, measuring = BrowserTab(context.new_page(), address), context.new_page()
        tab.go(where)
        wait_for_view(tab.page)
        shot, words = _shot(tab.page), _words(tab.page.inner_text("body"))
        if os.environ.get("UPDATE_SCREENS"):
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_bytes(base64.b64decode(shot))
            PICTURE.with_suffix(".txt").write_text(words)
        committed = base64.b64encode(PICTURE.read_bytes()).decode()
        grid, reference = (measuring.evaluate(_GRID, [png, CELL]) for png in (shot, committed))
        context.close()
    assert words == PICTURE.with_suffix(".txt").read_text()
    assert (grid["width"], grid["height"]) == (reference["width"], reference["height"])
    mean, far = _apart(grid["cells"], reference["cells"])
    assert mean <= MOST_APART
    assert far <= MOST_FAR


def _words(text: str) -> str:
    """Return the lines of a view, sorted, without IDs and times of the run.

    Memories that are drawn in one column are in the order of their IDs.
    """
    text = re.sub(r"did:key:\w+", "KEY", text)
    text = re.sub(r"[0-9a-f]{8,}", "ID", text)
    text = re.sub(r"\d+ \w+ \d{4}, \d+:\d\d", "TIME", text)
    return "\n".join(sorted(filter(None, map(str.strip, text.splitlines())))) + "\n"


def _compared(page: Any, measuring: Any, file: Path) -> tuple[float, float, list[str]] | None:
    """Return how a view differs from its reference; None where it is alike, or has become it."""
    grid = measuring.evaluate(_GRID, [_shot(page), CELL])
    layout = page.evaluate(_PLACES, LANDMARKS)
    if os.environ.get("UPDATE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(base64.b64decode(grid["png"]))
        file.with_suffix(".json").write_text(json.dumps(_rounded(layout), indent=1) + "\n")
        return None
    reference = base64.b64encode(file.read_bytes()).decode()
    wanted = measuring.evaluate(_GRID, [reference, 1])
    assert (grid["width"], grid["height"]) == (wanted["width"], wanted["height"])
    mean, far = _apart(grid["cells"], wanted["cells"])
    moved = _moved(*_above_the_fold(layout, json.loads(file.with_suffix(".json").read_text())))
    if mean > MOST_APART or far > MOST_FAR or moved:
        return round(mean, 3), round(far, 3), moved
    return None


def _rounded(layout: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: [round(part, 3) for part in box] for name, box in layout.items()}


def _above_the_fold(
    found: dict[str, list[float]], wanted: dict[str, list[float]]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Leave out what is so near the lower edge that another font moves it beyond."""
    low = 0.85
    near = {name for name, box in found.items() if box[1] > low} | {
        name for name, box in wanted.items() if box[1] > low
    }
    return (
        {name: box for name, box in found.items() if name not in near},
        {name: box for name, box in wanted.items() if name not in near},
    )


@pytest.mark.prove
def test_another_font_passes_and_what_is_broken_does_not(
    views: tuple[Any, str, dict[str, str]],
) -> None:
    """A serif, or letters a little larger, are alike; another theme or a missing part is not."""
    browser, address, places = views
    context = browser.new_context(
        viewport={"width": 1280, "height": WIDTHS[1280]}, color_scheme="light", locale="en-GB"
    )
    page, measuring = context.new_page(), context.new_page()
    tab = BrowserTab(page, address)

    def seen() -> tuple[list[int], dict[str, list[float]]]:
        grid = measuring.evaluate(_GRID, [_shot(page), CELL])
        return grid["cells"], page.evaluate(_PLACES, LANDMARKS)

    def alike() -> bool:
        cells, layout = seen()
        mean, far = _apart(cells, usual)
        moved = _moved(*_above_the_fold(layout, places_of))
        return mean <= MOST_APART and far <= MOST_FAR and not moved

    tab.go(places["bank"])
    wait_for_view(page)
    usual, places_of = seen()
    page.evaluate("document.documentElement.style.fontFamily = 'serif'")
    assert alike()
    page.evaluate("document.documentElement.style.fontSize = '16.5px'")
    assert alike()
    page.evaluate("document.documentElement.style = ''")
    page.emulate_media(color_scheme="dark")
    assert not alike()
    page.emulate_media(color_scheme="light")
    for break_it in (
        "document.querySelector('.drawing').remove()",
        "document.querySelectorAll('.tabs, .tabs a').forEach((a) => a.style.display = 'block')",
        "document.querySelector('main').style.maxWidth = '30rem'",
        "document.querySelector('link[rel=stylesheet]').remove()",
    ):
        page.evaluate(break_it)
        assert not alike(), break_it
        page.reload()
        wait_for_view(page)
    assert alike()
    context.close()
