"""An answer as lines of text, for a terminal and for the dashboard."""

from controllerd.core.visible import visible
from controllerd.status.schema.why import Why


def lines(why: Why) -> list[str]:
    """The headline, then facts and causes, then the partitions of a topic, then what to do next."""
    told = [why.headline]
    told += [f"  {fact}" for fact in why.facts]
    told += [f"  {cause.sentence}" for cause in why.causes]
    told += [f"  - {other}" for other in why.others]
    for at, step in enumerate(why.next):
        told.append(f"{'next: ' if not at else '      '}{step}")
    return [visible(line) for line in told]
