# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._options import Spec
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._node_answers import NodeModule


class ActionModule(NodeModule):
    """Runs the module on the node, and keeps what Ansible acts on out of its answer."""

    TEXTS: t.ClassVar[dict[str, Spec]] = {"extra_options": {"type": "dict"}}
