"""Programs that try to get out, in families. `PLACES` stand for what they try to reach; each is the body of a traced `main`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# What a driver fills in: a file with a secret, its folder, TCP ports, a unix socket's path, a process to kill, the parent's id.
PLACES = ("FOLDER", "SECRET", "PORT", "SOCKET", "ABSTRACT", "VICTIM", "PARENT")

_WRITES = {
    "open": "open(FOLDER + '/new', 'w').write('x')",
    "append to the secret": "open(SECRET, 'a').write('x')",
    "truncate the secret by opening it": "open(SECRET, 'w')",
    "open for reading and truncate": "os.open(SECRET, os.O_RDONLY | os.O_TRUNC)",
    "open with access mode 3": "os.open(SECRET, 3)",
    "open with access mode 3 and truncate": "os.open(SECRET, 3 | os.O_TRUNC)",
    "bytes path": "open(FOLDER.encode() + b'/new', 'wb')",
    "path object": "import pathlib; pathlib.Path(FOLDER, 'new').write_text('x')",
    "io.FileIO": "import io; io.FileIO(FOLDER + '/new', 'w')",
    "io.open_code": "import io; io.open_code(SECRET).read()",
    "os.open": "os.open(FOLDER + '/new', os.O_CREAT | os.O_WRONLY)",
    "os.open without a name": "os.open(FOLDER, os.O_TMPFILE | os.O_RDWR)",
    "os.open by dir_fd": "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=os.open(FOLDER, 0))",
    "os.open by a path-only dir_fd": "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=os.open(FOLDER, os.O_PATH))",
    "mkdir": "os.mkdir(FOLDER + '/new')",
    "mkdir by dir_fd": "os.mkdir('new', dir_fd=os.open(FOLDER, os.O_PATH))",
    "makedirs": "os.makedirs(FOLDER + '/new/er')",
    "remove": "os.remove(SECRET)",
    "remove by dir_fd": "os.remove('secret', dir_fd=os.open(FOLDER, os.O_PATH))",
    "unlink by pathlib": "import pathlib; pathlib.Path(SECRET).unlink()",
    "rmdir": "os.rmdir(FOLDER + '/empty')",
    "rmdir by dir_fd": "os.rmdir('empty', dir_fd=os.open(FOLDER, os.O_PATH))",
    "rmtree": "import shutil; shutil.rmtree(FOLDER)",
    "rmtree, errors ignored": "import shutil; shutil.rmtree(FOLDER, ignore_errors=True)",
    "rmtree from inside": "import shutil; os.chdir(FOLDER); shutil.rmtree('.')",
    "rmtree by way of the parent's name": "import shutil; os.chdir(FOLDER); shutil.rmtree('../' + os.path.basename(FOLDER))",
    "rename out": "open('a', 'w').close(); os.rename('a', FOLDER + '/new')",
    "rename in": "os.rename(SECRET, 'mine')",
    "rename in by dir_fd": "os.rename('secret', 'mine', src_dir_fd=os.open(FOLDER, os.O_PATH))",
    "replace": "open('a', 'w').close(); os.replace('a', SECRET)",
    "exchange folders": "os.rename(FOLDER, 'theirs')",
    "link in": "os.link(SECRET, 'mine'); open('mine', 'a').write('x')",
    "link out": "open('a', 'w').close(); os.link('a', FOLDER + '/new')",
    "link by descriptor": "open('a', 'w').close(); os.link('/proc/self/fd/%d' % os.open('a', 0), FOLDER + '/new')",
    "symlink out": "os.symlink('/', FOLDER + '/new')",
    "write through a symlink": "os.symlink(FOLDER, 'in'); open('in/new', 'w')",
    "write through a symlink to the file": "os.symlink(SECRET, 'in'); open('in', 'w')",
    "write through nested symlinks": "os.symlink(FOLDER, 'a'); os.symlink('a', 'b'); open('b/new', 'w')",
    "write beside one's own folder": "open('../new', 'w')",
    "mkdir beside one's own folder": "os.mkdir('../new')",
    "chdir and write": "os.chdir(FOLDER); open('new', 'w')",
    "fchdir and write": "os.fchdir(os.open(FOLDER, os.O_PATH)); open('new', 'w')",
    "chroot": "os.chroot(FOLDER)",
    "truncate": "os.truncate(SECRET, 0)",
    "truncate by descriptor": "os.truncate(os.open(SECRET, os.O_RDONLY), 0)",
    "ftruncate": "os.ftruncate(os.open(SECRET, os.O_RDONLY), 0)",
    "chmod": "os.chmod(SECRET, 0o777)",
    "chmod to nothing": "os.chmod(FOLDER, 0)",
    "chmod by dir_fd": "os.chmod('secret', 0o777, dir_fd=os.open(FOLDER, os.O_PATH))",
    "fchmod": "os.fchmod(os.open(FOLDER, os.O_RDONLY), 0)",
    "fchmod of a path-only descriptor": "os.fchmod(os.open(SECRET, os.O_PATH), 0)",
    "fchmod of an interpreter's file": "os.fchmod(os.open(os.__file__, 0), 0o777)",
    "fchmod of the null device": "os.fchmod(0, 0o600)",
    "chmod of the null device": "os.chmod('/dev/null', 0o600)",
    "chown": "os.chown(SECRET, 1, 1)",
    "lchown": "os.lchown(SECRET, 1, 1)",
    "fchown": "os.fchown(os.open(os.__file__, 0), 1, 1)",
    "utime": "os.utime(SECRET, (1, 1))",
    "utime by dir_fd": "os.utime('secret', (1, 1), dir_fd=os.open(FOLDER, os.O_PATH))",
    "utime by descriptor": "os.utime(os.open(os.__file__, 0), (1, 1))",
    "setxattr": "os.setxattr(SECRET, 'user.x', b'x')",
    "removexattr": "os.removexattr(SECRET, 'user.kept')",
    "setxattr by descriptor": "os.setxattr(os.open(os.__file__, 0), 'user.x', b'x')",
    "mkfifo": "os.mkfifo(FOLDER + '/new')",
    "mkfifo by dir_fd": "os.mkfifo('new', dir_fd=os.open(FOLDER, os.O_PATH))",
    "mknod of a file": "os.mknod(FOLDER + '/new')",
    "mknod of a device": "import stat; os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0)); open('disk', 'rb').read(9)",
    "sqlite3": "import sqlite3; sqlite3.connect(FOLDER + '/new').execute('create table t (x)')",
    "sqlite3 by URI": "import sqlite3; sqlite3.connect('file:' + FOLDER + '/new', uri=True).execute('create table t (x)')",
    "sqlite3 attach": "import sqlite3; c = sqlite3.connect(':memory:'); c.execute(\"attach '%s/new' as n\" % FOLDER); c.execute('create table n.t (x)')",
    "sqlite3 vacuum into": "import sqlite3; sqlite3.connect(':memory:').execute(\"vacuum into '%s/new'\" % FOLDER)",
    "dbm": "import dbm.dumb; dbm.dumb.open(FOLDER + '/new', 'c')['a'] = 'b'",
    "shelve": "import shelve; shelve.open(FOLDER + '/new')['a'] = 1",
    "readline": "import readline; readline.add_history('x'); readline.write_history_file(FOLDER + '/new')",
    "readline on the secret": "import readline; readline.write_history_file(SECRET)",
    "ssl key log": "import ssl; ssl.create_default_context().keylog_filename = FOLDER + '/new'",
    "logging": "import logging; logging.FileHandler(FOLDER + '/new').emit(logging.LogRecord('a', 50, '', 1, 'x', (), None))",
    "shutil.copy": "import shutil; shutil.copy(os.__file__, FOLDER + '/new')",
    "shutil.move": "import shutil; shutil.move(SECRET, 'mine')",
    "shutil.make_archive": "import shutil; shutil.make_archive(FOLDER + '/new', 'tar', '.')",
    "tarfile": "import tarfile; tarfile.open(FOLDER + '/new', 'w').close()",
    "zipfile extraction": "import zipfile\nwith zipfile.ZipFile('z', 'w') as z: z.writestr('new', 'x')\nzipfile.ZipFile('z').extractall(FOLDER)",
    "tempfile": "import tempfile; tempfile.NamedTemporaryFile(dir=FOLDER, delete=False)",
    "mkdtemp": "import tempfile; tempfile.mkdtemp(dir=FOLDER)",
    "compileall": "import py_compile; py_compile.compile(os.__file__, cfile=FOLDER + '/new')",
    "cProfile": "import cProfile; cProfile.run('1', FOLDER + '/new')",
    "tracemalloc": "import tracemalloc; tracemalloc.start(); tracemalloc.take_snapshot().dump(FOLDER + '/new')",
    "faulthandler": "import faulthandler; faulthandler.enable(open(FOLDER + '/new', 'w'))",
    "fileinput in place": "import fileinput\nfor line in fileinput.input(SECRET, inplace=True): print('x')",
    "named shared memory": "from multiprocessing import shared_memory; shared_memory.SharedMemory('remedy_left', create=True, size=9)",
    "shm_open": "import _posixshmem; _posixshmem.shm_open('/remedy_left', os.O_CREAT | os.O_RDWR, 0o600)",
    "a file of /dev/shm": "open('/dev/shm/remedy_left', 'w')",
    "named semaphore": "import _multiprocessing; _multiprocessing.SemLock(1, 1, 1, '/remedy_left', False)",
    "the interpreter's library": "open(os.__file__, 'a').write('\\n')",
    "a new module for the interpreter": "open(os.path.dirname(os.__file__) + '/remedy_left.py', 'w')",
    "a byte-code cache": "import sys, importlib; sys.dont_write_bytecode = False; open('m.py', 'w').close(); sys.path.insert(0, '.'); import m",
    "the message of the day": "open('/etc/motd', 'a')",
    "the kernel's settings": "open('/proc/sys/kernel/core_pattern', 'w').write('|x')",
    "one's own out-of-memory score": "open('/proc/self/oom_score_adj', 'w').write('-1000')",
    "a control group": "os.mkdir('/sys/fs/cgroup/remedy_left')",
    "a device": "open('/dev/mem', 'wb')",
    "a terminal": "open('/dev/tty', 'w').write('x')",
}

_READS = {
    "open": "open(SECRET).read()",
    "os.open": "os.read(os.open(SECRET, os.O_RDONLY), 99)",
    "os.open by dir_fd": "os.read(os.open('secret', os.O_RDONLY, dir_fd=os.open(FOLDER, os.O_PATH)), 99)",
    "through a symlink": "os.symlink(SECRET, 's'); open('s').read()",
    "through a symlink to the folder": "os.symlink(FOLDER, 's'); open('s/secret').read()",
    "through /proc/self/root": "open('/proc/self/root' + SECRET).read()",
    "through /proc/self/cwd": "os.chdir(FOLDER); open('/proc/self/cwd/secret').read()",
    "through /proc/self/fd": "open('/proc/self/fd/%d' % os.open(SECRET, os.O_PATH)).read()",
    "reopened from a path-only descriptor": "os.read(os.open('', 0, dir_fd=os.open(SECRET, os.O_PATH)), 99)",
    "chdir": "os.chdir(FOLDER); open('secret').read()",
    "link": "os.link(SECRET, 'l'); open('l').read()",
    "copyfile": "import shutil; shutil.copyfile(SECRET, 'mine'); open('mine').read()",
    "copy of the tree": "import shutil; shutil.copytree(FOLDER, 'tree'); open('tree/secret').read()",
    "sendfile": "w = os.open('mine', os.O_CREAT | os.O_RDWR); os.sendfile(w, os.open(SECRET, 0), 0, 99); open('mine').read()",
    "mmap": "import mmap; mmap.mmap(os.open(SECRET, 0), 0, prot=mmap.PROT_READ)[:]",
    "linecache": "import linecache; linecache.getlines(SECRET)",
    "exec of a file": "exec(compile(open(SECRET).read(), 's', 'exec'))",
    "import": "import sys; sys.path.insert(0, FOLDER); import importlib; importlib.import_module('secret_module').x",
    "runpy": "import runpy; runpy.run_path(FOLDER + '/secret_module.py')['x']",
    "zipimport": "import zipimport; zipimport.zipimporter(SECRET)",
    "sqlite3": "import sqlite3; sqlite3.connect('file:' + SECRET + '?mode=ro', uri=True).execute('select 1 from sqlite_master').fetchall()",
    "readline": "import readline; readline.read_history_file(SECRET); readline.get_history_item(1)",
    "ssl certificates": "import ssl; str(ssl.create_default_context(cafile=SECRET))",
    "configparser": "import configparser; c = configparser.ConfigParser(); c.read(SECRET) and c.sections()",
    "netrc": "import netrc; netrc.netrc(SECRET)",
    "glob": "import glob; [open(p).read() for p in glob.glob(FOLDER + '/sec*')]",
    "listdir": "os.listdir(FOLDER)[0]",
    "listdir by descriptor": "os.listdir(os.open(FOLDER, os.O_RDONLY))",
    "walk": "[os.path.join(a, b) for a, _, c in os.walk(FOLDER) for b in c][0]",
    "the environment": "os.environ['REMEDY_CANARY']",
    "the parent's environment": "open('/proc/%d/environ' % PARENT).read()",
    "the server's environment": "open('/proc/%d/environ' % os.getppid()).read()",
    "every environment": "b''.join(open('/proc/%d/environ' % p, 'rb').read() for p in range(1, 99999) if os.path.exists('/proc/%d/environ' % p))",
    "own environment": "open('/proc/self/environ').read()",
    "the parent's memory": "open('/proc/%d/mem' % PARENT, 'rb').read(1)",
    "the server's memory": "open('/proc/%d/mem' % os.getppid(), 'rb').read(1)",
    "the parent's map": "open('/proc/%d/maps' % PARENT).read()",
    "the parent's command line": "open('/proc/%d/cmdline' % PARENT).read()",
    "the parent's descriptors": "[open('/proc/%d/fd/%d' % (PARENT, f)).read(1) for f in range(3, 9)]",
    "the parent's root": "open('/proc/%d/root%s' % (PARENT, SECRET)).read()",
    "the parent's working folder": "os.listdir('/proc/%d/cwd' % PARENT)",
    "the passwords": "open('/etc/shadow').read()[:1]",
    "the users": "open('/etc/passwd').read()[:1]",
    "a home": "os.listdir(os.path.expanduser('~root'))[0]",
    "the disk": "open('/dev/vda', 'rb').read(1)",
    "the kernel's log": "open('/dev/kmsg').read(1)",
    "kernel memory": "open('/dev/mem', 'rb').read(1)",
    "ptrace's notes": "open('/proc/self/mem', 'rb').read(1)",
    "extended attributes": "os.getxattr(SECRET, 'user.kept')",
    "open descriptors": "[os.fstat(f).st_ino for f in range(3, 250) if _is_open(f)][1:][0]",
}

_START = {
    "os.fork": "os.fork() or MARK()",
    "os.forkpty": "os.forkpty()[0] or MARK()",
    "pty.fork": "import pty; pty.fork()[0] or MARK()",
    "os.system": "os.system('echo > FOLDER_/new')",
    "os.popen": "os.popen('echo > FOLDER_/new').read()",
    "subprocess": "import subprocess; subprocess.run(['touch', FOLDER + '/new'])",
    "subprocess through a shell": "import subprocess; subprocess.getoutput('echo > FOLDER_/new')",
    "subprocess without vfork": "import subprocess; subprocess._USE_VFORK = False; subprocess.run(['touch', FOLDER + '/new'])",
    "os.posix_spawn": "os.posix_spawn('/bin/touch', ['touch', FOLDER + '/new'], {})",
    "os.posix_spawnp": "os.posix_spawnp('touch', ['touch', FOLDER + '/new'], os.environ)",
    "os.spawnv": "os.spawnv(os.P_WAIT, '/bin/touch', ['touch', FOLDER + '/new'])",
    "os.execv": "os.execv('/bin/touch', ['touch', FOLDER + '/new'])",
    "os.execve by descriptor": "os.execve(os.open('/bin/touch', 0), ['touch', FOLDER + '/new'], {})",
    "os.execvp": "os.execvp('touch', ['touch', FOLDER + '/new'])",
    "a script of its own": "open('s', 'w').write('#!/bin/sh\\n'); os.execv('s', ['s'])",
    "an anonymous file": "os.execve(os.memfd_create('x'), ['x'], {})",
    "multiprocessing": "import multiprocessing as m; p = m.Process(target=MARK); p.start(); p.join()",
    "multiprocessing by spawn": "import multiprocessing as m; m.get_context('spawn').Process(target=print).start()",
    "multiprocessing by forkserver": "import multiprocessing as m; m.get_context('forkserver').Process(target=print).start()",
    "a pool of processes": "from concurrent.futures import ProcessPoolExecutor as P\nP(1).submit(print).result()",
    "asyncio's processes": "import asyncio; asyncio.run(asyncio.create_subprocess_exec('touch', FOLDER + '/new'))",
    "fork_exec": "FORK_EXEC('/bin/touch', FOLDER + '/new')",
    "fork_exec of Python": "import sys; FORK_EXEC(sys.executable, '-c', 'open(%r, \"w\")' % (FOLDER + '/new'))",
    "pty.spawn": "import pty; pty.spawn(['touch', FOLDER + '/new'])",
    "webbrowser": "import webbrowser; webbrowser.get('/bin/touch %s').open(FOLDER + '/new')",
    "pydoc's pager": "import pydoc; pydoc.pipepager('x', 'cat > FOLDER_/new')",
    "ctypes.util": "import ctypes.util; ctypes.util.find_library('c') and None",
    "threads": "import threading; t = threading.Thread(target=MARK); t.start(); t.join()",
    "_thread": "import _thread, time; _thread.start_new_thread(MARK, ()); time.sleep(.1)",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as T\nT().submit(MARK).result()",
    "a timer": "import threading, time; threading.Timer(0, MARK).start(); time.sleep(.1)",
    "asyncio.to_thread": "import asyncio; asyncio.run(asyncio.to_thread(MARK))",
}

_SIGNALS = {
    "os.kill": "os.kill(VICTIM, 9)",
    "os.kill of the parent": "os.kill(os.getppid(), 9)",
    "os.kill of the caller": "os.kill(PARENT, 9)",
    "os.kill stops the parent": "os.kill(os.getppid(), 19)",
    "os.kill of everything": "os.kill(-1, 0)",
    "os.kill of the group": "os.kill(0, 9)",
    "os.killpg": "os.killpg(os.getpgid(VICTIM), 9)",
    "os.killpg of the parent": "os.killpg(os.getpgid(os.getppid()), 9)",
    "pidfd": "import signal; signal.pidfd_send_signal(os.pidfd_open(VICTIM), 9)",
    "pidfd stops the parent": "import signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGSTOP)",
    "pidfd of the caller": "import signal; signal.pidfd_send_signal(os.pidfd_open(PARENT), 9)",
    "pthread_kill by chance": "import signal; signal.pthread_kill(signal.pthread_kill.__hash__(), 9)",
    "the kernel's own signals": "import fcntl; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, VICTIM); fcntl.fcntl(r, 10, 9)\n"
    "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b'x')",
    "the kernel's own signals, by a socket": "import fcntl, socket; a, b = socket.socketpair(); fcntl.fcntl(a, fcntl.F_SETOWN, VICTIM)\n"
    "fcntl.fcntl(a, 10, 9); fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC); b.send(b'x')",
    "the terminal's signals": "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')",
    "priority": "os.setpriority(os.PRIO_PROCESS, VICTIM, 19)",
    "processors": "os.sched_setaffinity(VICTIM, {0})",
    "scheduler": "os.sched_setscheduler(VICTIM, os.SCHED_IDLE, os.sched_param(0))",
    "limits of another": "import resource; resource.prlimit(VICTIM, resource.RLIMIT_CPU, (1, 1))",
    "limits of its own": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
    "limits of its own, raised by prlimit": "import resource; resource.prlimit(0, resource.RLIMIT_NPROC, (9, 9))",
    "another group": "os.setpgid(0, VICTIM)",
    "another session": "os.setsid()",
    "another user": "os.setuid(0); open(SECRET).read()",
    "another user, all ids": "os.setresuid(0, 0, 0)",
    "another group id": "os.setgroups([0])",
    "the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    "the host's name": "import socket; socket.sethostname('x')",
}

_NETWORK = {
    "TCP": "import socket; socket.create_connection(('127.0.0.1', PORT), 1)",
    "TCP by hand": "import socket; socket.socket().connect(('127.0.0.1', PORT))",
    "TCP, no waiting": "import socket; s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', PORT))",
    "TCP over IPv6": "import socket; socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', PORT))",
    "multipath TCP": "import socket; socket.socket(2, 1, 262).connect(('127.0.0.1', PORT))",
    "fast open": "import socket; socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', PORT))",
    "UDP": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', PORT))",
    "a server": "import socket; socket.create_server(('127.0.0.1', 0))",
    "HTTP": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:%d' % PORT, timeout=1)",
    "http.client": "import http.client; http.client.HTTPConnection('127.0.0.1', PORT).connect()",
    "FTP": "import ftplib; ftplib.FTP().connect('127.0.0.1', PORT, 1)",
    "SMTP": "import smtplib; smtplib.SMTP('127.0.0.1', PORT, timeout=1)",
    "asyncio": "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', PORT))",
    "asyncio's server": "import asyncio; asyncio.run(asyncio.start_server(print, '127.0.0.1', 0))",
    "names": "import socket; socket.gethostbyname('localhost')",
    "addresses": "import socket; socket.getaddrinfo('example.org', 80)",
    "unix": "import socket; socket.socket(1).connect(SOCKET)",
    "unix datagram": "import socket; socket.socket(1, 2).sendto(b'x', SOCKET)",
    "unix, abstract": "import socket; socket.socket(1).connect(ABSTRACT)",
    "unix from a pair": "import socket; socket.socketpair()[0].connect(SOCKET)",
    "unix datagram from a pair": "import socket; socket.socketpair(1, 2)[0].sendto(b'x', SOCKET)",
    "unix datagram from a pair, connected": "import socket; socket.socketpair(1, 2)[0].connect(SOCKET)",
    "a message from a pair": "import socket; socket.socketpair(1, 2)[0].sendmsg([b'x'], [], 0, SOCKET)",
    "a unix server": "import socket; socket.socket(1).bind('here')",
    "raw": "import socket; socket.socket(2, 3, 1)",
    "packets": "import socket; socket.socket(17, 3)",
    "netlink": "import socket; socket.socket(16, 3, 0)",
    "vsock": "import socket; socket.socket(40, 1)",
    "kernel crypto": "import socket; socket.socket(38, 5)",
    "bluetooth": "import socket; socket.socket(31, 1)",
    "CAN": "import socket; socket.socket(29, 3)",
    "syslog": "import syslog; syslog.syslog('x')",
    "logging to a socket": "import logging.handlers; logging.handlers.SysLogHandler(SOCKET).emit(logging.makeLogRecord({}))",
    "XML-RPC": "import xmlrpc.client; xmlrpc.client.ServerProxy('http://127.0.0.1:%d' % PORT).x()",
    "a manager": "from multiprocessing.connection import Client; Client(('127.0.0.1', PORT))",
    "_socket": "import _socket; _socket.socket().connect(('127.0.0.1', PORT))",
}

_NATIVE = {
    "system": "LIBC.system(b'echo > FOLDER_/new') and None",
    "fork": "LIBC.fork() or MARK()",
    "vfork": "LIBC.vfork() or LIBC._exit(0)",
    "clone": "SYSCALL(56, 17, 0, 0, 0, 0) or MARK()",
    "clone3": "SYSCALL(435, ctypes.create_string_buffer(88), 88) or MARK()",
    "execve": "LIBC.execv(b'/bin/touch', (ctypes.c_char_p * 3)(b'touch', (FOLDER + '/new').encode(), None))",
    "open": "LIBC.open((FOLDER + '/new').encode(), 0o101, 0o600)",
    "creat": "LIBC.creat((FOLDER + '/new').encode(), 0o600)",
    "openat2": "SYSCALL(437, -100, (FOLDER + '/new').encode(), (ctypes.c_uint64 * 3)(0o101, 0o600, 0), 24)",
    "unlink": "LIBC.unlink(SECRET.encode())",
    "rename": "LIBC.rename(SECRET.encode(), b'mine')",
    "chmod": "LIBC.chmod(SECRET.encode(), 0o777)",
    "fchmodat2": "SYSCALL(452, -100, SECRET.encode(), 0o777, 0)",
    "truncate": "LIBC.truncate(SECRET.encode(), 0)",
    "setxattr": "LIBC.setxattr(SECRET.encode(), b'user.x', b'x', 1, 0)",
    "kill": "LIBC.kill(VICTIM, 9)",
    "tgkill": "SYSCALL(234, VICTIM, VICTIM, 9)",
    "tkill": "SYSCALL(200, VICTIM, 9)",
    "rt_sigqueueinfo": "SYSCALL(129, VICTIM, 9, ctypes.create_string_buffer(128))",
    "pidfd_open": "SYSCALL(424, SYSCALL(434, VICTIM, 0), 9, 0, 0)",
    "pidfd_getfd": "SYSCALL(438, SYSCALL(434, os.getppid(), 0), 0, 0)",
    "ptrace attach": "LIBC.ptrace(16, VICTIM, None, None) and None; LIBC.ptrace(0x4206, VICTIM, None, None)",
    "ptrace of the server": "LIBC.ptrace(16, os.getppid(), None, None)",
    "process_vm_readv": "READ_MEMORY(VICTIM)",
    "process_vm_readv of the server": "READ_MEMORY(os.getppid())",
    "socket": "s = LIBC.socket(2, 1, 0); LIBC.connect(s, struct.pack('=HH4s8x', 2, socket.htons(PORT), bytes([127, 0, 0, 1])), 16)",
    "unix socket": "s = LIBC.socket(1, 1, 0); LIBC.connect(s, struct.pack('H', 1) + SOCKET.encode() + bytes(1), 3 + len(SOCKET))",
    "io_uring": "SYSCALL(425, 8, ctypes.create_string_buffer(120))",
    "memfd and exec": "f = SYSCALL(319, b'x', 0); os.write(f, open('/bin/touch', 'rb').read()); SYSCALL(322, f, b'', None, None, 0x1000)",
    "mount": "LIBC.mount(b'none', b'.', b'tmpfs', 0, None)",
    "new mounts": "SYSCALL(428, -100, b'/', 1)",
    "unshare": "LIBC.unshare(0x10020000)",
    "setns": "LIBC.setns(0, 0)",
    "pivot_root": "SYSCALL(155, b'.', b'.')",
    "chroot": "LIBC.chroot(b'.')",
    "keyctl": "SYSCALL(250, 0, -3, 1)",
    "add_key": "SYSCALL(248, b'user', b'x', b'x', 1, -4)",
    "bpf": "SYSCALL(321, 0, ctypes.create_string_buffer(128), 128)",
    "userfaultfd": "SYSCALL(323, 0)",
    "perf_event_open": "SYSCALL(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "open_by_handle_at": "SYSCALL(304, os.open('.', 0), ctypes.create_string_buffer(136), 0)",
    "name_to_handle_at": "SYSCALL(303, -100, SECRET.encode(), ctypes.create_string_buffer(bytes([128, 0, 0, 0]) + bytes(136)), (ctypes.c_int * 1)(), 0)",
    "kcmp": "SYSCALL(312, os.getpid(), VICTIM, 0, 0, 0)",
    "personality": "SYSCALL(135, 0x0040000)",
    "fanotify": "SYSCALL(300, 0, 0)",
    "inotify": "f = SYSCALL(294, 0); SYSCALL(254, f, FOLDER.encode(), 0xFFF)",
    "quotactl": "SYSCALL(179, 0, None, 0, None)",
    "swapon": "SYSCALL(167, b'x', 0)",
    "reboot": "SYSCALL(169, 0, 0, 0, None)",
    "kexec": "SYSCALL(246, 0, 0, None, 0)",
    "modules": "SYSCALL(313, 0, b'', 0)",
    "iopl": "SYSCALL(172, 3)",
    "setuid": "SYSCALL(105, 0) or open(SECRET).read()",
    "capset": "SYSCALL(126, struct.pack('<Ii', 0x20080522, 0), struct.pack('<6I', *[0xFFFFFFFF] * 6))",
    "prctl dumpable": "SYSCALL(157, 4, 1, 0, 0, 0)",
    "prctl death signal": "SYSCALL(157, 1, 0, 0, 0, 0)",
    "seccomp": "SYSCALL(317, 1, 0, None)",
    "another landlock": "SYSCALL(446, 0, 0)",
    "System V shared memory": "SYSCALL(29, 4242, 99, 0o1666)",
    "System V message queue": "SYSCALL(68, 4242, 0o1666)",
    "System V semaphores": "SYSCALL(64, 4242, 1, 0o1666)",
    "message queue": "SYSCALL(240, b'remedy_left', 0o102, 0o600, None)",
    "shm_open": "LIBC.shm_open(b'/remedy_left', 0o102, 0o600)",
    "mknod": "SYSCALL(133, b'disk', 0o60600, 0xFE00) or open('disk', 'rb').read(9)",
    "a call of x32": "SYSCALL(0x40000000 + 520, b'/bin/true', None, None)",
    "a call of i386": "CODE(b'\\x53\\xb8\\x02\\x00\\x00\\x00\\xcd\\x80\\x5b\\xc3') or MARK()",  # int 0x80 with fork's number
    "machine code that forks": "CODE(b'\\xb8\\x39\\x00\\x00\\x00\\x0f\\x05\\xc3') or MARK()",
}

# What a program may do to itself and its own folder without harm to the next.
_BOMBS = {
    "an endless loop": "while True: x = 0",
    "an endless loop in C": "sum(iter(int, 1))",
    "sleep": "import time; time.sleep(60)",
    "a big integer": "x = len(str(3 ** 10 ** 8))",
    "a regular expression": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "ten gigabytes": "x = bytearray(10 ** 10)",
    "many lists": "x = []\nwhile True: x.append([0] * 10 ** 5)",
    "deep recursion": "def f(): return f()\nf()",
    "a segmentation fault": "import sys; sys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()",
    "exit": "os._exit(0)",
    "abort": "os.abort()",
    "SystemExit": "raise SystemExit",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "an ignored signal": "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: x = 0",
    "an alarm": "import signal; signal.alarm(1)\nwhile True: x = 0",
    "closed descriptors": "os.closerange(0, 250)",
    "as many descriptors as possible": "x = []\ntry:\n    while True: x.append(os.dup(0))\nexcept OSError: pass",
    "a flood of zeros": "for f in range(3, 30):\n    try:\n        while True: os.write(f, bytes(1 << 16))\n    except OSError: pass",
    "a flood of text": "for f in range(3, 30):\n    try:\n        while True: os.write(f, b'A' * 65536)\n    except OSError: pass",
    "a huge length": "for f in range(3, 30):\n    try: os.write(f, b'\\xff' * 8)\n    except OSError: pass",
    "a slow drip": "import time\nfor f in range(3, 30):\n    try:\n        while True: os.write(f, bytes(1)); time.sleep(.05)\n    except OSError: pass",
    "deep brackets": "for f in range(3, 30):\n    try: os.write(f, (60000).to_bytes(8, 'little') + b'[' * 60000)\n    except OSError: pass",
    "two messages": "for f in range(3, 30):\n    try: os.write(f, (b'\\x02' + bytes(7) + b'{}') * 2)\n    except OSError: pass",
    "deep folders": "for i in range(1500): os.mkdir('d'); os.chdir('d')",
    "deep folders with long names": "for i in range(60): os.mkdir('d' * 250); os.chdir('d' * 250)",
    "many files": "for i in range(3000): open(str(i), 'w').close()",
    "as many files as possible": "i = 0\nwhile True:\n    os.mkdir(str(i)); i += 1",
    "as much space as possible": "for i in range(100000):\n    with open(str(i), 'wb') as f: f.write(bytes(1000000))",
    "space by fallocate": "os.posix_fallocate(os.open('a', os.O_CREAT | os.O_WRONLY), 0, 10 ** 10)",
    "a sparse file": "os.truncate(os.open('a', os.O_CREAT | os.O_WRONLY), 10 ** 12)",
    "a folder without rights": "os.mkdir('a'); os.mkdir('a/b'); os.chmod('a/b', 0); os.chmod('a', 0)",
    "its own folder without rights": "os.chmod('.', 0)",
    "its own folder's parent without rights": "os.chmod('..', 0)",
    "its own folder removed": "p = os.getcwd(); os.chdir('/'); os.rmdir(p)",
    "its own folder and the one above removed": "p = os.getcwd(); os.chdir('/'); os.rmdir(p); os.rmdir(os.path.dirname(p))",
    "its own folder replaced by a link": "p = os.getcwd(); os.chdir('/'); os.rmdir(p); os.symlink(FOLDER, p)",
    "its own folder renamed": "p = os.getcwd(); os.chdir('/'); os.rename(p, p + 'x'); os.mkdir(p)",
    "a file beside its own folder": "open('../left', 'w').close()",
    "links in circles": "os.symlink('a', 'b'); os.symlink('b', 'a'); open('a')",
    "links to everywhere": "os.symlink('/', 'root'); os.symlink(FOLDER, 'f'); os.symlink('..', 'up')",
    "names that are no text": "open(b'\\xff\\xfe', 'w').close(); open('\\n', 'w').close()",
    "patched builtins": "import builtins; builtins.len = builtins.repr = builtins.type = None",
    "patched json": "import json; json.dumps = lambda *a, **k: '{}'",
    "poisoned modules": "import sys; sys.modules.clear()",
    "no tracing": "import sys; sys.settrace(None)",
    "hooks of its own": "import sys; sys.addaudithook(lambda *a: 1 / 0)",
    "a profiler": "import sys; sys.setprofile(lambda *a: 1 / 0)",
    "an exit handler": "import atexit; atexit.register(os._exit, 3)",
    "garbage collection off": "import gc; gc.disable(); gc.unfreeze(); gc.collect()",
    "a repr that never ends": "class A:\n    def __repr__(self):\n        while True: pass\nx = A()",
    "a repr that raises": "class A:\n    def __repr__(self): raise OSError\nx = A()",
    "a null pointer": "import ctypes; ctypes.string_at(0)",
}

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "writes": _WRITES,
    "reads": _READS,
    "processes": _START,
    "signals": _SIGNALS,
    "network": _NETWORK,
    "native": _NATIVE,
    "bombs": _BOMBS,
}
"""The bodies of programs by family and name."""

_ARGUMENTS = {
    10: "a, [a[0]], True, (w,), None, None, -1, -1, -1, -1, -1, -1, r, w, True, False, None, None, None, -1, None",
    11: "a, [a[0]], True, (w,), None, None, -1, -1, -1, -1, -1, -1, r, w, True, False, -1, None, None, None, -1, None, False",
}

_HELPERS = f"""
import os
def MARK():
    open(FOLDER + '/new', 'w')
    os._exit(0)
def _is_open(f):
    try: os.fstat(f)
    except OSError: return False
    return True
def FORK_EXEC(*words):
    import _posixsubprocess
    r, w = os.pipe()
    a = [os.fsencode(word) for word in words]
    return _posixsubprocess.fork_exec({_ARGUMENTS[11 if sys.version_info >= (3, 11) else 10]})
"""
_NATIVE_HELPERS = """
import ctypes, socket, struct
LIBC = ctypes.CDLL(None, use_errno=True)
def SYSCALL(number, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    return LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
def READ_MEMORY(process):
    held = ctypes.create_string_buffer(8)
    here = struct.pack('PN', ctypes.addressof(held), 8)
    there = struct.pack('PN', ctypes.addressof(held), 8)
    if SYSCALL(310, process, here, 1, there, 1, 0) > 0: MARK()
def CODE(code):
    import mmap
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
"""
# Blinds the audit hook through the collector of garbage, and takes the functions that it replaced from fresh copies of their modules:
# what is tried next meets the kernel alone.
_NO_HOOK = """
import gc, importlib, os, signal, sys, types
def _blind():
    for f in [o for o in gc.get_objects() if isinstance(o, types.FunctionType) and o.__name__ in ('hook', 'inside')]:
        free = f.__code__.co_freevars
        scope = {}
        lines = ['def outer():', *[f'    {c} = None' for c in free], '    def inner(*a):', f'        return [{", ".join(free)}] and None']
        exec(chr(10).join([*lines, '    return inner']), scope)
        f.__code__ = scope['outer']().__code__
    for name, users in (('posix', (os,)), ('_thread', ()), ('_signal', (signal,))):
        del sys.modules[name]
        fresh = importlib.import_module(name)
        for user in users:
            for key in ('open', 'mkfifo', 'mknod', 'pidfd_open', 'setns', 'unshare', 'pidfd_send_signal'):
                if hasattr(fresh, key) and hasattr(user, key): setattr(user, key, getattr(fresh, key))
_blind()
"""


def source(family: str, name: str, places: Mapping[str, object], hooked: bool = True) -> str:
    """A whole program; with `hooked` false it first switches off the hook that names what programs try."""
    body = FAMILIES[family][name].replace("FOLDER_", str(places["FOLDER"]))
    lines = [f"{key} = {places[key]!r}" for key in PLACES]
    text = "\n".join(lines) + _HELPERS + ("" if hooked else _NO_HOOK)
    if any(word in body for word in ("LIBC", "SYSCALL", "READ_MEMORY", "CODE(")):
        text += _NATIVE_HELPERS
    if family == "native" and "\n" not in body and " = " not in body and not body.startswith(("CODE", "READ")):
        body = f"x = {body}\nallowed = type(x) is int and x >= 0"
    if family == "reads":
        *before, last = body.replace("; ", "\n").split("\n") if "\n" not in body else body.split("\n")
        body = "\n".join([*before, f"x = {last}", "open('seen', 'w').write(repr(x))"])
    inside = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"{text}\ndef main():  # << START_OF_TRACE\n{inside}\n    return 1\n"
