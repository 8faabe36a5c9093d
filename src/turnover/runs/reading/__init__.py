"""To be written."""

from .columns import nearest
from .corpus import Corpus, read_corpus
from .encoding import text_encoding
from .files import Table, quotes_are_text, separator_of
from .labels import MISSING, label_text
from .pixels import need_pillow, read_image
from .reading import is_corpus, read_rows
from .row_files import WRITABLE, table_bytes
from .same_table import same_table

__all__ = [
    "MISSING",
    "WRITABLE",
    "Corpus",
    "Table",
    "is_corpus",
    "label_text",
    "nearest",
    "need_pillow",
    "quotes_are_text",
    "read_corpus",
    "read_image",
    "read_rows",
    "same_table",
    "separator_of",
    "table_bytes",
    "text_encoding",
]
