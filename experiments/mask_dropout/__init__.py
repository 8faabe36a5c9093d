"""Does ordinary dropout beside the masks bring accuracy back? By length of training, for two kinds of networks."""
