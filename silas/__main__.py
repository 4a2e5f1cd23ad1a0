"""The program `silas`; `python -m silas` is the same."""


def run() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, from its first moment on."""
    # Everything is imported in here: loading takes a while, and Ctrl-C is pressed in it, too.
    try:
        from silas.cli.main import main  # noqa: PLC0415

        main()
    except KeyboardInterrupt:
        import sys  # noqa: PLC0415

        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    finally:
        import signal  # noqa: PLC0415

        # Whoever presses it again while things are put away waits no longer, and reads nothing.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
