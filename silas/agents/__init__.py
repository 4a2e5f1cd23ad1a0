"""Agents: the roles that language models play, and what they are given to work with.

The only package that imports pydantic_ai. No agent decides what it may do: that is settled below.
"""
