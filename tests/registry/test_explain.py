"""Words explain what the epsilons mean, and every number is the library's own."""

import json
import math
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from ldp.accounting.policy import length_in_words
from ldp.cli import main
from ldp.registry import Registry
from ldp.registry.answers import in_100
from ldp.registry.certificates import Certificates
from ldp.registry.explaining import NOT_COVERED, explanation, group_lines, in_text
from ldp.registry.odds import guess_sentence, odds, posterior
from ldp.registry.resolved import resolved_bytes
from ldp.registry.sign_off import facts
from ldp.registry.sign_off_page import page
from simulations.device import registry_text


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "metrics.toml").write_text(registry_text(64.0))
    return Registry.load(tmp_path / "metrics.toml")


@pytest.mark.exact
def test_every_metric_is_told_with_the_epsilon_of_a_report_and_what_is_charged(
    registry: Registry,
) -> None:
    for name, metric in registry.metrics.items():
        told = " ".join(in_text(explanation(registry, name)).split())
        epsilons = [float(found) for found in re.findall(r"epsilon ([\d.]+)(?:\)| is no)", told)]
        assert epsilons[0] == pytest.approx(metric.mechanism.cost.epsilon, rel=1e-3)
        worst = registry.worst_case(metric.group)
        assert epsilons[-2:] == pytest.approx([worst["day"], worst["life"]], rel=1e-3)
        assert ("are about one value" in told) == (metric.memoise == "epoch")
        assert ("When a value changes is not covered" in told) == (metric.memoise == "per-value")
        assert ("sees how many reports come" in told) == (metric.presence == "public")
        assert (metric.price in [pytest.approx(e, rel=1e-3) for e in epsilons]) or metric.memoise
        assert told.endswith(NOT_COVERED)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("day", "year", "is_said"), [(4.0, 60.0, True), (8.0, 60.0, False), (8.0, 40.0, True)]
)
def test_a_group_says_what_its_metrics_take_where_its_caps_allow_more(
    day: float, year: float, is_said: bool
) -> None:
    group = {
        "metrics": ["city"],
        "window_seconds": 86_400,
        "window_epsilon": 4.0,
        "lifetime_epsilon": 60.0,
        "is_conditional": False,
        "day": {"epsilon": day},
        "year": {"epsilon": year},
        "life": {"epsilon": 60.0},
    }
    told = " ".join(group_lines("usage", group, 0.5))
    assert "so at most 8 in any 24 hours" in told
    most = f"take at most {day:g} of that in any 24 hours, and {year:g} in any year."
    assert (most in told) is is_said


@pytest.mark.exact
def test_all_metrics_are_told_by_group_and_no_line_is_long(registry: Registry) -> None:
    told = in_text(explanation(registry))
    assert [told.count(f"  {name}: ") for name in registry.metrics] == [1] * len(registry.metrics)
    assert max(map(len, told.splitlines())) <= 100


@pytest.mark.exact
def test_a_guess_that_is_all_but_sure_is_not_rounded_to_certainty() -> None:
    assert "nearly always" in guess_sentence(16.0)
    assert "73.2 times in 100" in guess_sentence(1.0), "73.106, rounded up"
    assert "e+" not in guess_sentence(64.0)
    assert "at most 98.3 times in 100" in guess_sentence(4.0)
    assert odds(2.0) == math.exp(2.0)
    assert odds(1e6) == math.inf


@pytest.mark.exact
@pytest.mark.parametrize(
    ("share", "said"),
    [
        (1.13e-7, "once in 8,849,558"),
        (2e-6, "0.0002 times in 100"),
        (0.9994, "99.9 times in 100"),
        (1 - 1e-7, "nearly always"),
    ],
)
def test_a_share_near_nothing_or_all_is_said_in_words(share: float, said: str) -> None:
    assert in_100(share) == said


@pytest.mark.exact
def test_what_somebody_believed_before_is_printed_as_stated() -> None:
    """A belief of .999999999 was printed as "100 in 100", and an epsilon of 2 as no protection."""
    surely = guess_sentence(2.0, belief=0.999999999)
    assert "99.9999999 in 100" in surely
    assert "at most 100 times in 100: the odds are multiplied by at most 7.39 " in surely
    assert "0.000001 in 100" in guess_sentence(2.0, belief=1e-8)
    assert "at most 99.93 times in 100" in guess_sentence(5.0, belief=0.9)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(days=90), "90 days"),
        (timedelta(hours=36), "36 hours"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(seconds=1.5), "1.5 seconds"),
    ],
)
def test_lengths_are_said_in_the_largest_unit_that_fits(span: timedelta, said: str) -> None:
    assert length_in_words(span) == said


@pytest.mark.exact
def test_the_command_prints_words_or_numbers(
    tmp_path: Path,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*words: str) -> str:
        command = ["ldp", "explain", *words, "--registry", str(tmp_path / "metrics.toml")]
        monkeypatch.setattr("sys.argv", command)
        main()
        return capsys.readouterr().out

    assert run() == in_text(explanation(registry)) + "\n"
    result = json.loads(run("lang", "--json"))
    assert list(result["metrics"]) == ["lang"]
    assert list(result["groups"]) == ["memory"]
    report = result["metrics"]["lang"]["report"]
    assert report["belief"] == posterior(0.5, report["epsilon"])
    with pytest.raises(SystemExit):
        run("lng")
    assert "did you mean 'lang'?" in capsys.readouterr().err


@pytest.mark.exact
def test_what_a_changing_value_tells_is_said_wherever_the_caps_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chrome's 32 bits have p = 1/4 and q = 3/4, so one report costs 32 ln 3 = 35.16."""
    path = tmp_path / "metrics.toml"
    kept = (
        '[product]\nname = "p"\n[group.places]\nwindow = "1d"\nwindow_epsilon = 4\n'
        'lifetime_epsilon = 40\n[metric.place]\nversion = 1\ngroup = "places"\n'
        'description = "Where?"\nowners = ["a"]\nexpires = 2099-12-31\nmechanism = "rappor"\n'
        'bits = 32\nhashes = 2\nf = 0.75\np = 0.25\nq = 0.75\nmemoise = "per-value"\n'
    )
    path.write_text(kept)
    registry = Registry.load(path)
    sentence, condition = (
        "by at most epsilon 35.16",
        "as long as nobody learns when a value changes",
    )
    monkeypatch.setattr("sys.argv", ["ldp", "registry", "check", str(path)])
    main()
    pages = [
        " ".join(in_text(explanation(registry)).split()),
        capsys.readouterr().out,
        page(registry, Certificates(), None, date(2026, 1, 1)),
    ]
    assert [sentence in shown and condition in shown for shown in pages] == [True] * 3
    assert facts(registry)["groups"]["places"]["changing_per_value"] == pytest.approx(35.15559)
    metric = json.loads(resolved_bytes(registry))["metrics"]["place"]
    assert metric["changing_per_value"] == pytest.approx(35.15559)
    monkeypatch.setattr("sys.argv", ["ldp", "registry", "check", str(path), "--most-odds", "60"])
    with pytest.raises(SystemExit):  # two days that differ, though 24 hours are charged 4.09
        main()
    assert "guess right nearly always (epsilon 70.32), --most-odds is 60" in capsys.readouterr().err
    path.write_text(kept.replace("p = 0.25", "p = 0").replace("q = 0.75", "q = 1"))
    registry = Registry.load(path)
    assert "by at most epsilon unlimited" in " ".join(in_text(explanation(registry)).split())
    assert "changing_per_value" not in json.loads(resolved_bytes(registry))["metrics"]["place"]
