"""The documentation as a site: it builds without a warning, stands alone, and fits a phone."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PHONE = 390
SHOWN = ("*.html", "tutorials/*.html", "guides/*.html", "explanation/*.html", "spec/*.html")
"""Pages that are opened in a browser: those that people write."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with strict links into a temporary folder."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of a server with the files of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_page_is_reachable_from_the_navigation(site: Path) -> None:
    """A guide that nobody added to mkdocs.yml is a warning, so it fails the build; this counts."""
    home = (site / "index.html").read_text()
    for folder in ("tutorials", "guides", "reference", "spec"):
        for page in (ROOT / "docs" / folder).glob("*.md"):
            name = "index" if page.name == "README.md" else page.stem
            assert (site / folder / f"{name}.html").exists()
        assert f'href="{folder}/' in home
    decisions = (site / "decisions" / "index.html").read_text()
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f'href="{page.stem}.html"' in decisions


def test_the_changelog_has_every_fragment(site: Path) -> None:
    """By kind, before the releases."""
    changelog = (site / "changelog.html").read_text()
    items = len(re.findall(r"<li>", changelog.partition('unreleased"')[2]))
    assert items >= len(list((ROOT / "changes").glob("*.*.md")))


def test_the_markup_names_no_other_server(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site; links may lead elsewhere."""
    loaded = re.compile(r"<(?:script|img|iframe|source)[^>]+src=\"?([^\s\">]+)")
    linked = re.compile(r"<link[^>]+href=\"?([^\s\">]+)[^>]*>")
    for page in site.rglob("*.html"):
        text = page.read_text()
        for found in [*loaded.findall(text), *linked.findall(text)]:
            assert not re.match(r"(https?:)?//", found), (page.name, found)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style.name


@pytest.mark.parametrize(
    "step", [20, pytest.param(1, marks=[pytest.mark.timeout(300), pytest.mark.prove])]
)
def test_pages_fit_a_phone_and_ask_no_other_server(
    browser: Any, site: Path, address: str, step: int
) -> None:
    """No page scrolls sideways, complains in the console, or loads anything from elsewhere."""
    pages = sorted({path for pattern in SHOWN for path in site.glob(pattern)})[::step]
    elsewhere, complaints, wide = list[str](), list[str](), dict[str, int]()
    page = browser.new_page(viewport={"width": PHONE, "height": 844})
    page.on("request", lambda request: elsewhere.append(request.url))
    page.on("console", lambda said: complaints.append(f"{page.url}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    index = json.loads((site / "search" / "search_index.json").read_text())
    empty = json.dumps(index | {"docs": []})  # each page would index all of the text again
    page.route("**/search_index.json", lambda route: route.fulfill(body=empty))
    for path in pages:
        name = path.relative_to(site).as_posix()
        page.goto(f"{address}/{name}", wait_until="domcontentloaded")
        needed = page.evaluate("document.documentElement.scrollWidth")
        if needed > PHONE:
            wide[name] = needed
    page.close()
    assert wide == {}
    assert complaints == []
    assert [url for url in elsewhere if not url.startswith((address, "data:", "blob:"))] == []
    assert len(elsewhere) > len(pages)


@pytest.mark.prove
def test_the_search_finds_a_page_without_a_service(browser: Any, address: str) -> None:
    """The index is a file of the site."""
    page = browser.new_page()
    urls = list[str]()
    page.on("request", lambda request: urls.append(request.url))
    page.goto(f"{address}/index.html")
    page.get_by_role("textbox", name="Search").fill("capability")
    result = page.locator(".md-search-result__link", has_text="capability").first
    result.wait_for(timeout=30_000)
    assert any("search_index.json" in url for url in urls)
    assert [url for url in urls if not url.startswith((address, "data:", "blob:"))] == []
    page.close()
