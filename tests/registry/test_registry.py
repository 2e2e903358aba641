"""Every mistake in metrics.toml is one line that says where it is and what would be right."""

import json
import math
import re
from datetime import date, timedelta
from pathlib import Path
from time import process_time

import pytest

from ldp.errors import RegistryError
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.presets import PRESETS
from ldp.registry import Registry
from ldp.registry.definitions import Queue
from ldp.registry.explaining import label
from ldp.registry.lookalikes import lookalike_notes
from ldp.registry.resolved import resolved_bytes
from ldp.registry.value_files import read_values
from tests.command_line import run
from tests.folders import ROOT

GOOD = """\
[product]
name = "keyboard"

[group.typing]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
report_epsilon = 4.0

[metric.city]
version = 1
group = "typing"
description = "Where people are"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "cms"
epsilon = 4.0
rows = 128
width = 64
dictionary = "city.txt"

[metric.browser]
version = 2
group = "typing"
description = "Which browser"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rr"
epsilon = 2.0
categories = ["chrome", "firefox"]
reports_per_window = 2
"""
RR = 'mechanism = "rr"\nepsilon = 2.0\ncategories = ["chrome", "firefox"]'
OTHER = """[group.other]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0

"""
HADAMARD = '"hcms"\nepsilon = 4.0\nrows = 128\nwidth = 65'
RAPPOR = """mechanism = "rappor"
scheme = "identity"
categories = ["chrome", "firefox", "none"]
p = 0.25
q = 0.75
f = 0.5
memoise = """


def written(folder: Path, text: str = GOOD) -> Path:
    (folder / "city.txt").write_text("Oslo\nBergen\n")
    (folder / "metrics.toml").write_text(text)
    return folder / "metrics.toml"


@pytest.mark.exact
def test_a_registry_is_read(tmp_path: Path) -> None:
    registry = Registry.load(written(tmp_path))
    city, browser = registry.metric("city"), registry.metric("browser")
    assert city.candidates() == ("Oslo", "Bergen")
    assert parts_of(city.mechanism)[0].shape == (128, 64)
    assert browser.candidates() is None
    assert browser.mechanism.parameters()["categories"] == ["chrome", "firefox"]


@pytest.mark.exact
def test_no_command_writes_over_a_file_of_values_of_the_registry(tmp_path: Path) -> None:
    """Any key may name the file: the dictionary, the categories, or those of numbers."""
    numbers = 'mechanism = "hierarchical-histogram"\nepsilon = 2.0\nby = "versions.txt"\n'
    listed = GOOD.replace('["chrome", "firefox"]', '"browsers.txt"')
    head, rest = GOOD.split("[metric.browser]")[1].split(RR)
    for name in ("versions", "browsers"):
        (tmp_path / f"{name}.txt").write_text("1.0\n1.1\n")
    path = written(tmp_path, f"{listed}\n[metric.latency]{head}{numbers}{rest}")
    names = {file.name for file in Registry.load(path).files}
    assert {"city.txt", "versions.txt", "browsers.txt"} <= names


CHANGES = [
    (
        "window_epsilon = 8.0",
        "window_epsilon = 9.0",
        r"allows more epsilon a window \(9.0, before 8.0\) than in ",
    ),
    (
        "lifetime_epsilon = 64.0",
        "lifetime_epsilon = 65.0",
        "grew .* group 'typing' by epsilon 1, one device by epsilon 1; .* --accept-growth",
    ),
    ("[metric.city]", OTHER + "[metric.city]", "group 'other' by epsilon 64, one device by"),
    (
        "report_epsilon = 4.0",
        "report_epsilon = 4.5",
        r"epsilon a report \(4.5, before 4.0\) than in ",
    ),
    ("report_epsilon = 4.0", "", r"more epsilon a report \(inf, before 4.0\) than in "),
    ('window = "1d"', 'window = "23h"', "has shorter windows than in "),
    ("[group.typing]", "[group.writing]", "group 'typing' was renamed or removed"),
    ("[metric.browser]", OTHER + "[metric.browser]", "'browser' was in group 'typing'"),
    ("epsilon = 2.0", "epsilon = 1.0", "changed its mechanism .* give it version 3"),
    ('dictionary = "city.txt"', "", "changed its dictionary"),
]


@pytest.mark.exact
@pytest.mark.parametrize(("old", "new", "message"), CHANGES)
def test_an_older_registry_is_held_against_a_newer_one(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    older = Registry.load(written(tmp_path / "old"))
    text = GOOD.replace(old, new)
    if "group.w" in new:
        text = text.replace('group = "typing"', 'group = "writing"')
    if "browser" in old:
        before, after = text.split("[metric.browser]")
        text = before + "[metric.browser]" + after.replace('group = "typing"', 'group = "other"')
    newer = Registry.load(written(tmp_path / "new", text))
    with pytest.raises(RegistryError, match=message):
        newer.check_against(older)
    older.check_against(older)


@pytest.mark.exact
def test_lower_caps_are_no_change_for_the_worse_and_growth_can_be_accepted(
    tmp_path: Path,
) -> None:
    def read(name: str, text: str) -> Registry:
        (tmp_path / name).mkdir()
        return Registry.load(written(tmp_path / name, text))

    older = read("old", GOOD)
    lower = GOOD.replace("64.0", "60.0").replace('"1d"', '"2d"')
    read("lower", lower).check_against(older)
    more = read("more", GOOD.replace("[product]", OTHER + "[product]"))
    more.check_against(older, accepted_growth=64.0)
    with pytest.raises(RegistryError, match="one device by epsilon 64"):
        more.check_against(older, accepted_growth=63.9)


@pytest.mark.exact
def test_a_devices_own_cap_is_what_its_life_can_lose(tmp_path: Path) -> None:
    def read(name: str, text: str) -> Registry:
        (tmp_path / name).mkdir()
        return Registry.load(written(tmp_path / name, text))

    capped = GOOD.replace("[product]", "[product]\nlifetime_epsilon = 32.0")
    older = read("old", capped)
    assert older.worst_case("typing")["life"] == older.worst_case_of_all()["life"] == 32.0
    assert label(older, "browser").lifetime_epsilon == 32.0
    more = capped.replace("[product]", OTHER + "[product]")
    assert read("more", more).growth(older) == {
        "group 'typing'": 0.0,
        "group 'other'": 64.0,
        "one device": 0.0,
    }
    with pytest.raises(RegistryError, match="one device by epsilon 32;"):
        read("without", GOOD).check_against(older)
    for wrong in ("0.0", "nan", "-1.0", '"many"', "true", "1" + "0" * 400):
        with pytest.raises(RegistryError, match="number"):
            Registry.load(written(tmp_path, capped.replace("32.0", wrong)))


@pytest.mark.exact
def test_every_window_has_room_for_epochs_beside_what_else_it_may_tell(tmp_path: Path) -> None:
    """Basic RAPPOR with f = 1/2 costs 2.2 an epoch, the other metric 4.0 a report."""
    text = GOOD.replace(RR, RAPPOR + '"epoch"\nepoch = "9d"')
    registry = Registry.load(written(tmp_path, text))
    assert float(registry.set_aside("typing")) == pytest.approx(2 * math.log(3))
    assert registry.set_aside("typing", date(2028, 1, 1)) == 0, "expired"
    tight = text.replace("window_epsilon = 8.0", "window_epsilon = 6.0")
    crowded = Registry.load(written(tmp_path, tight))
    with pytest.raises(RegistryError, match=r"sets aside 2\.197.* window_epsilon is 6: raise it"):
        crowded.check()
    crowded.check(date(2028, 1, 1))


@pytest.mark.exact
def test_how_a_metric_is_memoised_belongs_to_its_version(tmp_path: Path) -> None:
    for name, how in (("old", '"per-value"'), ("new", '"epoch"\nepoch = "9d"')):
        (tmp_path / name).mkdir()
        written(tmp_path / name, GOOD.replace(RR, RAPPOR + how))
    older, newer = (Registry.load(tmp_path / name / "metrics.toml") for name in ("old", "new"))
    with pytest.raises(RegistryError, match="changed its memoisation or presence"):
        newer.check_against(older)


@pytest.mark.exact
def test_the_worst_case_of_a_memoised_metric_is_its_lifetime_price(tmp_path: Path) -> None:
    """Basic RAPPOR with f = 1/2 costs 2 ln 3 = 2.197 for a value or an epoch.

    A day can hold the charges of two windows, or of two epochs. A year of 366 days can hold those
    of 366 // 90 + 2 epochs.
    """
    text = GOOD.replace("lifetime_epsilon = 64.0", "lifetime_epsilon = 5000.0")
    only = text[: text.index("[metric.city]")] + text[text.index("[metric.browser]") :]
    price = 2 * math.log(3)
    for how, day, year in (('"per-value"', 4, 734), ('"epoch"\nepoch = "90d"', 2, 6)):
        registry = Registry.load(written(tmp_path, only.replace(RR, RAPPOR + how)))
        worst = registry.worst_case("typing")
        assert worst["day"] == pytest.approx(day * price)
        assert worst["year"] == pytest.approx(year * price)
        changing = worst.pop("changing_per_value", None)
        assert changing == (pytest.approx(6 * math.log(3)) if "per-value" in how else None)
        assert registry.worst_case_of_all() == worst


@pytest.mark.exact
def test_the_worst_case_counts_windows_that_straddle_a_day_and_stops_at_the_caps(
    tmp_path: Path,
) -> None:
    worst = Registry.load(written(tmp_path)).worst_case("typing")
    per_window = 4.0 + 2 * 2.0
    assert worst["day"] == pytest.approx(2 * per_window)
    assert worst["year"] == worst["life"] == 64.0


@pytest.mark.exact
def test_the_default_seed_depends_on_product_metric_and_version(tmp_path: Path) -> None:
    def fingerprint(text: str) -> bytes:
        return Registry.load(written(tmp_path, text)).metric("city").mechanism.fingerprint

    same = fingerprint(GOOD)
    assert fingerprint(GOOD) == same
    assert fingerprint(GOOD.replace("keyboard", "camera")) != same
    assert fingerprint(GOOD.replace("version = 1", "version = 3")) != same


@pytest.mark.exact
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epsilon = 4.0\nrows", "epsilom = 4.0\nrows", r"did you mean 'epsilon'"),
        ("window_epsilon", "window_epsilom", r"group\.typing.*did you mean 'window_epsilon'"),
        ("[metric.city]", "[metrics.city]", "unknown key 'metrics'; did you mean 'metric'"),
        ("epsilon = 4.0\nrows", "epsilon = -1.0\nrows", "epsilon must be > 0"),
        ("epsilon = 4.0\nrows", "epsilon = nan\nrows", "epsilon must be > 0"),
        ("epsilon = 4.0\nrows", "epsilon = 65.0\nrows", "at most 64"),
        ("epsilon = 4.0\nrows", "epsilon = 5.0\nrows", "its group's cap is 4.0"),
        ("epsilon = 4.0\nrows", 'epsilon = "4"\nrows', "epsilon must be a number"),
        ("rows = 128\n", "", "needs rows"),
        ("rows = 128", "rows = 1.5", "rows must be a whole number"),
        ('"cms"\nepsilon = 4.0\nrows = 128\nwidth = 64', HADAMARD, "width must be a power of two"),
        ('group = "typing"', 'group = "other"', 'group must be one of "typing"'),
        ("expires = 2027-12-31", 'expires = "2027-12-31"', "expires must be a date"),
        ('mechanism = "rr"', 'mechanism = "grr"', "there is no mechanism 'grr'; did you mean 'rr'"),
        ('mechanism = "rr"', 'mechanism = "sfp-fragments"', "is a part of others"),
        ('mechanism = "rr"', 'mechansim = "rr"', "key 'mechansim'; did you mean 'mechanism'"),
        ('mechanism = "rr"', "", "needs mechanism or preset"),
        ('window = "1d"', 'window = "1 day"', "length of time"),
        ("[metric.city]", "[metric]\ncity = 3\n[metric.x]", r"\[metric.city\]: must be a section"),
        ("[group.typing]", "[group]\n[product.x]", "unknown key 'x'"),
        ("version = 2", "version = 0", "version must be"),
        ('owners = ["team@example.org"]', "owners = []", "owners must be"),
        ("reports_per_window = 2", "reports_per_window = 0", "reports_per_window"),
        ("reports_per_window = 2", 'memoise = "epoch"', "'rr' memoises nothing; these do: rappor"),
        ("reports_per_window = 2", "memoise = true", "memoise must be one of false"),
        ("reports_per_window = 2", "memoise = 0", "memoise must be one of false"),
        ("reports_per_window = 2", 'epoch = "7d"', 'goes with memoise = "epoch"'),
        ("reports_per_window = 2", 'presence = "secret"', 'presence must be one of "public"'),
        ("reports_per_window = 2", "presence = []", 'presence must be one of "public"'),
        ("reports_per_window = 2", 'presence = "hidden"', 'lists one called "none"'),
        ('dictionary = "city.txt"', 'presence = "hidden"', "'city' is hidden and 'browser' is"),
        (RR, RAPPOR + '"epoch"', 'epoch, such as "90d", goes with'),
        (RR, RAPPOR + '"epoch"\nepoch = "36h"', "multiple of the group's window"),
        (RR, RAPPOR + '"epoch"\nepoch = "0d"', "multiple of the group's window"),
        (RR, RAPPOR + '"per-value"\nepoch = "9d"', 'goes with memoise = "epoch"'),
        (RR, RAPPOR.replace("0.5", "0.0") + '"per-value"', "f = 0"),
        (RR, RAPPOR.replace("0.5", "0.01") + '"per-value"', "reports about one value cost"),
        (RR, RAPPOR + '"per-value"\npresence = "hidden"', "does not go with"),
        ("rows = 128\nwidth = 64", "rows = 16777216\nwidth = 16777216", "rows times width"),
        ("window_epsilon = 8.0", "window_epsilon = 1.0", "its group's cap is 1.0"),
        ("window_epsilon = 8.0", "window_epsilon = inf", "window_epsilon must be a number"),
        (
            "reports_per_window = 2",
            "reports_per_window = 1000000000",
            "to 10,000, not 1000000000",
        ),
        ('categories = ["chrome", "firefox"]', "alpha = 0.5", "'rr' takes categories, epsilon"),
        ("version = 1", "version = 1" + "0" * 5000, "not valid TOML"),
        ("version = 1", "version = 0x1" + "0" * 5000, "not valid TOML"),
        ("version = 1", "version = " + "[" * 5000, "not valid TOML|nested too deeply"),
        ('name = "keyboard"', 'name = ""', "name must be a text"),
        ('mechanism = "rr"', 'mechanism = ["rr"]', "there is no mechanism"),
        ('group = "typing"', 'group = ["typing"]', "group must be a text"),
        ('mechanism = "rr"', "preset = [1]", "preset must be one of"),
        ('dictionary = "city.txt"', "dictionary = 5", "dictionary must be the name"),
        ('window = "1d"', 'window = "²d"', "length of time"),
        ('window = "1d"', 'window = "9999999999999d"', "length of time"),
        ('["chrome", "firefox"]', '["chrome"]', "categories must be 2 or more"),
        ('["chrome", "firefox"]', '"\\u0000"', "categories must be the name"),
        ('["chrome", "firefox"]', '"-"', "categories must be the name"),
        ('dictionary = "city.txt"', 'dictionary = "\\u0000"', "dictionary must be the name"),
        ('["chrome", "firefox"]', '"missing.txt"', "cannot read .*missing.txt"),
        ("[product]", "[product", "not valid TOML"),
        ('name = "keyboard"', "", "needs name, a text"),
        ("[metric.browser]", '[metric."no/slash"]', "name has letters"),
        ('mechanism = "rr"', 'preset = "apple-pie"', "preset must be one of"),
        (
            "[product]",
            '[product]\nsealing_keys = ["00"]',
            "sealing_keys must be a list of",
        ),
        (
            "[product]",
            "[product]\nsealing_keys = []",
            "sealing_keys must be a list of",
        ),
        ("reports_per_window = 2", "shuffled_epsilon = 0", "shuffled_epsilon must be"),
        ("reports_per_window = 2", "shuffled_epsilon = true", "shuffled_epsilon must be"),
        (RR, RAPPOR + '"per-value"\nshuffled_epsilon = 0.5', "does not go with memoise"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_right(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(RegistryError, match=message) as caught:
        Registry.load(written(tmp_path, GOOD.replace(old, new)))
    for line in str(caught.value).splitlines():  # of as many metrics as have the line
        assert line.startswith(f"{tmp_path / 'metrics.toml'}: ")
    assert "metrics.toml" in str(caught.value)


@pytest.mark.exact
def test_a_group_is_a_queue_and_a_metric_that_is_shuffled_to_a_target_has_its_own(
    tmp_path: Path,
) -> None:
    """A report of 64 columns has 19 bytes, of two categories 12; 13, a name and 48 are added."""
    registry = Registry.load(written(tmp_path, GOOD))
    assert registry.sealing_keys == ()
    assert registry.queues() == {"typing": Queue(128, timedelta(days=7))}
    text = GOOD.replace("rows = 128\nwidth = 64", "rows = 128\nwidth = 1024\nshuffled_epsilon = 1")
    key = "0f" * 32
    text = text.replace("[product]", f'[product]\nsealing_keys = ["{key}"]')
    registry = Registry.load(written(tmp_path, text))
    assert registry.sealing_keys == (key,)
    # a client that cannot seal refuses such a registry
    assert json.loads(resolved_bytes(registry))["product"]["sealing_keys"] == [key]
    assert {name: queue.size for name, queue in registry.queues().items()} == {
        "typing/city/1": 256,
        "typing": 128,
    }


@pytest.mark.exact
def test_all_mistakes_are_said_at_once_with_their_lines(tmp_path: Path) -> None:
    """The line is that of the key that the mistake names, or else of the section."""
    text = GOOD.replace("rows = 128\n", "")
    text = text.replace("[metric.browser]\nversion", "[metric.browser]\nversions")
    text = f"# of \u2028 one \x85 line\n{text}"
    with pytest.raises(RegistryError) as caught:
        Registry.load(written(tmp_path, text))
    path, lines = tmp_path / "metrics.toml", text.split("\n")
    city = 1 + lines.index('mechanism = "cms"')
    browser = 1 + lines.index("[metric.browser]")
    said = sorted(str(caught.value).splitlines())
    assert said[0].startswith(f"{path}: line {city}: [metric.city]: mechanism 'cms' needs rows")
    assert said[1].startswith(f"{path}: line {browser}: [metric.browser]: needs version")
    assert len(said) == 2


@pytest.mark.exact
def test_a_mistake_of_a_group_or_member_is_said_once(tmp_path: Path) -> None:
    text = GOOD.replace('window = "1d"', 'window = "1 day"')
    text += """
[metric.both]
version = 1
group = "typing"
description = "Both"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "joint"
of = ["city", "browser"]
"""
    with pytest.raises(RegistryError, match="length of time") as caught:
        Registry.load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.exact
def test_an_unknown_metric_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="did you mean 'city'"):
        Registry.load(written(tmp_path)).metric("cty")


@pytest.mark.exact
@pytest.mark.parametrize("changed", ["mechanism", "dictionary"])
def test_a_change_without_a_new_version_is_caught(tmp_path: Path, changed: str) -> None:
    path = written(tmp_path)
    Registry.load(path).lock()
    Registry.load(path).check()
    text = GOOD.replace("rows = 128", "rows = 256") if changed == "mechanism" else GOOD
    path.write_text(text)
    if changed == "dictionary":
        (tmp_path / "city.txt").write_text("Oslo\nBergen\nBodø\n")
    with pytest.raises(RegistryError, match=f"changed its {changed}.*version 2"):
        Registry.load(path).check()
    path.write_text(text.replace("version = 1", "version = 2"))
    Registry.load(path).check()


@pytest.mark.exact
def test_an_older_registry_is_compared_the_same_way(tmp_path: Path) -> None:
    older = tmp_path / "older"
    older.mkdir()
    before = Registry.load(written(older))
    now = Registry.load(written(tmp_path, GOOD.replace("width = 64", "width = 32")))
    with pytest.raises(RegistryError, match="metric 'city' changed its mechanism"):
        now.check_against(before)
    now.check_against(now)


@pytest.mark.exact
def test_a_dictionary_that_cannot_be_read_is_found_by_a_check(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "city.txt").unlink()
    with pytest.raises(RegistryError, match=r"cannot read .*city\.txt"):
        Registry.load(path).check()


@pytest.mark.exact
def test_a_metric_expires_after_its_last_day(tmp_path: Path) -> None:
    registry = Registry.load(written(tmp_path))
    assert registry.expired(date(2027, 12, 31)) == []
    assert registry.expired(date(2028, 1, 1)) == ["city", "browser"]


@pytest.mark.exact
@pytest.mark.parametrize(
    "text",
    [
        *("{}", "", '{"metrics": []}', '{"metrics": {"city": 5}}', '{"metrics": {"city": {}}}'),
        '{"metrics": {"city": {"version": 1, "fingerprint": 5, "dictionary_sha256": null}}}',
    ],
)
def test_a_broken_lock_says_how_to_mend_it(tmp_path: Path, text: str) -> None:
    path = written(tmp_path)
    (tmp_path / "metrics.lock").write_text(text)
    for use in (Registry.load(path).check, Registry.load(path).lock):
        with pytest.raises(RegistryError, match="damaged; restore it"):
            use()


@pytest.mark.exact
def test_a_lock_that_cannot_be_opened_is_not_overlooked(tmp_path: Path) -> None:
    """As where nobody may look into its folder; a link to itself is refused to root, too."""
    path = written(tmp_path)
    (tmp_path / "metrics.lock").symlink_to("metrics.lock")
    with pytest.raises(RegistryError, match=r"metrics\.lock: Too many levels"):
        Registry.load(path).check()


@pytest.mark.exact
def test_a_lock_that_pins_more_than_this_version_knows_is_not_overlooked(tmp_path: Path) -> None:
    path = written(tmp_path)
    Registry.load(path).lock()
    lock = json.loads((tmp_path / "metrics.lock").read_text())
    lock["metrics"]["city"]["rotation"] = "1d"
    (tmp_path / "metrics.lock").write_text(json.dumps(lock))
    with pytest.raises(RegistryError, match="metric 'city' changed its pins"):
        Registry.load(path).check()


@pytest.mark.exact
def test_a_locked_name_in_another_case_is_no_new_metric(tmp_path: Path) -> None:
    path = written(tmp_path)
    Registry.load(path).lock()
    path.write_text(path.read_text().replace("[metric.city]", "[metric.City]"))
    for use in (Registry.load(path).check, Registry.load(path).lock):
        with pytest.raises(RegistryError, match="has city, which differs in case only"):
            use()


@pytest.mark.exact
def test_a_removed_metric_keeps_its_version_taken(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert Registry.load(path).check() == ["city", "browser"], "not locked yet"
    Registry.load(path).lock()
    assert Registry.load(path).check() == []
    path.write_text(GOOD[: GOOD.index("[metric.browser]")])
    Registry.load(path).lock()
    path.write_text(GOOD.replace("epsilon = 2.0", "epsilon = 1.0"))
    with pytest.raises(RegistryError, match="metric 'browser' changed its mechanism"):
        Registry.load(path).check()


@pytest.mark.exact
def test_values_end_at_newlines_only_and_a_csv_gives_its_value_column(tmp_path: Path) -> None:
    names = ("a\u2028b", "c\x0bd", "e\x85f")
    (tmp_path / "lines.txt").write_text("\n".join(names) + "\r\n", newline="")
    assert read_values(tmp_path / "lines.txt") == names
    (tmp_path / "table.csv").write_text('count,value\n3,"a, b"\n2,"two\nlines"\n', newline="")
    assert read_values(tmp_path / "table.csv") == ("a, b", "two\nlines")
    (tmp_path / "table.csv").write_text("name,n\nOslo,3\n")
    with pytest.raises(RegistryError, match="no column 'value', but name, n"):
        read_values(tmp_path / "table.csv")


@pytest.mark.exact
def test_a_mark_of_utf_8_before_a_registry_is_skipped(tmp_path: Path) -> None:
    """Editors of Windows write it; a mistake has the line that they show."""
    (tmp_path / "city.txt").write_text("Oslo\nBergen\n")
    path = tmp_path / "metrics.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert [*Registry.load(path).metrics] == ["city", "browser"]
    path.write_text(GOOD.replace("epsilon = 2.0", "epsilon = 99"), encoding="utf-8-sig")
    with pytest.raises(RegistryError, match=r"metrics\.toml: line 29: .* epsilon must be"):
        Registry.load(path)


@pytest.mark.exact
def test_lookalikes_of_a_dictionary_are_named_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lookalikes have another normal form, a variation selector or none, or blanks at the ends.

    Other values are not named, and the lock is of the bytes as they are.
    """
    path = written(tmp_path, GOOD.replace('["chrome", "firefox"]', '["Oslo ", "Oslo", "Bergen"]'))
    words = ("\u2764\ufe0f", "\u2764", "x", "caf\u00e9", "cafe\u0301", "\uff58", "X", "")
    (tmp_path / "words.txt").write_text("\n".join(words))
    metric = Registry.load(path).metric("browser")
    assert [*lookalike_notes([metric])] == [
        "metric browser: categories 1 and 2 look alike (normal form, variation selector or "
        "blanks), and count apart: 4f 73 6c 6f 20 ('Oslo '), 4f 73 6c 6f ('Oslo')"
    ]
    notes = [*lookalike_notes([metric._replace(dictionary=tmp_path / "words.txt")])]
    for note, places, bytes_of in zip(
        notes,
        ("1 and 2", "3 and 6", "4 and 5"),
        ("e2 9d a4 ef b8 8f", "ef bd 98", "63 61 66 65 cc 81"),
        strict=True,
    ):
        assert f"words.txt: lines {places} look alike" in note
        assert bytes_of in note
    before = metric.pinned()
    for command in ("lock", "check"):
        assert run(f"registry {command} {path}", monkeypatch) == 0
        assert "categories 1 and 2 look alike" in capsys.readouterr().out
    assert Registry.load(path).metric("browser").pinned() == before


AUTOPLAY = """
[product]
name = "browser"
[group.video]
window = "1d"
window_epsilon = 100.0
lifetime_epsilon = 100000.0
[metric.autoplay]
version = 1
group = "video"
description = "Where videos play by themselves"
owners = ["team@example.org"]
expires = 2999-12-31
preset = "apple-safari-autoplay"
"""


@pytest.mark.exact
def test_a_preset_of_two_reports_a_day_costs_exactly_twice_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for more, reports in (("", 2), ("reports_per_window = 1\n", 1)):
        path = written(tmp_path, AUTOPLAY + more)
        assert Registry.load(path).metric("autoplay").reports_per_window == reports
        assert run(f"registry check {path}", monkeypatch) == 0
        lines.append(capsys.readouterr().out.splitlines()[1])
    limits = "group video: epsilon at most {} in any 24 hours, {} in any year, 100000 for life"
    assert lines == [limits.format(32, 5872), limits.format(16, 2936)]


@pytest.mark.exact
def test_in_windows_of_another_length_a_preset_sends_one_report_unless_named(
    tmp_path: Path,
) -> None:
    for window, more, reports in (
        ("7d", "", 1),
        ("12h", "", 1),
        ("7d", "reports_per_window = 9", 9),
    ):
        path = written(tmp_path, AUTOPLAY.replace('"1d"', f'"{window}"') + more)
        assert Registry.load(path).metric("autoplay").reports_per_window == reports


@pytest.mark.exact
def test_the_page_lists_every_column_of_every_preset_of_apple() -> None:
    page = (ROOT / "docs" / "registry.md").read_text("utf-8")
    rows = re.findall(r"^\| `(apple-[^|`]*)` \|(.*)\|.*\|$", page, re.MULTILINE)
    shown = {name: [cell.strip(" `").replace(",", "") for cell in r.split("|")] for name, r in rows}
    for name, preset in PRESETS.items():
        if name.startswith("apple-"):
            values = [preset.parameters.get(x) for x in ("mechanism", "epsilon", "rows", "width")]
            values += [preset.dictionary_size, preset.donations]
            texts = ["" if value is None else str(value).removesuffix(".0") for value in values]
            assert shown.pop(name) == texts
    assert not shown


@pytest.mark.exact
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("metric.city", 'metric."c\u0456ty"'), "letters a to z"),
        (("metric.browser", "metric.City"), "differ in case only"),
        (('name = "', 'name = "\\u202e'), "name must be a text of one line"),
        (('description = "', 'description = "a\\u0000'), "description must be a text of one line"),
        (('owners = ["', 'owners = ["a\\nb'), "owners must be a list of texts of one line"),
        (('name = "', 'name = "\\u3164'), "name must be a text of one line"),
        (('owners = ["', 'owners = ["\\u200d", "'), "owners must be a list of texts of one line"),
    ],
)
def test_names_and_texts_that_look_like_others_are_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(RegistryError, match=message) as raised:
        Registry.load(written(tmp_path, GOOD.replace(*change, 1)))
    assert str(raised.value).isprintable(), "one line, which hides nothing"


@pytest.mark.exact
def test_emoji_that_are_joined_and_any_script_may_stand_in_a_description(tmp_path: Path) -> None:
    text = "\U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u0634\u0648\u062f\u3000?"
    toml = re.sub('description = "[^"]*"', f'description = "{text}"', GOOD)
    loaded = Registry.load(written(tmp_path, toml))
    assert {metric.description for metric in loaded.metrics.values()} == {text}


@pytest.mark.slow
@pytest.mark.exact
def test_ten_thousand_metrics_are_checked_in_seconds(tmp_path: Path) -> None:
    """All metrics are in one group, or each has its own group, or each has a mistake.

    Work that grew with their square once took 46 s.
    """
    keys = 'owners = ["a@b.org"]\nexpires = 2099-01-01\nmechanism = "rr"\nepsilon = 1.0\n'
    keys += 'version = 1\ndescription = "d"\ncategories = ["a", "b"]\n'
    caps = 'window = "1d"\nwindow_epsilon = 20000.0\nlifetime_epsilon = 2e6\n'
    for groups, owner in ((1, "a@b.org"), (10_000, "a@b.org"), (1, "")):
        lines = ['[product]\nname = "x"\n']
        lines += [f"[group.g{number}]\n{caps}" for number in range(groups)]
        for number in range(10_000):
            section = f'[metric.m{number}]\ngroup = "g{number % groups}"\n{keys}'
            lines.append(section.replace("a@b.org", owner))
        (tmp_path / "metrics.toml").write_text("".join(lines))
        started = process_time()
        if owner:
            Registry.load(tmp_path / "metrics.toml").check(date(2026, 1, 1))
        else:
            with pytest.raises(RegistryError) as error:
                Registry.load(tmp_path / "metrics.toml")
            assert str(error.value).count("\n") == 9_999
            assert "metrics.toml: line 9: [metric.m0]: " in str(error.value)
        assert process_time() - started < 30
