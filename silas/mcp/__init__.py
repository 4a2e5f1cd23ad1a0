"""Other people's tool servers (the Model Context Protocol), inside the walls of everything else.

A server is pinned as a skill of the type `tool_server`: what runs, what it offers, and what the
owner has said of each tool are files whose digest the owner signs.
"""
