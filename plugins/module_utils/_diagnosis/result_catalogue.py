# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""The chapters of the catalogue that the results of nccl-tests use: NCCL complains of GPUs and of the system, too."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis import causes_gpu, causes_nccl, causes_system
from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.catalogue import Catalogue

RESULT_CATALOGUE = Catalogue(causes_nccl.ENTRIES, causes_gpu.ENTRIES, causes_system.ENTRIES)
