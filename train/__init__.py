"""How a model learns: rows, loss on roles, Hugging Face's Trainer, tracking."""
