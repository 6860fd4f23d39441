"""One browser for each test process, and a tab with its own server for each test."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from http_kit import ServedGateway
from web_kit import (
    BrowserTab,
    SharedBrowser,
    create_sample_bank,
    installed_browser,
    launched_browser,
    web_server,
)


@pytest.fixture(scope="session")
def driven() -> Iterator[SharedBrowser]:
    """A headless Chromium; while it is open, no test of another folder runs an event loop."""
    if find_spec("playwright") is None or installed_browser() is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with launched_browser() as found:
        yield found


@pytest.fixture
def browser(driven: SharedBrowser) -> Iterator[Any]:
    """The browser, for one test, during which this thread runs no other event loop."""
    with driven.driving() as found:
        yield found


@pytest.fixture
def server(own_home: object) -> Iterator[tuple[str, ServedGateway]]:
    """A server, and its address."""
    del own_home
    with web_server() as found:
        yield found


@pytest.fixture
def bank(server: tuple[str, ServedGateway]) -> str:
    """The ID of a bank with memories, and a session with a fork."""
    return create_sample_bank(server[1].client())


@pytest.fixture
def tab(
    browser: Any, driven: SharedBrowser, server: tuple[str, ServedGateway]
) -> Iterator[BrowserTab]:
    """A tab; console errors and requests to other servers fail the test."""
    del browser
    with driven.tab(server[0]) as found:
        yield found
    assert found.external_requests == []
    assert found.errors == []
