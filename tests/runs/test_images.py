"""Images as rows: folders, files of labels and arrays, in any size and color; damaged ones are named."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from turnover.errors import DataFileError, TooLargeError
from turnover.runs import open_run, start_run
from turnover.runs._reading import read_rows
from turnover.runs.config import RunConfig
from turnover.runs.images import read_image
from turnover.runs.table import _scale_of
from turnover.ui.pictures import pixels_for

Image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'turnover[cli]'")


def drawn(number, *, size=(12, 10), mode="RGB"):
    pixels = np.random.default_rng(number).integers(0, 256, (*size[::-1], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.fixture
def folder(tmp_path):
    for number in range(12):
        path = tmp_path / "images" / ("cat" if number % 2 else "dog") / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn(number).save(path)
    return tmp_path / "images"


def config(where, **options):
    return RunConfig(str(where), **{"image_size": 8, **options})


def test_sub_folders_are_classes(folder):
    rows = read_rows(config(folder))
    assert rows.kind == "image"
    assert rows.values.shape == (12, 8, 8, 3)
    assert rows.values.dtype == np.uint8
    assert rows.label_names == ("cat", "dog")
    assert rows.names[0] == "cat/01.png"
    assert [name.split("/")[0] for name in rows.names] == [rows.label_names[label] for label in rows.labels]
    assert rows.data.column("file").to_pylist() == list(rows.names)


def test_folders_named_after_splits_fix_them(folder, tmp_path):
    for split in ("train", "test"):
        shutil.copytree(folder, tmp_path / "all" / split)
    rows = read_rows(config(tmp_path / "all"))
    assert rows.label_names == ("cat", "dog")
    assert sorted(rows.splits.tolist()) == [0] * 12 + [2] * 12
    assert all((split == 2) == name.startswith("test/") for split, name in zip(rows.splits, rows.names, strict=True))


def test_a_separate_folder_of_validation_images_fixes_their_split(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "more")
    rows = read_rows(config(folder, validation_data=str(tmp_path / "more")))
    assert rows.splits.tolist() == [-1] * 12 + [1] * 12
    assert rows.names[-1].startswith("more/dog/")


def test_a_file_of_labels_brings_its_other_columns_and_groups(folder, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for number in range(8):
        drawn(number).save(flat / f"{number}.jpg")
    lines = ["file,what,camera", *(f"{number},{'ab'[number % 2]},c{number % 4}" for number in range(8))]
    (flat / "labels.csv").write_text("\n".join(lines))
    rows = read_rows(config(flat, label="what", group="camera"))
    assert rows.label_column == "what"
    assert rows.label_names == ("a", "b")
    assert rows.groups == ("c0", "c1", "c2", "c3") * 2
    assert rows.data.column("camera").to_pylist() == list(rows.groups)


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "RGBA", "CMYK", "I;16", "I"])
def test_every_kind_of_pixel_is_read(tmp_path, mode):
    if mode in ("I;16", "I"):
        values = np.full((10, 10), 257 * 100)
        image = Image.fromarray(values.astype(np.uint16 if mode == "I;16" else np.int32))
    else:
        image = Image.new("L", (10, 10), 100).convert(mode)
    path = tmp_path / ("image.tif" if mode in ("CMYK", "I") else "image.png")
    image.save(path)
    pixels = read_image(path, size=4)
    assert pixels.shape == (4, 4, 3)
    if mode != "1":
        assert np.abs(pixels.astype(int) - 100).max() <= 1


def test_the_middle_of_an_image_is_kept_and_what_is_transparent_becomes_white(tmp_path):
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", size=10) == 200).all()
    Image.new("RGBA", (5, 5), (9, 9, 9, 0)).save(tmp_path / "glass.png")
    assert (read_image(tmp_path / "glass.png", size=5) == 255).all()


def test_a_photograph_is_turned_as_its_camera_noted(tmp_path):
    image = Image.fromarray(np.repeat(np.array([[0] * 8, [255] * 8], np.uint8), 4, axis=0))
    exif = image.getexif()
    exif[0x0112] = 3  # taken upside down
    image.save(tmp_path / "photo.png", exif=exif)
    pixels = read_image(tmp_path / "photo.png", size=8)
    assert pixels[0].min() == 255
    assert pixels[-1].max() == 0


def damage(path):
    path.write_bytes(path.read_bytes()[:60])


def test_damaged_images_are_refused_by_name(folder):
    damage(folder / "cat" / "03.png")
    (folder / "dog" / "04.png").write_bytes(b"no image")
    named = r"2 images of 12 that cannot be opened \(cat/03\.png, dog/04\.png: .*Replace.*--skip-bad"
    with pytest.raises(DataFileError, match=named):
        read_rows(config(folder))


def test_damaged_images_are_left_out_with_a_note_where_that_was_asked_for(tmp_path):
    for number in range(20):
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        drawn(number, size=(4, 4)).save(path)
    damage(tmp_path / "b" / "11.png")
    rows = read_rows(config(tmp_path, skip_bad=True))
    assert len(rows) == len(rows.values) == rows.data.num_rows == 19
    assert "b/11.png" not in rows.names
    assert any("1 image of 20 that cannot be opened skipped (b/11.png" in note for note in rows.notes)
    place = rows.names.index("b/13.png")
    assert np.array_equal(rows.values[place], read_image(tmp_path / "b" / "13.png", size=8))


def test_an_image_of_too_many_pixels_is_refused_before_it_is_opened(tmp_path):
    Image.new("1", (10_000, 7_000)).save(tmp_path / "huge.png")
    with pytest.raises(DataFileError, match="10000 x 7000 pixels are more than 64 million"):
        read_image(tmp_path / "huge.png", size=8)


def test_only_the_images_that_are_drawn_are_opened(folder):
    few = config(folder, max_rows=4, seed=1)
    first = read_rows(few)
    assert np.bincount(first.labels).tolist() == [2, 2]
    for path in folder.rglob("*.png"):
        if path.relative_to(folder).as_posix() not in first.names:
            damage(path)
    reported: list[tuple[str, int, int]] = []

    def watch(stage: str, done: int, total: int, note: str = "") -> None:
        reported.append((stage, done, total))

    again = read_rows(few, watch=watch)
    assert np.array_equal(again.values, first.values)
    assert reported == [("reading images", 4, 4)]


def test_files_that_are_no_images_are_left_out_with_a_note(folder):
    (folder / "cat" / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes(b"")
    drawn(50).save(folder / "loose.png")
    rows = read_rows(config(folder))
    assert len(rows) == 12
    assert any("1 files that are not images skipped, 'notes.txt'" in note for note in rows.notes)
    assert any("'loose.png'" in note for note in rows.notes)


def test_folders_of_no_use_say_what_is_needed(folder, tmp_path):
    empty, tables, flat = (tmp_path / name for name in ("empty", "tables", "flat"))
    for path in (empty, tables, flat):
        path.mkdir()
    (tables / "rows.csv").write_text("text,label\n")
    drawn(1).save(flat / "1.png")
    for where, message in (
        (empty, "is empty"),
        (tables, r"no images.*1 \.csv.*Give the file itself: .*rows\.csv"),
        (flat, "1 images and no labels.*sub-folder named after its class.*labels.csv"),
    ):
        with pytest.raises(DataFileError, match=message):
            read_rows(config(where))
    (flat / "labels.csv").write_text("file,label\n1.png,a\n2.png,b\n")
    with pytest.raises(DataFileError, match=r"1 of 2 images that .* are not in .*'2\.png'"):
        read_rows(config(flat))
    (flat / "labels.csv").write_text("which,label\n1.png,a\n")
    with pytest.raises(DataFileError, match=r"no column that names the images.*'which'"):
        read_rows(config(flat))


def test_one_class_only_and_groups_without_a_file_are_refused(folder):
    with pytest.raises(DataFileError, match=r"--group who needs a column: put labels\.csv"):
        read_rows(config(folder, group="who"))
    for path in (folder / "cat").iterdir():
        path.unlink()
    with pytest.raises(DataFileError, match="one sub-folder only, 'dog'"):
        read_rows(config(folder))


def arrays(tmp_path, **values):
    np.savez(tmp_path / "images.npz", **values)
    return tmp_path / "images.npz"


BYTES = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 3), np.uint8)
LABELS = np.arange(10) % 2


@pytest.mark.parametrize(
    "images",
    [
        BYTES,
        BYTES.astype(np.float32),
        BYTES.astype(np.int64),
        BYTES / 255,
        BYTES.transpose(0, 3, 1, 2),
        BYTES.astype(np.uint16) * 257,
    ],
    ids=["bytes", "floats to 255", "int64", "floats to 1", "channels first", "sixteen bits"],
)
def test_arrays_of_images_in_any_form_are_the_same_pixels(tmp_path, images):
    rows = read_rows(config(arrays(tmp_path, images=images, labels=LABELS)))
    rows = rows.with_bytes(np.ones(10, bool))
    assert np.abs(rows.values.astype(int) - BYTES.astype(int)).max() <= (1 if images.dtype == np.uint16 else 0)
    assert rows.label_names == ("0", "1")


def run_of(where, out, **options):
    options = {"image_size": 8, "hidden": 8, "replicas": 1, "epochs": 1, **options}
    return start_run(RunConfig(str(where), **options), out)


def test_all_parts_of_a_file_and_new_images_have_the_scale_of_the_training_images(tmp_path):
    draw = np.random.default_rng(0)
    parts = {}
    for name, least, greatest in (("train", -2.0, 3.0), ("val", 0.0, 0.5), ("test", -1.0, 9.0)):
        parts[f"x_{name}"] = draw.uniform(least, greatest, (12, 8, 8)).astype(np.float32)
        parts[f"y_{name}"] = np.arange(12) % 2
        parts[f"x_{name}"][:, 0, 0] = 0.3
    parts["x_train"][0, 1, :2] = -2, 3
    parts["x_test"][0, 1, 1] = 1e6  # one bright pixel of the test does not darken the rest
    run = run_of(arrays(tmp_path, **parts), tmp_path / "run")
    assert set(run.rows.values[:, 0, 0, 0].tolist()) == {round((0.3 + 2) / 5 * 255)}
    assert run.rows.scales == open_run(tmp_path / "run").rows.scales
    assert any("Pixels from -2 to 3 became 0 to 255, by training images" in note for note in run.about.notes)
    Image.fromarray(np.full((8, 8), 0.3, np.float32)).save(tmp_path / "new.tif")
    for opened in (run, open_run(tmp_path / "run")):
        assert set(pixels_for(opened, tmp_path / "new.tif").reshape(-1).tolist()) == {117}


@pytest.mark.parametrize(("mode", "top"), [("F", 1.0), ("F", 400.0), ("I;16", 4095), ("I", 4095)])
def test_deep_images_of_a_folder_have_one_scale(tmp_path, mode, top):
    draw = np.random.default_rng(0)
    kind = {"F": np.float32, "I;16": np.uint16, "I": np.int32}[mode]
    for number in range(24):
        file = tmp_path / "images" / "ab"[number % 2] / f"{number}.tif"
        file.parent.mkdir(parents=True, exist_ok=True)
        # Half of the images are dark: scaled by their own maximum they would look like the others.
        pixels = draw.uniform(0, top if number % 4 < 2 else top / 10, (8, 8))
        pixels[0, :2] = 0, top if number % 4 < 2 else top / 10
        Image.fromarray(pixels.astype(kind)).save(file)
    rows = run_of(tmp_path / "images", tmp_path / "run").rows
    brightest = rows.values.reshape(24, -1).max(1)
    bright = np.array([int(Path(name).stem) % 4 < 2 for name in rows.names])
    assert set(brightest[bright].tolist()) == {255}
    assert set(brightest[~bright].tolist()) <= {25, 26}


@pytest.mark.parametrize(
    ("pixels", "ends"),
    [
        ([0, 1, 0.5], (0, 1)),
        ([0, 200, 17], (0, 255)),
        ([0, 16, 3], (0, 16)),
        ([-3, 5, 1], (-3, 5)),
        ([7, 7, 7], (7, 8)),
        ([1000, 3000, 2000], (1000, 3000)),
    ],
)
def test_the_scale_is_that_which_the_training_pixels_suit(pixels, ends):
    assert _scale_of(np.array(pixels, np.float32)) == ends


def test_minus_one_and_nan_are_no_labels(tmp_path):
    for labels in (np.where(np.arange(10) == 7, -1, LABELS), np.where(np.arange(10) == 7, np.nan, LABELS)):
        for more in ({}, {"classes": np.array(["cat", "dog"])}):
            file = arrays(tmp_path, images=BYTES, labels=labels, **more)
            with pytest.raises(DataFileError, match=r"1 image without a label \(image 8\)"):
                read_rows(config(file))
            rows = read_rows(config(file, skip_bad=True))
            assert len(rows) == 9
            assert len(rows.label_names) == 2


def test_images_with_nan_or_infinite_pixels_and_missing_labels_are_refused_by_name_or_left_out(tmp_path):
    images, labels = BYTES / 255, LABELS.astype(float)
    images[2, 0, 0, 0], images[5, 1, 1, 1], labels[7] = np.nan, np.inf, np.nan
    file = arrays(tmp_path, images=images, labels=labels)
    named = (
        r"1 image without a label \(image 8\) and 2 images with pixels that are NaN or infinite \(image 3, image 6\)"
    )
    with pytest.raises(DataFileError, match=f"{named}.*--skip-bad"):
        read_rows(config(file))
    rows = read_rows(config(file, skip_bad=True))
    kept = [0, 1, 3, 4, 6, 8, 9]
    assert np.array_equal(rows.with_bytes(np.ones(7, bool)).values, BYTES[kept])
    assert rows.names == tuple(f"image {place + 1}" for place in kept)


def test_an_image_without_a_label_in_the_file_of_labels_is_refused_or_left_out(tmp_path):
    for number in range(10):
        drawn(number).save(tmp_path / f"{number}.png")
    lines = [f"{number}.png,{'ab'[number % 2] if number != 4 else ''}" for number in range(10)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *lines]))
    with pytest.raises(DataFileError, match=r"1 image without a label \(4\.png\).*--skip-bad"):
        read_rows(config(tmp_path))
    assert len(read_rows(config(tmp_path, skip_bad=True))) == 9


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({"images": BYTES}, {}, r"no images with labels\. Its arrays are 'images' \[10, 8, 8, 3\]"),
        ({"images": BYTES, "labels": LABELS[:9]}, {}, r"\[10, 8, 8, 3\] and its labels \[9\]"),
        ({"images": BYTES[0, 0], "labels": LABELS[:8]}, {}, "Give images"),
        ({"images": BYTES, "labels": LABELS}, {"label": "lables"}, "no array 'lables'. Did you mean --label labels"),
        ({"images": np.full((10, 8, 8), np.nan), "labels": LABELS}, {}, "must have numbers as pixels"),
        ({"images": np.array([None] * 10), "labels": LABELS}, {}, "cannot be read as npz"),
        ({"images": BYTES, "labels": LABELS * 0}, {}, "one class only"),
        (
            {"images": BYTES, "labels": LABELS + 1, "classes": np.array(["a", "b"])},
            {},
            "must be from 0 to 1.*got 1 to 2",
        ),
        ({"images": BYTES, "labels": LABELS * np.nan}, {}, "no row of .* has a label"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, values, options, message):
    with pytest.raises(DataFileError, match=message):
        read_rows(config(arrays(tmp_path, **values), **options))


def _npz(**arrays):
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return bytearray(held.getvalue())


def _single_array():
    held = io.BytesIO()
    np.save(held, BYTES)
    return held.getvalue()


def _bad_stream():
    content = _npz(images=BYTES, labels=LABELS)
    place = content.index(b"images.npy") + 200
    content[place : place + 300] = bytes(300)
    return bytes(content)


@pytest.mark.parametrize("content", [b"PK\x03\x04 no zip", b"", _single_array(), _bad_stream()], ids=len)
def test_a_damaged_npz_file_is_refused(tmp_path, content):
    (tmp_path / "images.npz").write_bytes(content)
    with pytest.raises(DataFileError, match=r"cannot be read as npz.*numpy\.savez"):
        read_rows(config(tmp_path / "images.npz"))


def test_an_npz_file_without_images_is_refused(tmp_path):
    for images in (BYTES[:0], np.zeros((0, 8, 8), np.float32)):
        with pytest.raises(DataFileError, match=r"is empty, \[0, 8, 8"):
            read_rows(config(arrays(tmp_path, images=images, labels=LABELS[:0])))


@pytest.mark.parametrize("name", ["../secret.png", "{absolute}", "inner/../../secret.png"])
def test_a_file_of_labels_names_no_image_outside_of_its_folder(tmp_path, name):
    flat = tmp_path / "flat"
    flat.mkdir()
    drawn(0).save(tmp_path / "secret.png")
    for number in range(4):
        drawn(number).save(flat / f"{number}.png")
    name = name.format(absolute=tmp_path / "secret.png")
    lines = ["file,label", *(f"{number}.png,{'ab'[number % 2]}" for number in range(4)), f"{name},a"]
    (flat / "labels.csv").write_text("\n".join(lines))
    with pytest.raises(DataFileError, match=r"1 of 5 images .* are not in .*secret\.png.*named from that folder on"):
        read_rows(config(flat))


def test_a_file_that_unpacks_to_more_than_the_free_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", images=np.zeros((100, 64, 64), np.uint8), labels=np.arange(100) % 2)
    assert (tmp_path / "bomb.npz").stat().st_size < 5000
    monkeypatch.setattr("turnover.storage.files.free_memory", lambda: 300_000)
    with pytest.raises(TooLargeError, match=r"unpacks to 41\d\.\d kB, and 300\.0 kB of memory are free"):
        read_rows(config(tmp_path / "bomb.npz"))
