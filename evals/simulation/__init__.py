"""The simulation: the whole runtime under one seed, with everything that can go wrong going wrong.

`run_simulation` runs seeds; `make simulate SEED=7` repeats one. docs/simulation.md says what is
simulated and what is not.
"""

from evals.simulation.life import Figures, Run, run_simulation

__all__ = ["Figures", "Run", "run_simulation"]
