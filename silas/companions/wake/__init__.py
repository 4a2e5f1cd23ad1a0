"""Waking: from a change, a timer or a word of the owner's to one run, once.

Nothing here polls. What a companion does when it is awake is decided elsewhere.
"""
