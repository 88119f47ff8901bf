"""``controllerctl doctor``: what is wrong with an unknown cluster, and what to do next."""

from typing import TYPE_CHECKING, Final

import typer

from cli.exit_codes import ExitCode
from cli.lists import TableColumn, print_columns
from cli.output import dash, print_value
from cli.settings import CliSettings, OutputFormat, settings_of

if TYPE_CHECKING:
    from cli.doctor.facts import Facts
    from controllerd.status.schema.common import Finding, FindingList

_ORDER: Final = {"critical": 0, "warning": 1, "unknown": 2, "ok": 3}
_COLUMNS: Final[tuple[TableColumn["Finding"], ...]] = (
    TableColumn("VERDICT", lambda item: item.severity),
    TableColumn("CHECK", lambda item: item.check),
    TableColumn("FOUND", lambda item: item.detail),
)


def doctor(context: typer.Context) -> None:
    """Check the cluster and the daemon: what is wrong, and what to do next. Exits with status 1 if anything is wrong.

    Works with a daemon, with --zk HOSTS alone, and best with both.

    Examples: controllerctl doctor · controllerctl doctor --zk zk1:2181,zk2:2181/kafka
    """
    from cli.doctor.cluster import check_all
    from cli.doctor.gather import gather

    settings = settings_of(context)
    facts = gather(settings)
    findings = sorted(check_all(facts), key=lambda finding: _ORDER[finding.severity])
    show(settings, document(facts, findings))
    if any(finding.severity in {"warning", "critical"} for finding in findings):
        raise typer.Exit(ExitCode.NO)


def document(facts: "Facts", findings: "list[Finding]") -> "FindingList":
    """Return the findings as a list of the schema."""
    from controllerd.clock import iso
    from controllerd.status.schema.common import FindingList, Meta

    epoch = facts.survey.image.controller_epoch if facts.survey is not None else 0
    cluster_id = facts.view.cluster_id if facts.view is not None else ""
    return FindingList(
        meta=Meta(cluster_id=cluster_id, controller_epoch=epoch, seq=0, generated_at=iso(facts.now_ms)), items=findings
    )


def show(settings: CliSettings, found: "FindingList") -> None:
    """Print the findings, the worst first, with their hints."""
    if settings.output is OutputFormat.JSONL:
        for finding in found.items:
            print_value(settings, finding)
    elif settings.wants_json:
        print_value(settings, found)
    elif settings.output is OutputFormat.NAME:
        for finding in found.items:
            if finding.severity in {"warning", "critical"}:
                typer.echo(finding.check)
    else:
        print_columns(settings, _COLUMNS, found.items)
        _print_hints(settings, found.items)


def _print_hints(settings: CliSettings, findings: "list[Finding]") -> None:
    wrong = [finding for finding in findings if finding.severity in {"warning", "critical"}]
    typer.echo()
    if not wrong:
        typer.echo("nothing is wrong")
        return
    typer.echo("next:")
    for finding in wrong:
        typer.echo(f"  {finding.check}: {dash(settings.to_be_typed(finding.hint or ''))}")
