"""Memory stores in every kind of location."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_kit import S3Server, s3_server

from satchel.files import MemoryStore


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], Path]:
    """A function that makes a new empty folder."""
    names = itertools.count()

    def make() -> Path:
        path = tmp_path / f"folder-{next(names)}"
        path.mkdir()
        return path

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    """An empty store in a folder."""
    with MemoryStore(root=tmp_path / "store") as made:
        yield made


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A server that speaks S3 and counts requests."""
    with s3_server() as server:
        yield server


@pytest.fixture
def root_of(request: pytest.FixtureRequest) -> Callable[[str, Path], str]:
    """A function that returns a storage root of a kind: in a home folder, or a new S3 bucket."""

    def root(kind: str, home: Path) -> str:
        match kind:
            case "s3":
                server: S3Server = request.getfixturevalue("s3")
                return server.bucket()
            case "memory":
                return f"memory://{home}"
            case "sqlite":
                return f"sqlite://{home}/files.db"
            case _:
                return str(home / "root")

    return root
