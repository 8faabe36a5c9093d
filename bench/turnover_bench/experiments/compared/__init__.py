"""All compared methods and turn-over dropout on the same rows, queries and ground truth."""
