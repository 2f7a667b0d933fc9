"""Seccomp filter of the system calls that a traced program may make.

All others are refused. Numbers are the kernel's (arch/x86/entry/syscalls/syscall_64.tbl,
include/uapi/asm-generic/unistd.h). Other architectures have no filter.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from typing import NamedTuple

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables below, and the kernel's AUDIT_ARCH number."""

# name:x86_64:aarch64. Not here, so refused: new processes and threads, programs (exec), sockets, signals to others, ptrace and other
# processes' memory, pidfd, io_uring, mounts and namespaces, device files, keys, bpf, perf, shared memory, the machine's settings.
_PLAIN = """
read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 preadv:295:69 pwritev:296:70
preadv2:327:286 pwritev2:328:287 lseek:8:62 close:3:57 close_range:436:436 creat:85:- dup:32:23 dup2:33:- dup3:292:24
pipe:22:- pipe2:293:59 sendfile:40:71 copy_file_range:326:285 fadvise64:221:223 ftruncate:77:46 flock:73:32
fsync:74:82 fdatasync:75:83 stat:4:- fstat:5:80 lstat:6:- newfstatat:262:79 statx:332:291 statfs:137:43 fstatfs:138:44
access:21:- faccessat:269:48 faccessat2:439:439 readlink:89:- readlinkat:267:78 getdents:78:- getdents64:217:61
getcwd:79:17 chdir:80:49 fchdir:81:50 umask:95:166 rename:82:- renameat:264:38 mkdir:83:-
mkdirat:258:34 rmdir:84:- link:86:- linkat:265:37 unlink:87:- unlinkat:263:35 symlink:88:- symlinkat:266:36
mmap:9:222 munmap:11:215 mremap:25:216 mprotect:10:226 madvise:28:233 msync:26:227 brk:12:214 membarrier:324:283
futex:202:98 set_robust_list:273:99 rseq:334:293 set_tid_address:218:96 rt_sigaction:13:134 rt_sigprocmask:14:135
rt_sigreturn:15:139 rt_sigpending:127:136 rt_sigtimedwait:128:137 rt_sigsuspend:130:133 sigaltstack:131:132
restart_syscall:219:128 poll:7:- ppoll:271:73 select:23:- pselect6:270:72 epoll_create:213:- epoll_create1:291:20
epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22 epoll_pwait2:441:441 eventfd:284:- eventfd2:290:19
timerfd_create:283:85 timerfd_settime:286:86 timerfd_gettime:287:87 recvfrom:45:207 shutdown:48:210
getsockname:51:204 getpeername:52:205 getsockopt:55:209 pause:34:- nanosleep:35:101 clock_nanosleep:230:115
clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 time:201:- times:100:153 alarm:37:- getitimer:36:102
setitimer:38:103 getpid:39:172 gettid:186:178 getppid:110:173 getuid:102:174 geteuid:107:175 getgid:104:176
getegid:108:177 getresuid:118:148 getresgid:120:150 getgroups:115:158 getpgrp:111:- getpgid:121:155 getsid:124:156
getpriority:140:141 capget:125:90 uname:63:160 sysinfo:99:179 getrusage:98:165 getrlimit:97:163 sched_yield:24:124
sched_getaffinity:204:123 sched_getparam:143:121 sched_getscheduler:145:120 sched_get_priority_max:146:125
sched_get_priority_min:147:126 getcpu:309:168 getrandom:318:278 wait4:61:260 waitid:247:95 exit:60:93 exit_group:231:94
"""
# Their arguments decide, see `_RULES`.
_CHECKED = """
open:2:- openat:257:56 fcntl:72:25 ioctl:16:29 fallocate:285:47 truncate:76:45 kill:62:129 tgkill:234:131 socketpair:53:199
sendto:44:206 prlimit64:302:261 prctl:157:167 renameat2:316:276
"""
# Landlock does not restrict these: they are for a process that owns nothing outside its folder.
_METADATA = """
chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54
utime:132:- utimes:235:- futimesat:261:- utimensat:280:88
"""
# Refused as a file system without extended attributes does, which shutil.copy2 takes for an answer.
_ATTRIBUTES = """
getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11 llistxattr:195:12 flistxattr:196:13 setxattr:188:5
lsetxattr:189:6 fsetxattr:190:7 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16
"""
# Refused as on a kernel that does not have them: the C library then takes the older call.
_ABSENT = "clone3:435:435 openat2:437:437"

_ALL = 0xFFFFFFFF
_SELF = 0x7FFFFFF7  # stands for the program's own process id, which is known after the fork
_STREAM = 1  # SOCK_STREAM: a pair of datagram sockets could be connected elsewhere


class _Check(NamedTuple):
    """Condition on a 32-bit half of an argument, after a mask."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL
    among: bool = True
    high: int = 0


def _null(argument: int) -> tuple[_Check, _Check]:
    return _Check(argument, (0,)), _Check(argument, (0,), high=1)


# Truncation by an open for reading, and access mode 3, which asks Landlock for nothing.
_TRICKS = (os.O_TRUNC, os.O_TRUNC | 3, 3)
_RULES = {
    "open": (_Check(1, _TRICKS, os.O_TRUNC | 3, among=False),),
    "openat": (_Check(2, _TRICKS, os.O_TRUNC | 3, among=False),),
    # Duplicates, flags, locks; not F_SETOWN and F_SETSIG, by which the kernel sends signals to others.
    "fcntl": (_Check(1, (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)),),
    # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX
    "ioctl": (_Check(1, (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5451, 0x5450)),),
    "fallocate": (_Check(1, (0,)),),  # with KEEP_SIZE it passes the limit on a file's size
    "kill": (_Check(0, (_SELF,)),),
    "tgkill": (_Check(0, (_SELF,)),),
    "socketpair": (_Check(0, (1,)), _Check(1, (_STREAM,), 0xF)),
    "sendto": _null(4),
    "prlimit64": (_Check(0, (0, _SELF)), *_null(2)),
    "prctl": (_Check(0, (15, 16)),),  # a thread's name
    "renameat2": (_Check(4, (0, 1, 2)),),  # not RENAME_WHITEOUT, which makes a device file
}

_LOAD, _AND, _EQUAL, _AT_LEAST, _JUMP, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x05, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant: the kernel's `sock_filter`."""


def compile_filter(machine: str, metadata: bool, truncate: bool) -> bytes | None:
    """Compile the filter for an architecture; None if it has no table.

    `metadata`: allow changes of modes, owners and times. `truncate`: allow truncation by path, if something else restricts
    it.
    """
    if machine not in ARCHITECTURES or struct.calcsize("P") != 8:
        return None
    column, architecture = ARCHITECTURES[machine]
    allow, refuse = [(_RETURN, 0, 0, _ALLOW)], _refusal(errno.EPERM)
    leaves: dict[int, list[Instruction]] = {}
    for table, leaf in (
        (_PLAIN, allow),
        (_METADATA, allow if metadata else refuse),
        (_ATTRIBUTES, _refusal(errno.ENOTSUP)),
        (_ABSENT, _refusal(errno.ENOSYS)),
    ):
        leaves |= dict.fromkeys(numbers(table, column).values(), leaf)
    for name, number in numbers(_CHECKED, column).items():
        checks = _RULES.get(name, ())
        leaves[number] = _checked(checks) if checks or truncate else refuse
    steps: list[tuple[int, list[Instruction]]] = [(0, refuse)]
    for number in range(max(leaves) + 2):
        leaf = leaves.get(number, refuse)
        if leaf is not steps[-1][1]:
            steps.append((number, leaf))
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if column == 0:
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code + _search(steps))


def for_process(code: bytes, process: int) -> bytes:
    """Put a program's process id into the filter's rules."""
    return code.replace(struct.pack("<I", _SELF), struct.pack("<I", process))


def native_filter(metadata: bool, truncate: bool) -> bytes | None:
    return compile_filter(platform.machine(), metadata, truncate)


def numbers(table: str, column: int) -> dict[str, int]:
    """Map the system calls of a table to their numbers."""
    rows = (row.split(":") for row in table.split())
    return {name: int(columns[column]) for name, *columns in rows if columns[column] != "-"}


def _refusal(error: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _REFUSE | error)]


def _checked(checks: tuple[_Check, ...]) -> list[Instruction]:
    code: list[Instruction] = []
    for check in checks:
        code.append((_LOAD, 0, 0, 16 + 8 * check.argument + 4 * check.high))
        if check.mask != _ALL:
            code.append((_AND, 0, 0, check.mask))
        left = len(check.values)
        for value in check.values:
            code.append((_EQUAL, left, 0, value))
            left -= 1
        if not check.among:
            code.append((_JUMP, 0, 0, 1))
        code += _refusal(errno.EPERM)
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _search(steps: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(steps) == 1:
        return steps[0][1]
    middle = len(steps) // 2
    below, above = _search(steps[:middle]), _search(steps[middle:])
    if len(below) < 256:
        return [(_AT_LEAST, len(below), 0, steps[middle][0]), *below, *above]
    return [(_AT_LEAST, 0, 1, steps[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]
