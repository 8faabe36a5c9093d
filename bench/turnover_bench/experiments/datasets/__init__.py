"""The data sets of the experiments, read from a folder of the user's own.

Owns: where the files are, how they are read, labels changed on purpose, sentence features. Must not know: which
experiment asks. Nothing is downloaded unless TURNOVER_HUB asks for it. Every loader takes `rows`, how many (None: all
that the file has), and raises a MissingDataError that says where to get a file that is missing.

| file | idea |
| --- | --- |
| `files.py` | the folder of all data sets, `TURNOVER_DATA`; the error for a missing file; the hub, `TURNOVER_HUB` |
| `texts.py` | SST-2, Yahoo Answers, MNLI, WikiText-2, reviews of electronics; sentence features |
| `images.py` | CIFAR-10, digits, letters rendered with the fonts of matplotlib; changed labels |
| `numbers.py` | digits, sentences and images in one shape for all comparisons |
"""

from .files import MissingDataError, data_file, data_folder

__all__ = ["MissingDataError", "data_file", "data_folder"]
