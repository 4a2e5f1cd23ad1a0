"""The `silas` command: a thin shell over `app/`.

Each module holds the commands of one topic; `main.py` lists them. Commands parse, call, and print;
whatever decides or computes lives in a package below.
"""
