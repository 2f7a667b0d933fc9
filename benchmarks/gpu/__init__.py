"""A queue of experiments for one GPU, each ready to run in nine minutes; `results/gpu/README.md` has their questions."""
