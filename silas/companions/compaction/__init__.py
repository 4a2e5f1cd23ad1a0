"""Compaction: old spans of a companion's log become summaries, beside its runs.

The messages themselves stay as they are. Nothing here holds up a run, and nothing here moves a
pointer before the summary is committed.
"""
