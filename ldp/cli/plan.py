"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

import click

from ldp.accounting.explain import in_words
from ldp.cli.options import JSON, say
from ldp.planning import Forecast, forecasts


@click.command()
@click.option("--domain", type=int, required=True, help="Number of possible values.")
@click.option("--users", type=int, required=True, help="Number of users, one report each.")
@click.option("--epsilon", type=float, required=True, help="Privacy loss of one report.")
@click.option("--frequency", type=float, default=0.0, help="Share that holds a value of interest.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@JSON
def plan(
    domain: int, users: int, epsilon: float, frequency: float, alpha: float, as_json: bool
) -> None:
    """Compare the mechanisms: standard error, smallest detectable frequency, bytes, odds.

    \b
    Example: ldp plan --domain 2600 --users 1000000 --epsilon 4
    """
    made = forecasts(domain=domain, users=users, epsilon=epsilon, frequency=frequency, alpha=alpha)
    best = made[0]
    lines = [
        f"mechanism  std error  at f={frequency:<8g} detectable      users  bytes  50 % becomes"
    ]
    lines += [_line(forecast, users) for forecast in made]
    lines += [
        "",
        f"{best.mechanism} ({best.parameters}) sees the smallest counts here.",
        "Standard errors are in reports; a detectable value is found half of the time when all "
        f"{domain} are tested",
        f"at {alpha:g} (Bonferroni). Sketch collisions are those of Zipf frequencies.",
        in_words(best.epsilon),
    ]
    say({"forecasts": [forecast.to_dict() for forecast in made]}, "\n".join(lines), as_json)


def _line(forecast: Forecast, users: int) -> str:
    share = forecast.detectable_frequency
    found = f"{100 * share:8.4g} % {users * share:10,.0f}" if share <= 1 else "   never          -"
    return (
        f"{forecast.mechanism:<9} {forecast.std_error_rare:10,.1f} {forecast.std_error:12,.1f} "
        f"{found} {forecast.report_bytes:6} {100 * forecast.believed:12.4g} %"
    )
