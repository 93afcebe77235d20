# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds private keys in whatever a play shows, returns and writes."""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import tarfile
import typing as t

#: What begins a private key, and what its base64 begins with, where that was cut out: "openssh-key-v1" and the DER of others.
MARKS = ("PRIVATE KEY", "b3BlbnNzaC1rZXktdjE")


def lines_of(keys: t.Iterable[str]) -> list[str]:
    """The lines of private keys in PEM. Each is a secret of its own; the first two and the last say nothing."""
    return [line for key in keys for line in key.splitlines()[2:-1] if len(line) > 20]


def holders(played: t.Any, directory: pathlib.Path, secrets: t.Iterable[str]) -> list[str]:
    """Where a private key is in what a play put out and in the files of a directory, archives and compressed files too."""
    pattern = re.compile("|".join(map(re.escape, (*MARKS, *secrets))).encode())
    texts = {"output": played.output.encode(), "results": json.dumps(played.records).encode()}
    texts.update(_contents(directory))
    return [name for name, text in texts.items() if pattern.search(text)]


def tellers(played: t.Any, text: str) -> list[str]:
    """The tasks whose results show a text, but for the arguments of their modules: what is shown with -v, and kept in events."""
    return [
        f"{record['task']} ({record['host']})"
        for record in played.records
        if not record["hidden"]
        and text in json.dumps({name: value for name, value in record["result"].items() if name != "invocation"})
    ]


def _contents(directory: pathlib.Path) -> t.Iterator[tuple[str, bytes]]:
    for path in (path for path in directory.rglob("*") if path.is_file()):
        yield str(path), path.read_bytes()
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in filter(tarfile.TarInfo.isfile, archive):
                    text = archive.extractfile(member).read()
                    yield f"{path}:{member.name}", gzip.decompress(text) if member.name.endswith(".gz") else text
