"""Download the jars of all tested releases before the tests run: ``python -m tests.releases.jars``."""

import asyncio
import sys

from controllerd.dev.cluster import resolve_jars
from controllerd.dev.processes import DevError
from controllerd.dev.releases import TESTED_RELEASES

if __name__ == "__main__":
    try:
        asyncio.run(resolve_jars(TESTED_RELEASES, print))
    except DevError as error:
        sys.exit(str(error))
