# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import re

FOLDER = pathlib.Path(__file__).parents[3] / "containers/nccl-tests"


def test_images_are_named_with_their_registry():
    """podman on Debian refuses a short name that its list of aliases lacks."""
    defaults = dict(re.findall(r"^ARG (BUILD|BASE)=(.+)$", (FOLDER / "Containerfile").read_text(), re.MULTILINE))
    assert set(defaults) == {"BUILD", "BASE"}
    page = (FOLDER / "README.md").read_text()
    for name, image in defaults.items():
        assert image.startswith("docker.io/"), name
        assert f"| `{name}` | `{image}` |" in page
