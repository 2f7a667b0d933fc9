"""Train a model: `python launch/train.py CONFIG [key=value ...]`, or the same under `torchrun` or `deepspeed`."""

from __future__ import annotations

import argparse
import os
import sys

from remedy.data_gen.settings import UserError, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a YAML file, for example configs/train/permutation.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for example train.max_steps=100")
    parser.add_argument("--resume", action="store_true", help="continue from the last whole checkpoint in the output")
    parser.add_argument("--local_rank", type=int, help="given by the deepspeed launcher")
    args = parser.parse_intermixed_args()
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    from remedy.train.config import RunConfig

    main_process = int(os.environ.get("RANK", "0")) == 0
    try:
        config = load(RunConfig, args.config, args.overrides)
        if args.local_rank is not None and config.train.deepspeed is None:
            # The deepspeed launcher asks for DeepSpeed; a section in the configuration still says how.
            config = load(RunConfig, args.config, [*args.overrides, "train.deepspeed={}"])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    # After the configuration is known to be right: these imports take seconds.
    from remedy.train.run import finish, train
    from remedy.train.stopping import RESUMABLE, Stopped

    try:
        output = train(config, args.resume)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        finish(2)
    except Stopped as stopped:
        if main_process:
            print(f"stopped: {stopped}", file=sys.stderr)
        finish(RESUMABLE)
    if main_process:
        print(f"saved {output}")
    finish()


if __name__ == "__main__":
    main()
