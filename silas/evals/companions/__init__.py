"""Scorecards of companions: what each kind must do, must refuse, and must still know in weeks.

Scenarios are YAML beside each kind. They are played on the real store, tools, policy and approvals;
only the clock, the owner and, where a scenario says so, the model are scripted.
"""
