"""The settings of Silas: file, environment and command line, checked before anything runs.

`silas.settings.load.load_settings` is the one way in. Every value is typed and frozen, every
problem is reported with the place where it was written, and no secret is ever shown. Nothing here
opens a database, a vault or a connection. Nothing is imported here either: commands that only need
`silas.settings.paths` start without building the models.
"""
