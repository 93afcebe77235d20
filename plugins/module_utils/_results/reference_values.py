# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Bus bandwidths that others have published, in GB/s. None of them is used unless it is chosen by its name.

They are far apart, since they are of different definitions (an average over sizes, the largest size, the peak), node counts
and kinds: ``measured`` on one machine once, or a ``threshold`` that its authors use to accept machines.
"""

from __future__ import annotations

import typing as t

_K, _M, _G = 1 << 10, 1 << 20, 1 << 30


class Reference(t.NamedTuple):
    """One value. ``measure``, ``min_bytes``, ``max_bytes`` and ``over`` as in a rule; ``gpu``: a part of the device's name."""

    name: str
    source: str
    system: str
    gpu: str
    hosts: int
    collective: str
    value: float
    kind: str
    definition: str
    measure: str = "out_of_place.busbw"
    min_bytes: int | None = None
    max_bytes: int | None = None
    over: str = "peak"


def _sizes(low: int, high: int | None = None) -> dict[str, t.Any]:
    return {"min_bytes": low, "max_bytes": low if high is None else high}


def _nvcre() -> t.Iterator[Reference]:
    source = "NVIDIA/cluster-readiness-engine, validation-results.md"
    largest = "bus bandwidth of 16 GB messages, as its report has it"
    cases = [
        ("nvcre-aws-h100", "AWS H100, 2 x 8 GPUs, EFA", "H100", 2, "all_reduce", 487.87),
        ("nvcre-aws-h100", "AWS H100, 2 x 8 GPUs, EFA", "H100", 2, "all_gather", 338.57),
        ("nvcre-aws-h100", "AWS H100, 2 x 8 GPUs, EFA", "H100", 2, "alltoall", 79.11),
        ("nvcre-aws-gb200", "AWS GB200, 4 x 4 GPUs, multi-node NVLink", "GB200", 4, "all_reduce", 882.51),
        ("nvcre-aws-gb200-efa", "AWS GB200, 4 x 4 GPUs, without multi-node NVLink", "GB200", 4, "all_reduce", 191.40),
        ("nvcre-aws-gb300", "AWS GB300, 8 nodes, multi-node NVLink", "GB300", 8, "all_reduce", 923.32),
    ]
    for name, system, gpu, hosts, collective, value in cases:
        yield Reference(name, source, system, gpu, hosts, collective, value, "measured", largest, **_sizes(16 * _G))
    readme = ("NVIDIA/cluster-readiness-engine, README.md", "GB300, 16 nodes, multi-node NVLink")
    yield Reference(
        "nvcre-aws-gb300", *readme, "GB300", 16, "all_reduce", 932.09, "measured", largest, **_sizes(16 * _G)
    )


def _oci() -> t.Iterator[Reference]:
    values = {
        "A100": 185, "H100": 440, "H200": 440, "B200": 440, "B300": 750, "GB200": 300, "GB300": 440, "MI300X": 350,
        "MI355X": 400,
    }  # fmt: skip
    for gpu, value in values.items():
        yield Reference(
            f"oci-{gpu.lower()}",
            "oracle-quickstart/oci-hpc, ncclscout.py",
            f"OCI bare metal, {gpu}, pairs of nodes",
            gpu,
            2,
            "all_reduce",
            float(value),
            "threshold",
            "in-place bus bandwidth of the first row of 1 to 16 GB",
            "in_place.busbw",
            **_sizes(_G, 16 * _G),
            over="first",
        )


def _azure() -> t.Iterator[Reference]:
    cases = [
        ("nd-h100-v5", "H100", 460.0),
        ("nd-h200-v5", "H200", 431.0),
        ("nd-a100-v4", "A100", 228.0),
        ("nd40rs-v2", "V100", 110.0),
        ("nd-mi300x-v5", "MI300X", 314.0),
    ]
    for system, gpu, value in cases:
        yield Reference(
            f"azure-{system}",
            "Azure/azurehpc-health-checks, conf/*.conf",
            f"Azure {system.replace('-', ' ')}, one node",
            gpu,
            1,
            "all_reduce",
            value,
            "threshold",
            "bus bandwidth of 16 GB messages inside a node",
            **_sizes(16 * _G),
        )


def _google() -> t.Iterator[Reference]:
    cases = [("a3", "H100", 60), ("a3plus", "H100", 150), ("a3ultra", "H200", 250), ("a4", "B200", 250)]
    for system, gpu, value in [*cases, ("a4x", "GB200", 160)]:
        yield Reference(
            f"google-{system}",
            "GoogleCloudPlatform/cluster-health-scanner, helm values",
            f"Google Cloud {system}, pairs of nodes" + (", without multi-node NVLink" if system == "a4x" else ""),
            gpu,
            2,
            "all_gather",
            float(value),
            "threshold",
            "printed average of 2 to 8 GB messages",
            "avg_busbw",
            **_sizes(2 * _G, 8 * _G),
        )


def _coreweave() -> t.Iterator[Reference]:
    source = "coreweave/nccl-tests, README.md"
    cases = [
        ("coreweave-h100", "H100, 12 x 8 GPUs", "H100", 12, 386.56, 8, "out_of_place"),
        ("coreweave-gb200", "GB200, 18 x 4 GPUs", "GB200", 18, 834.57, 8, "out_of_place"),
        ("coreweave-gb200", "GB200, 18 x 4 GPUs", "GB200", 18, 846.82, 8, "in_place"),
        ("coreweave-gb200", "GB200, 360 x 4 GPUs (20 racks)", "GB200", 360, 405.0, 16, "out_of_place"),
    ]
    for name, system, gpu, hosts, value, size, placement in cases:
        definition = f"{placement.replace('_', '-')} bus bandwidth of {size} GB messages"
        yield Reference(
            name, source, system, gpu, hosts, "all_reduce", value, "measured", definition, f"{placement}.busbw",
            **_sizes(size * _G),
        )  # fmt: skip


def _cvs() -> t.Iterator[Reference]:
    values = {
        "all_reduce": (330, 350),
        "all_gather": (330, 350),
        "reduce_scatter": (340, 360),
        "alltoall": (45, 50),
        "sendrecv": (47, 48),
        "broadcast": (310, 312),
        "reduce": (300, 310),
    }
    for collective, pair in values.items():
        for size, value in zip((8, 16), pair):
            yield Reference(
                "cvs-mi300x",
                "ROCm/cvs, rccl_config.json",
                "AMD Instinct, 2 x 8 GPUs, 8 NICs of 400 Gb/s",
                "MI3",
                2,
                collective,
                float(value),
                "threshold",
                f"bus bandwidth of {size} GB messages; an example of its authors, for their own machines",
                **_sizes(size * _G),
            )


REFERENCES: tuple[Reference, ...] = (*_nvcre(), *_oci(), *_azure(), *_google(), *_coreweave(), *_cvs())
REFERENCE_NAMES: tuple[str, ...] = tuple(dict.fromkeys(reference.name for reference in REFERENCES))
