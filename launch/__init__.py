"""Commands, experiments, their processes, and Slurm."""
