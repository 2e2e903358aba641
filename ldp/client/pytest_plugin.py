"""The fixture `ldp_device` of pytest, for `pytest_plugins = ["ldp.client.pytest_plugin"]` in an
app's conftest.py.

It reads the registry that `ldp_registry` in pytest's configuration names, by default metrics.toml.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ldp.client.testing import Device


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `ldp_registry` to pytest's configuration."""
    parser.addini("ldp_registry", "Registry of the fixture ldp_device.", default="metrics.toml")


@pytest.fixture
def ldp_device(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Device]:
    """Yield a device whose owner agreed, with a file and a clock of its own."""
    registry = pytestconfig.rootpath / pytestconfig.getini("ldp_registry")
    with Device(tmp_path, registry=registry) as device:
        yield device
