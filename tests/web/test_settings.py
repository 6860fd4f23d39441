"""The settings view: values of the server, and the commands that change them."""

from pathlib import Path
from typing import Any

import pytest
from http_kit import ServedGateway
from web_kit import BANK, BrowserTab, wait_for_view, web_server


def _part(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=name)


def test_settings_show_values_and_the_commands_that_change_them(
    tab: BrowserTab, server: tuple[str, ServedGateway], bank: str
) -> None:
    """Store, embedder, backups, access and limits; nothing can be edited."""
    del bank
    client = server[1].client()
    token = {"bearer": True, "permissions": ["read"], "everything": True, "expires": "1h"}
    client.post(f"{BANK}/tokens", json=token)
    page = tab.go()
    page.get_by_role("link", name="Settings").click()
    wait_for_view(page)
    assert page.title() == "Settings · Satchel"
    version = client.get("/v1/about").json()["versions"]["satchel"]
    _part(page, "Server").get_by_text(version, exact=True).wait_for()
    store = _part(page, "Store")
    store.get_by_text("SQLite file").wait_for()
    store.get_by_text("not encrypted").wait_for()
    store.get_by_text("satchel store encrypt --encrypt-to NAME").wait_for()
    store.get_by_role("link", name="assistant").wait_for()
    embedder = _part(page, "Embedder")
    embedder.get_by_text("static-idf", exact=True).wait_for()
    embedder.get_by_text("ready").wait_for()
    embedder.locator("table").scroll_into_view_if_needed()
    embedder.locator("tbody tr", has_text="assistant").filter(has_not_text="…").wait_for()
    backups = _part(page, "Backups")
    backups.get_by_text("30 days").wait_for()
    backups.get_by_text("off", exact=True).wait_for()
    access = _part(page, "Access")
    access.get_by_text("operator, from this machine (no token is set)").wait_for()
    access.locator("table").scroll_into_view_if_needed()
    access.locator("tr", has_text="assistant").get_by_role("link", name="View tokens").wait_for()
    assert access.locator("tr", has_text="assistant").locator("td").nth(1).inner_text() == "1"
    limits = _part(page, "Limits")
    shown = dict(
        zip(
            limits.locator("dl.limits dt").all_inner_texts(),
            limits.locator("dl.limits dd").all_inner_texts(),
            strict=True,
        )
    )
    assert (shown["Concurrent requests"], shown["One record"]) == ("64", "1.0 MB")
    page.get_by_text("All settings").click()
    page.locator("tr", has_text="SATCHEL_BACKUP_KEEP_LAST").wait_for()
    assert page.locator("main input, main select, main textarea, main button").count() == 0


def test_settings_show_a_configured_server_without_its_secrets(
    browser: Any, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing embedder has an install command; no password or token is shown."""
    del own_home
    config = tmp_path / "satchel.toml"
    config.write_text(
        '[inference]\nembedder = "openai:model@http://user:hidden-password@127.0.0.1:9/v1"\n'
        'key_variable = "THE_HIDDEN_KEY"\n'
        '[backup]\nenabled = true\ndestination = "s3://user:hidden-secret@bucket/prefix"\n'
        "keep_last = 7\n"
    )
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    token = "hidden operator token"  # noqa: S105 - a test value
    with web_server(admin=token) as (address, served):
        said = {"Authorization": f"Bearer {token}"}
        served.client().post("/v1/banks", json={"name": "assistant"}, headers=said)
        page = browser.new_page()
        page.goto(f"{address}/#/settings")
        page.get_by_label("Operator token").fill(token)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Settings").wait_for()
        _part(page, "Embedder").get_by_text("not available").wait_for()
        _part(page, "Embedder").get_by_text("THE_HIDDEN_KEY is not set").wait_for()
        _part(page, "Backups").get_by_text("30 days, the newest 7").wait_for()
        _part(page, "Access").get_by_text("operator, by the operator's token").wait_for()
        page.get_by_text(str(config)).wait_for()
        assert "hidden" not in page.locator("main").inner_text()
        page.close()
