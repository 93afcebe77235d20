# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives dnsmasq the names of Services that have no address of their own: POD.SERVICE.NAMESPACE.svc.cluster.local.

Follows the Endpoints as they change. Pods that are not ready are among them where their Service publishes those.
usage: dns_names.py HOSTS_FILE PID_FILE_OF_DNSMASQ
"""

from __future__ import annotations

import codecs
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing as t

KUBECTL = ("kubectl", "get", "endpoints", "--all-namespaces", "--output=json")


def hosts(endpoints: dict[str, t.Any]) -> list[str]:
    """The lines of the hosts file for the Endpoints of one Service."""
    base = f"{endpoints['metadata']['name']}.{endpoints['metadata']['namespace']}.svc.cluster.local"
    lines = []
    for subset in endpoints.get("subsets") or []:
        for address in subset.get("addresses") or []:
            lines.append(f"{address['ip']} {base}")
            if address.get("hostname"):
                lines.append(f"{address['ip']} {address['hostname']}.{base}")
    return lines


def documents(stream: t.IO[bytes]) -> t.Iterator[dict[str, t.Any]]:
    """The JSON documents of a stream, each as soon as it is complete."""
    decode, decoder, text = codecs.getincrementaldecoder("utf-8")().decode, json.JSONDecoder(), ""
    while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
        text = (text + decode(chunk)).lstrip()
        while text:
            try:
                document, end = decoder.raw_decode(text)
            except ValueError:
                break
            text = text[end:].lstrip()
            yield document


def main(file: pathlib.Path, pid_file: pathlib.Path) -> None:
    """Writes the file whenever it would differ."""
    last = None

    def write(known: dict[str, list[str]]) -> None:
        nonlocal last
        text = "".join(sorted(f"{line}\n" for lines in known.values() for line in lines))
        if text == last:
            return
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)
        os.kill(int(pid_file.read_text()), signal.SIGHUP)
        last = text

    while True:
        listed = subprocess.run(KUBECTL, stdout=subprocess.PIPE, text=True, check=False)
        if listed.returncode == 0:
            known = {item["metadata"]["uid"]: hosts(item) for item in json.loads(listed.stdout)["items"]}
            write(known)
            # The server ends each watch after a while; the next one starts with a list again.
            with subprocess.Popen([*KUBECTL, "--watch", "--output-watch-events"], stdout=subprocess.PIPE) as watch:
                for event in documents(watch.stdout):
                    item = event["object"]
                    known[item["metadata"]["uid"]] = [] if event["type"] == "DELETED" else hosts(item)
                    write(known)
        time.sleep(1)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
