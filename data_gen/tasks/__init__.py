"""Tasks: sets of programs.

To add one, register a subclass of `Task` in a file here with `@TASKS.register(...)`, and import it below.
"""

from remedy.data_gen.tasks import composition, loops, permutation, programs
from remedy.data_gen.tasks.task import TASKS, Drawn, Guesses, Task

__all__ = ["TASKS", "Drawn", "Guesses", "Task", "composition", "loops", "permutation", "programs"]
