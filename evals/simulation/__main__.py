"""`python -m evals.simulation`: run seeds, and say which of them went wrong, and how."""

import sys

import click

from evals.simulation.life import Run, run_simulation


@click.command()
@click.option("--seed", type=int, help="Run this seed alone, and show what happened.")
@click.option("--seeds", default=100, show_default=True, help="How many seeds.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--rounds", default=4, show_default=True, help="Lives of the process for each seed.")
def main(seed: int | None, seeds: int, first: int, rounds: int) -> None:
    """Run the simulation; exit code 1 if anything was found."""
    chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    figures = run_simulation(chosen, rounds)
    if seed is not None:
        click.echo("\n".join(figures.runs[0].events))
        click.echo(f"digest {figures.runs[0].digest}")
    for run in figures.failed:
        click.echo(_told(run))
    click.echo(
        f"{figures.withstood} of {figures.tried} seeds, {rounds} lives each: "
        f"{sum(run.said for run in figures.runs)} messages, "
        f"{sum(run.decided for run in figures.runs)} decisions, "
        f"{sum(run.commands for run in figures.runs)} commands, "
        f"{sum(run.touches for run in figures.runs)} writes and syncs, "
        f"{figures.seconds:.0f} s"
    )
    sys.exit(1 if figures.failed else 0)


def _told(run: Run) -> str:
    return "\n".join([f"seed {run.seed} ({run.digest}):", *(f"  {each}" for each in run.problems)])


if __name__ == "__main__":
    main()
