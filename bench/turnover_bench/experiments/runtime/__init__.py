"""The paper's runtime: 10,000 instances of MNLI on one target, turn-over dropout against influence functions."""
