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


def program(inside: str, before: str = "", work: str = WORK) -> Program:
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

FORGERIES: dict[str, tuple[str, ...]] = {
    "repr replaced": ("ok", "import builtins; builtins.repr = lambda o: '42'"),
    "len and type replaced": ("ok", "import builtins; builtins.len = lambda o: 0; builtins.type = lambda o: int"),
    "json.dumps replaced": ("ok", "import json; json.dumps = lambda *a, **k: '{}'"),
    "json's encoder replaced": ("ok", "import json; json.JSONEncoder.encode = json.JSONEncoder.iterencode = lambda *a: '{}'"),
    "os.write replaced": ("ok", "import os; write = os.write; os.write = lambda fd, data: write(fd, b'{}')"),
    "struct.pack replaced": ("ok", "import struct; struct.pack = lambda *a: b'12345678'"),
    "describe replaced": ("forged", "c = cell('describe')\nd = c.cell_contents\nc.cell_contents = lambda o: d(42)", CELL),
    "describe replaced in its module": (
        "ok", "module('describe') and setattr(module('describe'), 'describe', lambda o: ('42', 'int'))", MODULES,
    ),
    "reply_writer replaced": ("ok", "module('wire') and setattr(module('wire'), 'reply_writer', None)", MODULES),
    "the writer of frames replaced": (
        "forged",
        "w = up('write_trace')\nif w:\n    encode = fields = 1\n    w.__code__ = (lambda t: [b'', encode, fields][0]).__code__",
        FRAMES_UP + MODULES,
    ),
    "frames edited in the list": ("forged", "f = cell('frames').cell_contents\nf[0].locals['secret'] = f[0].locals", CELL),
    "a frame removed from the list": ("forged", "f = cell('frames').cell_contents\ndel f[-1]", CELL),
    "a frame added to the list": ("forged", "f = cell('frames').cell_contents\nf.append(f[0])", CELL),
    "the lines edited": (
        "forged", "c = cell('lines')\nc.cell_contents = type(c.cell_contents)('    secret = 1\\n' for l in c.cell_contents)", CELL,
    ),
    "the output limit off": ("forged", "cell('written').cell_contents = -10**12\nbig = 'a' * 1_200_000", CELL),
    "the recorder's code replaced": ("forged", "r = cell('record').cell_contents\nold = r.__code__\nr.__defaults__ = (1, 2)", CELL),
    "the tracer off": ("forged", "sys.settrace(None)"),
    "the tracer off and on around lines": (
        "forged", "t = sys.gettrace()\nsys.settrace(None)", "",
        "    x = 1\n    y = [x, 2]\n    sys.settrace(t)\n    z = y[1]\n    return z\n",
    ),
    "the tracer off and on far down": (
        "forged", "t = sys.gettrace()\nn['down'](300, lambda: (sys.settrace(None), inner(), sys.settrace(t)))",
        "def inner():\n    return 1\nn = {}\nexec('def down(n, do): return do() if n == 0 else down(n - 1, do)', n)\n",
    ),
    "another tracer for a call": (
        "forged", "t = sys.gettrace()\nsys.settrace(lambda *a: None)\ninner()\nsys.settrace(t)", "def inner():\n    return 1\n",
    ),
    "another tracer": ("forged", "sys.settrace(lambda *a: None)"),
    "the frame's tracer off": ("forged", "sys._getframe().f_trace = None"),
    "the frame's lines off": ("forged", "sys._getframe().f_trace_lines = False"),
    "the frame's lines off and on": (
        "forged", "f = sys._getframe()\nf.f_trace_lines = False", "",
        "    x = 1\n    y = [x, 2]\n    f.f_trace_lines = True\n    z = y[1]\n    return z\n",
    ),
    "opcodes on": ("forged", "sys._getframe().f_trace_opcodes = True"),
    "an inner frame's tracer off": ("forged", "inner()", "def inner():\n    sys._getframe().f_trace = None\n    return 1\n"),
    "code under the traced file's name": (
        "forged", "exec(compile('secret = 1\\nsecret = 2\\n', sys._getframe().f_code.co_filename, 'exec'))",
    ),
    "a function under the traced file's name": (
        "forged", "n = {}\nexec(compile('def f():\\n    return 1\\n', sys._getframe().f_code.co_filename, 'exec'), n)\nn['f']()",
    ),
    "the constants of a function replaced": (
        "forged", "inner()", "def inner():\n    a = 1\n    return a\n"
        "inner.__code__ = inner.__code__.replace(co_consts=(None, 'FORGED'))\n",
    ),
    "a constant replaced by an equal one": (
        "forged", "inner()", "def inner():\n    a = 1\n    return a\n"
        "inner.__code__ = inner.__code__.replace(co_consts=(None, True))\n",
    ),
    "the names of a function replaced": (
        "forged", "inner()", "def inner():\n    return sys\ninner.__code__ = inner.__code__.replace(co_names=('MARK',))\nMARK = 1\n",
    ),
    "the first line of a function replaced": (
        "forged", "inner()", "def inner():\n    a = 1\n    return a\ninner.__code__ = inner.__code__.replace(co_firstlineno=1)\n",
    ),
    "the name of a function replaced": (
        "ok", "inner()", "def inner():\n    a = 1\n    return a\ninner.__code__ = inner.__code__.replace(co_name='outer')\n",
    ),
    "the entry's code replaced": ("ok", "main.__code__ = (lambda: 42).__code__"),
    "the entry rebound to a number": ("entry", "", "", WORK + "main = 5\n"),
    "the entry rebound to another function": ("entry", "", "", WORK + "main = lambda: 42\n"),
    "the entry's code replaced before": ("entry", "", "", WORK + "main.__code__ = (lambda: 42).__code__\n"),
    "a text that says it is empty": (
        "output", "a = A()",
        "class T(str):\n    def __len__(self): return 0\nclass A:\n    def __repr__(self): return T('a' * 1_200_000)\n",
    ),
    "a text that says it holds nothing": (
        "ok", "a = A()",
        "class T(str):\n    def __contains__(self, o): return False\n    def isascii(self): return True\n"
        "class A:\n    def __repr__(self): return T('<A at 0x12>')\n",
    ),
    "the stop swallowed": ("frames", "try:\n    for i in range(10**6): pass\nexcept BaseException: pass"),
    "the recorder's error taken away": (
        "forged", "r = cell('self').cell_contents\nr._error = None\nr._finished = True\nsys.settrace(None)", CELL,
    ),
}  # fmt: skip
"""The outcome, what `main` does before its work, what the module does before `main`, and perhaps other work."""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    limits = {"timeout_seconds": 5, "max_frames": 500, "max_value_characters": 1_000_000}
    with Sandbox(TracerConfig.model_validate(limits)) as box:
        yield box


@pytest.mark.parametrize("what", FORGERIES)
def test_no_forgery_passes(box: Sandbox, what: str) -> None:
    kind, *parts = FORGERIES[what]
    liar = program(*parts)
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


def test_an_object_cannot_change_how_attributes_are_written() -> None:
    point = "class P:\n    def __init__(self, x):\n        self.x = x\n"
    liar = (
        f"{FRAMES_UP}{point}class Liar:\n    def __repr__(self):\n        text = up('inside').__closure__[-1].cell_contents\n"
        "        consts = tuple('<forged ' if one == '<' else one for one in text.__code__.co_consts)\n"
        "        text.__code__ = text.__code__.replace(co_consts=consts)\n        return '<Liar object>'\n"
    )
    with Sandbox(TracerConfig(objects="attributes")) as box:
        assert box.trace(program("p = P(1)", point)).frames[-2].locals["p"].text == "<P x=1>"  # type: ignore[index]
        with pytest.raises(ProgramError, match="changed the functions that trace it"):
            box.trace(program("q = Liar()\np = P(1)", liar))
