"""Linux calls of the sandbox's walls, through the C library.

A program that finds this module can only restrict itself further.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_PATH_BENEATH = 1
_KEEPCAPS, _SECCOMP = 8, 22
DIE_WITH_PARENT = 1, 9
"""Kill this process when the thread that forked it ends; a change of user id undoes this."""
HIDE = 4, 0
"""Hide this process's memory and descriptors in /proc from others of its user."""
ADOPT_ORPHANS = 36, 1
"""Become the parent of descendants whose parents ended."""
NO_NEW_PRIVILEGES = 38, 1
"""Gain no privileges by set-user-id programs; Landlock and seccomp require it."""
_CAPABILITY_VERSION = 0x20080522

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READING = READ_FILE | READ_DIR
"""Rights to read files and list folders, not to execute."""
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_SPECIAL = 1 << 6 | 1 << 9 | 1 << 11  # character devices, sockets, block devices

_libc = ctypes.CDLL(None, use_errno=True)
_prctl, _syscall, _capset = _libc.prctl, _libc.syscall, _libc.capset
_syscall.restype = ctypes.c_long


def landlock_abi() -> int:
    """Return Landlock's version; 0: none."""
    return max(0, int(_syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def all_rights(abi: int) -> int:
    """Return the rights on files that a version knows."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1


def writing(abi: int) -> int:
    """Return the rights on a program's own folder: no execution, devices or sockets."""
    return all_rights(abi) & ~(EXECUTE | IOCTL_DEV | _SPECIAL)


def truncation(abi: int) -> int:
    """Return the right to truncate, 0 before version 3."""
    return TRUNCATE & all_rights(abi)


def ruleset(abi: int, handled: int) -> int:
    """Create a ruleset that refuses the `handled` rights; return its descriptor.

    It also refuses TCP and signals to outside processes, if the version can.
    """
    fields = [handled]
    if abi >= 4:
        fields.append(3)  # bind and connect, TCP
    if abi >= 6:
        fields.append(3)  # abstract sockets and signals outside
    data = struct.pack(f"<{len(fields)}Q", *fields)
    arguments = (ctypes.c_long(_CREATE_RULESET), data, ctypes.c_size_t(len(data)), ctypes.c_uint32(0))
    return _checked(int(_syscall(*arguments)), "landlock_create_ruleset")


def allow(rules: int, path: str, rights: int) -> None:
    """Allow rights beneath a folder or on a file; ignore a missing path."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _ON_FILES
        rule = struct.pack("<Qi", rights, descriptor)
        arguments = (ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
        _checked(int(_syscall(ctypes.c_long(_ADD_RULE), *arguments)), "landlock_add_rule")
    finally:
        os.close(descriptor)


def restrict(abi: int, rules: int) -> None:
    # From version 7 on, keep refusals out of the audit log.
    flags = ctypes.c_uint32(1 if abi >= 7 else 0)
    result = _syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(rules), flags)
    _checked(int(result), "landlock_restrict_self")


def install_filter(code: bytes) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
    _checked(int(_prctl(_SECCOMP, ctypes.c_ulong(2), program, ctypes.c_ulong(0), ctypes.c_ulong(0))), "seccomp")


def become(user: int | None, capabilities: int) -> None:
    """Take a user's and group's id, no other groups, and only these capabilities.

    `user`: None keeps the ids. `capabilities`: a bit mask.
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
    zero = ctypes.c_ulong(0)
    _checked(int(_prctl(what, ctypes.c_ulong(value), zero, zero, zero)), f"prctl {what}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
