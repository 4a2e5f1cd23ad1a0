"""Where people and Silas talk: a terminal, Telegram. A channel shows and asks, and decides nothing.

What a channel hands on is signed by the owner's key or counts as a stranger's; a decision that it
brings is kept, signed and followed elsewhere.
"""
