"""Runs Schemathesis: it makes requests from an OpenAPI document, and compares the answers with the document."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
COMMAND: Final = (
    *("-m", "schemathesis.cli", "--no-color", "--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
    *("run", "--seed", "7", "--no-shrink", "--checks", ",".join(CHECKS)),
    *("--continue-on-failure", "--request-timeout", "20", "--report", "json"),
)


async def requests_made(url: str, folder: Path, *, examples: int, phases: str = "coverage,fuzzing") -> int:
    """Send generated requests, check each answer, and return their number; a fixed seed makes them the same each time.

    ``examples`` is the number for each operation, besides the border values of all parameters and fields.
    """
    report = folder / "report.json"
    options = (
        "--phases",
        phases,
        "--max-examples",
        str(examples),
        "--report-json-path",
        str(report),
        f"{url}/openapi.json",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, *options, cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return int(json.loads(report.read_text())["test_cases"]["generated"])
