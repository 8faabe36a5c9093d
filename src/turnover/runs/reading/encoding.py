"""The encoding of a text file, detected by reading it once, so that a wrong one is named before any row is used."""

import codecs
import shlex
from pathlib import Path

from turnover.errors import DataFileError

_BLOCK = 2**20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BINARY = (
    (b"PK\x03\x04", "an Excel or zip file", "Save it as csv, or unpack it"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", "Save it as csv"),
    (b"\x1f\x8b", "compressed by gzip", "Unpack it: gunzip {file}"),
    (b"PAR1", "a parquet file", "Give it the ending .parquet"),
    (b"\x93NUMPY", "a NumPy file", "Write images and labels with numpy.savez, as .npz"),
    (b"%PDF", "a PDF", "Save its texts as csv, one per row"),
    (b"SQLite", "an SQLite file", "Write the table as csv"),
    (b"\x89PNG", "an image", "Give the folder of all images"),
    (b"\xff\xd8\xff", "an image", "Give the folder of all images"),
    (b"GIF8", "an image", "Give the folder of all images"),
)


def text_encoding(path: Path) -> str:
    """Return the encoding of a text file: "utf-8", "utf-8-sig" or "utf-16"."""
    try:
        with path.open("rb") as file:
            start = file.read(_BLOCK)
            if not start.strip():
                raise DataFileError(f"{str(path)!r} is empty. Give a file with rows in it.")
            encoding = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")
            if encoding != "utf-16":
                _check_not_binary(path, start)
            _read_through(path, encoding)
    except OSError as error:
        raise DataFileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    return encoding


def _check_not_binary(path: Path, start: bytes) -> None:
    file = shlex.quote(str(path))
    for mark, what, cure in _BINARY:
        if start.startswith(mark):
            raise DataFileError(f"{str(path)!r} is {what}, not text. {cure.format(file=file)}.")
    if b"\0" not in start:
        return
    if start[1:200:2].count(0) > 50 or start[:200:2].count(0) > 50:
        raise DataFileError(
            f"{str(path)!r} is UTF-16 without the mark that tells the order of its bytes. Convert it: "
            f"iconv -f UTF-16LE -t UTF-8 {file} > {shlex.quote(_converted(path))}"
        )
    raise DataFileError(
        f"{str(path)!r} is a binary file: its byte {start.index(0)} is 0. Give a csv, tsv, jsonl, json or parquet "
        "file, a folder of images or an npz file."
    )


def _read_through(path: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    done, lines = 0, 1
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                raise _wrong_byte(path, encoding, error, done - held, lines) from error
            done, lines = done + len(block), lines + block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{str(path)!r} ends within a letter: it seems to be cut off. Copy or download it again."
        ) from error


def _wrong_byte(path: Path, encoding: str, error: UnicodeDecodeError, before: int, lines: int) -> DataFileError:
    if encoding == "utf-16":
        return DataFileError(f"{str(path)!r} begins as UTF-16 but is none ({error.reason}). Save it as UTF-8.")
    line = lines + error.object[: error.start].count(b"\n")
    return DataFileError(
        f"{str(path)!r} is not UTF-8: byte 0x{error.object[error.start]:02x} at position {before + error.start}, line "
        f"{line}. It may be from Windows or in Latin-1; convert it: iconv -f WINDOWS-1252 -t UTF-8 "
        f"{shlex.quote(str(path))} > {shlex.quote(_converted(path))}"
    )


def _converted(path: Path) -> str:
    return f"{path.stem}.utf8{path.suffix}"
