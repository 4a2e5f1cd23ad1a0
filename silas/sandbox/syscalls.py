"""System calls that nothing in a sandbox needs, with their numbers on each architecture.

The numbers come from the kernel's headers (`asm/unistd_64.h` for x86_64, `asm-generic/unistd.h`
for aarch64) and never change. `None` means that the architecture does not have the call.
"""

from typing import NamedTuple


class Numbers(NamedTuple):
    """One system call's number per architecture."""

    x86_64: int | None
    aarch64: int | None


def _table(**calls: tuple[int | None, int | None]) -> dict[str, Numbers]:
    return {name: Numbers(*numbers) for name, numbers in calls.items()}


LOOKING_INTO_PROCESSES = _table(
    ptrace=(101, 117),
    process_vm_readv=(310, 270),
    process_vm_writev=(311, 271),
    kcmp=(312, 272),
    # With it, a command could take the file descriptor through which bubblewrap's first process
    # reports the exit code.
    pidfd_getfd=(438, 438),
)
MOUNTS = _table(
    mount=(165, 40),
    umount2=(166, 39),
    pivot_root=(155, 41),
    chroot=(161, 51),
    move_mount=(429, 429),
    open_tree=(428, 428),
    open_tree_attr=(467, 467),
    fsopen=(430, 430),
    fsconfig=(431, 431),
    fsmount=(432, 432),
    fspick=(433, 433),
    mount_setattr=(442, 442),
)
NAMESPACES = _table(unshare=(272, 97), setns=(308, 268))
KEYS = _table(add_key=(248, 217), request_key=(249, 218), keyctl=(250, 219))
KERNEL_INTERFACES = _table(
    bpf=(321, 280),
    io_uring_setup=(425, 425),
    io_uring_enter=(426, 426),
    io_uring_register=(427, 427),
    userfaultfd=(323, 282),
    perf_event_open=(298, 241),
    fanotify_init=(300, 262),
    kexec_load=(246, 104),
    kexec_file_load=(320, 294),
    init_module=(175, 105),
    finit_module=(313, 273),
    delete_module=(176, 106),
    create_module=(174, None),
    query_module=(178, None),
    get_kernel_syms=(177, None),
    syslog=(103, 116),
    lookup_dcookie=(212, 18),
    nfsservctl=(180, 42),
    sysfs=(139, None),
    _sysctl=(156, None),
    uselib=(134, None),
    ustat=(136, None),
    modify_ldt=(154, None),
    move_pages=(279, 239),
    migrate_pages=(256, 238),
)
FILE_HANDLES = _table(name_to_handle_at=(303, 264), open_by_handle_at=(304, 265))
THE_MACHINE = _table(
    reboot=(169, 142),
    swapon=(167, 224),
    swapoff=(168, 225),
    quotactl=(179, 60),
    quotactl_fd=(443, 443),
    acct=(163, 89),
    settimeofday=(164, 170),
    clock_settime=(227, 112),
    clock_adjtime=(305, 266),
    adjtimex=(159, 171),
    sethostname=(170, 161),
    setdomainname=(171, 162),
    iopl=(172, None),
    ioperm=(173, None),
    vhangup=(153, 58),
)

# Refused with "no such system call", so that a C library falls back to a call that can be judged.
ABSENT = _table(
    clone3=(435, 435),
    openat2=(437, 437),
    memfd_create=(319, 279),
    memfd_secret=(447, 447),
)

# Allowed or refused by their arguments: see the rules in `seccomp`.
JUDGED = _table(
    clone=(56, 220),
    socket=(41, 198),
    ioctl=(16, 29),
    mknod=(133, None),
    mknodat=(259, 33),
    chmod=(90, None),
    fchmod=(91, 52),
    fchmodat=(268, 53),
    fchmodat2=(452, 452),
    open=(2, None),
    openat=(257, 56),
    creat=(85, None),
)

REFUSED = (
    LOOKING_INTO_PROCESSES
    | MOUNTS
    | NAMESPACES
    | KEYS
    | KERNEL_INTERFACES
    | FILE_HANDLES
    | THE_MACHINE
)
ALL = REFUSED | ABSENT | JUDGED
