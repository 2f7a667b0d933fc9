"""What runs where: commands, experiments, jobs and their processes, Slurm."""
