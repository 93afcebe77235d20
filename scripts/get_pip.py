# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for get-pip.py where that cannot be downloaded: installs pip from the wheel beside this file."""

from __future__ import annotations

import pathlib
import runpy
import sys

wheel = next(pathlib.Path(__file__).parent.glob("pip-*.whl"))
sys.path.insert(0, str(wheel))
sys.argv[1:] = [
    "install",
    *(argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")),
]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
