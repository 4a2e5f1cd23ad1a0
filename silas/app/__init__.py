"""The composition root: settings become objects, and objects a running process.

The only package that constructs implementations and hands them to each other, each object once.
Everything below receives what it uses; everything above asks here for a wired whole. No decision
about trust is taken here.
"""
