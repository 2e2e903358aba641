"""Subjects of a publication: one version of one metric each, from the registry or a kept table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ldp.collection.object_store import StorePath
from ldp.errors import ReportError
from ldp.mechanisms import CatalogueMechanism
from ldp.publishing.state import Members, PeriodState
from ldp.registry import Registry
from ldp.registry.explaining import label
from ldp.registry.label import Label
from ldp.tables.joint_table import JointTable, load_table


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One version of a metric, with all that counting and decoding its reports needs. `members`:
    the candidates of each member of a joint metric, else empty. `reports_per_person`: the most
    reports of one person in a period, and on a day."""

    metric: str
    version: int
    mechanism: CatalogueMechanism
    dictionary: tuple[str, ...] | None
    memoised: bool
    label: Label
    members: Members
    reports_per_person: tuple[int, int]

    @classmethod
    def of_registry(cls, registry: Registry, metric: str, days: int) -> "Subject":
        """Return the version of `metric` that the registry has, in periods of `days` days. Raises
        RegistryError where a file of values cannot be read."""
        definition = registry.metric(metric)
        window, span = registry.groups[definition.group].caps.window, timedelta(days=days)
        most = definition.reports_of_one(span, window)
        # its windows are whole (`publish.are_whole`)
        if min(window, span) > timedelta(days=1):
            most = definition.reports_per_window * max(1, span // window)
        return cls(
            metric=metric,
            version=definition.version,
            mechanism=definition.mechanism,
            dictionary=definition.candidates(),
            memoised=bool(definition.memoise),
            label=label(registry, metric),
            members={member.name: member.candidates() for member in definition.members},
            reports_per_person=(
                most,
                definition.reports_of_one(timedelta(days=1), window),
            ),
        )

    @classmethod
    def of_states(
        cls, registry: Registry, metric: str, version: int, states: Mapping[date, PeriodState]
    ) -> "Subject":
        """Return an earlier `version` of `metric` from the table of the last of its periods. Raises
        ReportError without one."""
        if not states:
            raise ReportError(
                f"the store has reports of version {version}, the registry version "
                f"{registry.metric(metric).version}; publish once with the registry that had it"
            )
        state = states[max(states)]
        table = load_table(state.table_path)
        part = table.tables[0] if isinstance(table, JointTable) else table
        return cls(
            metric=metric,
            version=version,
            mechanism=table.mechanism,
            dictionary=part.dictionary,
            memoised=table.memoised,
            label=table.labels[0],
            members=state.members,
            reports_per_person=(state.reports_per_person[0], state.reports_per_person[1]),
        )


def stored_versions(stores: Sequence[StorePath], metric: str) -> set[int]:
    """Return the versions of `metric` that have reports in `stores`."""
    return {
        int(name)
        for store in stores
        for path in (store / f"metric={metric}").glob("version=*")
        if (name := path.name.removeprefix("version=")).isdecimal()
    }
