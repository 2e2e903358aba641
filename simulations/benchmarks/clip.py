"""Measure one peer's CMS report in the peers' environment, and print the figure as JSON by key.

clip-protocol 2.4 counts a whole table of data at once, so its client method is measured alone, for
one value. `peers.py` runs this file; ldp is not installed there.
"""

from importlib import import_module

from simulations.benchmarks.measuring import each_us, print_figures

EPSILON, ROWS, WIDTH = 4, 65536, 1024


def main() -> None:
    frame = import_module("pandas").DataFrame({"user": ["a"], "value": ["lol"]})
    module = import_module("clip_protocol.count_mean.private_cms_client")
    client = module.privateCMSClient(EPSILON, ROWS, WIDTH, frame)
    words = [f"word-{rank}" for rank in range(1, 1001)]
    print_figures({"encode": lambda: each_us(client.client, words)})


if __name__ == "__main__":
    main()
