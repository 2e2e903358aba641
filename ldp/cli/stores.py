"""What commands say of stores of reports."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ldp.collection.object_store import StorePath
from ldp.collection.store import NoReports


@contextmanager
def noting_what_waits(stores: Sequence[StorePath], metric: str, version: int) -> Iterator[None]:
    """Add to NoReports how many reports a collector of these stores has not moved yet."""
    try:
        yield
    except NoReports as error:
        from ldp.collection.buffer import waiting_reports

        for store in (store for store in stores if isinstance(store, Path)):
            folder = store.with_name(f"{store.name}.buffer")
            if waiting := waiting_reports(folder, metric, version):
                raise NoReports(
                    f"{error}, but {waiting:,} wait in {folder}: ldp collect moves them after its "
                    "shuffle_longest (1h) if there are shuffle_smallest (100) of them; to have "
                    "them now, stop it and run it with --drain (--write-small if fewer)"
                ) from None
        raise
