"""An environment for `verifiers`: a model writes the trace of a program as text, and every frame before its first wrong one is paid.

    pip install examples/verifiers_env
    vf-eval remedy-traces --model MODEL --client.base-url http://localhost:8000/v1 -n 20 --no-push
    vf-eval remedy-traces --env.taskset.config configs/train/strings.yaml --env.taskset.task.rewards.answer.weight 0.5 ...

The reward is the weighted sum of the parts of `remedy.rewards`; parts of weight 0 are recorded all the same. Each task is one reply,
asked for by this process: nothing that a model writes is run, so no sandbox is needed. Tried with verifiers 0.4.0.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf

from remedy import DataConfig, dataset
from remedy.data_gen.traces.comparison import pieces
from remedy.eval.benchmark.scorer import score_trace
from remedy.rewards import PARTS
from remedy.settings import UserError, build, read_yaml

__all__ = ["OneReply", "TraceEnv", "TraceTaskset"]

DATA = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 4]}}
"""The default: swaps of three variables."""
PROMPT = """Write the session of a program, line by line, as the example does, to its end. Write nothing else.

{example}
Program:
{program}
Session:
"""


class TraceData(vf.TaskData):
    """A program's true trace, and the frames that say its answer."""

    trace: str
    answer_frames: list[int]


class TraceTask(vf.Task[TraceData]):
    """The parts of the reward, each by itself."""

    def part(self, name: str, trace: vf.Trace) -> float:
        """Score what was written by one of `PARTS`."""
        return PARTS[name](score_trace(trace.last_reply, self.data.model_dump()))

    @vf.reward(weight=1.0)
    async def prefix(self, trace: vf.Trace) -> float:
        return self.part("prefix", trace)

    @vf.reward(weight=1.0)
    async def answer(self, trace: vf.Trace) -> float:
        return self.part("answer", trace)

    @vf.reward(weight=0.0)
    async def format(self, trace: vf.Trace) -> float:
        return self.part("format", trace)

    @vf.reward(weight=0.0)
    async def whole(self, trace: vf.Trace) -> float:
        return self.part("whole", trace)


class TraceConfig(vf.TasksetConfig):
    """Which programs are traced."""

    config: Path | None = None
    """A YAML file with a section `data`, as those of runs; the format is always `repl`, which is text."""
    split: str = "train"
    examples: int = 1000


class TraceTaskset(vf.Taskset[TraceTask, TraceConfig]):
    """Programs with their sessions, made when they are read."""

    def load(self) -> Iterator[TraceTask]:
        settings = DATA if self.config.config is None else read_yaml(self.config.config).get("data")
        if not isinstance(settings, dict):
            raise UserError(f"{self.config.config}: has no section `data`: give the YAML file of a run")
        data = build(DataConfig, {**settings, "format": "repl"}, "data")
        (shown,) = map(texts, dataset(data, 1, "validation"))
        example = "Program:\n{prompt}\nSession:\n{trace}".format_map(shown)
        for row in dataset(data, self.config.examples, self.config.split, streaming=True):
            own = texts(row)
            prompt = PROMPT.format(example=example, program=own["prompt"])
            given = TraceData(prompt=prompt, trace=own["trace"], answer_frames=row["answer_frames"])
            yield TraceTask(given, self.config.task)


def texts(row: dict[str, Any]) -> dict[str, str]:
    """Return the prompt and the trace of a row without special tokens, which chats do not carry."""
    return {name: "".join(one for one in pieces(row[name]) if isinstance(one, str)) for name in ("prompt", "trace")}


class OneReply(vf.Harness[vf.HarnessConfig]):
    """A single request from this process, in place of a program that talks on a machine of its own."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        _, prompt = self.resolve_text_prompt(data)
        asked = {"model": ctx.model, "messages": [{"role": "user", "content": prompt}]}
        async with httpx.AsyncClient(timeout=None, headers={"Authorization": f"Bearer {secret}"}) as client:
            reply = await client.post(f"{endpoint}/chat/completions", json=asked)
        return vf.ProgramResult(int(reply.is_error), "", reply.text if reply.is_error else "")


class TraceEnvConfig(vf.SingleAgentEnvConfig):
    """One model, on this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class TraceEnv(vf.Env[TraceEnvConfig]):
    """One model that replies once."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)
