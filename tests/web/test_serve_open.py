"""``satchel serve --open`` opens the page in a browser."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from satchel.http.server import page_address


def test_serve_opens_the_page_when_the_server_is_ready(own_home: Path, tmp_path: Path) -> None:
    """With a script as the browser, which fetches the given address."""
    del own_home
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request\n"
        "page = urllib.request.urlopen(sys.argv[1]).read()\n"
        f"open({str(seen)!r}, 'wb').write(page)\n"
    )
    browser.chmod(0o700)
    command = [sys.executable, "-m", "satchel.cli.main", "serve", "--open", "--port", "0"]
    server = subprocess.Popen(
        [*command, "--no-log"],
        env={**os.environ, "BROWSER": str(browser)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert b"<title>Satchel</title>" in seen.read_bytes()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80/"),
        ("0.0.0.0", "http://localhost:80/"),  # noqa: S104 - nothing listens
        ("::", "http://localhost:80/"),
        ("::1", "http://[::1]:80/"),
    ],
)
def test_the_page_is_opened_at_a_local_address(host: str, address: str) -> None:
    """For any address that the server listens on."""
    assert page_address("http", host, 80) == address
