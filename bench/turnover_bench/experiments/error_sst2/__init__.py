"""Wrong predictions on SST-2 and the training rows behind them."""
