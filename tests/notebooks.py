"""Write the example notebooks from their cells, with what the cells show.

`python -m tests.notebooks` (`make notebooks`) writes them into docs/notebooks.
`tests/report/test_display.py` runs their cells and compares what they show, except pictures. Each
notebook runs in a process and a folder of its own, as a reader's does.
"""

import ast
import base64
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
FORMAT = {"nbformat": 4, "nbformat_minor": 5}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the code cells in order, in a new process and an empty folder; return each cell's
    outputs.

    Raises CalledProcessError where a cell fails.
    """
    paths = os.pathsep.join([str(FOLDER.parent.parent), os.environ.get("PYTHONPATH", "")])
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from tests.notebooks import run_here; run_here()",
            ],
            input=json.dumps(notebook),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "PATH": commands, "MPLBACKEND": "agg"},
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=True,
        )
    outputs: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return outputs


def run_here() -> None:
    """Run the code cells of the notebook on standard input, and print the outputs as JSON."""
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    names: dict[str, Any] = {}
    code = [cell for cell in json.load(sys.stdin)["cells"] if cell["cell_type"] == "code"]
    outputs = [
        _outputs("".join(cell["source"]), names, place) for place, cell in enumerate(code, 1)
    ]
    print(json.dumps(outputs))


def _outputs(source: str, names: dict[str, Any], place: int) -> list[dict[str, Any]]:
    """Run a cell; return what it prints and what its last line shows."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {place}", "exec"), names)
        if isinstance(last, ast.Expr):
            expression = compile(ast.Expression(last.value), f"cell {place}", "eval")
            value = eval(expression, names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": place,
                "metadata": {},
                "data": _data(value),
            }
        )
    return outputs


def _data(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": [repr(value)]}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = [value._repr_html_()]
    if hasattr(value, "figure"):
        picture = io.BytesIO()
        value.figure.savefig(picture, format="png", dpi=70)
        data = {
            "text/plain": ["<Axes>"],
            "image/png": base64.b64encode(picture.getvalue()).decode(),
        }
    return data


def write(name: str, cells: list[str]) -> None:
    """Write a notebook of cells: text where a cell begins with "# ", else code."""
    notebook: dict[str, Any] = {"cells": [], "metadata": {"kernelspec": KERNEL}, **FORMAT}
    for number, cell in enumerate(cells):
        kind = "markdown" if cell.startswith("# ") else "code"
        source = cell.removeprefix("# " * cell.startswith("# #")).splitlines(keepends=True)
        entry = {"cell_type": kind, "id": f"cell{number}", "metadata": {}, "source": source}
        notebook["cells"].append(entry)
    for place, (cell, outputs) in enumerate(
        zip(
            (cell for cell in notebook["cells"] if cell["cell_type"] == "code"),
            run(notebook),
            strict=True,
        ),
        1,
    ):
        cell |= {"execution_count": place, "outputs": outputs}
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}.ipynb").write_text(text, "utf-8")


NOTEBOOKS = {
    "estimates": [
        """# Counts of values
Ten thousand people ask for the weather of a city; every report is randomised on the device. A
simulation from a seed: with reports of your own, start at the table (`Table.load`).""",
        """import numpy as np

from ldp import RandomizedResponse
from ldp.server import decode
from ldp.simulation import draw_table

cities = ("Oslo", "Bergen", "Trondheim", "Tromsø", "Bodø", "Hell")
people = np.array([5200, 2400, 1500, 700, 195, 5])
mechanism = RandomizedResponse(categories=cities, epsilon=2.0)
table = draw_table(mechanism, cities, counts=people, generator=np.random.default_rng(1))
table""",
        """# ## Estimates
A result shows itself as a table: discovered values in bold, each with its interval.""",
        "estimates = decode(table)\nestimates",
        """# ## Take it elsewhere
Whatever reads Arrow takes a result as it is: `polars.DataFrame(estimates)`,
`duckdb.sql("SELECT * FROM estimates")`, `estimates.to_pandas()`.""",
        """import pyarrow.compute

frame = pyarrow.table(estimates)
discovered = frame.filter(pyarrow.compute.equal(frame["discovered"], 1))
discovered.select(["value", "estimate"]).to_pydict()""",
        "# ## A picture\nNeeds the extra `plot`.",
        "estimates.plot()",
    ],
    "percentiles": [
        """# Percentiles of a number whose range nobody knows
Fifty thousand start-up times, one report each. A simulation from a seed.""",
        """import numpy as np

from ldp import HierarchicalHistogram
from ldp.server import decode_distribution
from ldp.simulation import draw_table

generator = np.random.default_rng(2)
times = np.round(generator.lognormal(6.0, 0.8, 50_000), 1)
values, counts = np.unique(times.astype(str), return_counts=True)
mechanism = HierarchicalHistogram(epsilon=4.0)
table = draw_table(mechanism, tuple(values), counts=counts, generator=generator)
distribution = decode_distribution(table)
distribution""",
        "# ## Beside the truth\nWhat only a simulation knows.",
        """for q in (0.5, 0.95):
    row = distribution.quantile(q)
    interval = f"{row.low:.0f} to {row.high:.0f}"
    print(f"{row.name}: {row.estimate:.0f} ({interval}), in truth {np.quantile(times, q):.0f}")""",
        "# ## Between two numbers",
        """row = distribution.between(200, 400)
print(f"{100 * row.estimate:.1f} % took {row.bin_low:g} to {row.bin_high:g} ms")""",
        "# ## A picture\nNeeds the extra `plot`.",
        "distribution.plot()",
    ],
    "from-data-to-sign-off": [
        """# From data to sign-off
You have a frame, and wonder what people would tell you about it under local differential privacy.
Load yours with pandas, polars or pyarrow; this one is drawn.""",
        """from subprocess import PIPE, Popen
from urllib.request import urlopen

import numpy as np
import pyarrow as pa

import ldp

draw, n = np.random.default_rng(1), 100_000
country, theme = draw.choice(["norway", "sweden", "denmark"], n), draw.choice(["light", "dark"], n)
frame = pa.table({"country": country, "theme": theme, "minutes": draw.lognormal(3, 1, n)})""",
        """# ## Is it worth asking?
Shares: the error by epsilon beside the least error there is, and what would be found.""",
        'ldp.try_column(frame["theme"], name="theme", seed=1)',
        "# Percentiles by group: where an interval supports no number, it says what it would take.",
        'ldp.try_column(frame["minutes"], by=frame["country"], name="minutes", seed=1)',
        "# Pairs: the theme in each country.",
        'ldp.try_column(frame["theme"], by=frame["country"], name="theme", seed=1)',
        "# Words that nobody listed, beside the truth: here the names of the countries.",
        'ldp.simulate(ldp.PrefixExtension(epsilon=4.0, rows=1280), frame["country"], seed=1)',
        """# ## Ask for it
A registry and an app for your own screen. While the collector runs, its page shows each report in
words, and what they estimate: type `python app/app.py` beside it.""",
        """def start(words):
    return Popen(["ldp", *words.split()], stdout=PIPE, text=True)


ask = "--product weather --metric theme --question Theme? --answers light,dark --owner me@home.org"
[start(f"init {folder} {ask}").wait() for folder in ("app --dev", "release")]
collector = start("collect --dev --listen 127.0.0.1:0 --registry app/metrics.toml")
page = urlopen(collector.stdout.readline().split()[-1]).read().decode()
collector.terminate()""",
        """# ## Sign it
What a privacy officer reads before anybody is asked: `officer.html`.""",
        'start("registry page release/metrics.toml --out officer.html").wait()',
    ],
}


def main() -> None:
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for name, cells in NOTEBOOKS.items():
        write(name, cells)


if __name__ == "__main__":
    main()
