"""Output of the estimates of commands."""

from pathlib import Path

from ldp.cli.options import say, warn
from ldp.errors import require_share
from ldp.files import counted
from ldp.tables.estimates import Estimates
from ldp.tables.fakes import NO_BOUND, damage_words
from ldp.tables.result import summary_path

INTERVALS_UNDER_FAKES = (
    "intervals hold for the other reports, whatever up to {share:.4g} % of all reports say"
)
OF_REPORTS = "intervals assume one report a person; --weighted-reports-per-client states more"


def check_output(out: str, level: float) -> None:
    """Raise ParameterError unless estimates can be written to `out`, with intervals of this
    `level`. Call it before any work."""
    require_share(level, "level")
    if out != "-":
        # raises for a name that is the summary's
        summary_path(Path(out))


def write_estimates(estimates: Estimates, out: str, tested: str, as_json: bool) -> None:
    """Write estimates to `out`, or print them for "-", and say how many of the `tested` values were
    discovered."""
    summary = estimates.summary
    if summary.get("warning"):
        warn(summary["warning"])
    if out == "-":
        listed = {**summary, "estimates": estimates.rows()}
        say(listed, estimates.to_csv().rstrip("\n"), as_json)
        return
    estimates.to_csv(out)
    detected = summary["detected"]
    words = (
        f"{detected} of {len(estimates.values):,} {tested} discovered among "
        f"{counted(estimates.reports, 'report')} (noise floor "
        f"{summary['noise_floor']:,.0f}) -> {out}"
    )
    if summary.get("whole_reports"):
        words += f"\nfrom whole reports: {summary['equations']:,} equations"
        if summary["unlisted"]:
            held = ", ".join(f"{count:,}" for count in summary["unlisted"])
            words += f"; strings that are not listed are held by {held}"
    if (fakes := estimates.fakes).share is not None:
        words += (
            f"\nintervals and discoveries hold for the other reports, whatever up to "
            f"{100 * fakes.share:.4g} % of all ({fakes.number:,}) say: these can raise a count by "
            f"{fakes.raised:,.0f} and lower it by {fakes.lowered:,.0f}"
        )
    elif summary.get("fakes_move") is not None:
        damage = damage_words(summary, f"{summary['fakes_move']:,.0f}")
        words += f"\n1 % of made-up reports {damage}"
    elif "fakes_move" in summary:
        words += f"\n{NO_BOUND}"
    if tested == "candidates" and estimates.reports_per_person is None:
        words += f"\n{OF_REPORTS}"
    say({**summary, "written": out}, words, as_json, "ldp report {} --out report.html", out)
