"""Whatever something is called, whatever stands in the address: the page asks for that alone."""

from itertools import product
from typing import Any

import pytest
from fastapi.testclient import TestClient
from http_kit import Served
from web_kit import Watched, furnished, listening, settled

ODD = ("%2F", "100% a?b#c", "constructor", "__proto__", "ü ñ", "a&b=c;d", "assistant/..%2f")
STEPS = (
    "..",
    ".",
    "%2e%2e",
    "%252e%252e",
    "..%2F..",
    "..%2f..%2f..%2fbanks",
    "%2E%2E%2F",
    "a%2Fraw",
)
BELOW = {
    "e/{}": "/v1/banks/{}/entries/",
    "e/x/../{}": "/v1/banks/{}/entries/",
    "sessions/{}": "/v1/banks/{}/sessions",
    "files/{}": "/v1/files/{}",
    "files/{}%2Fbanks%2Fassistant%2Fentries": "/v1/files/{}",
}
"""What may be asked for at an address."""


@pytest.fixture
def owner(server: tuple[str, Served]) -> TestClient:
    """The owner."""
    return server[1].client()


def _made(owner: TestClient, name: str) -> str:
    made = owner.post("/v1/banks", json={"name": name})
    assert made.is_success, made.text
    return str(made.json()["id"])


def _came(page: Any) -> None:
    """Wait until a part of the page has come, or it is said why it has not."""
    page.locator("main h1, main [role=alert]").first.wait_for()
    page.locator("main[aria-busy], main [aria-busy]").first.wait_for(state="detached")


def test_memory_files_are_shown_whatever_the_name_of_the_bank(
    tab: Watched, owner: TestClient
) -> None:
    """Written and shown; of a name that no folder can have it is said what can be done."""
    for name in ODD:
        if "/" in name:
            continue
        page = tab.go(f"b/{_made(owner, name)}/files")
        page.get_by_role("button", name="New file").click()
        page.get_by_role("dialog").get_by_label("Path").fill("notes/today 100%.md")
        page.get_by_role("dialog").get_by_role("textbox", name="Text").fill("buy tea")
        page.keyboard.press("Tab")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        page.locator("pre.file", has_text="buy tea").wait_for()
    for name in ("a/b", "..", "x" * 300):
        page = tab.go(f"b/{_made(owner, name)}/files")
        page.get_by_text("a bank with this name cannot have memory files").wait_for()
        page.get_by_text("Rename the bank").wait_for()
        tab.complaints.clear()  # the browser tells of the 422


def test_all_parts_of_a_bank_are_shown_whatever_its_name(tab: Watched, owner: TestClient) -> None:
    """By its id, and by its name in the address; the import goes into it and no other."""
    mem0 = '{"results": [{"id": "1", "memory": "Ada drinks tea"}]}'
    for name in ODD:
        bank = _made(owner, name)
        more = ("/graph", "/log", "/compare", "/tokens", "/owners")
        for part in ("", "/sessions", "/import", "/export", "/quarantine", *more):
            page = tab.go(f"b/{bank}{part}")
            settled(page)
            assert page.get_by_role("alert").count() == 0, (name, part)
            assert page.locator("h1").inner_text() == name
        page = tab.go(f"b/{bank}/import")
        page.locator(".drop input").set_input_files(
            {"name": "m.mem0.json", "mimeType": "application/json", "buffer": mem0.encode()}
        )
        page.get_by_role("button", name="Import", exact=True).click()
        page.get_by_role("heading", name="Done").wait_for()
        assert owner.get(f"/v1/banks/{bank}").json()["memories"] == 1


def test_attack_an_address_of_the_page_reaches_no_other_part_of_the_server(
    tab: Watched, owner: TestClient
) -> None:
    """What is asked for is below what the address names, or nothing is."""
    bank = furnished(owner)
    asked = list[str]()
    tab.page.on("request", lambda request: asked.append(request.url))
    for (part, below), step in product(BELOW.items(), STEPS):
        if step == STEPS[0]:  # what comes late is of the same part, and judged as the next is
            tab.go("jobs")
            _came(tab.page)
        asked.clear()
        tab.go(f"b/{bank}/{part.format(step)}")
        _came(tab.page)
        for url in asked:
            path = "/" + url.split("/", 3)[3]
            usual = path == "/v1/banks" or "/page/" in path
            allowed = (below.format(bank), below.format(bank.replace(":", "%3A")))
            assert usual or path.startswith(allowed), (step, path)
            assert "%2f" not in path.lower().replace("%252f", ""), step
            assert "/.." not in path, step
    for page in [f"{part}/{step}" for part in ("receipts", "b") for step in STEPS]:
        asked.clear()
        tab.go(page)
        _came(tab.page)
        for url in asked:
            path = "/" + url.split("/", 3)[3].partition("?")[0]
            usual = path in ("/v1/banks", "/v1/receipts") or path.startswith("/page/")
            assert usual or path.startswith(("/v1/receipts/", "/v1/banks/%25")), (page, path)
    tab.complaints.clear()  # the browser tells of what is not there


def test_what_every_object_has_is_no_part_of_the_page(tab: Watched, owner: TestClient) -> None:
    """As the part of a bank, the bank, the page, an id, and what something is."""
    bank = furnished(owner)
    for name in ("constructor", "__proto__", "toString", "hasOwnProperty", "nothing"):
        for where in (name, f"b/{bank}/{name}", f"b/{bank}/{name}/{name}"):
            page = tab.go(where)
            page.get_by_text("Page not found").wait_for()
            assert "[object" not in page.locator("main").inner_text(), where
        for where in (
            f"b/{name}",
            f"b/{bank}/e/{name}",
            f"b/{bank}/sessions/{name}",
            f"receipts/{name}",
        ):
            page = tab.go(where)
            _came(page)
            assert "is not a function" not in page.locator("main").inner_text(), where
            assert "[object" not in page.locator("main").inner_text(), where
    assert all("Failed to load resource" in one for one in tab.complaints), tab.complaints
    tab.complaints.clear()


def test_signs_that_turn_text_around_are_shown_in_the_title_too(
    tab: Watched, owner: TestClient
) -> None:
    """Of the tab, and of what is pointed at."""
    page = tab.go(f"b/{_made(owner, chr(0x202E) + 'evil' + chr(0x2066))}")
    settled(page)
    assert page.title() == "⟨U+202E⟩evil⟨U+2066⟩ · Satchel"
    hidden = page.evaluate(
        "[...document.querySelectorAll('[title], [aria-label]')].filter((one) =>"
        " /[\\u202a-\\u202e\\u2066-\\u2069]/.test(one.title + one.ariaLabel)).length"
    )
    assert hidden == 0


def test_a_token_that_no_header_can_carry_is_asked_for_again(
    browser: Any, own_home: object
) -> None:
    """The dialog says so and stays; one that was kept from before locks nobody out."""
    del own_home
    shown = "0123456789" * 2
    with listening(shown) as (address, _):
        context = browser.new_context()
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(f"{address}/")
        box = page.get_by_role("dialog")
        for sign in ("☃", "a\nb", "\u202e", "\x00"):
            box.wait_for()
            field = box.get_by_label("Operator token")
            field.evaluate("(one, said) => { one.type = 'text'; one.value = said; }", f"x{sign}y")
            if field.input_value() == f"x{sign}y":  # a field takes line ends out by itself
                box.get_by_role("button", name="Sign in").click()
                box.get_by_text("A token cannot contain these characters").wait_for()
            field.fill(shown)
            box.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Banks").first.wait_for()
            box.wait_for(state="detached")
            page.evaluate("(said) => sessionStorage.setItem('satchel operator', said)", f"x{sign}y")
            page.reload()
        box.get_by_label("Operator token").fill(shown)
        box.get_by_role("button", name="Sign in").click()
        box.wait_for(state="detached")
        context.close()
