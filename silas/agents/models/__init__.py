"""Models: which one plays which role, how it is reached, and what happens when it cannot be.

Nothing but names is exported here: `roles`, `choices`, `providers` and `errors` are loaded by the
settings and must stay free of pydantic_ai; `factory`, `resilience` and `probe` are not.
"""
