"""Does ordinary dropout in addition to masks bring accuracy back? By length of training, for two kinds of networks."""
