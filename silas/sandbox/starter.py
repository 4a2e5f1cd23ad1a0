"""Builds a sandbox and executes one command in it: what `bwrap` does, where it is not installed.

It is run by the `subprocess` backend as a program of its own (`python -I -S starter.py --args FD --
COMMAND`), so it imports the standard library alone. It follows the options that
`silas.sandbox.bubblewrap` gives to `bwrap`, in their order, and no others. What the kernel refuses
ends everything, with the reason on the error output: half of a sandbox is none.

1. New namespaces for users, files, processes, network, messages, names and control groups. The one
   user inside is nobody special outside.
2. A new root on an empty file system; what the options name is bound into it, without set-user-id
   programs and devices, and read-only where they say so. Paths that were handed over by descriptor
   are compared after they were bound: what was put in their place meanwhile is refused. Then the
   old root is taken away.
3. No further namespaces, no privileges and none to be gained; Landlock, where the kernel has it, as
   a second wall behind the mounts: nothing is written outside of the places that the options make
   writable, and nothing outside is signalled. Then the filter of system calls.
4. The first process inside waits at the gate, then starts the command, and ends everything with it.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
_NAMESPACES |= 0x40000000  # files, control groups, names, messages, users, processes, network
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC = 0x2, 0x4, 0x8, 0x1000, 0x4000
_MS_PRIVATE, _MS_SLAVE, _MNT_DETACH = 0x40000, 0x80000, 2
_ATTR_READ_ONLY, _ATTR_NOSUID, _ATTR_NODEV, _AT_RECURSIVE = 0x1, 0x2, 0x4, 0x8000
_AT_FDCWD, _SYS_MOUNT_SETATTR = -100, 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION, _HIGHEST_CAPABILITY = 0x20080522, 63
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION = 444, 445, 446, 1
_LEAST_LANDLOCK = 2  # the first version in which files can be moved between directories
_WRITE_FILE, _CHANGE_DIRECTORY, _REFER, _TRUNCATE = 1 << 1, 0b1_1111_1111 << 4, 1 << 13, 1 << 14
_TRUNCATE_SINCE, _SCOPED_SINCE, _SCOPED = 3, 6, 0b11  # abstract sockets and signals
_SIOCSIFFLAGS, _IFF_UP_AND_RUNNING = 0x8914, 0x41
_BASE, _NEW, _OLD = "/tmp", "/new", "/old"  # noqa: S108 - covered by a file system of our own
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_FLAGS = {
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-net"),
    *("--unshare-cgroup-try", "--die-with-parent", "--disable-userns"),
}
"""What is always done."""


class _Refused(Exception):
    """The sandbox cannot be built."""


class World:
    """The options, read: the file system in its order, and what is set once."""

    def __init__(self, words: list[str]) -> None:
        self.steps: list[Callable[[], None]] = []
        self.environ: dict[str, str] = {}
        self.once: dict[str, str] = {}
        self.writable: dict[str, None] = {}
        remaining = iter(words)
        for word in remaining:
            if word not in _FLAGS:
                self._take(word, remaining)

    def _take(self, word: str, more: Iterator[str]) -> None:
        """One option with its values."""
        if word in _ONCE:
            self.once[word] = next(more)
        elif word in _PLACES:
            act, target = _PLACES[word], next(more)
            if word == "--remount-ro":
                self.writable.pop(target, None)
            elif word == "--dev":  # what is in it stays writable when its list is closed
                inside = (*_DEVICES, "pts")
                self.writable |= dict.fromkeys(f"{target}/{name}" for name in inside)
            else:
                self.writable[target] = None
            self.steps.append(lambda: act(target))
        elif word in _PAIRS:
            put, source, at = _PAIRS[word], next(more), next(more)
            self.steps.append(lambda: put(source, at))
        elif word == "--setenv":
            name, value = next(more), next(more)
            self.environ[name] = value
        elif word == "--ro-bind":
            # Resolved now: a link would lead astray once the root is another one.
            real, place = os.path.realpath(next(more)), next(more)
            self.steps.append(lambda: _bind(real, place, read_only=True))
        elif word in ("--bind-fd", "--ro-bind-fd"):
            self._bind_descriptor(int(next(more)), next(more), read_only=word == "--ro-bind-fd")
        elif word == "--tmpfs":
            target = next(more)
            self.writable[target] = None
            self._empty(target)
        else:
            raise _Refused(f"the option {word} is not known")

    def _empty(self, target: str) -> None:
        mode, size = self.once.pop("--perms", "755"), self.once.pop("--size", "")
        self.steps.append(lambda: _mount_empty(target, mode=mode, size=size))

    def _bind_descriptor(self, descriptor: int, target: str, *, read_only: bool) -> None:
        # Read now: afterwards /proc is another one, and the path of another root.
        source, wanted = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
        if not read_only:
            self.writable[target] = None

        def bind() -> None:
            _bind(source, target, read_only=read_only)
            if not os.path.samestat(os.lstat(_NEW + target), wanted):
                raise _Refused(f"{source} was replaced meanwhile")

        self.steps.append(bind)


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise _Refused(f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode())
    result = _LIBC.mount(*words, ctypes.c_ulong(flags), data.encode())
    _call(f"mounting {target.removeprefix(_NEW)}", result)


def _set_attributes(target: str, attributes: int, *, deep: bool) -> None:
    """Needs Linux 5.12; older kernels refuse, and nothing is run."""
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    at, number = ctypes.c_long(_AT_FDCWD), ctypes.c_long(_SYS_MOUNT_SETATTR)
    result = _LIBC.syscall(
        number, at, target.encode(), ctypes.c_long(_AT_RECURSIVE if deep else 0), wanted,
        ctypes.c_size_t(len(wanted)),
    )  # fmt: skip
    _call(f"closing {target.removeprefix(_NEW)}", result)


def _bind(source: str, target: str, *, read_only: bool, devices: bool = False) -> None:
    origin, place = _OLD + source, _NEW + target
    _make_place(place, directory=os.path.isdir(origin))
    _mount(origin, place, "", _MS_BIND | _MS_REC)
    attributes = _ATTR_NOSUID | (0 if devices else _ATTR_NODEV)
    _set_attributes(place, attributes | (_ATTR_READ_ONLY if read_only else 0), deep=True)


def _make_place(place: str, *, directory: bool) -> None:
    """Something to mount on, where there is nothing yet."""
    if os.path.lexists(place):
        return
    os.makedirs(place if directory else os.path.dirname(place), mode=0o755, exist_ok=True)
    if not directory:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def _link(source: str, target: str) -> None:
    _make_place(os.path.dirname(_NEW + target), directory=True)
    os.symlink(source, _NEW + target)


def _write(descriptor: str, target: str) -> None:
    _make_place(_NEW + target, directory=False)
    os.chmod(_NEW + target, 0o644)
    with open(int(descriptor), "rb") as content, open(_NEW + target, "wb") as file:
        file.write(content.read())


def _mount_empty(target: str, *, mode: str, size: str) -> None:
    _make_place(_NEW + target, directory=True)
    data = f"mode={mode}" + (f",size={size}" if size else "")
    _mount("tmpfs", _NEW + target, "tmpfs", _MS_NOSUID | _MS_NODEV, data)


def _mount_proc(target: str) -> None:
    _make_place(_NEW + target, directory=True)
    _mount("proc", _NEW + target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount_devices(target: str) -> None:
    """The few devices that harm nobody, and terminals of the sandbox's own."""
    _mount_empty(target, mode="755", size="")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{target}/{name}", read_only=False, devices=True)
    links = {"stdin": "0", "stdout": "1", "stderr": "2"}
    for name, number in links.items():
        _link(f"/proc/self/fd/{number}", f"{target}/{name}")
    _link("/proc/self/fd", f"{target}/fd")
    for name in ("shm", "pts"):
        os.mkdir(f"{_NEW}{target}/{name}", 0o755)
    _mount(
        "devpts", f"{_NEW}{target}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=620",
    )  # fmt: skip
    _link("pts/ptmx", f"{target}/ptmx")


def _close(target: str) -> None:
    _set_attributes((_NEW + target).rstrip("/") or "/", _ATTR_READ_ONLY, deep=False)


_PLACES = {"--proc": _mount_proc, "--dev": _mount_devices, "--remount-ro": _close}
_PAIRS = {"--symlink": _link, "--file": _write}
_ONCE = {
    *("--cap-drop", "--uid", "--gid", "--hostname", "--chdir", "--seccomp", "--json-status-fd"),
    *("--block-fd", "--perms", "--size"),
}


def enter_namespaces(uid: str, gid: str) -> None:
    """Rule 1; the process itself stays outside of the new process namespace, its children do not.

    The control groups are left alone where the kernel knows no namespace of them.
    """
    outside = os.geteuid(), os.getegid()
    _call("making namespaces", _LIBC.unshare(_NAMESPACES))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outside[0]} 1"),
        ("gid_map", f"{gid} {outside[1]} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def build(world: World) -> None:
    """Rule 2, and the network's own address."""
    os.umask(0o022)
    _mount("", "/", "", _MS_SLAVE | _MS_REC)
    _mount("tmpfs", _BASE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for name in (_NEW, _OLD):
        os.mkdir(_BASE + name, 0o755)
    os.chdir(_BASE)
    _pivot(".", f".{_OLD}")
    os.chdir("/")
    _mount("tmpfs", _NEW, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        wanted = struct.pack("16sh22x", b"lo", _IFF_UP_AND_RUNNING)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, wanted)
    _allow_no_user_namespaces(filtered="--seccomp" in world.once)
    for step in world.steps:
        step()
    _mount("", _OLD, "", _MS_PRIVATE | _MS_REC)
    _call("leaving the old root", _LIBC.umount2(_OLD.encode(), _MNT_DETACH))
    os.chdir(_NEW)
    # The base becomes the root's own shadow, and goes with it.
    _pivot(".", ".")
    _call("leaving the base", _LIBC.umount2(b".", _MNT_DETACH))
    os.chdir("/")
    host = world.once["--hostname"].encode()
    _call("naming the machine", _LIBC.sethostname(host, ctypes.c_size_t(len(host))))


def _allow_no_user_namespaces(*, filtered: bool) -> None:
    try:
        with open(f"{_OLD}/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as limit:
            limit.write("0")
    except OSError:
        if not filtered:  # else the filter refuses them
            raise


def _pivot(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise _Refused(f"{os.uname().machine} is not a machine that this is known for")
    result = _LIBC.syscall(ctypes.c_long(number), new.encode(), old.encode())
    _call("changing the root", result)


def drop_privileges(program: bytes | None, writable: Iterable[str]) -> None:
    """Rule 3."""
    for capability in range(_HIGHEST_CAPABILITY + 1):
        if _control(_PR_CAPBSET_DROP, capability) != 0:
            break  # the kernel knows no more of them
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    number = ctypes.c_long(_SYS_CAPSET[os.uname().machine])
    _call("dropping privileges", _LIBC.syscall(number, header, bytes(24)))
    _call("refusing new privileges", _control(_PR_SET_NO_NEW_PRIVS, 1))
    write_only_below(writable)
    if program is not None:
        steps = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
        whole = ctypes.create_string_buffer(head, len(head))
        _call("filtering system calls", _control(_PR_SET_SECCOMP, 2, ctypes.addressof(whole)))


def write_only_below(places: Iterable[str]) -> bool:
    """The second wall of rule 3; False where the kernel has no Landlock. Half of one is refused."""
    version = _landlock(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    if version < _LEAST_LANDLOCK:
        return False
    of_files = _WRITE_FILE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    handled = of_files | _CHANGE_DIRECTORY | _REFER
    scoped = _SCOPED if version >= _SCOPED_SINCE else 0
    wanted = struct.pack("=QQQ", handled, 0, scoped) if scoped else struct.pack("=Q", handled)
    ruleset = _landlock(_LANDLOCK_CREATE, wanted, len(wanted), 0)
    _call("making the second wall", min(ruleset, 0))
    for place in places:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
        allowed = handled if os.path.isdir(place) else of_files
        added = _landlock(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, at), 0)
        _call(f"opening the second wall for {place}", added)
        os.close(at)
    _call("closing the second wall", _landlock(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)
    return True


def _landlock(number: int, *words: int | bytes | None) -> int:
    plain = (ctypes.c_long(word) if isinstance(word, int) else word for word in words)
    return int(_LIBC.syscall(ctypes.c_long(number), *plain))


def _control(option: int, first: int = 0, second: int = 0) -> int:
    words = (ctypes.c_ulong(word) for word in (first, second, 0, 0))
    return int(_LIBC.prctl(ctypes.c_int(option), *words))


def be_first(world: World, command: list[str], report: int) -> NoReturn:
    """The first process inside (rule 4); writes the command's exit code to `report`."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    program = _read_all(int(world.once["--seccomp"])) if "--seccomp" in world.once else None
    build(world)
    os.chdir(world.once["--chdir"])
    drop_privileges(program, world.writable)
    if not os.read(int(world.once["--block-fd"]), 1):
        os._exit(1)  # Silas has ended
    _control(_PR_SET_DUMPABLE, 0)
    reading_end, writing_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _execute(command, {**world.environ, "PWD": world.once["--chdir"]}, writing_end)
    os.close(writing_end)
    failed = _read_all(reading_end)
    code = _wait_for(child)
    if failed:
        sys.stderr.write(f"silas: execvp {command[0]}: {failed.decode()}\n")
        sys.stderr.flush()
        os._exit(1)
    os.write(report, str(code).encode())
    os._exit(code)


def _execute(command: list[str], environ: dict[str, str], writing_end: int) -> NoReturn:
    _control(_PR_SET_DUMPABLE, 1)
    os.dup2(writing_end, 3, inheritable=False)
    os.closerange(4, 1 << 20)
    # Python ignores these; a command would not expect it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606 - the command, in its sandbox
    except OSError as error:
        os.write(3, (error.strerror or "it cannot be executed").encode())
    os._exit(1)


def _wait_for(child: int) -> int:
    """The exit code of the command; whatever it left behind is taken in meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def main(arguments: list[str]) -> int:
    """`--args FD -- COMMAND …`; returns the exit code."""
    if len(arguments) < 4 or arguments[0] != "--args" or arguments[2] != "--":
        raise _Refused("it is started by Silas alone")
    command = arguments[3:]
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    world = World([os.fsdecode(word) for word in _read_all(int(arguments[1])).split(b"\0")[:-1]])
    status = int(world.once["--json-status-fd"])
    enter_namespaces(world.once["--uid"], world.once["--gid"])
    reading_end, report = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        os.close(reading_end)
        os.close(status)
        _as_first(world, command, report)
    os.close(report)
    os.write(status, json.dumps({"child-pid": first}).encode() + b"\n")
    code = _read_all(reading_end)
    _, ended = os.waitpid(first, 0)
    if code:
        os.write(status, json.dumps({"exit-code": int(code)}).encode() + b"\n")
    exit_code = os.waitstatus_to_exitcode(ended)
    return 128 - exit_code if exit_code < 0 else exit_code


def _as_first(world: World, command: list[str], report: int) -> NoReturn:
    try:
        be_first(world, command, report)
    except (OSError, _Refused) as error:
        _complain(error)
    os._exit(1)


def _complain(error: Exception) -> None:
    sys.stderr.write(f"silas: {error}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        ended_with = main(sys.argv[1:])
    except (OSError, _Refused) as problem:
        _complain(problem)
        ended_with = 1
    os._exit(ended_with)
