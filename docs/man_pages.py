#!/usr/bin/env python3
"""Write the man pages in ``man/`` from the commands and the configuration in the code, so that they stay true.

``controllerctl(1)`` and a page for each of its groups and each of its commands, ``controllerd(8)``,
``controllerd.toml(5)``.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperGroup

import configuration
from cli.app import application
from cli.exit_codes import MEANINGS
from controllerd.__main__ import app as controllerd
from controllerd.config.key_reference import MEANINGS as KEY_MEANINGS
from controllerd.config.key_reference import keys

if TYPE_CHECKING:
    from typer._click import Command

FOLDER: Final = Path(__file__).with_name("man")
EXITS: Final = {
    0: "stopped by SIGTERM or SIGINT, after the role was given back",
    2: "wrong usage of the command line",
    69: "ZooKeeper did not answer at the start, or there is no cluster to observe",
    70: "a defect ended it; the log says more",
    74: "an address or a directory cannot be used, or the audit log cannot be written and must be",
    78: "the configuration is wrong, or the cluster must not be led; systemd does not try again",
}
SIGNALS: Final = {
    "SIGTERM, SIGINT": "Give the role back, so that another instance or a broker leads within milliseconds, and end.",
    "SIGHUP": "Read the configuration anew. Keys that need a restart are named in the log; of a file with a problem "
    "nothing is used.",
}
FILES: Final = {
    "/etc/controllerd/INSTANCE.toml": "The configuration of controllerd@INSTANCE.service; see controllerd.toml(5).",
    "/var/lib/controllerd/INSTANCE": "The identity of the instance and, below audit, its audit log.",
    "/run/controllerd/INSTANCE.sock": "The admin socket of controllerd@INSTANCE.socket.",
    "/var/lib/controllerd-replay/INSTANCE": "The report of controllerd-replay@INSTANCE.timer.",
}
_MARKUP: Final = re.compile(r"\[([^]]+)\]\([^)]*\)|``?([^`]+)``?")
_EXAMPLES: Final = re.compile(r"\s*Examples?: ")


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    root = typer.main.get_command(application())
    assert isinstance(root, TyperGroup)
    made = {"controllerctl.1": "".join(overview(root))}
    for name, command in root.commands.items():
        made[f"controllerctl-{name}.1"] = "".join(command_page(f"controllerctl {name}", command))
    daemon = typer.main.get_command(controllerd)
    assert isinstance(daemon, TyperGroup)
    made["controllerd.8"] = "".join(daemon_page(daemon))
    made["controllerd.toml.5"] = "".join(configuration_page())
    return made


# -- pages -------------------------------------------------------------------------------------------------------------


def overview(root: TyperGroup) -> Iterator[str]:
    """``controllerctl(1)``: its purpose, the global flags, the commands, the exit codes."""
    yield from head("controllerctl", 1, root.help or "")
    yield section("SYNOPSIS") + synopsis("controllerctl", root)
    yield section("COMMANDS")
    for name, command in sorted(root.commands.items()):
        yield item(f"controllerctl-{name}(1)", first_sentence(command.help or ""))
    yield section("OPTIONS") + text(root.epilog or "") + options(root)
    yield section("EXIT STATUS")
    yield from (item(str(int(code)), meaning) for code, meaning in MEANINGS.items())
    yield see_also("controllerd(8)", "controllerd.toml(5)")


def command_page(name: str, command: "Command") -> Iterator[str]:
    """One command, or a group with all of its commands."""
    yield from head(name.replace(" ", "-"), 1, command.help or "")
    yield section("SYNOPSIS") + synopsis(name, command)
    if isinstance(command, TyperGroup):
        yield section("DESCRIPTION") + description(command)
        for below, one in sorted(command.commands.items()):
            yield section(f"{name} {below}") + synopsis(f"{name} {below}", one) + description(one) + options(one)
    else:
        yield section("DESCRIPTION") + description(command)
        yield section("OPTIONS") + (options(command) or text("None but those of controllerctl(1)."))
    yield see_also("controllerctl(1)", "controllerd(8)")


def daemon_page(daemon: TyperGroup) -> Iterator[str]:
    """``controllerd(8)``."""
    yield from head("controllerd", 8, daemon.help or "")
    yield section("SYNOPSIS") + "".join(synopsis(f"controllerd {name}", one) for name, one in daemon.commands.items())
    for name, one in daemon.commands.items():
        yield section(f"controllerd {name}") + description(one) + options(one)
    for title, items in (("SIGNALS", SIGNALS), ("FILES", FILES)):
        yield section(title) + "".join(item(term, meaning) for term, meaning in items.items())
    yield section("EXIT STATUS") + "".join(item(str(code), meaning) for code, meaning in EXITS.items())
    yield see_also("controllerd.toml(5)", "controllerctl(1)", "systemctl(1)", "systemd.service(5)")


def configuration_page() -> Iterator[str]:
    """``controllerd.toml(5)``."""
    yield from head("controllerd.toml", 5, "Configuration of controllerd, the controller of a Kafka cluster.")
    yield section("DESCRIPTION")
    for paragraph in configuration.PAGE.read_text("utf-8").partition(configuration.BEGIN)[0].split("\n\n")[1:]:
        yield text(paragraph)
    before = ""
    for key, kind, default in keys():
        part = key.partition(".")[0]
        yield section(f"[{part}]") if part != before else ""
        before = part
        meaning = f"{KEY_MEANINGS[key]}{configuration.in_kafka(key)}{configuration.at_once(key)}"
        facts = f"{kind}; {'required' if default == 'required' else f'default {default}'}".replace("\\|", "|")
        yield item(key, f"{facts}. {meaning}")
    yield see_also("controllerd(8)", "controllerctl(1)")


# -- parts of a page ---------------------------------------------------------------------------------------------------


def head(name: str, number: int, summary: str) -> Iterator[str]:
    """The title line and the section that ``apropos`` reads."""
    yield f'.TH "{escaped(name.upper())}" "{number}" "" "controllerd" "controllerd"\n.nh\n.ad l\n'
    yield section("NAME") + f"{escaped(name)} \\- {escaped(first_sentence(summary).rstrip('.'))}\n"


def synopsis(name: str, command: "Command") -> str:
    """The command with its arguments as its own help shows them."""
    pieces = command.collect_usage_pieces(typer.Context(command, info_name=name))
    return f".B {escaped(name)}\n{escaped(' '.join(pieces))}\n.br\n"


def description(command: "Command") -> str:
    """The paragraphs of a command's help; its examples one by one."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        if _EXAMPLES.match(paragraph):
            examples = " ".join(_EXAMPLES.sub("", paragraph).split()).split(" · ")
            parts.append(
                ".PP\nExamples:\n" + "".join(f".PP\n.RS 4\n.nf\n{escaped(one)}\n.fi\n.RE\n" for one in examples)
            )
        else:
            parts.append(text(paragraph))
    return "".join(parts)


def options(command: "Command") -> str:
    """Arguments and options as the help of the command lists them."""
    context = typer.Context(command)
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return "".join(item(*record) for record in records if record is not None)


def section(title: str) -> str:
    """A heading."""
    return f'.SH "{escaped(title)}"\n'


def text(paragraph: str) -> str:
    """A paragraph."""
    return f".PP\n{escaped(' '.join(plain(paragraph).split()))}\n"


def item(term: str, meaning: str) -> str:
    """A term with its meaning."""
    said = escaped(" ".join(plain(meaning).split())) or "\\&"
    return f".TP\n.B {escaped(term)}\n{said}\n"


def see_also(*others: str) -> str:
    """The last section."""
    return section("SEE ALSO") + escaped(", ".join(others)) + "\n"


def first_sentence(help_text: str) -> str:
    """The beginning of a help text, up to its first full stop."""
    return re.split(r"(?<=\.)\s", " ".join(plain(help_text).split()), maxsplit=1)[0]


def plain(markdown: str) -> str:
    """Text without the marks of Markdown and docstrings."""
    return _MARKUP.sub(lambda match: match[1] or match[2], markdown)


def escaped(line: str) -> str:
    """The line with the characters escaped that roff would interpret."""
    line = line.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{line}" if line.startswith((".", "'")) else line


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for stale in {path.name for path in FOLDER.iterdir()} - made.keys():
        (FOLDER / stale).unlink()
    for name, page in made.items():
        (FOLDER / name).write_text(page, "utf-8")
