"""The embedded model for vectors: all-MiniLM-L6-v2, as the extra `vector` brings it.

Weights and vocabulary are pinned by digest and checked when they are loaded; nothing is downloaded.
Nothing here knows what a memory is.
"""
