"""External accounts: connected by the owner's yes, used within what was granted, taken back.

`models` says what a connection is, `registry` keeps them, `scripts` talks to the scripts of a
connection's skill, `cards` asks the owner, `manager` leads a connection through its life, `tools`
lets work use it, and `service` is what the page and the command line ask for.
"""
