"""Site of a publication: an index of all metrics, a page of each with its history, a page of each
experiment, and the page of the registry to sign.

The files are static, open from disk and load nothing. They do not state when they were written. So
a page changes only with its numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

from ldp.errors import RegistryError
from ldp.files import counted, write_whole
from ldp.publishing.control import Broken
from ldp.publishing.experiments import Experiment
from ldp.publishing.history import HEIGHT, WIDTH, History, histories
from ldp.publishing.period import Problem, passing_by
from ldp.publishing.publish import Job, Publication, counted_periods, days_of, first_day
from ldp.publishing.state import ALL_VERSIONS, estimates_path, kept_versions
from ldp.registry.certificates import Certificates, read_certificates
from ldp.registry.sign_off import BESIDE, read_sign_off, state_of
from ldp.registry.sign_off_page import page
from ldp.report import render
from ldp.report.page import template
from ldp.tables.saved import SavedResult

USUAL = 28
"""Number of periods whose median is the usual number of reports."""
RECENT = 7
"""Number of periods for which the index states a change."""
MOST_DIFFERENCES = 100
"""Most values on the page of an experiment. Its CSV file has all."""
SITE = ("ldp.publishing", "site.html")
"""Package and name of the template."""
FEW = 0.5
"""Share of the usual reports below which a period has few."""


@dataclass(frozen=True)
class Health:
    """State of a metric: a `word`, more `words`, and whether nothing needs attention."""

    word: str
    words: str = ""
    is_good: bool = False


def write_site(
    job: Job,
    result: Publication,
    broken: Sequence[Broken] = (),
    experiments: Sequence[Experiment] = (),
) -> None:
    """Write the site of a publication to `site` in its folder. Only pages that differ are written.
    `result`: result of the run, for its problems. `broken`: broken builds that control metrics
    show. `experiments`: each has a page, too."""
    folder, problems, site = job.out / "site", result.problems, template(*SITE).module
    by_metric = histories(job.out, problems)
    members = {one.name for metric in job.registry.metrics.values() for one in metric.members}
    cards = []
    for metric in sorted({*job.registry.metrics, *by_metric}):
        versions = by_metric.get(metric, [])
        # the reports of a joint metric hold its values
        if not versions and metric in members:
            continue
        health = partial(health_of, metric, versions, job, result, broken)
        if versions:
            with passing_by(problems, metric):
                page = _metric_page(job, versions, health())
                _write(folder / "metrics" / f"{metric}.html", page)
        latest, known = next(iter(versions), None), job.registry.metrics.get(metric)
        card = {"metric": metric, "about": known.description if known else "", "health": health()}
        # in the last `RECENT` periods
        change = _recent_change(latest) if latest else ""
        cards.append({**card, "latest": latest, "change": change})
    for experiment in experiments:
        path = folder / "arms" / f"{experiment.file_name}.html"
        above = site.experiment(experiment, experiment.largest[:MOST_DIFFERENCES])
        _write(path, render([], title=f"{experiment.first} and {experiment.second}", above=above))
    state = _write_registry(folder / "registry.html", job, problems)
    yesterday = job.today - timedelta(days=1)
    fragment = site.index(cards, (WIDTH, HEIGHT), yesterday, state, experiments)
    _write(folder / "index.html", render([], title=job.registry.product, above=fragment))


def _write_registry(path: Path, job: Job, problems: list[Problem]) -> str:
    """Write the page to sign, and return in words whether the registry is signed off, by the record
    beside it and the certificates beside that record. Damage to these is added to the `problems`.
    """
    beside = job.registry.path.with_name(BESIDE)
    try:
        record = read_sign_off(beside) if beside.exists() else None
        names = [entry["file"] for entry in record["certificates"]] if record else []
        certified = read_certificates([beside.with_name(name) for name in names])
    except RegistryError as error:
        problems.append(Problem(BESIDE, str(error)))
        _write(path, page(job.registry, Certificates(), None, job.today))
        return f"not signed off, {BESIDE} or a certificate that it names cannot be used"
    _write(path, page(job.registry, certified, record, job.today))
    return state_of(job.registry, record, beside.parent)


def health_of(
    metric: str,
    versions: Sequence[History],
    job: Job,
    result: Publication,
    broken: Sequence[Broken] = (),
) -> Health:
    """Return the state of a `metric` with these `versions`, the latest first, on the day of a
    `job`, by the `result` until now. `broken`: broken builds that control metrics show."""
    problems = [problem.text for problem in result.problems if problem.metric == metric]
    deviation = [str(build) for build in broken if build.metric == metric]
    known = job.registry.metrics.get(metric)
    yesterday = job.today - timedelta(days=1)
    if problems:
        return Health("problem", problems[0])
    if deviation:
        return Health("broken build", deviation[-1])
    if known is None:
        return Health("ended", "no longer in the registry", is_good=True)
    if known.expires < yesterday:
        return Health("ended", f"expired on {known.expires}", is_good=True)
    if not versions:
        return Health("no reports", "none was counted yet")
    length = days_of(job.period)
    latest = max(version.last for version in versions)
    expected = first_day(job.today - timedelta(days=length), job.period)
    if latest < expected:
        missing = (expected - latest).days // length
        return Health(
            "silent", f"no reports for {counted_periods(missing, job.period)}, since {latest}"
        )
    periods = [period for version in reversed(versions) for period in version.periods]
    earlier = [period.reports for period in periods[:-1][-USUAL:]]
    share = periods[-1].reports / median(earlier) if earlier else 1.0
    reports = counted(periods[-1].reports, "report")
    if share < FEW:
        return Health("few reports", f"{reports}, {100 * share:.0f} % of the usual number")
    return Health("fresh", f"{reports}, {latest}", is_good=True)


def _recent_change(history: History) -> str:
    recent = {period.first for period in history.periods[-RECENT:]}
    changes = [change for change in history.changes if change.period in recent]
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{changes[0].value or changes[0].statistic} changed by {changes[0].size}{more}"


def _metric_page(job: Job, versions: Sequence[History], health: Health) -> str:
    """Return the page of a metric: its history, and the latest period as `ldp report` shows it."""
    latest = versions[0]
    paths = [
        estimates_path(job.out, name, version, latest.last)
        for name, version in kept_versions(job.out)
        if name == latest.metric and latest.version in (version, ALL_VERSIONS)
    ]
    estimates = [path for path in paths if path.exists()][-1]
    above = template(*SITE).module.history(versions, "../index.html", health, (WIDTH, HEIGHT))
    title = f"{latest.metric}, {latest.last}"
    return render([SavedResult.load(estimates)], title=title, registry=job.registry, above=above)


def _write(path: Path, text: str) -> None:
    """Write a page unless the file has this text already."""
    # the name of a file may be any bytes
    data = text.encode(errors="backslashreplace")
    if not path.is_file() or path.read_bytes() != data:
        write_whole(path, data)
