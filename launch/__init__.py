"""Commands, experiments, jobs and their processes, Slurm."""
