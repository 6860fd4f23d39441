"""One browser for each module, and a tab with a server of its own for each test."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from http_kit import Served
from web_kit import Driven, Watched, browser_here, browsing, furnished, listening


@pytest.fixture(scope="module")
def driven() -> Iterator[Driven]:
    """A headless Chromium; no test of another folder awaits anything while it is open."""
    if find_spec("playwright") is None or browser_here() is None:
        pytest.skip("there is no browser here: apt-get install chromium")
    with browsing() as found:
        yield found


@pytest.fixture
def browser(driven: Driven) -> Iterator[Any]:
    """The browser, for one test; meanwhile nothing else in this thread can await anything."""
    with driven.driving() as found:
        yield found


@pytest.fixture
def server(own_home: object) -> Iterator[tuple[str, Served]]:
    """A server, and its address."""
    del own_home
    with listening() as found:
        yield found


@pytest.fixture
def bank(server: tuple[str, Served]) -> str:
    """The id of a bank with memories, and a conversation with a fork."""
    return furnished(server[1].client())


@pytest.fixture
def tab(browser: Any, driven: Driven, server: tuple[str, Served]) -> Iterator[Watched]:
    """A tab; whatever it complains of, or asks of anybody else, fails the test."""
    del browser
    with driven.tab(server[0]) as found:
        yield found
    assert found.elsewhere == []
    assert found.complaints == []
