"""What the paper leaves to its footnotes, one change at a time."""
