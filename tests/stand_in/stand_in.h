/* Copyright (c) 2026, gpufabric contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the two stand-ins, for the CUDA runtime and for NCCL, share. README.md lists the settings.
 */
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace stand_in {

/* A setting GPUFABRIC_STAND_IN_name: of the environment, else of this host's file; empty without either. */
std::string setting(const char *name);

/* Whether GPUFABRIC_STAND_IN_FAULT is this fault. "name@rank" is of one rank of NCCL alone; a rank below 0 is of none. */
bool has_fault(const char *name, int rank = -1);

/* The device that the calling thread uses. */
int current_device();

/* Memory of a device, which is the host's; null if the device has no more. */
void *allocate(std::size_t bytes);
void release(void *memory);

/* Hand work to a stream: it is done in order, by the stream's own thread, or becomes part of the graph that the stream captures. An error
 * that it returns is the device's from then on. */
void enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

/* Size of an element in bytes. */
std::size_t size_of(ncclDataType_t type);

/* acc = acc OP in, element by element, of ncclSum, ncclProd, ncclMin, ncclMax. */
void reduce(ncclDataType_t type, ncclRedOp_t op, void *acc, const void *in, std::size_t count);

/* What ncclAvg does to each rank's values before the sum, and to the sum. */
void before_average(ncclDataType_t type, int ranks, void *values, std::size_t count);
void after_average(ncclDataType_t type, int ranks, void *values, std::size_t count);

/* values = values * scalar, which is one element. */
void scale(ncclDataType_t type, const void *scalar, void *values, std::size_t count);

/* Run a kernel of nccl-tests on the host, by its mangled name; false if there is no such kernel here. */
bool run_kernel(const char *mangled, void **arguments);

}  // namespace stand_in
