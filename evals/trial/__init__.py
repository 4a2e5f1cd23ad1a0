"""The trial: attackers that others wrote, against Silas.

Here live the adapters and the reports. What a trial finds is mended in the package where it
belongs; nothing here is part of what runs for an owner.
"""
