"""Silas: a personal AI runtime that does things, securely, on its owner's machine."""

__version__ = "0.1.0"
