# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Bus bandwidths that others have published, in GB/s. No rule is made of them unless one chooses them by their name.

They are far apart, since they are of different definitions (an average over sizes, one size, the peak), node counts and kinds:
``measured`` on one machine once, or a ``threshold`` that its authors use to accept machines.
"""

from __future__ import annotations

import typing as t

_M, _G = 1 << 20, 1 << 30
MEASURED, THRESHOLD = "measured", "threshold"


class Source(t.NamedTuple):
    """Where values were published. ``where``: repository and file, and of which day or commit."""

    where: str
    kind: str
    definition: str
    measure: str = "out_of_place.busbw"


class Reference(t.NamedTuple):
    """One value. ``gpu``: a part of the device's name; ``measure``, ``min_bytes`` and ``max_bytes`` as in a rule."""

    name: str
    source: Source
    system: str
    gpu: str
    hosts: int
    gpus_per_host: int
    collective: str
    value: float
    min_bytes: int
    max_bytes: int


_NVCRE = Source(
    "NVIDIA/cluster-readiness-engine, docs/api-reference/validation-results.md, commit 2a4d4aee",
    MEASURED,
    "bus bandwidth of 16 GB messages, as its report has it",
)
_NVCRE_README = _NVCRE._replace(where="NVIDIA/cluster-readiness-engine, README.md")
_AWS = Source(
    "aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests/README.md, 2026-02-21",
    MEASURED,
    "out-of-place bus bandwidth of that size",
)
_COREWEAVE = Source(
    "coreweave/nccl-tests, README.md, commit 0120901a", MEASURED, "out-of-place bus bandwidth of that size"
)
_COREWEAVE_IN_PLACE = _COREWEAVE._replace(definition="in-place bus bandwidth of that size", measure="in_place.busbw")
_ISSUE_1222 = Source(
    "NVIDIA/nccl, issue 1222, 2024-03-13 (NCCL 2.19.3)", MEASURED, "out-of-place bus bandwidth of that size"
)
_AICR_1413 = Source(
    "NVIDIA/aicr, issue 1413, 2026-06-23 (NCCL 2.29)", MEASURED, "peak bus bandwidth of 1 KB to 8 GB messages, at 8 GB"
)
_AICR_1850 = Source("NVIDIA/aicr, pull request 1850, 2026-07-22", MEASURED, "bus bandwidth of that size")
_ISSUE_212 = Source(
    "NVIDIA/nccl-tests, issue 212, 2024-05-06",
    MEASURED,
    "the peak that an author of NCCL names for large messages, with NVLink SHARP for all_reduce",
)
_OCI_PAIRS = Source(
    "oracle-quickstart/oci-hpc, scripts/ncclscout.py, 2026-05-19",
    THRESHOLD,
    "in-place bus bandwidth of the first row, which is of 1 GB",
    "in_place.busbw",
)
_OCI_AVERAGE = Source(
    "oracle-quickstart/oci-hpc, playbooks/roles/healthchecks/files/multi_node_active_healthcheck.py, 2026-05-19",
    THRESHOLD,
    "printed average of 1 to 16 GB messages",
    "avg_busbw",
)
_OCI_HOST = _OCI_AVERAGE._replace(
    where="oracle-quickstart/oci-hpc, playbooks/roles/healthchecks/files/active_healthcheck.py, 2026-05-19"
)
_AZURE = Source(
    "Azure/azurehpc-health-checks, conf/*.conf, 2026-05-01",
    THRESHOLD,
    "printed average of that size alone",
    "avg_busbw",
)
_AKS = Source(
    "Azure/aks-rdma-infiniband, tests/expected-output.md, commit 065a099d",
    MEASURED,
    "out-of-place bus bandwidth of that size",
)
_AKS_FLOOR = Source(_AKS.where, THRESHOLD, "in-place bus bandwidth of the last row, which is of 8 GB", "in_place.busbw")
_GOOGLE = Source(
    "GoogleCloudPlatform/cluster-health-scanner, helm values, 2025-10-31",
    THRESHOLD,
    "printed average of 2 to 8 GB messages",
    "avg_busbw",
)
_CVS = Source(
    "ROCm/cvs, cvs/input/config_file/rccl/rccl_config.json, commit 00fff433",
    THRESHOLD,
    "bus bandwidth of that size; an example of its authors, who name neither the GPU's model nor the network's rate",
)

_AWS_H100 = ("AWS H100, 2 x 8 GPUs, EFA", "H100", 2, 8)
_AWS_GB200 = ("AWS GB200, 4 x 4 GPUs, multi-node NVLink", "GB200", 4, 4)
_AWS_GB200_EFA = ("AWS GB200, 4 x 4 GPUs, without multi-node NVLink", "GB200", 4, 4)
_AWS_GB300 = ("AWS GB300, 8 x 4 GPUs, multi-node NVLink", "GB300", 8, 4)
_AWS_GB300_ROCE = ("AWS GB300, 8 x 4 GPUs, without multi-node NVLink", "GB300", 8, 4)
_GCP_H100 = ("Google Cloud H100, 2 x 8 GPUs, TCPXO", "H100", 2, 8)
_GCP_GB200 = ("Google Cloud GB200, 2 x 4 GPUs, multi-node NVLink", "GB200", 2, 4)
_P5 = ("AWS p5.48xlarge, 2 x 8 H100, EFA", "H100", 2, 8)
_ONE_RACK = ("CoreWeave GB200, 18 x 4 GPUs (1 rack)", "GB200", 18, 4)
_TWO_RACKS = ("CoreWeave GB200, 36 x 4 GPUs (2 racks)", "GB200", 36, 4)
_TWENTY_RACKS = ("CoreWeave GB200, 360 x 4 GPUs (20 racks)", "GB200", 360, 4)
_AKS_PAIR = ("Azure AKS A100, 2 x 8 GPUs, InfiniBand of 200 Gb/s a NIC", "A100", 2, 8)
_OCI_B300_PAIR = ("OCI B300, 2 x 8 GPUs", "B300", 2, 8)
_OCI_MI355X_PAIR = ("OCI MI355X, 2 x 8 GPUs", "MI355X", 2, 8)
_CVS_PAIR = ("AMD Instinct, 2 x 8 GPUs", "MI3", 2, 8)

# The rows in which the interconnect differs from what the page says are left out: Google Cloud's GB200 has the same number with
# multi-node NVLink and without.
REFERENCES: tuple[Reference, ...] = (
    Reference("nvcre-aws-h100", _NVCRE, *_AWS_H100, "all_reduce", 487.87, 16 * _G, 16 * _G),
    Reference("nvcre-aws-h100", _NVCRE, *_AWS_H100, "all_gather", 338.57, 16 * _G, 16 * _G),
    Reference("nvcre-aws-h100", _NVCRE, *_AWS_H100, "alltoall", 79.11, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200", _NVCRE, *_AWS_GB200, "all_reduce", 882.51, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200", _NVCRE, *_AWS_GB200, "all_gather", 609.28, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200", _NVCRE, *_AWS_GB200, "alltoall", 568.66, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200-efa", _NVCRE, *_AWS_GB200_EFA, "all_reduce", 191.40, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200-efa", _NVCRE, *_AWS_GB200_EFA, "all_gather", 191.26, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb200-efa", _NVCRE, *_AWS_GB200_EFA, "alltoall", 58.15, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb300", _NVCRE, *_AWS_GB300, "all_reduce", 923.32, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb300", _NVCRE, *_AWS_GB300, "all_gather", 698.74, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb300", _NVCRE, *_AWS_GB300, "alltoall", 678.57, 16 * _G, 16 * _G),
    Reference(
        *("nvcre-aws-gb300", _NVCRE_README, "AWS GB300, 16 x 4 GPUs, multi-node NVLink", "GB300", 16, 4),
        *("all_reduce", 932.09, 16 * _G, 16 * _G),
    ),
    Reference("nvcre-aws-gb300-roce", _NVCRE, *_AWS_GB300_ROCE, "all_reduce", 376.01, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb300-roce", _NVCRE, *_AWS_GB300_ROCE, "all_gather", 365.68, 16 * _G, 16 * _G),
    Reference("nvcre-aws-gb300-roce", _NVCRE, *_AWS_GB300_ROCE, "alltoall", 85.62, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-h100", _NVCRE, *_GCP_H100, "all_reduce", 337.09, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-h100", _NVCRE, *_GCP_H100, "all_gather", 189.27, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-h100", _NVCRE, *_GCP_H100, "alltoall", 40.16, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-gb200", _NVCRE, *_GCP_GB200, "all_reduce", 838.07, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-gb200", _NVCRE, *_GCP_GB200, "all_gather", 680.18, 16 * _G, 16 * _G),
    Reference("nvcre-gcp-gb200", _NVCRE, *_GCP_GB200, "alltoall", 683.82, 16 * _G, 16 * _G),
    Reference("aws-p5", _AWS, *_P5, "all_reduce", 209.19, 64 * _M, 64 * _M),
    Reference("aws-p5", _AWS, *_P5, "all_reduce", 289.16, 128 * _M, 128 * _M),
    Reference("aws-p5", _AWS, *_P5, "all_reduce", 436.95, _G, _G),
    Reference("aws-p5", _AWS, *_P5, "all_reduce", 479.28, 8 * _G, 8 * _G),
    Reference("aws-p5", _AWS, *_P5, "all_reduce", 487.09, 16 * _G, 16 * _G),
    Reference(
        "aws-p4de", _AWS, "AWS p4de.24xlarge, 2 x 8 A100, EFA", "A100", 2, 8, "all_reduce", 78.33, 2 * _G, 2 * _G
    ),
    Reference(
        *("coreweave-h100", _COREWEAVE, "CoreWeave H100, 12 x 8 GPUs, InfiniBand with SHARP", "H100", 12, 8),
        *("all_reduce", 386.56, 8 * _G, 8 * _G),
    ),
    Reference("coreweave-gb200", _COREWEAVE, *_ONE_RACK, "all_reduce", 834.57, 8 * _G, 8 * _G),
    Reference("coreweave-gb200", _COREWEAVE_IN_PLACE, *_ONE_RACK, "all_reduce", 846.82, 8 * _G, 8 * _G),
    Reference("coreweave-gb200", _COREWEAVE, *_TWO_RACKS, "all_reduce", 793.06, 8 * _G, 8 * _G),
    Reference("coreweave-gb200", _COREWEAVE, *_TWO_RACKS, "all_reduce", 810.41, 16 * _G, 16 * _G),
    Reference("coreweave-gb200", _COREWEAVE_IN_PLACE, *_TWO_RACKS, "all_reduce", 820.36, 16 * _G, 16 * _G),
    Reference("coreweave-gb200", _COREWEAVE, *_TWENTY_RACKS, "all_reduce", 405.74, 16 * _G, 16 * _G),
    Reference("coreweave-gb200", _COREWEAVE_IN_PLACE, *_TWENTY_RACKS, "all_reduce", 404.77, 16 * _G, 16 * _G),
    Reference(
        *("oci-h100-nodes", _ISSUE_1222, "OCI H100, 4 x 8 GPUs", "H100", 4, 8),
        *("all_reduce", 391.10, 16 * _G, 16 * _G),
    ),
    Reference(
        *("aicr-gb300-roce", _AICR_1413, "AWS p6e-gb300r, 2 x 4 GB300, RoCE without multi-node NVLink", "GB300", 2, 4),
        *("all_reduce", 387.0, 8 * _G, 8 * _G),
    ),
    Reference(
        *("aicr-vr200", _AICR_1850, "VR200 NVL72, 2 x 4 GPUs, multi-node NVLink", "VR200", 2, 4),
        *("all_reduce", 744.31, 16 * _G, 16 * _G),
    ),
    Reference("hgx-h100", _ISSUE_212, "HGX H100, one host of 8 GPUs", "H100", 1, 8, "all_reduce", 480.0, _G, 16 * _G),
    Reference("hgx-h100", _ISSUE_212, "HGX H100, one host of 8 GPUs", "H100", 1, 8, "all_gather", 370.0, _G, 16 * _G),
    Reference(
        "hgx-h100", _ISSUE_212, "HGX H100, one host of 8 GPUs", "H100", 1, 8, "reduce_scatter", 370.0, _G, 16 * _G
    ),
    Reference("oci-a100", _OCI_PAIRS, "OCI A100, 2 x 8 GPUs", "A100", 2, 8, "all_reduce", 185.0, _G, _G),
    Reference("oci-h100", _OCI_PAIRS, "OCI H100, 2 x 8 GPUs", "H100", 2, 8, "all_reduce", 440.0, _G, _G),
    Reference("oci-h200", _OCI_PAIRS, "OCI H200, 2 x 8 GPUs", "H200", 2, 8, "all_reduce", 440.0, _G, _G),
    Reference("oci-b200", _OCI_PAIRS, "OCI B200, 2 x 8 GPUs", "B200", 2, 8, "all_reduce", 440.0, _G, _G),
    Reference("oci-b300", _OCI_PAIRS, *_OCI_B300_PAIR, "all_reduce", 750.0, _G, _G),
    Reference("oci-mi300x", _OCI_PAIRS, "OCI MI300X, 2 x 8 GPUs", "MI300X", 2, 8, "all_reduce", 350.0, _G, _G),
    Reference("oci-mi355x", _OCI_PAIRS, *_OCI_MI355X_PAIR, "all_reduce", 400.0, _G, _G),
    Reference("oci-gb200", _OCI_AVERAGE, "OCI GB200 v3, 2 x 4 GPUs", "GB200", 2, 4, "all_reduce", 300.0, _G, 16 * _G),
    Reference("oci-gb300", _OCI_AVERAGE, "OCI GB300, 2 x 4 GPUs", "GB300", 2, 4, "all_reduce", 440.0, _G, 16 * _G),
    Reference("oci-b300-average", _OCI_AVERAGE, *_OCI_B300_PAIR, "all_reduce", 700.0, _G, 16 * _G),
    Reference("oci-mi355x-average", _OCI_AVERAGE, *_OCI_MI355X_PAIR, "all_reduce", 350.0, _G, 16 * _G),
    Reference("oci-a100", _OCI_HOST, "OCI A100, one host", "A100", 1, 8, "all_reduce", 185.0, _G, 16 * _G),
    Reference("oci-h100", _OCI_HOST, "OCI H100, one host", "H100", 1, 8, "all_reduce", 440.0, _G, 16 * _G),
    Reference("oci-h200", _OCI_HOST, "OCI H200, one host", "H200", 1, 8, "all_reduce", 440.0, _G, 16 * _G),
    Reference("oci-b200", _OCI_HOST, "OCI B200, one host", "B200", 1, 8, "all_reduce", 440.0, _G, 16 * _G),
    Reference("oci-b300", _OCI_HOST, "OCI B300, one host", "B300", 1, 8, "all_reduce", 800.0, _G, 16 * _G),
    Reference("oci-mi300x", _OCI_HOST, "OCI MI300X, one host", "MI300X", 1, 8, "all_reduce", 310.0, _G, 16 * _G),
    Reference("oci-mi355x", _OCI_HOST, "OCI MI355X, one host", "MI355X", 1, 8, "all_reduce", 310.0, _G, 16 * _G),
    Reference("azure-nd-h100-v5", _AZURE, "Azure ND96isr H100 v5", "H100", 1, 8, "all_reduce", 460.0, 16 * _G, 16 * _G),
    Reference("azure-nd-h200-v5", _AZURE, "Azure ND96isr H200 v5", "H200", 1, 8, "all_reduce", 431.0, 16 * _G, 16 * _G),
    Reference(
        "azure-nd-a100-v4", _AZURE, "Azure ND96amsr A100 v4", "A100", 1, 8, "all_reduce", 228.0, 16 * _G, 16 * _G
    ),
    Reference("azure-nd-a100-40g-v4", _AZURE, "Azure ND96asr v4", "A100", 1, 8, "all_reduce", 228.0, 8 * _G, 8 * _G),
    Reference("azure-nd40rs-v2", _AZURE, "Azure ND40rs v2", "V100", 1, 8, "all_reduce", 110.0, 8 * _G, 8 * _G),
    Reference(
        "azure-nd-mi300x-v5", _AZURE, "Azure ND96isr MI300X v5", "MI300X", 1, 8, "all_reduce", 314.0, 16 * _G, 16 * _G
    ),
    Reference(
        "azure-nc48-a100-v4", _AZURE, "Azure NC48ads A100 v4", "A100", 1, 2, "all_reduce", 193.0, 16 * _G, 16 * _G
    ),
    Reference("azure-nc96-a100-v4", _AZURE, "Azure NC96ads A100 v4", "A100", 1, 4, "all_reduce", 25.0, 8 * _G, 8 * _G),
    Reference(
        "azure-nc80-h100-v5", _AZURE, "Azure NC80adis H100 v5", "H100", 1, 2, "all_reduce", 208.0, 16 * _G, 16 * _G
    ),
    Reference("aks-a100", _AKS, *_AKS_PAIR, "all_reduce", 184.32, 2 * _G, 2 * _G),
    Reference("aks-a100", _AKS, *_AKS_PAIR, "all_reduce", 187.22, 8 * _G, 8 * _G),
    Reference("aks-a100-floor", _AKS_FLOOR, *_AKS_PAIR, "all_reduce", 180.0, 8 * _G, 8 * _G),
    Reference(
        "google-a3", _GOOGLE, "Google Cloud a3, pairs of nodes", "H100", 2, 8, "all_gather", 60.0, 2 * _G, 8 * _G
    ),
    Reference(
        "google-a3plus",
        _GOOGLE,
        "Google Cloud a3plus, pairs of nodes",
        "H100",
        2,
        8,
        "all_gather",
        150.0,
        2 * _G,
        8 * _G,
    ),
    Reference(
        "google-a3ultra",
        _GOOGLE,
        "Google Cloud a3ultra, pairs of nodes",
        "H200",
        2,
        8,
        "all_gather",
        250.0,
        2 * _G,
        8 * _G,
    ),
    Reference(
        "google-a4", _GOOGLE, "Google Cloud a4, pairs of nodes", "B200", 2, 8, "all_gather", 250.0, 2 * _G, 8 * _G
    ),
    Reference(
        *("google-a4x", _GOOGLE, "Google Cloud a4x, pairs of nodes, without multi-node NVLink", "GB200", 2, 4),
        *("all_gather", 160.0, 2 * _G, 8 * _G),
    ),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "all_reduce", 330.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "all_reduce", 350.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "all_gather", 330.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "all_gather", 350.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "reduce_scatter", 340.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "reduce_scatter", 360.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "gather", 330.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "gather", 350.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "scatter", 330.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "scatter", 350.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "alltoall", 45.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "alltoall", 50.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "alltoallv", 45.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "alltoallv", 50.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "sendrecv", 47.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "sendrecv", 48.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "broadcast", 310.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "broadcast", 312.0, 16 * _G, 16 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "reduce", 300.0, 8 * _G, 8 * _G),
    Reference("cvs-example", _CVS, *_CVS_PAIR, "reduce", 310.0, 16 * _G, 16 * _G),
)
#: What the NICs of a host do together, in Gb/s, of the machines that say so; their vendors' pages have it.
HOST_GBPS: dict[str, float] = {
    "nvcre-aws-h100": 3200,
    "nvcre-aws-gb200-efa": 1600,
    "nvcre-gcp-h100": 1600,
    "aws-p5": 3200,
    "aws-p4de": 400,
    "coreweave-h100": 3200,
    "aks-a100": 1600,
    "oci-h100-nodes": 3200,
}
REFERENCE_NAMES: tuple[str, ...] = tuple(dict.fromkeys(reference.name for reference in REFERENCES))
