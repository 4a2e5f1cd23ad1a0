"""Companions: long-lived, named agents with their own state, memory and reports, in `agent.db`.

They wake when something they watch changes, by their timers or when spoken to, and propose or do
things inside their borders. No journal record is kept here, and nothing here decides what is
approved: that is the owner's signature.
"""
