"""The entry point of controllerctl. It has no import at the top, so that Ctrl-C is caught during all other imports."""

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, repeated here so that nothing needs to be imported."""


def main() -> int:
    """Run controllerctl and return the exit code. :raises SystemExit: with the code, when a command ended."""
    try:
        from cli.app import main as run

        return run()
    except KeyboardInterrupt:  # while a command runs, typer handles it
        return INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
