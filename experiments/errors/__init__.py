"""Wrong predictions and the training rows behind them, for the experiments on SST-2, Yahoo Answers and CIFAR-10.

Owns: the run that is asked, the rows behind its errors, retraining without them, figures and page. Must not know: which
data set it is; the folders error_sst2, error_yahoo and error_cifar10 say that.

| file | idea |
| --- | --- |
| `config.py` | settings |
| `prepare.py` | the data as files, and a run of the command line's own code on them |
| `explained.py` | wrong predictions with the rows that pushed them there, texts with shared subwords |
| `repaired.py` | are errors repaired when those rows are removed? |
| `measure.py` | all of it, resumable |
| `text_figure.py`, `image_figure.py`, `page.py` | what is shown |
"""
