"""Using up the host. These succeed if nothing stops them."""

import os
import sys
import time


def allocate(world):
    """1.5 GB allocation"""
    pieces = [bytearray(b"x") * (50 << 20) for _ in range(30)]
    return f"{len(pieces) * 50} MB"


def fork_many(world):
    """400 forks"""
    children = []
    for _ in range(400):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
    time.sleep(20)
    return f"{len(children)} processes"


def open_many(world):
    """5,000 open files"""
    return f"{len([os.open('/dev/null', 0) for _ in range(5000)])} files"


def one_large_file(world):
    """300 MB file"""
    with open(world["workspace"] + "/large", "wb", buffering=0) as file:
        for _ in range(300):
            if file.write(b"x" * (1 << 20)) < 1 << 20:
                raise OSError("the file ends here")
    return "300 MB"


def many_files(world):
    """400 x 1 MB files"""
    for number in range(400):
        with open(f"{world['workspace']}/file-{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
            os.fsync(file.fileno())
    time.sleep(20)
    return "400 MB"


def fill_temporary_files(world):
    """tmpfs fill"""
    for place in ("/tmp", "/dev/shm"):
        for number in range(100):
            try:
                with open(f"{place}/fill-{world['secret']}-{number}", "wb") as file:
                    file.write(b"x" * (4 << 20))
            except OSError:
                break
        else:
            return f"400 MB in {place}"
    return None


def spin(world):
    """CPU spin"""
    while time.process_time() < 8:
        pass
    return "8 seconds"


def flood(world):
    """50 MB of output"""
    for _ in range(50):
        sys.stdout.write("x" * (1 << 20))
        sys.stdout.flush()
    return "50 MB"
