"""From what a user has to the rows of a run.

Owns: files of tables, images and texts, what their columns are, and messages on what cannot be used. Offers:
`read_rows`; reading and writing single tables and images. Must not know: networks, training,
terminals.

| file | content |
| --- | --- |
| `rows.py` | which kind of data it is, and who reads it; notes on repeated rows |
| `tables.py`, `encoding.py` | files of tables by their endings, read and written; the encoding of a text file |
| `separated.py` | csv and tsv: what separates columns, what quotes mean |
| `columns.py` | which columns are text, label and group; labels as class numbers; bad rows |
| `_table_rows.py` | tables as rows |
| `images.py`, `arrays.py` | folders of images, npz files |
| `_hub.py` | data sets of the Hugging Face hub |
"""

from ._hub import is_saved
from .arrays import arrays_without, npz_bytes
from .columns import MISSING, label_text, nearest
from .encoding import text_encoding
from .images import LABEL_FILES, images_named_by, need_pillow, read_image
from .rows import read_rows
from .separated import quotes_are_text, separator_of
from .tables import (
    PARQUET,
    WRITABLE,
    Table,
    as_format,
    parquet_rows,
    read_table,
    same_table,
    table_bytes,
)

__all__ = [
    "LABEL_FILES",
    "MISSING",
    "PARQUET",
    "WRITABLE",
    "Table",
    "arrays_without",
    "as_format",
    "images_named_by",
    "is_saved",
    "label_text",
    "nearest",
    "need_pillow",
    "npz_bytes",
    "parquet_rows",
    "quotes_are_text",
    "read_image",
    "read_rows",
    "read_table",
    "same_table",
    "separator_of",
    "table_bytes",
    "text_encoding",
]
