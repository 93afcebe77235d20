# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufabric.nccl.plugins.filter.preflight import ssh_endpoints


def test_odd_values_of_the_inventory_are_no_error_of_python():
    with pytest.raises(AnsibleFilterError, match="^ssh_endpoints: ansible_port of g1: 'ssh' is not allowed"):
        ssh_endpoints(["g1"], {"g1": {"ansible_port": "ssh"}})
