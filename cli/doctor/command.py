"""``controllerctl doctor``: one command for whoever has never seen this cluster; says what is wrong and what helps."""

from typing import TYPE_CHECKING, Final

import typer

from cli.exit_codes import ExitCode
from cli.listing import Column, print_columns
from cli.output import print_value
from cli.settings import OutputFormat, Settings, settings_of
from cli.units import dash

if TYPE_CHECKING:
    from cli.doctor.facts import Facts
    from controllerd.status.schema.why import Finding, FindingList

_ORDER: Final = {"critical": 0, "warning": 1, "unknown": 2, "ok": 3}
_COLUMNS: Final[tuple[Column["Finding"], ...]] = (
    Column("VERDICT", lambda item: item.severity),
    Column("CHECK", lambda item: item.check),
    Column("FOUND", lambda item: item.detail),
)


def doctor(context: typer.Context) -> None:
    """Check the cluster and the daemon: what is wrong, and what to do next. Ends with 1 if anything is wrong.

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
    """The findings in the envelope of every list."""
    from controllerd.clock import iso
    from controllerd.status.schema.common import Meta
    from controllerd.status.schema.why import FindingList

    epoch = facts.survey.picture.controller_epoch if facts.survey is not None else 0
    cluster_id = facts.view.cluster_id if facts.view is not None else ""
    return FindingList(
        meta=Meta(cluster_id=cluster_id, controller_epoch=epoch, seq=0, generated_at=iso(facts.now_ms)), items=findings
    )


def show(settings: Settings, found: "FindingList") -> None:
    """Print them: the worst first, each with what helps."""
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


def _print_hints(settings: Settings, findings: "list[Finding]") -> None:
    wrong = [finding for finding in findings if finding.severity in {"warning", "critical"}]
    typer.echo()
    if not wrong:
        typer.echo("nothing is wrong")
        return
    typer.echo("next:")
    for finding in wrong:
        typer.echo(f"  {finding.check}: {dash(settings.to_be_typed(finding.hint or ''))}")
