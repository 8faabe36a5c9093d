"""What the part of a network that never learned a row knows of it."""
