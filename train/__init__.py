"""Training: rows, loss on roles, Hugging Face's Trainer, tracking."""
