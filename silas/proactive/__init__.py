"""What Silas does unasked: it learns from decisions, proposes, and asks for less where it may.

`outcomes` records what became of every decision, by the kind of action it was about. `triage` says
what fits which item of an account, and how surely; `batches` puts what fits before the owner, and
follows the answers; `batch_run` does what was approved, item by item.
"""
