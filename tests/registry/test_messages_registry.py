"""Registry and commands describe messages for a shuffler, and say where none are taken."""

import json
import math
from pathlib import Path

import pytest

from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import CATALOGUE, JointReport
from ldp.mechanisms.outcomes import dominating_pair, outcomes
from ldp.privacy_loss import compose, least_reports
from ldp.registry import Registry
from ldp.registry.explaining import explanation, in_text, label
from ldp.registry.resolved import resolved_bytes
from tests.command_line import run
from tests.messages import MESSAGES, OSLO, registry
from tests.sealing import KEY, RETIRED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([('trust = "shuffler"\nconsent', "consent")], "consent, the text"),
        ([('consent = "Your city', 'description = "Your city')], "unknown key"),
        ([('consent = "Your', 'consent = ""#')], "consent must be a text"),
        ([('trust = "shuffler"', 'trust = "relay"')], "trust must be"),
        ([('group = "trusting"', 'group = "places"')], "protects nothing before a relay"),
        ([('group = "places"\nd', 'group = "trusting"\nd')], "has noise of its own"),
        ([("shuffled_epsilon = 1.0", "")], "needs shuffled_epsilon"),
        ([("shuffled_epsilon = 1.0", "shuffled_epsilon = 1e-9")], "of 0.01 at least"),
        ([("shuffled_epsilon = 1.0", "shuffled_epsilon = 1.5")], "its group's cap is 1.0"),
        ([("slots = 2", "slots = 2\nreports_per_window = 2")], "sends one record in a window"),
        ([("slots = 2", 'slots = 2\nmemoise = "per-value"')], "memoises nothing"),
        ([("slots = 2", 'slots = 2\npresence = "hidden"')], "neither presence nor control"),
        ([("slots = 2", 'slots = 2\ncontrol = "Oslo"')], "neither presence nor control"),
        ([("slots = 2", "slots = 100")], "slots must be a whole number from 1 to 99"),
        ([("probability = 0.5", "probability = 1e-5")], "probability must be from"),
        ([('name = "weather"', 'name = "weather"\nlifetime_epsilon = 9.0')], "has no bound before"),
        ([("sealing_keys", "#")], "exactly one key"),
        ([("sealing_keys = [", f'sealing_keys = ["{RETIRED.fingerprint}", ')], "exactly one key"),
        (
            [('window = "1d"\nwindow_epsilon = 1.0', 'window = "12h"\nwindow_epsilon = 1.0')],
            "whole",
        ),
        ([("lifetime_epsilon = 30.0", "lifetime_epsilon = 30.0\nreport_epsilon = 1.0")], "whole"),
    ],
)
@pytest.mark.exact
def test_a_registry_that_would_send_it_unprotected_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(RegistryError, match=message):
        registry(tmp_path, *changes)


@pytest.mark.exact
def test_what_a_device_can_lose_is_unlimited_and_what_a_relay_leaves_is_beside_it(
    tmp_path: Path,
) -> None:
    loaded = registry(tmp_path)
    assert loaded.worst_case("trusting") == dict.fromkeys(("day", "year", "life"), math.inf)
    assert loaded.worst_case_of_all() == dict.fromkeys(("day", "year", "life"), math.inf)
    assert loaded.capped("trusting") == {"day": 2.0, "year": 30.0, "life": 30.0}
    assert math.isfinite(loaded.worst_case("places")["life"])
    stated = label(loaded, "city")
    assert (stated.report_epsilon, stated.lifetime_epsilon) == (math.inf, math.inf)
    assert (stated.shuffled_report_epsilon, stated.shuffled_lifetime_epsilon) == (1.0, 30.0)
    assert type(stated).of(json.loads(json.dumps(stated.fields))) == stated
    text = " ".join(in_text(explanation(loaded)).split())
    for sentence in ("Your city leaves this device as it is", "epsilon unlimited", "3 messages"):
        assert sentence in text


@pytest.mark.exact
def test_a_later_registry_changes_neither_trust_nor_key_unnoticed(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    loaded.lock()
    other_key = registry(tmp_path, (KEY.fingerprint, RETIRED.fingerprint))
    with pytest.raises(RegistryError, match=r"changed its sealing key .* give it version 4"):
        other_key.check()
    dearer = registry(tmp_path, ("shuffled_epsilon = 1.0", "shuffled_epsilon = 0.5"))
    with pytest.raises(RegistryError, match=r"changed its shuffled_epsilon .* give it version 4"):
        dearer.check()
    local = registry(
        tmp_path / "old",
        ('trust = "shuffler"\nconsent = "Your', '# "Your'),
        ('mechanism = "dummies"', 'mechanism = "rr"\nepsilon = 1.0'),
        ("slots = 2\nprobability = 0.5\n", ""),
    )
    with pytest.raises(RegistryError, match="trust was 'device'"):
        loaded.check_against(local, math.inf)
    again = registry(tmp_path / "new")
    again.check_against(loaded)
    head, rest = MESSAGES.split("[group.trusting]")
    (tmp_path / "less").mkdir()
    local_only = head + rest[rest.index("[metric.mood]") : rest.index("[metric.city]")]
    (tmp_path / "less" / "metrics.toml").write_text(local_only)
    without = Registry.load(tmp_path / "less" / "metrics.toml")
    with pytest.raises(RegistryError, match="one device by epsilon inf"):
        again.check_against(without, 1e9)
    again.check_against(without, math.inf)


@pytest.mark.exact
def test_a_relay_waits_for_as_many_people_as_the_certificate_needs(tmp_path: Path) -> None:
    """The registry's parameters decide: fewer dummies need more people."""
    half, quarter = (
        least_reports(of.mechanism, epsilon=of.shuffled_epsilon, delta=1e-6)
        for more in ((), (("probability = 0.5", "probability = 0.25"),))
        for of in registry(tmp_path, *more).metrics.values()
        if of.shuffled_epsilon
    )
    assert 1.8 < quarter / half < 2.2


@pytest.mark.exact
def test_commands_that_rest_on_noise_refuse_it_and_the_others_say_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value,count\nOslo,300\nBergen,100\n")
    assert run("collect --registry metrics.toml --store reports", monkeypatch) == 2
    assert "give --sealed KEYFILE and --relay-key PUBLIC" in capsys.readouterr().err
    relay = "relay --registry metrics.toml --collector http://127.0.0.1:1 --buffer waiting"
    assert run(relay, monkeypatch) == 2
    assert "from a relay that signs only: give --key" in capsys.readouterr().err
    of_people = "--registry metrics.toml --population people.csv"
    for words in (
        "central city --registry metrics.toml --data people.csv --out c.csv",
        "attack city --registry metrics.toml",
    ):
        assert run(words, monkeypatch) == 2
        assert "metric 'city' sends messages for a shuffler" in capsys.readouterr().err
    assert run(f"simulate city {of_people} --seed 1 --table city.table", monkeypatch) == 0
    assert run("decode city.table --fakes 1% --out city.csv", monkeypatch) == 0
    assert json.loads(Path("city.json").read_text())["fakes_reports"] == 12
    assert run("decode city.table --out city.csv", monkeypatch) == 0
    said = capsys.readouterr()
    assert "among 400 reports" in said.out
    assert said.err == ""
    assert run("report city.csv --out city.html", monkeypatch) == 0
    assert run("registry page metrics.toml --out page.html", monkeypatch) == 0
    for page in ("city.html", "page.html"):
        text = " ".join(Path(page).read_text("utf-8").split())
        assert "unlimited" in text
        assert "honest relay" in text or "the relay is honest" in text
    capsys.readouterr()
    assert run("registry check metrics.toml --json", monkeypatch) == 0
    stated = json.loads(capsys.readouterr().out)
    assert stated["worst_case_epsilon"]["trusting"] == dict.fromkeys(("day", "year", "life"))
    assert stated["worst_case_behind_relay"]["trusting"]["life"] == 30.0
    assert run("amplify city --registry metrics.toml --delta 1e-6", monkeypatch) == 0
    assert "seen by itself            epsilon unlimited" in capsys.readouterr().out


@pytest.mark.exact
def test_an_exported_registry_says_what_it_trusts_and_states_no_epsilon(tmp_path: Path) -> None:
    document = json.loads(resolved_bytes(registry(tmp_path)))
    assert document["groups"]["trusting"]["trust"] == "shuffler"
    assert "trust" not in document["groups"]["places"]
    assert document["metrics"]["city"]["presence"] == "relayed"
    assert "epsilon" not in document["metrics"]["city"]
    assert document["metrics"]["mood"]["epsilon"] <= 1.0


@pytest.mark.exact
def test_nothing_that_rests_on_the_epsilon_of_a_report_takes_messages() -> None:
    """The law of one message has a finite ratio, which is no bound, as others depend on it."""
    assert "dummies" not in CATALOGUE
    assert OSLO.channel.epsilon < 2 < OSLO.cost.epsilon
    for refused in (
        lambda: compose([(OSLO, 1)]),
        lambda: outcomes(OSLO),
        lambda: dominating_pair(OSLO),
        lambda: JointReport(of=(OSLO, OSLO)),
    ):
        with pytest.raises(ParameterError):
            refused()
