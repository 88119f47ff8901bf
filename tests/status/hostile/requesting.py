"""Schemathesis as a program: requests made from an OpenAPI document, and answers held against it."""

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
    """How many requests were made, none of which had a wrong answer; what is sent depends on a seed alone.

    ``examples`` for each operation, besides the borders of all parameters and fields.
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
