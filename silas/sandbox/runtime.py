"""What every sandbox sees of the machine: programs and libraries, and nobody's data."""

import sys
from functools import cache
from pathlib import Path

from silas.sandbox.models import TEMPORARY, SandboxRequest, is_within

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
USER_ID = 1000
HOSTNAME = "sandbox"

_USER = "user"
ETC_FILES: dict[str, str] = {
    "/etc/passwd": f"{_USER}:x:{USER_ID}:{USER_ID}:{_USER}:{TEMPORARY}:/bin/sh\n",
    "/etc/group": f"{_USER}:x:{USER_ID}:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_SYSTEM_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
# Never the whole of /etc/ssl: it also holds private keys.
_NETWORK_FILES = (
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
)


def environment(request: SandboxRequest) -> dict[str, str]:
    """The command's whole environment: a small fixed one, and what the request says."""
    return {
        "PATH": SYSTEM_PATH,
        "HOME": TEMPORARY,
        "TMPDIR": TEMPORARY,
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        **request.env,
    }


@cache
def system_links() -> dict[str, str]:
    """Directories of the root that are links on this machine (`/bin` to `usr/bin`)."""
    links = [Path(root) for root in _SYSTEM_ROOTS if Path(root).is_symlink()]
    return {str(link): str(link.readlink()) for link in links}


@cache
def system_directories() -> tuple[str, ...]:
    """Directories with programs and libraries, shown read-only."""
    roots = [root for root in _SYSTEM_ROOTS if Path(root).is_dir() and not Path(root).is_symlink()]
    return ("/usr", *roots, *python_prefix())


@cache
def python_prefix() -> tuple[str, ...]:
    """The Python that runs Silas, if it lives outside the system's directories."""
    prefix = str(Path(sys.base_prefix).resolve())
    holds_home = is_within(str(Path.home().resolve()), prefix)
    if prefix == "/" or is_within(prefix, "/usr") or holds_home:
        return ()
    return (prefix,)


def python_executable() -> str:
    """A Python that exists inside every sandbox."""
    if not python_prefix() and not is_within(str(Path(sys.base_prefix).resolve()), "/usr"):
        return "/usr/bin/python3"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix).resolve() / "bin" / name)


@cache
def configuration_files(*, network: bool) -> tuple[str, ...]:
    """Files below /etc that programs need; those for the network only with it."""
    names = (*_SYSTEM_FILES, *_NETWORK_FILES) if network else _SYSTEM_FILES
    return tuple(name for name in names if Path(name).exists())
