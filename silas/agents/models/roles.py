"""The roles that models play, and the ways in which they can give a structured answer."""

from enum import StrEnum


class Role(StrEnum):
    """What a model is asked to be."""

    PROXY = "proxy"
    PLANNER = "planner"
    EXECUTOR = "executor"
    SCORER = "scorer"
    GATE = "gate"


class OutputMode(StrEnum):
    """How a model is made to answer in a given form, from the firmest way to the loosest.

    `native`: the server holds the model to a JSON schema. `tool`: the answer is the arguments of a
    tool call. `prompted`: the schema stands in the prompt, and the answer is hoped for.
    """

    NATIVE = "native"
    TOOL = "tool"
    PROMPTED = "prompted"
