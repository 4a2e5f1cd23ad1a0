"""`silas agents`: companions, from the first to the last."""

import click

from silas.cli.commands import LazyCommand, LazyGroup

_LOOK, _DO = "silas.cli.agents_looking", "silas.cli.agents_doing"
_AGREE, _TIMES = "silas.cli.agents_agreeing", "silas.cli.agents_timing"
_COMMANDS = {
    "list": LazyCommand(f"{_LOOK}:list_all", "Show your companions, and how they are."),
    "kinds": LazyCommand(f"{_LOOK}:kinds", "Show which companions can be made."),
    "new": LazyCommand(f"{_DO}:new", "Make a companion."),
    "show": LazyCommand(f"{_LOOK}:show", "Show all about one."),
    "report": LazyCommand(f"{_LOOK}:report", "Read what it has to say, with sources."),
    "wake": LazyCommand(f"{_DO}:wake", "Wake it now, or say something to it."),
    "questions": LazyCommand(f"{_LOOK}:questions", "Show what companions have asked you."),
    "answer": LazyCommand(f"{_DO}:answer", "Answer a question."),
    "waiting": LazyCommand(f"{_LOOK}:waiting", "Show what waits for your decision."),
    "runs": LazyCommand(f"{_LOOK}:runs", "Show when it woke, why, and what came of it."),
    "trace": LazyCommand(f"{_LOOK}:trace", "Explain one run, step by step."),
    "replay": LazyCommand(f"{_LOOK}:replay", "Go through a run again; nothing is done."),
    "configure": LazyCommand(f"{_DO}:configure", "Change its name, categories, model or budget."),
    "timers": LazyCommand(f"{_TIMES}:timers", "Show and set when it wakes by the clock."),
    "consent": LazyCommand(f"{_AGREE}:consent", "Read what its model is told, and agree or not."),
    "persona": LazyCommand(f"{_AGREE}:persona", "Show how it speaks, and approve changes of that."),
    "pause": LazyCommand(f"{_DO}:pause", "Let it rest."),
    "resume": LazyCommand(f"{_DO}:resume", "Let it go on."),
    "cancel": LazyCommand(f"{_DO}:cancel", "Call off what it does just now."),
    "stop": LazyCommand(f"{_DO}:stop", "Stop all companions, one, or a class of tools."),
    "go": LazyCommand(f"{_DO}:go", "Release what was stopped."),
    "destroy": LazyCommand(f"{_DO}:destroy", "End a companion for good."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def agents() -> None:
    """Companions that watch your journal: a planner, a gym coach, a strategist, or your own.

    NAME is a companion's name or its beginning, or the end of its id. If several fit, nothing is
    done and they are listed.
    """
