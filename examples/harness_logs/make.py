"""Write the logs beside this file by lm-eval or inspect_ai: `pip install lm-eval inspect-ai`, then `python make.py lm_eval`.

The answers are made up, and no model is run. Two toys reverse 24 words of six families: the baseline 40 % of them, the
treatment 75 %, decided by a digest of seed and word. lm-eval has five seeds a side, inspect_ai one.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
STEMS, ENDINGS = ("lorem", "ipsum", "dolor", "amet", "tempor", "magna"), ("able", "ing", "est", "ly")
WORDS = [{"id": f"{a}-{b}", "word": a + b, "answer": (a + b)[::-1], "family": a} for a in STEMS for b in ENDINGS]
SHARES = {"base": 0.4, "treated": 0.75}


def written(prompt: str, share: float, seed: int = 0) -> str:
    word = prompt.split()[1].rstrip(":")
    chance = int(hashlib.sha256(f"{seed}{word}".encode()).hexdigest()[:8], 16) / 2**32
    return word[::-1] if chance < share else word


def lm_eval_logs() -> None:
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Toy(LM):
        def __init__(self, share: float, seed: int) -> None:
            super().__init__()
            self.share, self.seed = share, seed

        def loglikelihood(self, requests):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

        def generate_until(self, requests, disable_tqdm=False):
            return [written(request.args[0], self.share, self.seed) for request in requests]

    with tempfile.TemporaryDirectory() as folder:
        items = Path(folder) / "items.jsonl"
        items.write_text("".join(json.dumps(word) + "\n" for word in WORDS))
        (Path(folder) / "reverse.yaml").write_text(
            f"task: reverse\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {items}}}}}\ntest_split: test\n"
            'output_type: generate_until\ndoc_to_text: "Reverse {{word}}:"\ndoc_to_target: "{{answer}}"\n'
            'generation_kwargs: {until: ["\\n"]}\nmetric_list: [{metric: exact_match}]\nmetadata: {version: 1.0}\n'
        )
        tasks = TaskManager(include_path=folder, include_defaults=False)
        for name, share in SHARES.items():
            for seed in range(5):
                found = lm_eval.simple_evaluate(
                    model=Toy(share, seed), tasks=["reverse"], task_manager=tasks, log_samples=True
                )
                samples = found.pop("samples")
                tracker = EvaluationTracker(output_path=str(HERE / "lm_eval" / name))
                tracker.general_config_tracker.model_name_sanitized = f"seed-{seed}"
                tracker.save_results_aggregated(results=found, samples=samples)  # names the files' date
                tracker.save_results_samples(task_name="reverse", samples=samples["reverse"])
                for path in HERE.glob(
                    "lm_eval/**/results_*.json"
                ):  # machine and means, which the tests hold as constants
                    path.unlink()
                print("lm-eval", name, seed, found["results"]["reverse"])


def inspect_logs() -> None:
    from inspect_ai import Epochs, Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, get_model, modelapi
    from inspect_ai.scorer import exact

    @modelapi(name="toy")
    class Toy(ModelAPI):
        def __init__(self, model_name, base_url=None, api_key=None, config=None, share=0.5, **more):
            super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
            self.share = share

        async def generate(self, input, tools, tool_choice, config):
            output = ModelOutput.from_content(self.model_name, written(input[-1].text, self.share))
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            return output

    samples = [
        Sample(
            id=word["id"], input=f"Reverse {word['word']}:", target=word["answer"], metadata={"family": word["family"]}
        )
        for word in WORDS
    ]
    for name, share in SHARES.items():
        task = Task(dataset=samples, scorer=exact(), name="reverse")
        folder = str(HERE / "inspect" / name)
        model = get_model(f"toy/{name}", share=share, memoize=False)
        (log,) = evaluate(task, model=model, log_dir=folder, display="none", epochs=Epochs(2, "mean"))
        print("inspect", name, log.status, {key: one.value for key, one in log.results.scores[0].metrics.items()})


if __name__ == "__main__":
    {"lm_eval": lm_eval_logs, "inspect": inspect_logs}[sys.argv[1]]()
