"""Other people's agents ask the owner through Silas: they get a signed yes, or a no.

Nothing here carries anything out: whoever asked does it, with an answer that names the exact bytes.
"""
