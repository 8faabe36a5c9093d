"""Table 1 of the paper: what training, storage and estimation cost as the data grow, measured."""
