"""The web page in a real browser, with a real server on a local port."""

import asyncio
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi.testclient import TestClient
from http_kit import ServedGateway, running_gateway

BANK = "/v1/banks/assistant"
TALK = [
    {"role": role, "content": text}
    for role, text in (
        ("user", "Where shall we go?"),
        ("assistant", "To the sea, or to the hills."),
        ("user", "To the sea then."),
        ("assistant", "I book the train."),
    )
]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def installed_browser() -> str | None:
    """Return the path of a browser, if one is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@contextmanager
def web_server(admin: str | None = None) -> Iterator[tuple[str, ServedGateway]]:
    """Yield the address of a server over the default store."""
    with running_gateway(admin) as served, socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(served.app, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", served
        finally:
            server.should_exit = True
            thread.join()


class SharedBrowser:
    """A browser that stays open while other tests run.

    Playwright marks its event loop as the running one of this thread while it exists, so that
    no other loop can run. Therefore it is marked only while a test drives the browser.

    Args:
        browser: A new browser.
    """

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._page: Any = None
        self._loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)

    def resume(self) -> None:
        """Mark its event loop again; Playwright also needs it to close."""
        asyncio._set_running_loop(self._loop)

    @contextmanager
    def driving(self) -> Iterator[Any]:
        """Yield the browser for a test; contexts that the test leaves open are closed."""
        self.resume()
        try:
            yield self._browser
            for context in self._browser.contexts:
                if self._page is None or context != self._page.context:
                    context.close()
        finally:
            asyncio._set_running_loop(None)

    @contextmanager
    def tab(self, address: str) -> Iterator["BrowserTab"]:
        """Yield a tab for a server, in its initial state.

        It is the same for all tests: a new one costs more than most of the tests. Its stored data
        are separate, because each server has its own address.
        """
        if self._page is None or self._page.is_closed():
            context = self._browser.new_context()
            context.set_default_timeout(60_000)
            self._page = context.new_page()
        self._page.set_viewport_size({"width": 1200, "height": 900})
        found = BrowserTab(self._page, address)
        try:
            yield found
        finally:
            found.leave()


@contextmanager
def launched_browser() -> Iterator[SharedBrowser]:
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, for example in a container, it has no sandbox.
        browser = playwright.chromium.launch(
            executable_path=installed_browser(), args=["--no-sandbox"]
        )
        driven = SharedBrowser(browser)
        yield driven
        driven.resume()
        browser.close()


def create_sample_bank(client: TestClient) -> str:
    """Create a bank with memories, and a session with a fork; return its ID."""
    made = client.post("/v1/banks", json={"name": "assistant"}).json()
    tea = client.post(f"{BANK}/entries", json={"text": "Ada drinks tea", "tags": ["drinks"]}).json()
    drawn = {"text": "There is no coffee to buy for Ada", "parents": [tea["id"]]}
    client.post(f"{BANK}/entries", json=drawn)
    talk = client.post(f"{BANK}/sessions", json={"name": "holidays", "messages": TALK}).json()
    where = f"{BANK}/sessions/{talk['session']}"
    client.post(f"{where}/checkpoints", json={"name": "before the train", "at": "3"})
    client.post(f"{where}/fork", json={"name": "the hills", "at": "2"})
    return str(made["id"])


_GO = """(hash) => new Promise((resolve) => {
  const before = location.href;
  location.hash = hash;
  if (location.href === before) resolve();
  else addEventListener("hashchange", () => setTimeout(resolve), { once: true });
})"""
_DROP = """([name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name));
  for (const type of ["dragover", "drop"]) {
    const event = new DragEvent(type, {dataTransfer, cancelable: true, bubbles: true});
    document.querySelector(".drop").dispatchEvent(event);
  }
}"""


def drop(page: Any, name: str, text: str) -> None:
    """Drop a file on the first drop target."""
    page.locator(".drop").wait_for()
    page.evaluate(_DROP, [name, text])


def wait_for_view(page: Any) -> None:
    """Wait until a view has loaded all of its parts."""
    page.locator("main h1").first.wait_for()
    page.locator("main[aria-busy], main [aria-busy]").first.wait_for(state="detached")


class BrowserTab:
    """A tab, with its requests and console errors.

    Args:
        page: The tab.
        address: The address of the server.
    """

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self._address = address
        self.errors = list[str]()
        self.external_requests = list[str]()
        self._handlers = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": self._on_console,
            "dialog": self._on_dialog,
            "request": self._on_request,
        }
        for event, handler in self._handlers.items():
            page.on(event, handler)

    def go(self, where: str = "") -> Any:
        """Open a view, and return the tab."""
        if self.page.url.startswith(f"{self._address}/"):
            self.page.evaluate(_GO, f"#/{where}")  # as a link on the page does
        else:
            self.page.goto(f"{self._address}/#/{where}")
        return self.page

    def leave(self) -> None:
        """Leave the page, delete its stored data, and stop watching the tab."""
        self.page.unroute_all(behavior="ignoreErrors")
        if self.page.url.startswith(f"{self._address}/"):
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.goto("about:blank")
        for event, handler in self._handlers.items():
            self.page.remove_listener(event, handler)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _on_dialog(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(self._address + "/"):
            self.external_requests.append(request.url)
