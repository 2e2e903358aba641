"""The page that a privacy officer signs: what a registry asks of people, as one HTML file."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from html import escape
from importlib.resources import files
from typing import Any

from ldp.accounting.policy import length_in_words
from ldp.protocol.channel import rounded_up
from ldp.registry.certificates import Certificates
from ldp.registry.definitions import BEHIND_RELAY, Metric, digest
from ldp.registry.explaining import (
    changing_notes,
    explanation,
    group_lines,
    marks_lines,
    metric_lines,
    touched_notes,
)
from ldp.registry.odds import epsilon_text
from ldp.registry.registry import Registry
from ldp.registry.sign_off import changes

STYLE = "\n" + (files("ldp.registry") / "sign_off_page.css").read_text("utf-8")
UNSEEN = (
    "Whether devices run what was audited, what else they send, and the time that encoding takes.",
    "What is rare or waits: one plain report in 100,000, a value, device or day that is not tried.",
    "Noise that only looks random, as bits that follow from a key which somebody knows.",
    "Small differences: with 5,000 trials a probability of 0.5 can be wrong by 0.05 unseen.",
)
"""Limits of every audit, in short; docs/audit.md has all of them."""
SPANS = {"day": "any 24 hours", "year": "any year", "life": "a life"}


def page(
    registry: Registry,
    certificates: Certificates,
    signed: Mapping[str, Any] | None,
    day: date,
) -> str:
    """Return the page as HTML text. `signed`: the record of the last sign-off, None without;
    `day`: today."""
    data = explanation(registry)
    parts = [
        f"<h1>{escape(registry.product)}: what is asked of people</h1>",
        _line(f"{registry.path.name}, metrics: {len(registry.metrics)}", "soft"),
        *_differences(registry, signed),
        "<h2>Metrics</h2>",
        _table(
            [
                "metric",
                "question",
                "owners",
                "expires",
                "epsilon of a report|number",
                "charged|number",
            ],
            (_metric_cells(metric, day) for metric in registry.metrics.values()),
        ),
        "<h2>What one device can lose at most</h2>",
        _worst_cases(registry),
        *(_line(f"{note[0].upper()}{note[1:]}.") for note in touched_notes(registry)),
        *map(_line, changing_notes(registry)),
        "<h2>What reports reveal</h2>",
        *(part for name in registry.metrics for part in _section(metric_lines(data, name))),
        *(
            part
            for name, group in data["groups"].items()
            for part in _section(group_lines(name, group, data["belief"]))
        ),
        "<h2>What is not covered</h2>",
        _line(data["not_covered"]),
        *map(_line, marks_lines(data["marks"])),
        _line(" ".join(data["who"].values())),
        "<h2>Certificates of the audit</h2>",
        *(_audit(metric, certificates) for metric in registry.metrics.values()),
        "<h3>What no audit can see</h3>",
        *map(_line, UNSEEN),
        _line("docs/audit.md says what is checked, with which error, and all that is not.", "soft"),
        "<h2>Sign-off</h2>",
        *_files(registry, certificates),
        '<table class="sign"><tr><td>Name</td><td>Date</td></tr></table>',
        _line(
            "ldp registry sign writes a record of it, which is no cryptographic signature.", "soft"
        ),
    ]
    title = escape(f"{registry.product}: to sign off")
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head += f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return "\n".join([f"{head}<style>{STYLE}</style></head><body>", *parts, "</body></html>", ""])


def _differences(registry: Registry, signed: Mapping[str, Any] | None) -> Iterator[str]:
    if signed is not None:
        yield f"<h2>Since {escape(signed['name'])} signed off on {escape(signed['date'])}</h2>"
        lines = changes(signed, registry) or ["Nothing changed of what people are asked."]
        yield f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _metric_cells(metric: Metric, day: date) -> list[str]:
    expires = f"{metric.expires}, expired" if metric.expires < day else str(metric.expires)
    charged = {False: "each report", "per-value": "a value, once"}.get(metric.memoise)
    epoch = charged or f"an epoch of {length_in_words(metric.epoch or timedelta())}"
    return [
        metric.name,
        metric.description + (f" (planned for {metric.planned_for})" if metric.planned_for else ""),
        ", ".join(metric.owners),
        expires,
        epsilon_text(metric.mechanism.cost.epsilon),
        f"{rounded_up(metric.price)} {epoch}{BEHIND_RELAY if metric.needs_shuffler else ''}",
    ]


def _worst_cases(registry: Registry) -> str:
    worst = {name: registry.worst_case(name) for name in registry.groups}
    rows = [
        [
            name,
            rounded_up(group.caps.window_epsilon) + (BEHIND_RELAY if group.needs_shuffler else ""),
            *(epsilon_text(worst[name][span]) for span in SPANS),
        ]
        for name, group in registry.groups.items()
    ]
    rows.append(["all together", "", *map(epsilon_text, registry.worst_case_of_all().values())])
    heads = ["group", "cap of a window|number", *(f"epsilon of {x}|number" for x in SPANS.values())]
    return _table(heads, rows)


def _section(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with the first of them as a heading."""
    first, *others = lines
    yield f"<section><h3>{escape(first)}</h3>{''.join(map(_line, others))}</section>"


def _audit(metric: Metric, certificates: Certificates) -> str:
    """Return a section: what the audit of a metric tried, what it saw, and which code ran."""
    fingerprint, epsilon = metric.mechanism.fingerprint.hex(), metric.mechanism.cost.epsilon
    audit = certificates.audits.get(fingerprint)
    lines = [_line("no certificate", "bad"), _line(f"fingerprint {fingerprint}", "soft")]
    if audit is not None:
        client = "audited" if certificates.client else "not audited (ldp audit --client --report)"
        seen = (
            f"epsilon {epsilon_text(epsilon)} claimed, at least {audit.entry['at_least']:.3g} seen"
        )
        lines = [
            _line(f"Audited with {audit}; the client was {client}"),
            *([_line("Too weak to be signed.", "bad")] if audit.is_weak else []),
            _line(f"{seen} from outside; fingerprint {fingerprint}, {audit.origin}", "soft"),
        ]
    return f"<section><h3>{escape(metric.name)}</h3>{''.join(lines)}</section>"


def _files(registry: Registry, certificates: Certificates) -> Iterator[str]:
    paths = [registry.path, *([registry.lock_path] if registry.lock_path.exists() else [])]
    paths += dict.fromkeys(certificates.paths)
    yield _table(["file", "SHA-256"], ([path.name, digest(path)] for path in paths))
    if not registry.lock_path.exists():
        yield _line("The registry is not locked: ldp registry lock.", "bad")


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table. A head that ends in "|number" is of a column of numbers."""
    columns = [head.partition("|")[::2] for head in heads]

    def cells(tag: str, texts: Iterable[str]) -> str:
        pairs = zip(texts, columns, strict=True)
        classes = {"number": ' class="number"', "": ""}
        return "".join(f"<{tag}{classes[of]}>{_cell(text)}</{tag}>" for text, (_, of) in pairs)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = cells("th", (text for text, _ in columns))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    bad = text.endswith(", expired")
    return f'<b class="bad">{escape(text)}</b>' if bad else escape(text)


def _line(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"
