"""The fixtures of tests in a real browser, shared with the report."""

from tests.report.conftest import chromium_binary, pytest_terminal_summary

__all__ = ["chromium_binary", "pytest_terminal_summary"]
