"""Self-influence on SST-2 and CIFAR-10: how much is positive, beside null ids, and C-scores."""
