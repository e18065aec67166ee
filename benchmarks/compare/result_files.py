"""Reads result files, of which large ones are kept compressed: x.json, or x.json.xz where that does not exist."""

import json
import lzma
import pathlib


def load(path):
    path = pathlib.Path(path)
    packed = path if path.suffix == ".xz" else path.with_name(path.name + ".xz")
    if path.suffix != ".xz" and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    with lzma.open(packed, "rt", encoding="utf-8") as file:
        return json.load(file)
