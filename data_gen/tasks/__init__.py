"""Tasks: which programs there are, and what is known about each.

To add a task, write a subclass of `Task` in a file of this folder, give it a name with `@TASKS.register(...)`, and import the
file below. A class registered from outside the package works the same from Python.
"""

from remedy.data_gen.tasks import composition, permutation, programs
from remedy.data_gen.tasks.task import TASKS, Drawn, Guesses, Task

__all__ = ["TASKS", "Drawn", "Guesses", "Task", "composition", "permutation", "programs"]
