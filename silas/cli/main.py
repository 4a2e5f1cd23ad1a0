"""The top of the command line: global options, the list of commands, errors made readable."""

import os
import sys
from typing import Any, NoReturn

import click

import silas
from silas.cli.commands import LazyCommand, LazyGroup
from silas.cli.context import CliContext, report_crash, report_error
from silas.kernel.errors import SilasError

COMMANDS = {
    "init": LazyCommand("silas.cli.init:init", "Set up Silas on this machine."),
    "doctor": LazyCommand("silas.cli.doctor:doctor", "Say what state this machine is in."),
    "start": LazyCommand("silas.cli.start:start", "Start Silas."),
    "service": LazyCommand("silas.cli.service:service", "Have this machine keep Silas running."),
    "stop": LazyCommand("silas.cli.status:stop", "Stop Silas, or only its companions."),
    "status": LazyCommand(
        "silas.cli.status:status", "Say whether Silas is running, and how it is."
    ),
    "chat": LazyCommand("silas.cli.chat:chat", "Talk to Silas in this terminal."),
    "ask": LazyCommand("silas.cli.chat:ask", "Say one thing to Silas, and wait for what comes."),
    "review": LazyCommand("silas.cli.review:review", "Decide about the plans that wait for you."),
    "devices": LazyCommand(
        "silas.cli.devices:devices", "Show, pair and revoke browsers that may sign for you."
    ),
    "config": LazyCommand("silas.cli.config:config", "Check and show the configuration."),
    "secrets": LazyCommand("silas.cli.secrets:secrets", "Keep passwords and keys in the vault."),
    "keys": LazyCommand("silas.cli.keys:keys", "Show and rotate the owner's signing key."),
    "approvals": LazyCommand(
        "silas.cli.approvals:approvals", "Show what was approved, and export proofs."
    ),
    "verify": LazyCommand("silas.cli.verify:verify", "Check a proof of approval, offline."),
    "audit": LazyCommand("silas.cli.audit:audit", "Read and verify the audit log."),
    "sandbox": LazyCommand("silas.cli.sandbox:sandbox", "Run a command contained."),
    "gates": LazyCommand(
        "silas.cli.gates:gates", "Show and try what every text and call has to pass."
    ),
    "plan": LazyCommand("silas.cli.plan:plan", "Check plans, show them, and run them."),
    "work": LazyCommand("silas.cli.work:work", "Show work items, and stop or resume them."),
    "models": LazyCommand(
        "silas.cli.models:models", "Show and try the models that play the roles."
    ),
    "queue": LazyCommand(
        "silas.cli.queue:queue", "Show what is on the bus, and what was given up."
    ),
    "memory": LazyCommand(
        "silas.cli.memory:memory", "Search what Silas remembers, carry it along, forget it."
    ),
    "journal": LazyCommand(
        "silas.cli.journal:journal", "Keep tasks, time, day plans, ratings and notes."
    ),
    "agents": LazyCommand(
        "silas.cli.agents:agents", "Companions that watch your journal: make, read, stop them."
    ),
    "eval": LazyCommand("silas.cli.evals:evals", "Measure how good Silas is, on your data."),
    "metrics": LazyCommand(
        "silas.cli.metrics:metrics", "Show how deciding goes: how fast, how often no."
    ),
    "backup": LazyCommand("silas.cli.backup:backup", "Write everything to one verified file."),
    "restore": LazyCommand("silas.cli.backup:restore", "Bring a backup back."),
}


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Where Silas keeps its data. [env: SILAS_DATA_DIR; default: data_dir of the config]",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The configuration file. [env: SILAS_CONFIG; default: config/silas.yaml]",
)
@click.version_option(silas.__version__, prog_name="silas")
@click.pass_context
def cli(context: click.Context, data_dir: str | None, config_file: str | None) -> None:
    """Silas: a personal AI runtime that does things, securely, on your machine."""
    context.obj = CliContext(
        data_dir=data_dir or os.environ.get("SILAS_DATA_DIR"),
        config_file=config_file or os.environ.get("SILAS_CONFIG"),
    )


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with a stable exit code."""
    argv = sys.argv[1:] if arguments is None else arguments
    try:
        code: Any = cli.main(argv, prog_name="silas", standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.Abort:
        click.echo("Stopped.", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except SilasError as error:
        code = report_error(error, as_json="--json" in argv)
    except BrokenPipeError:
        # The reader of our output has gone (`silas audit tail | head`): that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the last line of defence: one sentence, not a traceback
        code = report_crash(error, as_json="--json" in argv)
    sys.exit(code if isinstance(code, int) else 0)
