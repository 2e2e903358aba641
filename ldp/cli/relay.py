"""`ldp relay`: the service between devices and a collector that reads no report."""

from contextlib import ExitStack
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FILE, SPAN
from ldp.cli.parsing import SHARE
from ldp.cli.serving import (
    COUNT,
    begin_log,
    listening_on,
    serve,
    service_options,
    service_settings,
    set_right,
)
from ldp.cli.settings import rare
from ldp.errors import ParameterError, from_extra, require_share
from ldp.registry import Registry


@click.command()
@service_options(8788)
@click.option(
    "--collector", required=True, metavar="URL", help="Collector to send to, as https://HOST."
)
@click.option(
    "--buffer", type=FILE, required=True, help="Folder of what waits, and of ids of batches."
)
@click.option(
    "--smallest",
    type=COUNT,
    default=1000,
    help="Least number of reports in a batch, or of people where messages are for a "
    "shuffler; fewer wait, and are dropped after the lateness.",
)
@click.option(
    "--shortest", type=SPAN, default="1h", help="Least time for which a batch's first report waits."
)
@click.option("--key", type=FILE, help="Key that signs the sizes of batches (ldp key --relay).")
@rare("--delta", float, 1e-6, "Delta at which the shuffled_epsilon of a metric holds in a batch.")
@rare("--fakes", SHARE, "0 %", "Share of a batch that may be made up.")
def relay_command(
    registry: Path,
    collector: str,
    buffer: Path,
    listen: str,
    smallest: int,
    shortest: timedelta,
    delta: float,
    fakes: Fraction,
    key: Path | None,
    reset_watermark: bool,
    **settings: Any,
) -> None:
    """Pass sealed reports on to a collector in shuffled batches, until interrupted.

    It reads no report, and writes down nothing about a sender. docs/relay.md has the rest.

    \b
    Example: ldp relay --collector https://telemetry.example.org --buffer waiting
    """
    with from_extra("ldp relay", "collector"):
        from ldp.collection.holding import Holding
        from ldp.collection.sealed_relay import Relay
    from ldp.client.destinations import Collector
    from ldp.collection.lock import hold_lock
    from ldp.collection.relay_buffer import MOST_REPORTS, RelayBuffer
    from ldp.privacy_loss import least_reports

    require_share(delta, "--delta")
    loaded = Registry.load(registry)
    targets = {
        metric.queue: least_reports(metric.mechanism, epsilon=target, delta=delta, fakes=fakes)
        for metric in loaded.metrics.values()
        if (target := metric.shuffled_epsilon)
    }
    queues = loaded.queues()
    unsigned = [name for name, queue in queues.items() if queue.messages > 1 and key is None]
    if unsigned:
        raise ParameterError(
            f"a collector takes {unsigned[0]} from a relay that signs only: give --key (ldp key "
            "--relay FILE)"
        )
    for queue, reports in targets.items():
        whose = "people's messages" if queues[queue].messages > 1 else "reports"
        click.echo(
            f"a batch of {queue} has {reports:,} {whose} at least, for its shuffled_epsilon at "
            f"delta {delta:g}"
        )
    limited = [reports for queue, reports in targets.items() if queues[queue].messages == 1]
    if max([smallest, *limited]) > MOST_REPORTS:
        raise ParameterError(
            f"a batch has at most {MOST_REPORTS:,} reports: state a larger shuffled_epsilon, or a "
            "smaller --smallest"
        )
    begin_log()
    with ExitStack() as held:
        held.enter_context(hold_lock(buffer, user="relay"))
        if reset_watermark:
            set_right(RelayBuffer(buffer), loaded)
            return
        attest = None
        if key is not None:
            # late: it loads cryptography
            from ldp.protocol.sealing_keys import RelayKey

            attest = RelayKey.load(key).attest
        service = Relay(
            loaded,
            buffer,
            Collector(collector),
            holding=Holding(smallest=smallest, shortest=shortest, targets=targets, delta=delta),
            attest=attest,
            **service_settings(**settings),
        )
        serve(service.app, held.enter_context(listening_on(listen)), "relaying")
