"""`ldp key`: keys of collectors, to which devices seal reports, and of relays."""

from pathlib import Path

import click

from ldp.cli.options import FILE, JSON, say


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--relay", is_flag=True, help="Make the key of a relay, which signs sizes of batches with it."
)
@JSON
def key_command(file: Path, relay: bool, as_json: bool) -> None:
    """Make a collector's key, if FILE is not there yet, and print its public part.

    FILE stays with the collector, which opens sealed reports with it (`sealed = [FILE]`). Apps seal
    with the public key. `sealing_keys` in metrics.toml lists the fingerprint, so that they seal
    with no other. It is a PEM file, as `openssl genpkey -algorithm x25519` writes. The key of a
    relay (`ldp relay --key FILE`) is one of ed25519.

    \b
    Example: ldp key collector.key
    """
    from ldp.protocol.sealing_keys import PrivateKey, RelayKey

    kind = RelayKey if relay else PrivateKey
    private = kind.load(file) if file.exists() else kind.make(file)
    words = f"public key:  {private.public}\nfingerprint: {private.fingerprint}"
    say({"public_key": private.public, "fingerprint": private.fingerprint}, words, as_json)
