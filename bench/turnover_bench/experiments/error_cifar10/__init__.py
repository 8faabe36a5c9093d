"""Wrong predictions on CIFAR-10 and the training rows behind them."""
