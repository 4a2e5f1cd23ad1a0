"""Measurements: benchmarks against floors and peers, quality scores on corpora.

Nothing here runs in production or decides anything; it measures the rooms as they are.
A benchmark is a ratio within one run, never an assertion in a test.
"""
