"""Where controllerctl begins: next to nothing, so that Ctrl-C is heard while everything else is imported."""

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, for which nothing needs to be imported."""


def main() -> int:
    """Run controllerctl; the exit code. :raises SystemExit: with the code, when the command came to its end."""
    try:
        from cli.app import main as run

        return run()
    except KeyboardInterrupt:  # once a command runs, typer sees to it
        return INTERRUPTED
