"""The page iterates over the rows of a table as rarely as it can: an engine may compute them anew each time."""

from collections.abc import Iterator

import pytest

from replay.facts.engine import Row, Rows
from replay.report.page import page
from replay.report.views import VIEWS, ReportView, data
from tests.report.sample import sample, sample_meta


class Counted(Rows):
    """Rows that count how often they were made."""

    passes = 0

    def __iter__(self) -> Iterator[Row]:
        self.passes += 1
        return super().__iter__()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_the_rows_of_a_table_are_made_once_however_many_columns_it_has(view: ReportView) -> None:
    rows = Counted(sample()[view.name])  # type: ignore[arg-type]  # the sample's values are those of a table

    shown = data(view, {view.name: rows}, sample_meta(), many_clusters=True)

    assert (rows.passes, shown.rows) == (1, len(rows))


def test_rows_are_made_no_more_often_for_many_clusters_than_for_one() -> None:
    def passes(clusters: int) -> int:
        alarms: list[Row] = [{"cluster": f"c{number}", "kind": "alarm", "ts_ms": 0} for number in range(clusters)]
        rows = Counted(alarms)
        page({"timeline": rows}, sample_meta())
        return rows.passes

    assert passes(20) == passes(1)
