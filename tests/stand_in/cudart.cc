/* Copyright (c) 2026, gpufabric contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A stand-in for libcudart.so.13: what nccl-tests calls of it. Devices are memory of the host.
 */
#include "stand_in.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;
using Work = std::function<cudaError_t()>;

/* Nothing here is ever destroyed: threads may use it until the process has ended. */

struct CUgraph_st {
  std::vector<Work> works;
};

struct CUstream_st {
  explicit CUstream_st(int device) : device(device), thread(&CUstream_st::work, this) { thread.detach(); }

  const int device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool busy = false;
  /* How much has been handed to it, and how much of that before the last event. */
  std::size_t handed = 0, handed_before_event = 0;
  std::unique_ptr<CUgraph_st> capture;
  std::thread thread;

  bool idle() const { return queue.empty() && !busy; }
  void work();
};

struct CUevent_st {
  std::atomic<Clock::rep> nanoseconds{0};
};

namespace {

constexpr int MOST = 64;

struct Device {
  std::atomic<int> error{cudaSuccess};
  std::atomic<std::size_t> used{0};
  std::mutex mutex;
  std::vector<cudaStream_t> streams;
  cudaStream_t null_stream = nullptr;
};

std::array<Device, MOST> &devices() {
  static auto &all = *new std::array<Device, MOST>;
  return all;
}

struct Kernels {
  std::mutex mutex;
  std::map<const void *, std::string> names;
};

Kernels &kernels() {
  static auto &all = *new Kernels;
  return all;
}

struct Blocks {
  std::mutex mutex;
  std::map<void *, std::pair<int, std::size_t>> sizes;
};

Blocks &blocks() {
  static auto &all = *new Blocks;
  return all;
}

thread_local int device_of_thread = 0;

int device_count() {
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible == '\0') return 0;
  std::string gpus = stand_in::setting("CUDA_GPUS");
  if (gpus.empty()) gpus = stand_in::setting("GPUS");
  return std::min(gpus.empty() ? 1 : std::atoi(gpus.c_str()), MOST);
}

std::size_t memory_of_device() {
  const std::string mebibytes = stand_in::setting("MEMORY_MIB");
  return (mebibytes.empty() ? std::size_t{8192} : std::strtoull(mebibytes.c_str(), nullptr, 10)) << 20;
}

std::size_t free_memory(int device) {
  const std::size_t total = memory_of_device(), used = devices()[device].used;
  // Another program has all of it.
  const std::size_t left = stand_in::has_fault("out-of-memory") ? 0 : total;
  return used < left ? left - used : 0;
}

/* What a call returns before it does anything: the driver's fault, else the error that the device has already had. */
cudaError_t state(int device) {
  if (stand_in::has_fault("driver-old")) return cudaErrorInsufficientDriver;
  if (device_count() == 0) return cudaErrorNoDevice;
  return static_cast<cudaError_t>(devices()[device].error.load());
}

CUstream_st *real(cudaStream_t stream) {
  if (stream) return stream;
  Device &device = devices()[device_of_thread];
  std::lock_guard<std::mutex> lock(device.mutex);
  if (!device.null_stream) {
    device.null_stream = new CUstream_st(device_of_thread);
    device.streams.push_back(device.null_stream);
  }
  return device.null_stream;
}

cudaError_t wait_for_device(int device) {
  std::vector<cudaStream_t> streams;
  {
    std::lock_guard<std::mutex> lock(devices()[device].mutex);
    streams = devices()[device].streams;
  }
  for (cudaStream_t stream : streams) {
    std::unique_lock<std::mutex> lock(stream->mutex);
    stream->changed.wait(lock, [stream] { return stream->idle(); });
  }
  return state(device);
}

}  // namespace

void CUstream_st::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return !queue.empty(); });
    Work next = std::move(queue.front());
    queue.pop_front();
    busy = true;
    lock.unlock();
    Device &own = devices()[device];
    if (own.error == cudaSuccess) {
      const cudaError_t error = next();
      if (error != cudaSuccess) own.error = error;
    }
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}

namespace stand_in {

std::string setting(const char *name) {
  const std::string full = std::string("GPUFABRIC_STAND_IN_") + name;
  if (const char *value = std::getenv(full.c_str())) return value;
  std::ifstream file("/etc/gpufabric-stand-in");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(full + "=", 0) == 0) return line.substr(full.size() + 1);
  return "";
}

bool has_fault(const char *name, int rank) {
  static const std::string fault = setting("FAULT");
  return fault == name || (rank >= 0 && fault == std::string(name) + "@" + std::to_string(rank));
}

int current_device() { return device_of_thread; }

void *allocate(std::size_t bytes) {
  if (bytes > free_memory(device_of_thread)) return nullptr;
  void *memory = std::calloc(1, bytes ? bytes : 1);
  if (!memory) return nullptr;
  std::lock_guard<std::mutex> lock(blocks().mutex);
  blocks().sizes[memory] = {device_of_thread, bytes};
  devices()[device_of_thread].used += bytes;
  return memory;
}

void release(void *memory) {
  if (!memory) return;
  std::lock_guard<std::mutex> lock(blocks().mutex);
  auto found = blocks().sizes.find(memory);
  if (found == blocks().sizes.end()) return;
  devices()[found->second.first].used -= found->second.second;
  blocks().sizes.erase(found);
  std::free(memory);
}

void enqueue(cudaStream_t given, Work work) {
  CUstream_st *stream = real(given);
  std::lock_guard<std::mutex> lock(stream->mutex);
  if (stream->capture) {
    stream->capture->works.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
    stream->handed++;
    stream->changed.notify_all();
  }
}

}  // namespace stand_in

extern "C" {

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorECCUncorrectable: return "uncorrectable ECC error encountered";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "unknown error";
  }
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 0;
  if (cudaError_t error = state(0)) return error;
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return state(device);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Stand-in of a GPU");
  properties->totalGlobalMem = memory_of_device();
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->pciBusID = 0x10 + device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceReset() { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() { return wait_for_device(device_of_thread); }

cudaError_t cudaMemGetInfo(std::size_t *left, std::size_t *total) {
  *left = free_memory(device_of_thread);
  *total = memory_of_device();
  return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, std::size_t bytes) {
  cudaError_t error = wait_for_device(device_of_thread);
  if (!error) std::memset(memory, value, bytes);
  return error;
}

cudaError_t cudaMemcpy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind) {
  cudaError_t error = wait_for_device(device_of_thread);
  if (!error) std::memmove(to, from, bytes);
  return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  stand_in::enqueue(stream, [=] {
    std::memmove(to, from, bytes);
    return cudaSuccess;
  });
  return state(device_of_thread);
}

cudaError_t cudaMalloc(void **memory, std::size_t bytes) {
  *memory = stand_in::allocate(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory) {
  stand_in::release(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, std::size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  Device &device = devices()[device_of_thread];
  *stream = new CUstream_st(device_of_thread);
  std::lock_guard<std::mutex> lock(device.mutex);
  device.streams.push_back(*stream);
  return state(device_of_thread);
}

cudaError_t cudaStreamQuery(cudaStream_t given) {
  CUstream_st *stream = real(given);
  std::unique_lock<std::mutex> lock(stream->mutex);
  // Who asks in a loop leaves the processor to the others.
  const bool done = stream->changed.wait_for(lock, std::chrono::milliseconds(1), [stream] { return stream->idle(); });
  if (cudaError_t error = state(stream->device)) return error;
  return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t given, cudaStreamCaptureMode) {
  CUstream_st *stream = real(given);
  std::lock_guard<std::mutex> lock(stream->mutex);
  stream->capture = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t given, cudaGraph_t *graph) {
  CUstream_st *stream = real(given);
  std::lock_guard<std::mutex> lock(stream->mutex);
  *graph = stream->capture.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(new CUgraph_st(*graph));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const Work &work : reinterpret_cast<cudaGraph_t>(exec)->works) stand_in::enqueue(stream, work);
  return state(device_of_thread);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<cudaGraph_t>(exec);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t given) {
  CUstream_st *stream = real(given);
  /* The second of two events without an operation between them begins one, after a barrier: this host comes late to it. */
  if (stream->handed == stream->handed_before_event && stand_in::has_fault("late"))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stand_in::enqueue(stream, [event] {
    event->nanoseconds = Clock::now().time_since_epoch().count();
    return cudaSuccess;
  });
  stream->handed_before_event = stream->handed;
  return state(device_of_thread);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = static_cast<float>(end->nanoseconds - start->nanoseconds) / 1e6f;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3, dim3, void **arguments, std::size_t, cudaStream_t) {
  if (cudaError_t error = wait_for_device(device_of_thread)) return error;
  std::string name;
  {
    std::lock_guard<std::mutex> lock(kernels().mutex);
    name = kernels().names[function];
  }
  if (stand_in::run_kernel(name.c_str(), arguments)) return cudaSuccess;
  std::fprintf(stderr, "The stand-in for CUDA cannot run the kernel %s\n", name.c_str());
  return cudaErrorInvalidDeviceFunction;
}

/* What the compiler makes of a kernel's launch. */

cudaError_t __cudaGetKernel(void **kernel, const void *function) {
  *kernel = const_cast<void *>(function);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, std::size_t memory, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, memory, stream);
}

unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void *) { return 0; }

cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, std::size_t *, void *) { return cudaSuccess; }

void **__cudaRegisterFatBinary(void *) {
  static void *handle;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void **) {}

void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **, const char *function, char *, const char *name, int, void *, void *, void *, void *, int *) {
  std::lock_guard<std::mutex> lock(kernels().mutex);
  kernels().names[function] = name;
}

void __cudaRegisterVar(void **, char *, char *, const char *, int, std::size_t, int, int) {}

}  // extern "C"
