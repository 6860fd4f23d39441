"""What is changed, moved and handed on from the web page, in a real browser."""

import json
import threading

from http_kit import Served
from web_kit import BANK, Watched, drop

from satchel.http.jobs import ReportProgress


def _entry(served: Served, text: str) -> str:
    listed = served.client().get(f"{BANK}/entries").json()["memories"]
    (found,) = [one["id"] for one in listed if one.get("text") == text]
    return str(found)


def test_a_memory_is_written_and_changed_forgotten_and_brought_back(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """Each is a click and a dialog; the undo beside the notice brings it back."""
    client = server[1].client()
    page = tab.go(f"b/{bank}")
    page.get_by_role("button", name="New memory").click()
    page.get_by_role("textbox", name="Memory").fill("Grace plays chess")
    page.get_by_label("Tags").fill("games, #friends")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.locator(".text", has_text="Grace plays chess").wait_for()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text").fill("Grace plays go")
    page.get_by_label("Reason").fill("she told me")
    page.get_by_role("button", name="Save").click()
    page.locator(".text", has_text="Grace plays go").wait_for()
    page.locator("table").get_by_text("she told me").wait_for()
    newer = _entry(server[1], "Grace plays go")
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("a secret")
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    page.locator(".chip", has_text="deleted").first.wait_for()
    assert client.get(f"{BANK}/entries/{newer}").json()["state"] == "deleted"
    page.locator("#notice").get_by_role("button", name="Undo").click()
    page.locator(".chip.good", has_text="current").first.wait_for()
    found = client.get(f"{BANK}/entries/{newer}").json()
    assert (found["state"], sorted(found["tags"])) == ("current", ["friends", "games"])


def test_concurrent_changes_of_one_memory_do_not_overwrite_each_other(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """The second is told, in the dialog, and what was typed is still there."""
    tea = _entry(server[1], "Ada drinks tea")
    page = tab.go(f"b/{bank}/e/{tea}")
    page.get_by_role("button", name="Edit").click()
    server[1].client().patch(f"{BANK}/entries/{tea}", json={"text": "Ada drinks mate"})
    page.get_by_label("Text").fill("Ada drinks water")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    assert page.get_by_label("Text").input_value() == "Ada drinks water"
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    tab.complaints.clear()  # the browser tells of the refusal, too


def test_the_timeline_shows_when_memories_are_of(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """A bar for each month, those without any too; one that is clicked shows its memories."""
    client = server[1].client()
    for moment, text in (("2026-01-05", "It snowed"), ("2026-03-05", "The first swallow came")):
        client.post(f"{BANK}/entries", json={"text": text, "occurred_at": f"{moment}T12:00:00Z"})
    page = tab.go(f"b/{bank}")
    page.locator("svg.drawn .bar").first.wait_for()
    titles = page.locator("svg.drawn .bar title").all_text_contents()
    assert titles[:3] == [
        "January 2026: 1 memory",
        "February 2026: 0 memories",
        "March 2026: 1 memory",
    ]
    page.locator("svg.drawn .bar").nth(2).click()
    page.get_by_role("heading", name="March 2026", exact=True).wait_for()
    page.get_by_role("link", name="The first swallow came").wait_for()
    assert page.get_by_role("link", name="It snowed").count() == 0
    assert page.locator("select[name=when]").input_value() == "2026-03"
    page.locator("select[name=when]").select_option(label="January 2026 (1)")
    page.get_by_role("link", name="It snowed").wait_for()


def test_an_export_lists_losses_before_the_download(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """Nothing in the sealed form; conversations in an archive that has no place for them."""
    client = server[1].client()
    page = tab.go(f"b/{bank}/export")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Nothing would be lost").wait_for()
    page.locator("select[name=format]").select_option("ama")
    assert page.get_by_role("heading", name="Nothing would be lost").count() == 0
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("an archive can hold memories only").first.wait_for()
    assert client.get("/v1/receipts").json()["receipts"] == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Download anyway").click()
    assert download.value.suggested_filename == "memory.ama.jsonl"
    lines = download.value.path().read_text().splitlines()
    assert json.loads(lines[0])["_ama_version"] == 1
    assert any("Ada drinks tea" in line for line in lines)
    page.get_by_role("link", name="Receipt", exact=True).click()
    page.get_by_role("heading", name="Lost").wait_for()


def test_an_import_is_undone(tab: Watched, server: tuple[str, Served], bank: str) -> None:
    """From the list of earlier ones; what came with it is gone."""
    client = server[1].client()
    file = [{"id": "1", "memory": "Ada sails", "created_at": "2026-01-01T00:00:00Z"}]
    page = tab.go(f"b/{bank}/import")
    drop(page, "mem0.mem0.json", json.dumps({"results": file}))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Done").wait_for()
    assert client.get(BANK).json()["memories"] == 3
    tab.go(f"b/{bank}")
    tab.go(f"b/{bank}/import")
    page.get_by_role("button", name="Undo the import of mem0").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo import").click()
    page.get_by_text("The import is undone.").wait_for()
    assert client.get(BANK).json()["memories"] == 2


def test_a_token_is_issued_inspected_and_revoked(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """It says what was chosen; after its end it no longer holds."""
    page = tab.go(f"b/{bank}/tokens")
    page.get_by_text("There are no active tokens.").wait_for()
    page.get_by_role("button", name="Issue a token").click()
    page.get_by_label("Bearer token").check()
    page.get_by_role("dialog").get_by_label("export").check()
    page.get_by_label("With any of these tags").fill("drinks")
    page.get_by_label("Expires after").select_option("7d")
    page.get_by_role("button", name="Issue", exact=True).click()
    page.get_by_role("dialog").get_by_role("alert").get_by_text("at most 24 hours").wait_for()
    tab.complaints.clear()  # the browser tells of the refusal, too
    page.get_by_label("Expires after").select_option("24h")
    page.get_by_role("button", name="Issue", exact=True).click()
    text = page.get_by_label("The token", exact=True).input_value()
    (token,) = server[1].client().get(f"{BANK}/tokens").json()["tokens"]
    assert (token["permissions"], token["scope"]) == (["export", "read"], ["tags any of drinks"])
    page.get_by_label("Token (JSON").fill(text)
    page.get_by_role("button", name="Inspect").click()
    page.get_by_text("valid", exact=True).wait_for()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("There are no active tokens.").wait_for()
    page.get_by_role("button", name="Inspect").click()
    page.get_by_text("not valid", exact=True).wait_for()


def test_the_owners_of_a_bank_are_shown(tab: Watched, bank: str) -> None:
    """The key, and that its secret is here."""
    page = tab.go(f"b/{bank}/owners")
    page.get_by_text("One key owns this bank.").wait_for()
    page.get_by_text("did:key:").wait_for()
    page.get_by_text("on this machine").wait_for()


def test_memory_files_are_written_read_compared_and_deleted(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """With all their versions; a text that was changed since is not written over."""
    client = server[1].client()
    page = tab.go(f"b/{bank}/files")
    page.get_by_role("button", name="New file").click()
    tab.complaints.clear()  # the browser tells that there is no store of files yet
    page.get_by_label("Path", exact=True).fill("user/notes.md")
    page.locator("textarea[name=text]").fill("likes tea\n")
    page.get_by_role("button", name="Save").click()
    page.locator("pre.file", has_text="likes tea").wait_for()
    page.get_by_role("button", name="Edit").click()
    page.locator("textarea[name=text]").fill("likes <b>green</b> tea\n")
    page.get_by_role("button", name="Save").click()
    page.locator("pre.file", has_text="<b>green</b>").wait_for()
    page.get_by_label("Compare the current version with").select_option(index=1)
    assert page.locator(".diff .less").inner_text().strip() == "-likes tea"
    assert page.locator(".diff .more").inner_text().strip() == "+likes <b>green</b> tea"
    page.get_by_role("link", name="1", exact=True).click()
    page.get_by_text("1 (earlier)").wait_for()
    page.get_by_role("link", name="Current version").click()
    page.get_by_role("button", name="Edit").click()
    where = "/v1/files/assistant/text/user/notes.md"
    client.put(where, json={"text": "likes mate\n"})
    page.locator("textarea[name=text]").fill("likes water\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    tab.complaints.clear()  # the browser tells of the refusal, too
    assert client.get(where).text == "likes mate\n"
    page.get_by_role("button", name="Cancel").click()
    tab.go(f"b/{bank}/files")
    page.get_by_role("link", name="notes.md").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("There are no memory files yet.").wait_for()


def test_long_work_is_followed_and_cancelled(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """How far it is; once it was cancelled, that it was."""
    del bank
    stop = threading.Event()

    def work(tell: ReportProgress) -> None:
        while not stop.wait(0.05):
            tell(3, 10, None)

    server[1].gateway.jobs.begin("import", work)
    try:
        page = tab.go("jobs")
        page.get_by_text("running, 3 of 10").wait_for()
        page.get_by_role("button", name="Cancel this import").click()
        page.locator(".chip", has_text="cancelled").wait_for()
    finally:
        stop.set()


def test_a_session_is_renamed_and_put_away(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """It is not lost: it is among those put away, and comes back."""
    page = tab.go(f"b/{bank}/sessions")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("textbox", name="Name").fill("holidays at the sea")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="holidays at the sea").wait_for()
    page.get_by_role("button", name="Archive").click()
    page.get_by_role("heading", name="the hills").wait_for()
    page.locator("#notice").get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="holidays at the sea").wait_for()
    listed = server[1].client().get(f"{BANK}/sessions").json()["sessions"]
    assert {one["name"] for one in listed} == {"holidays at the sea", "the hills"}


def test_a_checkpoint_that_was_forked_from_can_be_clicked(
    tab: Watched, server: tuple[str, Served], bank: str
) -> None:
    """The mark of the fork does not cover it, and can be clicked itself."""
    client = server[1].client()
    made = client.post(
        f"{BANK}/sessions",
        json={"name": "branching", "messages": [{"role": "user", "content": w} for w in "abcdef"]},
    ).json()
    at = f"{BANK}/sessions/{made['session']}"
    point = client.post(f"{at}/checkpoints", json={"at": "3", "name": "half-way"}).json()
    client.post(f"{at}/fork", json={"at": "half-way", "name": "another way"})
    page = tab.go(f"b/{bank}/sessions/{made['session']}")
    page.locator("svg.drawn rect.mark").click(timeout=5_000)
    page.wait_for_url(lambda url: point["id"].removeprefix("blake3:")[:12] in url)
    tab.go(f"b/{bank}/sessions/{made['session']}")
    origin = page.locator("svg.drawn circle.origin")
    origin.click(position={"x": 10, "y": 2}, timeout=5_000)
    page.wait_for_url(lambda url: url.rstrip("/").endswith("at=3") or "/3" in url)
