"""The gate of the tests that need a real browser, as for the report."""

from tests.report.conftest import chromium_binary, pytest_terminal_summary

__all__ = ["chromium_binary", "pytest_terminal_summary"]
