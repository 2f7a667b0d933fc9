"""One run of an experiment in one process: train unless that is done, then evaluate (imports alone cost seconds)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from remedy.data_gen.config import UserError, load

TRAINED = "trained"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds train.yaml and evaluate.yaml")
    parser.add_argument("name", help="what reports call the run")
    args = parser.parse_args()
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate, for_checkpoint
    from remedy.models.load import load_checkpoint
    from remedy.train.config import RunConfig
    from remedy.train.run import train

    try:
        run = load(RunConfig, args.folder / "train.yaml")
        settings = load(EvalConfig, args.folder / "evaluate.yaml")
        if not (args.folder / TRAINED).exists():
            train(run, resume=True)
            (args.folder / TRAINED).touch()
        data, settings = for_checkpoint(run.output, settings)
        model, tokenizer = load_checkpoint(run.output)
        evaluate(
            model, tokenizer, data, settings, args.folder / "evaluation", args.name, lambda m: print(m, flush=True)
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
