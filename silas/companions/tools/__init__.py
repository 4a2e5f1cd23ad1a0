"""The tool bed: what companions can do, each thing a tool with a contract.

Every call passes one chain of checks, and every write has an id under which it happens once. No
tool reaches anything but the journal, and none reads or writes outside of the caller's categories.
"""
