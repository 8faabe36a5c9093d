"""The data sets of the experiments, read from a folder of the user's own.

Owns: where the files are, how they are read, labels changed on purpose, sentence features. Must not know: which
experiment asks. Nothing is downloaded unless TURNOVER_HUB asks for it. Every loader takes `rows`, how many (None: all
that the file has), and raises a MissingDataError that says where to get a file that is missing.

| file | idea |
| --- | --- |
| `folder.py` | the folder of all data sets, `TURNOVER_DATA`; the error for a missing file |
| `hub.py` | files made of data sets on the Hugging Face hub, `TURNOVER_HUB` |
| `sst2.py`, `yahoo.py`, `mnli.py`, `wikitext2.py`, `cifar10.py`, `digits.py` | one data set each |
| `letters.py` | letters, rendered with the fonts of matplotlib |
| `changed_labels.py` | a share of labels changed to another class |
| `numbers.py` | digits and sentences in one shape for all comparisons |
| `minilm.py` | sentence features of a pretrained encoder, kept on disk |
| `electronics.py` | reviews, written as SST-2 is |
"""

from .folder import MissingDataError, data_file, data_folder

__all__ = ["MissingDataError", "data_file", "data_folder"]
