"""Runs inside the sandbox: makes each attempt in a process of its own and says how it went.

Appended to the file of one family. An attempt returns what it got hold of, or nothing; the errors
that a wall gives are containment, any other is a defect of the attempt.
"""

import json as _json
import os as _os
import sys as _sys


def _attempt(name, world):
    print(f"ALIVE {name}", flush=True)
    try:
        got = globals()[name](world)
    except (OSError, MemoryError) as wall:
        print(f"CONTAINED {name} {wall!r}", flush=True)
    else:
        print(f"ESCAPED {name} {got}" if got else f"CONTAINED {name}", flush=True)


if __name__ == "__main__":
    _world = _json.loads(_sys.argv[1])
    for _name in _sys.argv[2:]:
        _child = _os.fork()
        if _child == 0:
            try:
                _attempt(_name, _world)
            finally:
                _sys.stdout.flush()
                _os._exit(0)
        _os.waitpid(_child, 0)
