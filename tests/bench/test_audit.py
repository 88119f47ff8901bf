"""The bench of the audit log from end to end at a small size: its output and its verdict, not the figures."""

import json
from pathlib import Path

import pytest

from bench.audit.__main__ import ALLOWED, arguments_of, main
from bench.audit.cost import Cost, ratio


@pytest.mark.zookeeper
def test_a_small_run_has_figures_of_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "result.json"
    given = ["--partitions", "2000", "--pairs", "1", "--cache", str(tmp_path), "--json", str(target)]
    status = main([*given, "--levels", "off,normal"])
    result = json.loads(target.read_text(encoding="utf-8"))
    assert [cost["level"] for cost in result["costs"]] == ["off", "normal"]
    assert all(cost["cpu_s"] > 0 for cost in result["costs"])
    assert [one["what"] for one in result["at_rest"]] == ["first digest", "snapshot"]
    assert status == (result["ratios"]["normal"] > ALLOWED or any(o["longest_step_ms"] > 20 for o in result["at_rest"]))
    assert "| normal |" in capsys.readouterr().out


def test_the_ratio_is_the_median_over_neighbours() -> None:
    seconds = [("off", 1.0), ("normal", 1.1), ("off", 10.0), ("normal", 12.0), ("off", 2.0), ("normal", 2.0)]
    assert ratio([Cost(level, cpu_s, 0, 0) for level, cpu_s in seconds], "normal", "off") == pytest.approx(1.1)


@pytest.mark.parametrize("given", [["--partitions", "150"], ["--levels", "off,loud"]])
def test_invalid_arguments_are_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments_of(given)
