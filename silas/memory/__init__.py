"""What Silas remembers: the store, retrieval, consolidation, forgetting.

The rules of trust are enforced by the store itself, so that no caller can get around them.
Nothing here knows about models or prompts, and no text from outside becomes a trusted fact.
"""
