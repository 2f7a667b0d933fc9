"""Train a model: `python launch/train.py CONFIG [key=value ...]`, or the same under `torchrun` or `deepspeed`."""

from __future__ import annotations

import argparse
import os
import sys

from remedy.data_gen.config import UserError, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a YAML file, for example configs/train/permutation.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for example train.steps=100")
    parser.add_argument("--resume", action="store_true", help="continue from the last whole checkpoint in the output")
    parser.add_argument("--local_rank", type=int, help="given by the deepspeed launcher")
    args = parser.parse_intermixed_args()
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    from remedy.train.config import RunConfig
    from remedy.train.run import finish, train

    try:
        # The deepspeed launcher asks for DeepSpeed; a stage in the configuration still says which.
        launched = [] if args.local_rank is None else ["train.zero_stage=0"]
        config = load(RunConfig, args.config, args.overrides)
        if launched and config.train.zero_stage is None:
            config = load(RunConfig, args.config, [*args.overrides, *launched])
        output = train(config, args.resume)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"saved {output}")
    finish()


if __name__ == "__main__":
    main()
