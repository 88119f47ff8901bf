"""The metrics of a stock broker's own controller, by Kafka's JmxTool, under the names of jmx_exporter."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Final

from controllerd.dev.kafka import KafkaBroker, run_tool

_ADDRESS: Final = re.compile(r"^sun\.management\.JMXConnectorServer\.(?:\d+\.)?address=\"(.+)\"$", re.MULTILINE)
_LINE: Final = re.compile(r"^kafka\.controller:type=(\w+),name=(\w+)([^:]*):(\w+)=(.*)$", re.MULTILINE)
JCMD: Final = shutil.which("jcmd")


async def _jcmd(broker: KafkaBroker, *command: str) -> str:
    assert JCMD is not None
    process = await asyncio.create_subprocess_exec(
        JCMD, str(broker.process.pid), *command, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output
    return output.decode()


async def jmx_url(broker: KafkaBroker) -> str:
    """The URL of the broker's MBeans, for processes of this machine only."""
    await _jcmd(broker, "ManagementAgent.start_local")
    found = _ADDRESS.search(await _jcmd(broker, "PerfCounter.print"))
    assert found is not None
    return found[1]


async def read_mbeans(url: str, directory: Path) -> dict[str, float]:
    """Every number of ``kafka.controller``, by the name that jmx_exporter with its Kafka rules gives it."""
    wanted = ["--jmx-url", url, "--object-name", "kafka.controller:*", "--one-time", "--report-format", "properties"]
    result = await run_tool("org.apache.kafka.tools.JmxTool", wanted, directory=directory)
    assert result.exit_status == 0, result.stderr
    return exported(result.stdout)


def exported(report: str) -> dict[str, float]:
    """The values of a report under the names of Prometheus, without labels and attributes that no rule matches."""
    found = {}
    for kind, name, _, attribute, value in _LINE.findall(report):
        suffix = _suffix(name, attribute)
        if suffix is not None:
            plain = name.removesuffix("PerSec") if suffix == "_total" else name
            found[f"kafka_controller_{kind}_{plain}{suffix}".lower()] = float(value)
    return found


def _suffix(name: str, attribute: str) -> str | None:
    """The suffix that the rules append; None where no rule matches."""
    if attribute == "Value" or attribute.endswith("thPercentile"):
        return ""
    if attribute == "Count":
        return "_total" if name.endswith("PerSec") else "_count"
    return None
