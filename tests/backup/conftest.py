"""A store with every kind of record, and a destination for its backups."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backup_kit import HOME, WITNESS
from postgres_kit import in_schema, run_sql, schema_of
from whole_store_kit import filled

from satchel.config.settings import Settings, load_settings


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that store, its keys and its witness."""
    folder = tmp_path_factory.mktemp("kept")
    environment = {"SATCHEL_WITNESS": str(folder / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(
        home=folder / HOME, store=str(folder / "here.db"), environment=environment
    )
    filled(settings, entries=60, edges=30)
    return folder


@pytest.fixture
def here(store_folder: Path, tmp_path: Path) -> Settings:
    """Settings for a copy of that store, on a machine of its own."""
    shutil.copytree(store_folder, tmp_path, dirs_exist_ok=True)
    return load_settings(store=str(tmp_path / "here.db"))


@pytest.fixture
def where(tmp_path: Path) -> str:
    """The path of a destination that does not exist yet."""
    return str(tmp_path / "backups")


@pytest.fixture
def new_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Return a function that returns an unused address of a store of some kind."""
    schemas, folder = list[str](), tmp_path_factory.mktemp("places")

    def at(kind: str) -> str:
        if kind != "postgresql":
            return f"{kind}:///{folder / uuid.uuid4().hex}"
        schemas.append(in_schema(request.getfixturevalue("postgres"), f"b_{uuid.uuid4().hex}"))
        return schemas[-1]

    yield at
    for place in schemas:
        server = request.getfixturevalue("postgres")
        run_sql(server, f"DROP SCHEMA IF EXISTS {schema_of(place)} CASCADE")
