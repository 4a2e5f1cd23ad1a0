"""Context: what a model is shown of a conversation, and what gives way when there is too much.

Everything is of one scope. No agent decides what stays.
"""
