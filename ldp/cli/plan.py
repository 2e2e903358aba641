"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

from textwrap import wrap

import click

from ldp.accounting.explain import in_words
from ldp.cli.options import JSON, say
from ldp.planning import Forecast, forecasts


@click.command()
@click.option("--domain", type=int, required=True, help="Number of possible values.")
@click.option("--users", type=int, required=True, help="Number of users, one report each.")
@click.option("--epsilon", type=float, required=True, help="Privacy loss of one report.")
@click.option("--frequency", type=float, default=0.0, help="Share that holds a value of interest.")
@click.option("--max-report-bytes", type=int, help="Leave out what needs larger reports.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@JSON
def plan(
    domain: int,
    users: int,
    epsilon: float,
    frequency: float,
    max_report_bytes: int | None,
    alpha: float,
    as_json: bool,
) -> None:
    """Compare the mechanisms: standard error, smallest detectable frequency, bytes, odds.

    \b
    Example: ldp plan --domain 2600 --users 1000000 --epsilon 4
    """
    made = forecasts(
        domain=domain,
        users=users,
        epsilon=epsilon,
        frequency=frequency,
        alpha=alpha,
        max_report_bytes=max_report_bytes,
    )
    best = made[0]
    lines = [
        f"mechanism  std error  at f={frequency:<8g} detectable  = reports  bytes  50 % becomes"
    ]
    lines += [_line(forecast, users) for forecast in made]
    lines += [
        "",
        f"{best.mechanism} ({best.parameters}) sees the smallest counts, in {best.report_bytes:,} "
        "bytes a report.",
        "Standard errors are in reports; a detectable value is found half of the time when all "
        f"{domain} are",
        f"tested at {alpha:g} (Bonferroni). Sketches have Apple's published sizes and collisions",
        "of Zipf frequencies. Last column: what a belief of 50 % can become after one report.",
        *wrap(in_words(best.epsilon), 88),
    ]
    say({"forecasts": [forecast.to_dict() for forecast in made]}, "\n".join(lines), as_json)


def _line(forecast: Forecast, users: int) -> str:
    share = forecast.detectable_frequency
    found = f"{100 * share:8.4g} % {users * share:10,.0f}" if share <= 1 else "   never          -"
    return (
        f"{forecast.mechanism:<9} {forecast.std_error_rare:10,.1f} {forecast.std_error:12,.1f} "
        f"{found} {forecast.report_bytes:6} {100 * forecast.believed:12.4g} %"
    )
