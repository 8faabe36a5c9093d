"""What masks cost with many classes: a toy run, the letters, and what settings vary."""
