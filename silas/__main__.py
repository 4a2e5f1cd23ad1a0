"""`python -m silas` is the same as `silas`."""

from silas.cli.main import main

main()
