"""Why training on a row makes its flipped subnetwork worse on it, and whether another training does not."""
