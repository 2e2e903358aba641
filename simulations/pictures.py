"""Draw docs/images/page-NAME.png, a picture of each kind of report page.

`python -m simulations.pictures` makes the pages from the files of the commands. It needs Chromium
and half a minute.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

TOP = Path(__file__).resolve().parent.parent
IMAGES = TOP / "docs" / "images"
PEOPLE = 400_000
WIDTH = 1000
"""Width of a picture in pixels, and number of colours of its palette."""
COLOURS = 200

REGISTRY = """\
[product]
name = "maps"

[group.app]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0

[metric.theme]
version = 1
group = "app"
description = "Colours that people draw the map in"
owners = ["map-team@example.org"]
expires = 2030-12-31
mechanism = "rr"
categories = ["light", "dark", "system", "sepia", "night red", "high contrast", "satellite"]
epsilon = 1.0

[metric.latency]
version = 1
group = "app"
description = "Milliseconds until the map is drawn"
owners = ["speed-team@example.org"]
expires = 2030-12-31
mechanism = "hierarchical-histogram"
epsilon = 4.0

[metric.startup]
version = 1
group = "app"
description = "Milliseconds until the app has started, by version"
owners = ["speed-team@example.org"]
expires = 2030-12-31
mechanism = "hierarchical-histogram"
epsilon = 4.0
magnitudes = [1, 100000]
by = ["9.4", "9.3", "9.2", "other"]
other = "other"

[metric.version]
version = 1
group = "app"
description = "Version of the app"
owners = ["map-team@example.org"]
expires = 2030-12-31
mechanism = "unary"
categories = ["9.4", "9.3", "9.2", "8.0"]
epsilon = 2.0

[metric.connection]
version = 1
group = "app"
description = "How the device is connected"
owners = ["map-team@example.org"]
expires = 2030-12-31
mechanism = "unary"
categories = ["wifi", "mobile", "ethernet", "none"]
epsilon = 2.0

[metric.network]
version = 1
group = "app"
description = "Connections by version"
owners = ["map-team@example.org"]
expires = 2030-12-31
mechanism = "joint"
of = ["version", "connection"]

[metric.start]
version = 1
group = "app"
description = "Start-up seconds by size of the map and age of the device"
owners = ["speed-team@example.org"]
expires = 2030-12-31
mechanism = "moments"
features = 2
bounds = [[0, 10], [0, 8], [0, 20]]
epsilon = 4.0
"""


def latencies() -> str:
    """Return a population of latencies: most are lognormal, and one in twenty waits for a
    server."""
    generator = np.random.default_rng(1)
    slow = generator.random(PEOPLE) < 0.05
    logarithms = np.where(
        slow, generator.normal(8, 0.4, PEOPLE), generator.normal(5.3, 0.8, PEOPLE)
    )
    return "\n".join(["value", *(f"{number:.1f}" for number in np.exp(logarithms)), ""])


def startups() -> str:
    """Return a population of start-up times by version, of which the latest version is slow."""
    generator = np.random.default_rng(2)
    middle = {"9.4": 5.7, "9.3": 5.3, "9.2": 5.3, "8.0": 5.0}
    versions = generator.choice([*middle], PEOPLE, p=[0.5, 0.3, 0.15, 0.05])
    logarithms = generator.normal([middle[version] for version in versions], 0.8)
    pairs = zip(versions, np.exp(logarithms).round(1), strict=True)
    return "\n".join(["category,value", *(f"{version},{number}" for version, number in pairs), ""])


POPULATIONS = {
    "theme": "value,count\nlight,9200\ndark,6100\nsystem,3300\nsepia,840\nnight red,310\n"
    "high contrast,240\nsatellite,10\n",
    "latency": latencies(),
    "startup": startups(),
    "network": "a,b,count\n9.4,wifi,26000\n9.4,mobile,15000\n9.4,ethernet,4000\n9.3,wifi,14000\n"
    "9.3,mobile,9000\n9.3,ethernet,4000\n9.2,wifi,5000\n9.2,mobile,5000\n9.2,none,300\n"
    "8.0,wifi,1000\n8.0,mobile,100\n8.0,ethernet,7000\n8.0,none,40\n",
    "start": "a,b,c,count\n1,2,3,40000\n8,2,12,40000\n1,7,9,40000\n4,4,7,40000\n",
}


def run(*words: object) -> None:
    """Run one public command."""
    subprocess.run([sys.executable, "-m", "ldp", *map(str, words)], check=True, cwd=TOP)


def pages(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the name, the page and the height in pixels of each kind of page."""
    demo, registry = folder / "demo", folder / "metrics.toml"
    registry.write_text(REGISTRY, encoding="utf-8")
    for metric, text in POPULATIONS.items():
        population, table = folder / f"{metric}-people.csv", folder / f"{metric}.table"
        population.write_text(text, encoding="utf-8")
        source = ("--registry", registry)
        drawn = ("--truth", folder / f"{metric}-truth.csv", "--seed", 1)
        out = ("--out", folder / f"{metric}.csv")
        if metric == "network":
            store = folder / "store"
            run("simulate", metric, *source, "--population", population, *drawn, "--reports", store)
            run("aggregate", metric, *source, store, "--out", table)
            run("decode", table, *out)
        else:
            run("simulate", metric, *source, "--population", population, *drawn, "--table", table)
            run("decode", table, *out)
    run("demo", "--out", demo, "--seed", 1)
    faces: dict[str, tuple[int, tuple[object, ...]]] = {
        "categories": (1000, (folder / "theme.csv", "--truth", folder / "theme-truth.csv")),
        "list": (1360, (demo / "browsers.csv", "--truth", demo / "browsers-truth.csv")),
        "words": (1360, (demo / "words.csv",)),
        "number": (1080, (folder / "latency.csv", "--truth", folder / "latency-truth.csv")),
        "by-category": (
            1760,
            (folder / "startup.csv", "--truth", folder / "startup-truth.csv"),
        ),
        "table": (900, (folder / "network.csv",)),
        "regression": (640, (folder / "start.csv",)),
    }
    for name, (height, words) in faces.items():
        known = demo / "metrics.toml" if name in ("list", "words") else registry
        page = folder / f"{name}.html"
        run("report", *words, "--registry", known, "--out", page)
        yield name, page, height


def draw(page: Path, height: int, picture: Path, profile: Path) -> None:
    """Draw the top of a page as a small PNG file."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("pictures need Chromium on the PATH")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    shot = (f"--screenshot={picture}", f"--window-size={WIDTH},{height}")
    subprocess.run(
        [chromium, *options, f"--user-data-dir={profile}", *shot, page.as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with Image.open(picture) as image:
        image.convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        for name, page, height in pages(Path(temporary)):
            draw(page, height, IMAGES / f"page-{name}.png", Path(temporary) / "profile")
