"""The trial: attackers that others wrote, against the whole house.

Here live the adapters and the reports. What a trial finds is mended in the room where it belongs;
nothing here is part of what runs for an owner.
"""
