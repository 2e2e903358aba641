"""Run a device of the end-to-end test.

`python -m tests.sending_device FOLDER URL CITY WORD START` records its two values once in each of
200 windows of a minute, from START on, and uploads. It keeps its clock in a file, and goes on from
there when it is started again. It ends when nothing waits, and prints how many reports of each
metric its own ledger has as acknowledged.
"""

import json
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from ldp.client import Client, Collector

WINDOWS = 200
STEP = timedelta(minutes=1)


def main(folder: Path, url: str, city: str, word: str, start: datetime) -> None:
    clock = folder / "clock"
    windows = int(clock.read_text()) if clock.exists() else 0
    now = start + windows * STEP
    client = Client(
        folder / "device.ldp",
        registry=folder.parent / "metrics.toml",
        destination=Collector(url),
        clock=lambda: now,
        jitter=timedelta(0),
    )
    client.grant()
    while windows < WINDOWS:
        client.record("city", city)
        client.record("word", word)
        windows += 1
        now += STEP
        (folder / "clock.part").write_text(str(windows))
        (folder / "clock.part").replace(clock)
        client.upload()
    while client.upload().waiting:
        now += timedelta(minutes=20)  # later than the wait after a failure
        time.sleep(0.05)
    total: Counter[str] = Counter()
    for batch in client.sent():
        assert batch.state == "acknowledged"
        total.update(batch.reports)
    client.close()
    print(json.dumps(total))


if __name__ == "__main__":
    place, url, city, word, start = sys.argv[1:]
    main(Path(place), url, city, word, datetime.fromisoformat(start))
