"""No layer imports upwards, and the device side stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ldp
from ldp.mechanisms import catalogue

PACKAGE = Path(ldp.__file__).parent
LAYERS: list[set[str]] = [
    {"errors", "arrays"},
    {"protocol", "files", "data_files"},
    {"accounting"},
    {"mechanisms", "central"},
    {"registry", "bulk", "privacy_loss", "regression"},
    {"client", "tables"},
    {"collection", "decoding", "report", "audit"},
    {"simulation", "server", "publishing"},
    {"planning"},
    {"cli"},
    {"__main__", "__init__"},
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
DEVICE_SAFE = {
    *(
        "errors",
        "files",
        "data_files",
        "protocol",
        "accounting",
        "mechanisms",
        "registry",
        "client",
    ),
}
EXTRAS = {
    "pytest_plugin.py": {"pytest"},
    "sealing_keys.py": {"cryptography"},
    "data_files.py": {"pyarrow"},
}
"""Packages that files of the device side import, loaded on request only."""
NESTED = {"central/regression": LAYER["regression"]}
"""Packages within others: a second product in a folder of its own, above its outer package."""


def package(path: Path) -> str:
    """Return the file or folder right below the package, or the nested one."""
    parts = path.relative_to(PACKAGE).parts
    nested = "/".join(parts[:2])
    return nested if nested in NESTED else parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return NESTED[name] if name in NESTED else LAYER[name]


def imports(path: Path) -> set[str]:
    """Return every module that the file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.exact
@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path))
def test_a_module_imports_only_from_below(path: Path) -> None:
    here = package(path)
    others = EXTRAS.get(path.name, {"mmh3", "bitarray"})
    for name in imports(path):
        parts = name.split(".")
        if parts[0] in ("simulations", "tests"):
            pytest.fail(f"{path} imports {name}")
        if parts[0] == "ldp" and len(parts) > 1 and parts[1] in LAYER and parts[1] != here:
            there = "/".join(parts[1:3])
            there = there if there in NESTED else parts[1]
            assert layer(there) <= layer(here), f"{here} imports upwards: {name}"
            if here in DEVICE_SAFE:
                assert there in DEVICE_SAFE, f"a device would load {name}"
        if here in DEVICE_SAFE:
            assert parts[0] in {*sys.stdlib_module_names, "ldp", *others}, name


@pytest.mark.exact
def test_accounting_knows_no_mechanism_and_mechanisms_no_table() -> None:
    for folder, forbidden in (
        ("accounting", {"mechanisms"}),
        ("mechanisms", {"tables", "decoding", "bulk"}),
    ):
        for path in (PACKAGE / folder).glob("*.py"):
            named = {name.split(".")[1] for name in imports(path) if name.startswith("ldp.")}
            assert not named & forbidden, path


@pytest.mark.exact
def test_importing_the_client_loads_nothing_heavy() -> None:
    code = "import sys, ldp.client as c; [getattr(c, n) for n in c.__all__]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert {"ldp", "mmh3"} <= loaded
    assert not loaded & {
        "numpy",
        "scipy",
        "numba",
        "pyarrow",
        "sklearn",
        "click",
        "random",
        "bitarray",
        "cryptography",
    }


@pytest.mark.exact
@pytest.mark.parametrize("name", ["Client", "Rappor"])
def test_importing_one_name_loads_no_module_that_few_apps_need(name: str) -> None:
    """The cost of such a module is a row of docs/benchmarks.md."""
    code = f"import sys; from ldp.client import {name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ldp.mechanisms.base" in loaded
    few_apps = {"protocol.joint_layout", "protocol.md5_bloom", "protocol.cityhash"} | {
        f"mechanisms.{module}" for module in ("joint_base", "google_clients", "outcomes")
    }
    registry = ("page", "resolved", "explaining", "label", "value_files")
    servers = {"data_files"} | {f"registry.{module}" for module in registry}
    assert not loaded & {f"ldp.{module}" for module in few_apps | servers}
    assert not loaded & {"tomllib", "difflib", "http.client", "ssl", "statistics", "csv", "socket"}
    mechanisms = {entry.split(".")[0] for entry in catalogue.METRIC_MECHANISMS._entries.values()}
    assert {m for m in mechanisms if f"ldp.mechanisms.{m}" in loaded} <= {name.lower()}


@pytest.mark.exact
def test_importing_the_server_loads_no_compiler_and_no_regression() -> None:
    code = "import sys, ldp.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"numba", "sklearn", "click"}


@pytest.mark.exact
def test_importing_the_package_loads_no_module_of_it() -> None:
    code = "import sys, ldp; print(*[n for n in sys.modules if n.startswith('ldp')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ldp"]


@pytest.mark.exact
def test_only_the_demo_and_its_loader_name_a_data_set() -> None:
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "emoji" in path.read_text().lower()
    }
    # the presets and docstrings carry Apple's own name of its published setting
    assert naming <= {
        *("cli/demo.py", "simulation/datasets.py"),
        *("mechanisms/presets.py", "mechanisms/cms.py"),
    }


@pytest.mark.exact
def test_every_public_name_can_be_imported() -> None:
    for name in ldp.__all__:
        assert getattr(ldp, name)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ldp.Nothing


@pytest.mark.exact
def test_the_typed_imports_of_the_catalogue_are_its_entries() -> None:
    tree = ast.parse(Path(catalogue.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        (str(node.module).removeprefix("ldp.mechanisms."), node.names[0].name)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
    }
    entries = {**catalogue.ENTRIES, **catalogue.SHUFFLED_ENTRIES}
    assert imported == {tuple(entry.split(".")) for entry in entries.values()}
    for name, mechanism in catalogue.METRIC_MECHANISMS.items():
        assert mechanism.name == name


@pytest.mark.exact
def test_the_top_level_is_what_it_should_be() -> None:
    """A test that writes where it is started leaves a file there, and one was once committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a checkout")
    top = {name.split("/")[0] for name in listed.stdout.split("\0") if name}
    named = {"pyproject.toml", "README.md", "ldp", "simulations", "tests", "docs"}
    community = {
        *("CHANGELOG.md", "LICENSE", "Makefile", ".ci", ".gitignore", ".github", "clients"),
        *("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "RELEASE.md"),
    }
    assert top <= named | community, top
