"""Wrong predictions on Yahoo Answers and the training rows behind them."""
