"""Views of a bank on the web page: list, facets, search, graph, log, comparison, set-up."""

import json
from pathlib import Path
from typing import Any

import pytest
from http_kit import ServedGateway
from web_kit import BANK, BrowserTab, drop, wait_for_view, web_server


def test_the_list_is_sorted_and_grouped_by_date_added_or_created(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """A new memory of long ago is first by the one, and last by the other."""
    client = server[1].client()
    for day, text in (("2021-03-04", "an old trip"), ("2019-05-06", "an older trip")):
        client.post(f"{BANK}/entries", json={"text": text, "occurred_at": f"{day}T12:00:00Z"})
    page = tab.go(f"b/{bank}")
    wait_for_view(page)
    assert page.locator("#found .said").first.inner_text() == "an older trip"
    assert page.locator("#found").get_by_text("created 6 May 2019").count() == 1
    page.get_by_label("Sort by").select_option("created")
    page.get_by_role("heading", name="By date created").wait_for()
    page.get_by_role("heading", name="Monday, 6 May 2019").wait_for()
    assert page.locator("#found .said").all_inner_texts()[-2:] == ["an old trip", "an older trip"]
    assert page.locator("#found h3").all_inner_texts()[-2:] == [
        "Thursday, 4 March 2021",
        "Monday, 6 May 2019",
    ]


def test_the_chart_of_a_single_month_has_axis_and_count(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Numbers of the axis, the month, its year, and the count on its bar."""
    del bank
    client = server[1].client()
    other = client.post("/v1/banks", json={"name": "diary"}).json()["id"]
    for number in range(3):
        entry = {"text": f"snow {number}", "occurred_at": "2026-01-05T12:00:00Z"}
        client.post(f"/v1/banks/{other}/entries", json=entry)
    page = tab.go(f"b/{other}")
    page.locator("svg.drawn .bar").first.wait_for()
    texts = page.locator("svg.drawn text").all_text_contents()
    assert {"0", "2", "4", "Jan", "2026", "Dec", "3"} <= set(texts)
    assert page.locator("svg.drawn .bar").count() == 6
    box = page.locator("svg.drawn").bounding_box()
    last = page.locator("svg.drawn .bar").last.bounding_box()
    assert last["x"] + last["width"] > box["x"] + 0.95 * box["width"]


def test_search_highlights_words_and_explains_matches(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """In one bank, and in all banks from the start page."""
    client = server[1].client()
    other = client.post("/v1/banks", json={"name": "kitchen"}).json()["id"]
    long = f"{'word ' * 200}and then coffee beans"
    client.post(f"/v1/banks/{other}/entries", json={"text": long})
    page = tab.go(f"b/{bank}?q=coffee")
    wait_for_view(page)
    assert page.locator("#found mark").all_inner_texts() == ["coffee"]
    assert "same words" in page.locator("#found").inner_text()
    assert "score" not in page.locator("#found").inner_text()
    sizes = page.evaluate(
        "[...document.querySelectorAll('#found .chips > *')].map((one) =>"
        " getComputedStyle(one).fontSize)"
    )
    assert len(set(sizes)) == 1
    page = tab.go()
    card = page.locator(".card", has_text="assistant")
    card.locator("dt", has_text="Last change").wait_for()
    assert "Memories\n2" in card.inner_text()
    assert "Owner\nyou (default)" in card.inner_text()
    assert "Size" in card.inner_text()
    page.get_by_label("Search all banks").fill("coffee")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("3 results in 2 banks.").wait_for()
    assert page.locator("#found mark").all_inner_texts() == ["coffee", "coffee"]
    assert page.locator("#found h3").all_inner_texts() in (
        ["assistant", "kitchen"],
        ["kitchen", "assistant"],
    )
    page.locator("#found section", has=page.get_by_role("heading", name="kitchen")).get_by_role(
        "link", name="Search this bank only"
    ).click()
    page.get_by_role("heading", name="1 result").wait_for()


def test_memories_derived_from_a_corrected_one_are_marked(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """In the list, on the memory, and in the drawing, which has the superseded text."""
    client = server[1].client()
    nuts = client.post(f"{BANK}/entries", json={"text": "Ada is allergic to nuts"}).json()["id"]
    pesto = {"text": "Avoid pesto", "parents": [nuts]}
    made = client.post(f"{BANK}/entries", json=pesto).json()["id"]
    page = tab.go(f"b/{bank}/e/{made}")
    wait_for_view(page)
    assert page.get_by_text("built on a corrected memory").count() == 0
    client.post(f"{BANK}/entries/{nuts}/correct", json={"text": "Ada is allergic to hazelnuts"})
    page = tab.go(f"b/{bank}")
    page.locator("li", has_text="Avoid pesto").get_by_text("built on a corrected memory").wait_for()
    page = tab.go(f"b/{bank}/e/{made}")
    page.locator(".chip", has_text="built on a corrected memory").wait_for()
    page.locator("svg.drawn a.gone.retracted", has_text="Ada is allergic to nuts").wait_for()


def test_users_and_tags_are_facets(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """With counts; a click selects one, another click clears it."""
    client = server[1].client()
    client.post(f"{BANK}/entries", json={"text": "Grace sails", "user": "grace", "tags": ["sea"]})
    page = tab.go(f"b/{bank}")
    page.get_by_role("navigation", name="Filter by user").get_by_role(
        "link", name="grace 1"
    ).click()
    page.get_by_role("link", name="Ada drinks tea").wait_for(state="detached")
    page.get_by_role("link", name="Grace sails").wait_for()
    page.get_by_role("navigation", name="Filter by user").get_by_role("link", name="grace").click()
    page.get_by_role("link", name="Ada drinks tea").wait_for()
    page.get_by_role("navigation", name="Filter by tag").get_by_role(
        "link", name="#drinks 1"
    ).click()
    page.get_by_role("link", name="Grace sails").wait_for(state="detached")
    page.get_by_role("link", name="Ada drinks tea").wait_for()


def test_an_empty_memory_has_a_title(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Not ``{}``."""
    client = server[1].client()
    page = tab.go(f"b/{bank}")

    def answer(route: Any) -> None:
        body = client.get(f"{BANK}/entries", params={"limit": 50}).json()
        for memory in body["memories"]:
            memory["text"] = "{}"
        route.fulfill(json=body)

    page.route("**/entries?*", answer)
    page = tab.go(f"b/{bank}?sort=created")
    page.get_by_text("(empty memory)").first.wait_for()
    assert page.get_by_text("{}", exact=True).count() == 0


def test_an_import_of_sessions_counts_and_links_them(tab: BrowserTab, bank: str) -> None:
    """Memories, conversations and messages are counted separately."""
    del bank
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "children": ["m0"]}}
    for number, role in enumerate(("user", "assistant", "user")):
        nodes[f"m{number}"] = {
            "id": f"m{number}",
            "parent": "root" if number == 0 else f"m{number - 1}",
            "children": [f"m{number + 1}"] if number < 2 else [],
            "message": {
                "id": f"m{number}",
                "author": {"role": role},
                "create_time": 1767225600.0 + number,
                "content": {"content_type": "text", "parts": [f"text {number}"]},
            },
        }
    talks = [
        {
            "title": f"Talk {number}",
            "conversation_id": f"c{number}",
            "id": f"c{number}",
            "create_time": 1767225600.0,
            "update_time": 1767225700.0,
            "current_node": "m2",
            "mapping": nodes,
        }
        for number in range(2)
    ]
    page = tab.go("import")
    page.get_by_label("Bank (created").fill("chats")
    options = page.locator("datalist option").evaluate_all("(all) => all.map((one) => one.value)")
    assert options == ["assistant"]
    page.get_by_text("Supported formats").click()
    page.get_by_role("cell", name="chatgpt", exact=True).wait_for()
    drop(page, "conversations.json", json.dumps(talks))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Done").wait_for()
    figures = page.locator("#plan .figures").inner_text()
    assert "2\nconversations" in figures
    assert "6\nmessages" in figures
    page.get_by_role("link", name="View 2 conversations").click()
    page.get_by_role("heading", name="Talk 0").wait_for()


def test_the_page_shows_how_to_configure_backups(
    browser: Any, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and the lines to add, to be copied; with them, backups work."""
    del own_home
    config = tmp_path / "satchel.toml"
    config.write_text("[store]\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    shelf = tmp_path / "shelf"
    with web_server() as (address, _):
        context = browser.new_context()
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        page = context.new_page()
        page.goto(f"{address}/#/backups")
        page.get_by_role("heading", name="Set up backups").wait_for()
        page.get_by_text(str(config)).first.wait_for()
        page.get_by_label("Destination").fill(str(shelf))
        page.keyboard.press("Tab")
        page.get_by_label("Lines to add").get_by_text(str(shelf)).wait_for(state="attached")
        page.get_by_role("button", name="Copy").click()
        page.get_by_text("Copied.").wait_for()
        lines = page.evaluate("navigator.clipboard.readText()")
        assert config.read_text() == "[store]\n"
        context.close()
    config.write_text(f"[store]\n{lines}\n")
    with web_server() as (address, served):
        served.client().post("/v1/banks", json={"name": "assistant"})
        page = browser.new_page()
        page.goto(f"{address}/#/backups")
        page.get_by_role("button", name="Back up now").click()
        page.get_by_text("Backup created and verified").wait_for()
        assert any(shelf.iterdir())
        page.close()


def test_the_log_is_paged_with_signers_and_proofs(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Every position once, in both orders; a proof has the path to the root."""
    client = server[1].client()
    for number in range(60):
        client.post(f"{BANK}/entries", json={"text": f"note {number}"})
    size = client.get(f"{BANK}/log").json()["size"]
    page = tab.go(f"b/{bank}/log")
    wait_for_view(page)
    assert page.get_by_text("all verified").count() == 1
    first = page.locator("#log tbody tr").first
    assert first.locator("td").first.inner_text() == str(size)
    assert first.locator("td").nth(1).inner_text() == "semantic"
    assert first.locator("td").nth(4).inner_text().startswith("…")
    first.get_by_text("proof").click()
    first.locator("pre", has_text='"path"').wait_for()
    seen = page.locator("#log tbody tr").count()
    while (older := page.get_by_role("link", name="Older →")).count():
        older.click()
        page.get_by_role("link", name="← Newest").wait_for()
        wait_for_view(page)
        seen += page.locator("#log tbody tr").count()
    assert seen == size
    page.get_by_label("Order").select_option("oldest")
    page.locator("#log tbody tr").first.get_by_text("bank", exact=True).wait_for()
    page.get_by_label("Go to position").fill("3")
    page.get_by_role("button", name="Go").click()
    page.get_by_text("Positions 3 to").wait_for()


def test_a_bank_is_compared_with_another_bank_and_an_earlier_position(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Added, missing, and changed memories, with both texts."""
    client = server[1].client()
    size = client.get(BANK).json()["records"]
    tea = client.get(f"{BANK}/entries").json()["memories"][-1]["id"]
    client.patch(f"{BANK}/entries/{tea}", json={"text": "Ada drinks mate"})
    client.post(f"{BANK}/entries", json={"text": "Ada sails"})
    client.post("/v1/banks", json={"name": "other"})
    client.post("/v1/banks/other/entries", json={"text": "Grace rows"})
    page = tab.go(f"b/{bank}/compare")
    page.get_by_role("spinbutton", name="Log position").fill(str(size))
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Added since").wait_for()
    page.locator(".change.more", has_text="Ada sails").wait_for()
    changed = page.locator("li", has=page.locator(".change.less", has_text="Ada drinks tea"))
    changed.locator(".change.more", has_text="Ada drinks mate").wait_for()
    page.get_by_label("Compare with").select_option(label="other")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Only in other").wait_for()
    page.locator(".change.less", has_text="Grace rows").click()
    page.locator(".text", has_text="Grace rows").wait_for()


NODES = 5000


def _large() -> dict[str, Any]:
    """A graph with hubs, chains and nodes without links."""
    types = ("semantic", "episodic", "procedural")
    nodes = [
        {
            "id": f"blake3:{number:064x}",
            "type": types[number % 3],
            "text": f"memory {number}",
            "tags": ["odd"] if number % 2 else [],
            "state": "current",
        }
        for number in range(NODES)
    ]
    links = [
        {"source": number, "target": number // 7, "type": "derives_from"}
        for number in range(1, NODES * 4 // 5)
    ]
    return {"nodes": nodes, "links": links, "complete": True}


_FRAMES = """(moves) => new Promise((done) => {
  const canvas = document.querySelector("canvas.graph");
  const before = Number(canvas.dataset.frames);
  let number = 0;
  const event = (type, x) => canvas.dispatchEvent(new PointerEvent(type,
    { pointerId: 1, clientX: 300 + x, clientY: 400, bubbles: true }));
  canvas.setPointerCapture = () => {};
  event("pointerdown", 0);
  const next = () => {
    number += 1;
    event("pointermove", number * 3);
    if (number < moves) requestAnimationFrame(next);
    else requestAnimationFrame(() => requestAnimationFrame(() => {
      event("pointerup", number * 3);
      done(Number(canvas.dataset.frames) - before);
    }));
  };
  requestAnimationFrame(next);
})"""
_HIT = """() => {
  const canvas = document.querySelector("canvas.graph"), box = canvas.getBoundingClientRect();
  for (let x = box.x + 4; x < box.right; x += 6) {
    for (let y = box.y + 4; y < box.bottom; y += 6) {
      const at = { clientX: x, clientY: y, bubbles: true };
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
      if (canvas.classList.contains("on-node")) return [x, y];
    }
  }
  return null;
}"""


@pytest.mark.prove
def test_a_graph_of_5000_memories_is_laid_out_and_drawn_in_frames(
    tab: BrowserTab, bank: str
) -> None:
    """The work of a step is linear in the nodes; every pointer move is drawn."""
    answer = _large()
    tab.page.route("**/graph?*", lambda route: route.fulfill(json=answer))
    page = tab.go(f"b/{bank}/graph")
    canvas = page.locator("canvas.graph[data-state=settled]")
    canvas.wait_for()
    data = page.locator("canvas.graph").evaluate("(one) => ({ ...one.dataset })")
    assert int(data["pairs"]) < 150 * NODES, "neighbors only"
    assert int(data["frames"]) >= 20, "not in one piece: what is seen moves while it settles"
    page.get_by_text("5,000 memories, 3,999 links shown.").wait_for()
    moves = 40
    assert page.evaluate(_FRAMES, moves) >= moves
    assert page.evaluate("location.hash").endswith("/graph")
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function("document.querySelector('canvas.graph').dataset.scale > 0")
    page.get_by_label("Type").select_option("episodic")
    page.get_by_text("1,667 memories").first.wait_for()
    page.get_by_label("Tag").select_option(label="#odd (2,500)")
    page.get_by_text("834 memories").first.wait_for()
    canvas.focus()
    before = page.locator("canvas.graph").get_attribute("data-pan")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "(was) => document.querySelector('canvas.graph').dataset.pan !== was", arg=before
    )


def test_a_memory_in_the_graph_is_opened_with_a_click(tab: BrowserTab, bank: str) -> None:
    """On the canvas, and in the list below it."""
    page = tab.go(f"b/{bank}/graph")
    page.locator("canvas.graph[data-state=settled]").wait_for()
    page.get_by_text("2 memories, 1 link shown.").wait_for()
    x, y = page.evaluate(_HIT)
    page.mouse.click(x, y)
    page.get_by_role("heading", name="Proof").wait_for()
    page = tab.go(f"b/{bank}/graph")
    page.locator(".list .said", has_text="Ada drinks tea").click()
    page.locator(".text", has_text="Ada drinks tea").wait_for()


def test_on_a_phone_content_is_not_cut_off(
    browser: Any, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Scrollable parts show it; provenance is drawn from top to bottom."""
    client = server[1].client()
    ids = list[str]()
    for number in range(6):
        entry = {"text": f"step {number} of a long way that has many words", "parents": ids[-1:]}
        ids.append(client.post(f"{BANK}/entries", json=entry).json()["id"])
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    tab = BrowserTab(page, server[0])
    tab.go(f"b/{bank}/e/{ids[3]}")
    wait_for_view(page)
    for nav in ("#pages", ".tabs"):
        assert page.locator(f"{nav}.more-right").count() == 1, nav
        assert page.locator(f"{nav}.more-left").count() == 0, nav
        page.locator(nav).evaluate("(one) => one.scrollTo({ left: 9999, behavior: 'instant' })")
        page.locator(f"{nav}.more-left:not(.more-right)").wait_for()
    wide = "(one) => [one.scrollLeft, one.scrollWidth - one.clientWidth]"
    assert page.locator(".drawing").evaluate(wide) == [0, 0]
    boxes = [
        page.locator("svg.drawn a", has_text=f"step {number}").bounding_box()
        for number in range(1, 6)
    ]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    assert [box["y"] for box in boxes] == sorted(box["y"] for box in boxes)
    page.set_viewport_size({"width": 760, "height": 900})
    page.reload()
    wait_for_view(page)
    page.locator(".drawing.more-left.more-right").wait_for()
    frame = page.locator(".drawing").bounding_box()
    own = page.locator("svg.drawn a.self").bounding_box()
    assert own["x"] >= frame["x"]
    assert own["x"] + own["width"] <= frame["x"] + frame["width"]
    assert tab.errors == []
    context.close()
