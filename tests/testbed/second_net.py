# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A CNI plugin, chained after the one that makes eth0: calls the plugin bridge once more, for an interface net1."""

from __future__ import annotations

import json
import os
import subprocess
import sys

DATA = {
    "cniVersion": "0.4.0",
    "name": "data",
    "type": "bridge",
    "bridge": "cni1",
    "ipam": {"type": "host-local", "subnet": "192.168.88.0/24"},
}

command = os.environ["CNI_COMMAND"]
configuration = json.load(sys.stdin)
if command == "VERSION":
    print(json.dumps({"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}))
elif command in ("ADD", "DEL"):
    environment = {**os.environ, "CNI_IFNAME": "net1"}
    done = subprocess.run(
        ["/usr/lib/cni/bridge"], input=json.dumps(DATA), stdout=subprocess.PIPE, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    if command == "ADD":
        print(json.dumps(configuration["prevResult"]))
