"""The list of allowed system calls: their numbers are the kernel's, and the filter allows exactly these, its code executed here."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest

from remedy.data_gen.execution import seccomp


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_numbers_of_system_calls_are_the_kernels(machine: str) -> None:
    column, _ = seccomp.ARCHITECTURES[machine]
    header = Path("/usr/include/asm-generic/unistd.h" if column else "/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip(f"no {header}")
    found = dict(re.findall(r"#define __NR3?2?6?4?_?(\w+)\s+(\d+)", header.read_text()))
    tables = seccomp._PLAIN + seccomp._CHECKED + seccomp._METADATA + seccomp._ATTRIBUTES + seccomp._ABSENT
    renamed = {"lseek": "3264_lseek"}
    known = 0
    for name, number in seccomp.numbers(tables, column).items():
        for kernels in (name, renamed.get(name, name), f"3264_{name}"):
            if kernels in found:
                assert int(found[kernels]) == number, name
                known += 1
                break
    assert known > 100


def decide(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What a filter returns for a call: classic BPF, executed."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    instructions = list(struct.iter_unpack("<HBBI", code))
    accumulator = position = 0
    while True:
        what, yes, no, constant = instructions[position]
        position += 1
        if what == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif what == 0x54:
            accumulator &= constant
        elif what == 0x15:
            position += yes if accumulator == constant else no
        elif what == 0x35:
            position += yes if accumulator >= constant else no
        elif what == 0x05:
            position += constant
        else:
            assert what == 0x06
            return constant


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
@pytest.mark.parametrize("open_to", [False, True])
def test_the_filter_allows_exactly_its_list(machine: str, open_to: bool) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    code = seccomp.compile_filter(machine, metadata=open_to, truncate=open_to)
    assert code is not None
    assert code.count(struct.pack("<I", seccomp._SELF)) == 3
    code = seccomp.for_process(code, 4242)
    plain = set(seccomp.numbers(seccomp._PLAIN + (seccomp._METADATA if open_to else ""), column).values())
    checked = seccomp.numbers(seccomp._CHECKED, column)
    for number in [*range(600), 0x3FFFFFFF, 0x40000000, 0x40000208, 0xFFFFFFFF - (1 << 31)]:
        allowed = decide(code, architecture, number) == 0x7FFF0000
        if number not in checked.values():
            assert allowed == (number in plain), number
        assert decide(code, 0x40000003, number) == 0x80000000  # another architecture's call ends the program
    for name, arguments, allowed in (
        ("openat", (0, 0, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), True),
        ("openat", (0, 0, os.O_TRUNC), False),
        ("openat", (0, 0, 3), False),
        ("kill", (4242, 9), True),
        ("kill", (4243, 9), False),
        ("kill", (0xFFFFFFFF, 9), False),
        ("tgkill", (4242, 1, 6), True),
        ("tgkill", (1, 1, 6), False),
        ("socketpair", (1, 0x80801), True),
        ("socketpair", (1, 2), False),
        ("socketpair", (2, 1), False),
        ("sendto", (3, 4, 5, 0, 0), True),
        ("sendto", (3, 4, 5, 0, 1 << 40), False),
        ("prlimit64", (0, 7, 0), True),
        ("prlimit64", (0, 7, 1), False),
        ("prlimit64", (1, 7, 0), False),
        ("fcntl", (0, 3), True),
        ("fcntl", (0, 8), False),
        ("fcntl", (0, 10), False),
        ("prctl", (15,), True),
        ("prctl", (4,), False),
        ("fallocate", (3, 0), True),
        ("fallocate", (3, 1), False),
        ("truncate", (), open_to),
        ("renameat2", (0, 1, 2, 3, 2), True),
        ("renameat2", (0, 1, 2, 3, 4), False),
    ):
        assert (decide(code, architecture, checked[name], *arguments) == 0x7FFF0000) == allowed, (name, arguments)
