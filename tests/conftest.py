"""Configure Hypothesis, and the fixtures of all tests.

Hypothesis has no deadlines, because a first call may compile a kernel. It has the same examples in
every run, so that a failure is the same for everybody. Witnesses of devices go to a folder of the
test run, not to the user's.
"""

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from simulations import database
from tests.command_line import CITIES, NAMES, REGISTRY
from tests.devices import App
from tests.memoising_devices import Home
from tests.publications import World

settings.register_profile("ldp", deadline=None, derandomize=True)
settings.load_profile("ldp")
gc.disable()  # what is collected stays: looking at it took a third of that time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that wait longest first, so that others compute meanwhile."""
    items.sort(key=lambda item: item.path.name != "test_nemesis.py")


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder that stands for the user's state folder, also in processes that tests
    start."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
            patch.setenv(name, str(folder))
        yield folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(REGISTRY)
    Path("cities.txt").write_text("\n".join(NAMES) + "\n")
    shutil.copy(CITIES, "cities.csv")
    return tmp_path


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    made.client.grant()
    yield made
    made.client.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Callable[..., Home]]:
    made: list[Home] = []

    def make(how: str, **changes: Any) -> Home:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Home(folder, how, **changes))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Yield the address of a private PostgreSQL server, which listens on a socket only."""
    pytest.importorskip("psycopg")
    if not database.is_installed():
        pytest.skip("PostgreSQL is not installed")
    with database.running_server() as server:
        yield server.conninfo


@pytest.fixture
def postgres(postgres_server: str, tmp_path: Path) -> str:
    """Yield the address of an empty database."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    name = tmp_path.name
    with psycopg.connect(f"{postgres_server} dbname=postgres", autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    return f"{postgres_server} dbname={name}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a registry of eight metrics and a folder to publish them in."""
    return World(tmp_path)
