"""Measure one report of a peer in the peers' environment, and print the figures as JSON by key.

ldp-toolbox 0.1.3 has the mechanisms over a list, as methods that take and return numpy's numbers.
Its estimates are clipped at 0 and scaled to 1. `peers.py` runs this file, without ldp.
"""

from importlib import import_module

from simulations.benchmarks.measuring import each_us, print_figures

EPSILON, VALUES = 2.0, 1000


def main() -> None:
    def one(module: str, name: str) -> float:
        protocol = getattr(import_module(f"ldp_toolbox.protocols.frequency.{module}"), name)
        return each_us(protocol(VALUES, EPSILON).obfuscate, range(VALUES))

    print_figures(
        {
            "encode_rr": lambda: one("grr", "GeneralizedRandomizedResponse"),
            "encode_hashing": lambda: one("lh", "LocalHashing"),
            "encode_unary": lambda: one("ue", "UnaryEncoding"),
            "encode_subset": lambda: one("ss", "SubsetSelection"),
        }
    )


if __name__ == "__main__":
    main()
