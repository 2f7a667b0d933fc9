"""A program that meddles with what traces it has its true trace or a named outcome: never another trace."""

from collections.abc import Iterator

import pytest

from remedy.data_gen.execution.program import MARKER, Event, Program, ProgramError
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig

WORK = "    x = 1\n    y = [x, 2]\n    z = y[1]\n    return z\n"
TRUTH = [
    ("x = 1", {}),
    ("y = [x, 2]", {"x": "1"}),
    ("z = y[1]", {"x": "1", "y": "[1, 2]"}),
    ("return z", {"x": "1", "y": "[1, 2]", "z": "2"}),
]
"""What `WORK` does when nobody meddles: the last frames of every true trace below, up to names that the meddling itself adds."""


def program(before: str = "", inside: str = "", work: str = WORK) -> Program:
    lines = "".join(f"    {line}\n" for line in inside.splitlines())
    return Program(f"import sys\n{before}\ndef main():  {MARKER}\n{lines}{work}", "liar.py")


CELL = (
    "def cell(name, function=None):\n    function = function or sys.gettrace()\n"
    "    for n, c in zip(function.__code__.co_freevars, function.__closure__ or ()):\n"
    "        if n == name: return c\n"
    "        if hasattr(c.cell_contents, '__closure__') and n == 'record' and function is not c.cell_contents:\n"
    "            found = cell(name, c.cell_contents)\n            if found: return found\n"
)
MODULES = (
    "def module(name):\n    return next((m for n, m in sys.modules.items() if n.endswith('execution.' + name)), None)\n"
)
FRAMES_UP = (
    "def up(name):\n    frame = sys._getframe()\n    while frame:\n"
    "        if name in frame.f_locals: return frame.f_locals[name]\n        frame = frame.f_back\n"
)

FORGERIES: dict[str, tuple[str, Program]] = {
    "repr replaced": ("ok", program(inside="import builtins; builtins.repr = lambda o: '42'")),
    "len and type replaced": (
        "ok",
        program(inside="import builtins; builtins.len = lambda o: 0; builtins.type = lambda o: int"),
    ),
    "json.dumps replaced": ("ok", program(inside="import json; json.dumps = lambda *a, **k: '{}'")),
    "json's encoder replaced": (
        "ok",
        program(inside="import json; json.JSONEncoder.encode = json.JSONEncoder.iterencode = lambda *a: '{}'"),
    ),
    "os.write replaced": (
        "ok",
        program(inside="import os; write = os.write; os.write = lambda fd, data: write(fd, b'{}')"),
    ),
    "struct.pack replaced": ("ok", program(inside="import struct; struct.pack = lambda *a: b'12345678'")),
    "describe replaced": (
        "forged",
        program(CELL, "c = cell('describe')\nd = c.cell_contents\nc.cell_contents = lambda o: d(42)"),
    ),
    "describe replaced in its module": (
        "ok",
        program(MODULES, "module('describe') and setattr(module('describe'), 'describe', lambda o: ('42', 'int'))"),
    ),
    "reply_writer replaced": (
        "ok",
        program(MODULES, "module('wire') and setattr(module('wire'), 'reply_writer', None)"),
    ),
    "the writer of frames replaced": (
        "forged",
        program(
            FRAMES_UP + MODULES,
            "w = up('write_trace')\nif w:\n    encode = fields = 1\n    w.__code__ = (lambda t: [b'', encode, fields][0]).__code__",
        ),
    ),
    "frames edited in the list": (
        "forged",
        program(CELL, "f = cell('frames').cell_contents\nf[0].locals['secret'] = f[0].locals"),
    ),
    "a frame removed from the list": ("forged", program(CELL, "f = cell('frames').cell_contents\ndel f[-1]")),
    "a frame added to the list": ("forged", program(CELL, "f = cell('frames').cell_contents\nf.append(f[0])")),
    "the lines edited": (
        "forged",
        program(
            CELL,
            "c = cell('lines')\nc.cell_contents = type(c.cell_contents)('    secret = 1\\n' for l in c.cell_contents)",
        ),
    ),
    "the output limit off": ("forged", program(CELL, "cell('written').cell_contents = -10**12\nbig = 'a' * 1_200_000")),
    "the recorder's code replaced": (
        "forged",
        program(CELL, "r = cell('record').cell_contents\nold = r.__code__\nr.__defaults__ = (1, 2)"),
    ),
    "the tracer off": ("forged", program(inside="sys.settrace(None)")),
    "the tracer off and on around lines": (
        "forged",
        program(
            inside="t = sys.gettrace()\nsys.settrace(None)",
            work="    x = 1\n    y = [x, 2]\n    sys.settrace(t)\n    z = y[1]\n    return z\n",
        ),
    ),
    "the tracer off and on far down": (
        "forged",
        program(
            "def inner():\n    return 1\nn = {}\nexec('def down(n, do): return do() if n == 0 else down(n - 1, do)', n)\n",
            "t = sys.gettrace()\nn['down'](300, lambda: (sys.settrace(None), inner(), sys.settrace(t)))",
        ),
    ),
    "another tracer for a call": (
        "forged",
        program(
            "def inner():\n    return 1\n",
            "t = sys.gettrace()\nsys.settrace(lambda *a: None)\ninner()\nsys.settrace(t)",
        ),
    ),
    "another tracer": ("forged", program(inside="sys.settrace(lambda *a: None)")),
    "the frame's tracer off": ("forged", program(inside="sys._getframe().f_trace = None")),
    "the frame's lines off": ("forged", program(inside="sys._getframe().f_trace_lines = False")),
    "the frame's lines off and on": (
        "forged",
        program(
            inside="f = sys._getframe()\nf.f_trace_lines = False",
            work="    x = 1\n    y = [x, 2]\n    f.f_trace_lines = True\n    z = y[1]\n    return z\n",
        ),
    ),
    "opcodes on": ("forged", program(inside="sys._getframe().f_trace_opcodes = True")),
    "an inner frame's tracer off": (
        "forged",
        program("def inner():\n    sys._getframe().f_trace = None\n    return 1\n", "inner()"),
    ),
    "code under the traced file's name": (
        "ok",
        program(inside="exec(compile('secret = 1\\nsecret = 2\\n', sys._getframe().f_code.co_filename, 'exec'))"),
    ),
    "a function under the traced file's name": (
        "ok",
        program(
            inside="n = {}\nexec(compile('def f():\\n    return 1\\n', sys._getframe().f_code.co_filename, 'exec'), n)\nn['f']()"
        ),
    ),
    "the entry's code replaced": ("ok", program(inside="main.__code__ = (lambda: 42).__code__")),
    "the entry rebound to a number": ("entry", Program(f"def main():  {MARKER}\n{WORK}main = 5\n", "liar.py")),
    "the entry rebound to another function": (
        "entry",
        Program(f"def main():  {MARKER}\n{WORK}main = lambda: 42\n", "liar.py"),
    ),
    "the entry's code replaced before": (
        "entry",
        Program(f"def main():  {MARKER}\n{WORK}main.__code__ = (lambda: 42).__code__\n", "liar.py"),
    ),
    "a text that says it is empty": (
        "output",
        program(
            "class T(str):\n    def __len__(self): return 0\nclass A:\n    def __repr__(self): return T('a' * 1_200_000)\n",
            "a = A()",
        ),
    ),
    "a text that says it holds nothing": (
        "ok",
        program(
            "class T(str):\n    def __contains__(self, o): return False\n    def isascii(self): return True\n"
            "class A:\n    def __repr__(self): return T('<A at 0x12>')\n",
            "a = A()",
        ),
    ),
    "the stop swallowed": (
        "frames",
        program(inside="try:\n    for i in range(10**6): pass\nexcept BaseException: pass"),
    ),
    "the recorder's error taken away": (
        "forged",
        program(CELL, "r = cell('self').cell_contents\nr._error = None\nr._finished = True\nsys.settrace(None)"),
    ),
}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    limits = {"timeout_seconds": 5, "max_frames": 500, "max_value_characters": 1_000_000}
    with Sandbox(TracerConfig.model_validate(limits)) as box:
        yield box


@pytest.mark.parametrize("what", FORGERIES)
def test_no_forgery_passes(box: Sandbox, what: str) -> None:
    kind, liar = FORGERIES[what]
    if kind != "ok":
        with pytest.raises(ProgramError) as error:
            box.trace(liar)
        assert error.value.kind == kind
        return
    found = box.trace(liar)
    frames = [frame for frame in found.frames if frame.event is Event.LINE][-len(TRUTH) :]
    seen = [(f.source.strip(), {n: v.text for n, v in (f.locals or {}).items() if n in "xyz"}) for f in frames]
    assert seen == TRUTH
    assert found.result == ("2", "int")
    assert not any(frame.source.startswith("secret") for frame in found.frames)
