"""The Linux calls behind the sandbox's walls, through the C library: prctl, Landlock, seccomp, capabilities.

The server binds them before it forks; a program that finds them can only restrict itself further. It stays light.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_PATH_BENEATH = 1
_KEEPCAPS, _SECCOMP = 8, 22
DIE_WITH_PARENT = 1, 9
"""Be killed when the thread that forked this process ends. A change of user id undoes it."""
HIDE = 4, 0
"""Close this process's memory and descriptors in /proc to others of its user."""
ADOPT_ORPHANS = 36, 1
"""Processes whose parents ended come to this one."""
NO_NEW_PRIVILEGES = 38, 1
"""No set-user-id program raises privileges any more; Landlock and seccomp ask for it."""
_CAPABILITY_VERSION = 0x20080522

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READING = READ_FILE | READ_DIR
"""Rights to read files and list folders. Nothing may be executed."""
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_SPECIAL = 1 << 6 | 1 << 9 | 1 << 11  # character devices, sockets, block devices

_libc = ctypes.CDLL(None, use_errno=True)
_prctl, _syscall, _capset = _libc.prctl, _libc.syscall, _libc.capset
_syscall.restype = ctypes.c_long


def landlock_abi() -> int:
    """Landlock's version here, 0 where the kernel has none or has it switched off."""
    return max(0, int(_syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def all_rights(abi: int) -> int:
    """The rights on files that a version of Landlock knows."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1


def writing(abi: int) -> int:
    """The rights that a folder of one's own needs: all but execution, device files and sockets."""
    return all_rights(abi) & ~(EXECUTE | IOCTL_DEV | _SPECIAL)


def truncation(abi: int) -> int:
    """The right to truncate, from version 3 on."""
    return TRUNCATE & all_rights(abi)


def ruleset(abi: int, handled: int) -> int:
    """A descriptor of a new ruleset that refuses `handled` rights on files, and TCP and signals to others where the version can."""
    fields = [handled]
    if abi >= 4:
        fields.append(3)  # bind and connect, TCP
    if abi >= 6:
        fields.append(3)  # abstract sockets and signals outside
    data = struct.pack(f"<{len(fields)}Q", *fields)
    arguments = (ctypes.c_long(_CREATE_RULESET), data, ctypes.c_size_t(len(data)), ctypes.c_uint32(0))
    return _checked(int(_syscall(*arguments)), "landlock_create_ruleset")


def allow(rules: int, path: str, rights: int) -> None:
    """Allow rights beneath a folder, or on a file; a path that is not there is none."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _ON_FILES
        rule = struct.pack("<Qi", rights, place)
        arguments = (ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
        _checked(int(_syscall(ctypes.c_long(_ADD_RULE), *arguments)), "landlock_add_rule")
    finally:
        os.close(place)


def restrict(abi: int, rules: int) -> None:
    """Enter a ruleset, for good. From version 7 on without a line in the audit log for every refusal."""
    flags = ctypes.c_uint32(1 if abi >= 7 else 0)
    found = _syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(rules), flags)
    _checked(int(found), "landlock_restrict_self")


def install_filter(code: bytes) -> None:
    """Enter a seccomp filter, for good."""
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(held))
    _checked(int(_prctl(_SECCOMP, ctypes.c_ulong(2), program, ctypes.c_ulong(0), ctypes.c_ulong(0))), "seccomp")


def become(user: int | None, capabilities: int) -> None:
    """Take another user's and group's id, if one is given, no further groups, and only these capabilities (a bit mask).

    Raises:
        OSError: this process may not, or the id is none here.
    """
    if user is not None:
        if capabilities:
            control(_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    sets = struct.pack("<6I", capabilities, capabilities, 0, 0, 0, 0)
    _checked(int(_capset(header, sets)), "capset")


def control(what: int, value: int) -> None:
    """Change what holds for this process: one of the constants above."""
    zero = ctypes.c_ulong(0)
    _checked(int(_prctl(what, ctypes.c_ulong(value), zero, zero, zero)), f"prctl {what}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
