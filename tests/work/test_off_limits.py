"""Where no work happens: refused when a plan is bound, and once more when it is executed."""

import sys
from pathlib import Path

import pytest

import silas
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.tools.tree import FileRefused
from silas.work.binding import bind
from silas.work.errors import BindingBroken
from silas.work.off_limits import OffLimits
from silas.work.workspaces import Workspaces
from tests.work.shop import Shop, task

PACKAGE = Path(silas.__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "people" / "owner"
    for name in (".ssh", ".config/app", "silas", "project/.ssh", "data/work", "conf", ".aws"):
        (home / name).mkdir(parents=True)
    (home / "conf" / "silas.yaml").write_text("")
    return home


@pytest.fixture
def limits(home: Path) -> OffLimits:
    return OffLimits(home=home, own=(home / "data", home / "conf" / "silas.yaml"))


REFUSED = {
    "home itself": "{home}",
    "home with a detour": "{home}/project/..",
    "what holds the home": "{home}/..",
    "the root": "/",
    "keys": "{home}/.ssh",
    "credentials of a cloud": "{home}/.aws",
    "keys that are not there yet": "{home}/.gnupg",
    "configuration": "{home}/.config",
    "configuration of one program": "{home}/.config/app",
    "programs that start by themselves": "{home}/.config/autostart",
    "the keyring": "{home}/.local/share/keyrings",
    "a browser": "{home}/.mozilla/firefox/profile",
    "Silas's data": "{home}/data",
    "below Silas's data": "{home}/data/work",
    "Silas's configuration": "{home}/conf",
    "the system": "/etc",
    "below the system": "/usr/share/doc",
    "the kernel": "/proc/self",
    "devices": "/dev/shm",
    "sockets of the system": "/run/user",
    "databases of the system": "/var/lib/anything",
    "Silas's package": str(PACKAGE),
    "the approvals of the running install": str(PACKAGE / "approval"),
    "the repository of an editable install": str(PACKAGE.parent),
    "its tests": str(PACKAGE.parent / "tests"),
    "Silas's prefix": sys.prefix,
    "the Python below it": sys.base_prefix,
}


@pytest.mark.parametrize("place", REFUSED)
def test_no_work_happens_there(limits: OffLimits, home: Path, place: str) -> None:
    with pytest.raises(FileRefused, match=r"no place to work.*~/silas-files/NAME"):
        limits.require_allowed(Path(REFUSED[place].format(home=home)))


@pytest.mark.parametrize("place", ["silas", "silas/new", "project", "project/.ssh", "conf/other"])
def test_a_folder_in_the_home_is_fine(limits: OffLimits, home: Path, place: str) -> None:
    limits.require_allowed(home / place)


def test_a_link_to_the_keys_is_the_keys(limits: OffLimits, home: Path) -> None:
    (home / "innocent").symlink_to(".ssh")
    (home / "project" / "deep").symlink_to("../../owner")
    for path in (home / "innocent", home / "project" / "deep"):
        with pytest.raises(FileRefused):
            limits.require_allowed(path)


def test_where_keys_really_lie_is_off_limits_too(limits: OffLimits, home: Path) -> None:
    (home / "dotfiles" / "gnupg").mkdir(parents=True)
    (home / ".gnupg").symlink_to(home / "dotfiles" / "gnupg")
    for path in (home / "dotfiles", home / "dotfiles" / "gnupg"):
        with pytest.raises(FileRefused):
            limits.require_allowed(path)


def test_a_home_under_another_name_is_the_home(limits: OffLimits, home: Path, monkeypatch) -> None:
    """As with a second mount: another path, and the same directory on the disk."""
    other = home.parent / "other"
    (other / "inside").mkdir(parents=True)
    real = Path.stat

    def stat(self: Path, **options: bool):
        same = home if self == other else home / ".ssh" if self == other / "inside" else self
        return real(same, **options)

    monkeypatch.setattr(Path, "stat", stat)
    for path in (other, other / "inside"):
        with pytest.raises(FileRefused):
            limits.require_allowed(path)


async def test_such_a_plan_is_never_shown(limits: OffLimits, home: Path) -> None:
    for place in ("{home}", "{home}/.ssh", "{home}/data", "{home}/conf", str(PACKAGE)):
        item = task(workspace={"path": place.format(home=home)})
        with pytest.raises(BindingBroken, match="no place to work"):
            await bind(item, base=home, off_limits=limits)


async def test_an_approval_from_before_does_not_open_them(
    shop: Shop, limits: OffLimits, home: Path, tmp_path: Path
) -> None:
    """A card that was signed before a place became Silas's own leads nowhere."""
    shop.having(
        workspaces=Workspaces(tmp_path / "work", sandbox=BubblewrapBackend(), off_limits=limits)
    )
    result = await shop.run(task(workspace={"path": str(home / ".ssh")}))
    assert "no place to work" in (result.last_error or "")
