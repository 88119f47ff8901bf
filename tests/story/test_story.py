"""The demo story as a newcomer runs it, from the command line, on embedded and on real brokers."""

import asyncio
import json
import sys
from pathlib import Path

import pytest


async def run_demo(brokers: str, directory: Path) -> tuple[int | None, dict[str, object], str]:
    """Exit code, summary and output of ``controllerd demo``."""
    summary = directory / "summary.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controllerd", "demo", "--brokers", brokers),
        *("--directory", str(directory / "cluster"), "--summary", str(summary)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    summary_fields = json.loads(summary.read_text()) if summary.exists() else {}
    return process.returncode, summary_fields, output.decode()


@pytest.mark.zookeeper
@pytest.mark.timeout(180)
async def test_the_story_on_embedded_brokers_ends_well_within_two_minutes(tmp_path: Path) -> None:
    status, summary_fields, output = await run_demo("embedded", tmp_path)

    assert status == 0, output
    assert summary_fields["ok"] is True
    assert float(str(summary_fields["seconds"])) < 120


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kafka_jars")
async def test_the_story_on_real_brokers_loses_nothing(tmp_path: Path) -> None:
    status, summary_fields, output = await run_demo("kafka", tmp_path)

    print(output)
    assert status == 0, output
    assert summary_fields["ok"] is True
