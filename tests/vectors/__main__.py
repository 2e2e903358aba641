"""Rewrite the golden vectors: `python -m tests.vectors`.

A difference in them is a change of format.
"""

import json
from pathlib import Path

from tests.vectors.make import FILES

for name, make in FILES.items():
    path = Path(__file__).parent / name
    path.write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(path)
