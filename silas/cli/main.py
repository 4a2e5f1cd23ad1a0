"""The top of the command line: global options, the list of commands, errors made readable.

`silas companions` and `silas journal`: which commands they have, and where each stands.

The commands of these two stand in several modules, which take long to load; each is loaded when it
is used, so that the group itself answers `--help` at once.
"""

import io
import os
import sys
from typing import Any, NoReturn

import click

import silas
from silas.cli.commands import CliContext, LazyCommand, LazyGroup, report_crash, report_error
from silas.kernel.errors import SilasError
from silas.kernel.process import guard_process, take_passphrase
from silas.kernel.program import as_typed, program

_VIEWS, _CHANGES = "silas.cli.companions", "silas.cli.companions_changes"
_TASKS, _TIMES = "silas.cli.journal_tasks", "silas.cli.journal_times"
_RECORDS = "silas.cli.journal_records"
_COMPANIONS = {
    "list": LazyCommand(f"{_VIEWS}:list_all", "Show your companions, and how they are."),
    "kinds": LazyCommand(f"{_VIEWS}:kinds", "Show which companions can be made."),
    "new": LazyCommand(f"{_CHANGES}:new", "Make a companion."),
    "show": LazyCommand(f"{_VIEWS}:show", "Show all about one."),
    "report": LazyCommand(f"{_VIEWS}:report", "Read what it has to say, with sources."),
    "chat": LazyCommand("silas.cli.companions_chat:chat", "Talk to it."),
    "say": LazyCommand(f"{_CHANGES}:say", "Say something to it."),
    "wake": LazyCommand(f"{_CHANGES}:wake", "Wake it now."),
    "questions": LazyCommand(f"{_VIEWS}:questions", "Show what companions have asked you."),
    "answer": LazyCommand(f"{_CHANGES}:answer", "Answer a question."),
    "waiting": LazyCommand(f"{_VIEWS}:waiting", "Show what waits for your decision."),
    "runs": LazyCommand(f"{_VIEWS}:runs", "Show when it woke, why, and what came of it."),
    "trace": LazyCommand(f"{_VIEWS}:trace", "Explain one run, step by step."),
    "replay": LazyCommand(f"{_VIEWS}:replay", "Go through a run again; nothing is done."),
    "again": LazyCommand(f"{_VIEWS}:again", "Carry a run out once more, also by fixed rules."),
    "configure": LazyCommand(
        f"{_CHANGES}:configure", "Change its name, categories, model or budget."
    ),
    "timers": LazyCommand(f"{_VIEWS}:timers", "Show and set when it wakes by the clock."),
    "consent": LazyCommand(f"{_CHANGES}:consent", "Read what its model is told, and agree or not."),
    "versions": LazyCommand(
        f"{_CHANGES}:versions", "Show how versions of its kind do; take the newest, or go back."
    ),
    "health": LazyCommand(
        f"{_CHANGES}:health", "Show what companions are held to, and what was odd."
    ),
    "models": LazyCommand(
        f"{_CHANGES}:models", "Say which models may be asked about a category, or by a kind."
    ),
    "persona": LazyCommand(
        f"{_CHANGES}:persona", "Show how it speaks, and approve changes of that."
    ),
    "pause": LazyCommand(f"{_CHANGES}:pause", "Let it rest."),
    "resume": LazyCommand(f"{_CHANGES}:resume", "Let it go on."),
    "cancel": LazyCommand(f"{_CHANGES}:cancel", "Call off what it does just now."),
    "stop": LazyCommand(f"{_CHANGES}:stop", "Stop all companions, one, or a class of tools."),
    "go": LazyCommand(f"{_CHANGES}:go", "Release what was stopped."),
    "destroy": LazyCommand(f"{_CHANGES}:destroy", "End a companion for good."),
    "forget": LazyCommand(
        f"{_CHANGES}:forget", "Forget a companion, a category, a time or a word, for good."
    ),
    "forgotten": LazyCommand(f"{_CHANGES}:forgotten", "Show the receipts of what was forgotten."),
}
_JOURNAL = {
    "today": LazyCommand(f"{_TIMES}:today", "Show what today is about."),
    "task": LazyCommand(f"{_TASKS}:task", "Write tasks down, and finish them."),
    "check": LazyCommand(f"{_TASKS}:check", "Checklists of tasks."),
    "time": LazyCommand(f"{_TIMES}:time", "The timer, and where time went."),
    "day": LazyCommand(f"{_TIMES}:day", "Plan a day."),
    "rate": LazyCommand(f"{_RECORDS}:rate", "Say how something was."),
    "ratings": LazyCommand(f"{_RECORDS}:ratings", "Show ratings."),
    "note": LazyCommand(f"{_RECORDS}:note", "Write something down."),
    "notes": LazyCommand(f"{_RECORDS}:notes", "Show notes."),
    "category": LazyCommand(f"{_RECORDS}:category", "Parts of your life."),
    "link": LazyCommand(f"{_RECORDS}:link", "Say that two records belong together."),
    "search": LazyCommand(f"{_RECORDS}:search", "Find records by their words."),
    "history": LazyCommand(f"{_RECORDS}:history", "Show how a record came about."),
    "delete": LazyCommand(f"{_RECORDS}:delete", "Delete a record."),
    "restore": LazyCommand(f"{_RECORDS}:restore", "Bring a deleted record back."),
    "undo": LazyCommand(f"{_RECORDS}:undo", "Take back what was said in a chat."),
    "export": LazyCommand(f"{_RECORDS}:export", "Write the journal to a file."),
    "import": LazyCommand(f"{_RECORDS}:import_", "Take a file in."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMPANIONS)
def companions() -> None:
    """Companions that watch your journal: a planner, a gym coach, a strategist, or your own.

    NAME is a companion's name or its beginning, or the end of its id. If several fit, nothing is
    done and they are listed.
    """


@click.group(cls=LazyGroup, lazy_commands=_JOURNAL)
def journal() -> None:
    """Keep tasks, checklists, time, day plans, ratings and notes.

    Records are named by the end of their id or the beginning of their name. If several fit, nothing
    is changed and they are listed.
    """


COMMANDS = {
    "init": LazyCommand("silas.cli.init:init", "Set up Silas on this machine."),
    "doctor": LazyCommand("silas.cli.doctor:doctor", "Say what state this machine is in."),
    "start": LazyCommand("silas.cli.start:start", "Start Silas."),
    "service": LazyCommand("silas.cli.service:service", "Have this machine keep Silas running."),
    "stop": LazyCommand("silas.cli.status:stop", "Stop Silas, or only its companions."),
    "status": LazyCommand(
        "silas.cli.status:status", "Say whether Silas is running, and how it is."
    ),
    "unlock": LazyCommand(
        "silas.cli.status:unlock", "Give the passphrase to a Silas that waits for it."
    ),
    "chat": LazyCommand("silas.cli.chat:chat", "Talk to Silas in this terminal."),
    "ask": LazyCommand("silas.cli.chat:ask", "Say one thing to Silas, and wait for what comes."),
    "conversations": LazyCommand(
        "silas.cli.conversations:conversations", "List, read, rename and delete conversations."
    ),
    "search": LazyCommand(
        "silas.cli.conversations:search", "Find words in all conversations and all work."
    ),
    "review": LazyCommand("silas.cli.review:review", "Decide about the plans that wait for you."),
    "folders": LazyCommand(
        "silas.cli.folders:folders", "Show, open and close what Silas may read without a plan."
    ),
    "clients": LazyCommand(
        "silas.cli.hook:clients", "Show, add and remove programs that may ask you through Silas."
    ),
    "hook": LazyCommand("silas.cli.hook:hook", "Let Claude Code or Codex ask you before it acts."),
    "devices": LazyCommand(
        "silas.cli.keys:devices", "Show, pair and revoke browsers that may sign for you."
    ),
    "config": LazyCommand("silas.cli.config:config", "Check, show and change the configuration."),
    "secrets": LazyCommand("silas.cli.secrets:secrets", "Keep passwords and keys in the vault."),
    "keys": LazyCommand("silas.cli.keys:keys", "Show and rotate the owner's signing key."),
    "approvals": LazyCommand(
        "silas.cli.approvals:approvals", "Show what was approved, take it back, export proofs."
    ),
    "autonomy": LazyCommand(
        "silas.cli.autonomy:autonomy", "Show how much Silas asks you, and have it ask more again."
    ),
    "grants": LazyCommand(
        "silas.cli.autonomy:grants", "Show what Silas may do without asking for a while; revoke it."
    ),
    "verify": LazyCommand("silas.cli.verify:verify", "Check a proof of approval, offline."),
    "audit": LazyCommand("silas.cli.audit:audit", "Read and verify the audit log."),
    "sandbox": LazyCommand("silas.cli.sandbox:sandbox", "Run a command contained."),
    "gates": LazyCommand(
        "silas.cli.gates:gates", "Show and try what every text and call has to pass."
    ),
    "plan": LazyCommand("silas.cli.plan:plan", "Check plans, show them, and run them."),
    "work": LazyCommand("silas.cli.work:work", "Show work items, and stop or resume them."),
    "skills": LazyCommand("silas.cli.skills:skills", "Look at skills, ask for one, take it away."),
    "mcp": LazyCommand(
        "silas.cli.mcp:mcp", "Use other people's tool servers, each as far as you let it."
    ),
    "connect": LazyCommand("silas.cli.connections:connect", "Connect an account of yours."),
    "connections": LazyCommand(
        "silas.cli.connections:connections", "Look after your accounts elsewhere."
    ),
    "persona": LazyCommand("silas.cli.persona:persona", "Show and change how Silas speaks to you."),
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
        "silas.cli.main:journal", "Keep tasks, time, day plans, ratings and notes."
    ),
    "companions": LazyCommand(
        "silas.cli.main:companions", "Companions that watch your journal: make, read, stop them."
    ),
    "visitors": LazyCommand(
        "silas.cli.visitors:visitors", "Let others talk to Silas with a link, and answer them."
    ),
    "metrics": LazyCommand(
        "silas.cli.approvals:metrics", "Show how deciding goes: how fast, how often no."
    ),
    "usage": LazyCommand(
        "silas.cli.models:usage", "Show what models have used, and what is left of budgets."
    ),
    "backup": LazyCommand("silas.cli.backup:backup", "Write everything to one verified file."),
    "restore": LazyCommand("silas.cli.backup:restore", "Bring a backup back."),
}


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    former_names={"agents": "companions"},
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
        passphrase=context.obj,
    )


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with a stable exit code."""
    argv = sys.argv[1:] if arguments is None else arguments
    try:
        passphrase = take_passphrase(os.environ)
        guard_process()
        code: Any = cli.main(argv, prog_name=program(), standalone_mode=False, obj=passphrase)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        code = 130
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(as_typed(shown.getvalue()), nl=False, err=True)
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
