/* Copyright (c) 2026, gpufabric contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A stand-in for libnccl.so.2: what nccl-tests calls of it. All ranks of a communicator are connected by TCP to a hub, a thread of the
 * process that made its id. An operation sends a rank's values there, the hub waits for those of all ranks, and sends each its result.
 */
#include "stand_in.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Bytes = std::vector<char>;

/* --- NCCL's log ---------------------------------------------------------------------------------------------------------------- */

std::string last_error;
std::mutex last_error_mutex;

bool logs(const char *level) {
  const char *set = std::getenv("NCCL_DEBUG");
  const std::vector<std::string> levels = {"VERSION", "WARN", "INFO", "TRACE"};
  auto index = [&](const char *name) {
    for (std::size_t i = 0; i < levels.size(); i++)
      if (name && levels[i] == name) return static_cast<int>(i);
    return -1;
  };
  return index(set) >= index(level);
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  host[std::strcspn(host, ".")] = 0;
  return host;
}

/* The standard output, or the file that NCCL_DEBUG_FILE names: %h is the host, %p the process. */
FILE *log_file() {
  const char *set = std::getenv("NCCL_DEBUG_FILE");
  if (!set || !*set || !logs("WARN")) return stdout;
  std::string path;
  for (const char *at = set; *at; at++) {
    if (*at != '%' || (at[1] != 'h' && at[1] != 'p')) path += *at;
    else path += *++at == 'h' ? host_name() : std::to_string(getpid());
  }
  FILE *file = std::fopen(path.c_str(), "w");
  if (file) setlinebuf(file);
  return file ? file : stdout;
}

void write_log(const char *level, const std::string &text) {
  if (!logs(level)) return;
  static FILE *file = log_file();
  const bool warning = std::strcmp(level, "WARN") == 0;
  std::fprintf(file, "%s%s:%d:%d [%d] %sNCCL %s %s\n", warning ? "\n" : "", host_name().c_str(), getpid(), gettid(),
               stand_in::current_device(), warning ? "stand_in.cc:1 " : "", level, text.c_str());
  std::fflush(file);
}

ncclResult_t failed(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

ncclResult_t failed(ncclResult_t result, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  write_log("WARN", text);
  std::lock_guard<std::mutex> lock(last_error_mutex);
  last_error = text;
  return result;
}

/* --- Connections --------------------------------------------------------------------------------------------------------------- */

bool send_all(int fd, const void *data, std::size_t bytes) {
  for (const char *at = static_cast<const char *>(data); bytes;) {
    const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent, bytes -= sent;
  }
  return true;
}

bool receive_all(int fd, void *data, std::size_t bytes) {
  for (char *at = static_cast<char *>(data); bytes;) {
    const ssize_t received = recv(fd, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received, bytes -= received;
  }
  return true;
}

/* The first interface that NCCL_SOCKET_IFNAME allows, as NCCL reads it: prefixes; "=" for whole names, "^" for all but these. */
bool choose_interface(std::string &name, sockaddr_in &address) {
  const char *set = std::getenv("NCCL_SOCKET_IFNAME");
  std::string names = set ? set : "^docker,lo";
  const bool without = names.rfind("^", 0) == 0;
  if (without) names.erase(0, 1);
  const bool whole = names.rfind("=", 0) == 0;
  if (whole) names.erase(0, 1);
  ifaddrs *all = nullptr;
  if (getifaddrs(&all)) return false;
  bool found = false, fallback = false;
  for (ifaddrs *one = all; one && !found; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP)) continue;
    bool listed = false;
    for (std::size_t at = 0; at <= names.size() && !names.empty();) {
      const std::size_t end = std::min(names.find(',', at), names.size());
      const std::string item = names.substr(at, end - at);
      listed |= whole ? item == one->ifa_name : std::strncmp(one->ifa_name, item.c_str(), item.size()) == 0;
      at = end + 1;
    }
    // Of one machine alone, the loopback does.
    const bool last_resort = !set && std::strcmp(one->ifa_name, "lo") == 0;
    if (listed == without && !(last_resort && !fallback)) continue;
    name = one->ifa_name;
    std::memcpy(&address, one->ifa_addr, sizeof address);
    found = !last_resort;
    fallback = true;
  }
  freeifaddrs(all);
  return fallback;
}

/* --- The hub ------------------------------------------------------------------------------------------------------------------- */

struct Hello {
  int rank, ranks, version, device;
  char host[64];
};

/* What the hub answers: a result, and the reason if it is none. */
struct Welcome {
  int result;
  char reason[256];
};

enum Kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, GATHER, SCATTER, EXCHANGE };

struct Operation {
  int kind, type, op, root;
  std::size_t bytes;
};

/* Of EXCHANGE: a message is its peer, its size, its bytes. */
struct Message {
  int peer;
  std::size_t bytes;
};

struct Asked {
  Operation operation;
  Bytes data;
};

Bytes reduced(const std::vector<Asked> &asked) {
  const auto type = static_cast<ncclDataType_t>(asked[0].operation.type);
  const auto op = static_cast<ncclRedOp_t>(asked[0].operation.op);
  const int ranks = static_cast<int>(asked.size());
  const std::size_t count = asked[0].data.size() / stand_in::size_of(type);
  Bytes total;
  for (const Asked &one : asked) {
    Bytes values = one.data;
    if (op == ncclAvg) stand_in::before_average(type, ranks, values.data(), count);
    if (total.empty())
      total = std::move(values);
    else
      stand_in::reduce(type, op, total.data(), values.data(), count);
  }
  if (op == ncclAvg) stand_in::after_average(type, ranks, total.data(), count);
  return total;
}

/* Each rank's part of what all ranks sent, in the order of ranks. */
std::vector<Bytes> answers(const std::vector<Asked> &asked) {
  const std::size_t ranks = asked.size();
  const Operation &first = asked[0].operation;
  std::vector<Bytes> result(ranks);
  auto append = [](Bytes &to, const char *from, std::size_t bytes) { to.insert(to.end(), from, from + bytes); };
  switch (first.kind) {
    case ALL_REDUCE: {
      const Bytes total = reduced(asked);
      for (Bytes &one : result) one = total;
      break;
    }
    case REDUCE: result[first.root] = reduced(asked); break;
    case REDUCE_SCATTER: {
      const Bytes total = reduced(asked);
      const std::size_t part = total.size() / ranks;
      for (std::size_t rank = 0; rank < ranks; rank++) append(result[rank], total.data() + rank * part, part);
      break;
    }
    case ALL_GATHER:
    case GATHER: {
      Bytes all;
      for (const Asked &one : asked) append(all, one.data.data(), one.data.size());
      for (std::size_t rank = 0; rank < ranks; rank++)
        if (first.kind == ALL_GATHER || static_cast<int>(rank) == first.root) result[rank] = all;
      break;
    }
    case BROADCAST:
      for (Bytes &one : result) one = asked[first.root].data;
      break;
    case ALL_TO_ALL:
      for (std::size_t rank = 0; rank < ranks; rank++)
        for (const Asked &one : asked) {
          const std::size_t part = one.data.size() / ranks;
          append(result[rank], one.data.data() + rank * part, part);
        }
      break;
    case SCATTER: {
      const Bytes &all = asked[first.root].data;
      const std::size_t part = all.size() / ranks;
      for (std::size_t rank = 0; rank < ranks; rank++) append(result[rank], all.data() + rank * part, part);
      break;
    }
    case EXCHANGE:
      for (std::size_t rank = 0; rank < ranks; rank++) {
        const Bytes &data = asked[rank].data;
        for (std::size_t at = 0; at < data.size();) {
          Message message;
          std::memcpy(&message, data.data() + at, sizeof message);
          Bytes &to = result[message.peer];
          at += sizeof message;
          const Message from = {static_cast<int>(rank), message.bytes};
          append(to, reinterpret_cast<const char *>(&from), sizeof from);
          append(to, data.data() + at, message.bytes);
          at += message.bytes;
        }
      }
  }
  return result;
}

/* What a rank finds wrong with the others, if anything, in NCCL's words. */
Welcome welcome(const std::vector<Hello> &ranks, std::size_t rank) {
  Welcome answer = {ncclSuccess, ""};
  const Hello &own = ranks[rank];
  for (std::size_t other = 0; other < ranks.size() && answer.result == ncclSuccess; other++) {
    if (ranks[other].version != own.version) {
      answer.result = ncclInvalidUsage;
      std::snprintf(answer.reason, sizeof answer.reason, "Mismatched NCCL version detected : rank %zu version %d rank %zu version %d",
                    other, ranks[other].version, rank, own.version);
    } else if (other != rank && ranks[other].device == own.device && !std::strcmp(ranks[other].host, own.host)) {
      answer.result = ncclInvalidUsage;
      std::snprintf(answer.reason, sizeof answer.reason, "Duplicate GPU detected : rank %zu and rank %zu both on CUDA device %x000",
                    rank, other, 0x10 + own.device);
    }
  }
  return answer;
}

void serve(int listener) {
  std::vector<int> connections;
  std::vector<Hello> hellos;
  std::size_t come = 0;
  do {
    const int fd = accept(listener, nullptr, nullptr);
    Hello hello;
    if (fd < 0 || !receive_all(fd, &hello, sizeof hello)) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections.resize(hello.ranks, -1);
    hellos.resize(hello.ranks);
    connections[hello.rank] = fd;
    hellos[hello.rank] = hello;
  } while (++come < connections.size());
  close(listener);
  bool on = true;
  for (std::size_t rank = 0; rank < connections.size(); rank++) {
    const Welcome answer = welcome(hellos, rank);
    on &= send_all(connections[rank], &answer, sizeof answer) && answer.result == ncclSuccess;
  }
  while (on) {
    std::vector<Asked> asked(connections.size());
    for (std::size_t rank = 0; rank < connections.size() && on; rank++) {
      on = receive_all(connections[rank], &asked[rank].operation, sizeof(Operation));
      if (!on) break;
      asked[rank].data.resize(asked[rank].operation.bytes);
      on = receive_all(connections[rank], asked[rank].data.data(), asked[rank].data.size()) &&
           asked[rank].operation.kind == asked[0].operation.kind;
    }
    if (!on) break;
    const std::vector<Bytes> results = answers(asked);
    for (std::size_t rank = 0; rank < connections.size() && on; rank++) {
      const std::size_t bytes = results[rank].size();
      on = send_all(connections[rank], &bytes, sizeof bytes) && send_all(connections[rank], results[rank].data(), bytes);
    }
  }
  for (int fd : connections) close(fd);
}

struct Id {
  char magic[16];
  sockaddr_in address;
};

constexpr char MAGIC[16] = "stand-in NCCL";

int version() { return NCCL_VERSION_CODE + (stand_in::has_fault("version-differs") ? 100 : 0); }

}  // namespace

/* --- Communicators ------------------------------------------------------------------------------------------------------------- */

struct ncclComm {
  ncclComm(int rank, int ranks, int device) : rank(rank), ranks(ranks), device(device) {}

  const int rank, ranks, device;
  int fd = -1;
  std::atomic<int> error{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::vector<std::pair<ncclDataType_t, Bytes>> scalars;
};

namespace {

struct Send {
  int peer;
  const void *buffer;
  std::size_t bytes;
};

struct Receive {
  int peer;
  void *buffer;
  std::size_t bytes;
};

/* Sends and receives of a group become one operation of their communicator. */
struct Exchange {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<Send> sends;
  std::vector<Receive> receives;
};

thread_local int group_depth = 0;
thread_local std::vector<ncclComm_t> group_joins;
thread_local std::vector<Exchange> group_exchanges;

ncclResult_t join(ncclComm_t comm) {
  Welcome answer;
  if (!receive_all(comm->fd, &answer, sizeof answer))
    return failed(ncclRemoteError, "socketProgressOpt: Connection closed by remote peer");
  if (answer.result != ncclSuccess) return failed(static_cast<ncclResult_t>(answer.result), "%s", answer.reason);
  return ncclSuccess;
}

/* What NCCL 2.30 logs of a rank of a ring: over sockets, or as if over the RDMA ports of the setting RDMA_PORTS. */
void log_transport(ncclComm_t comm, const std::string &interface, const std::string &address) {
  const std::string set = stand_in::setting("RDMA_PORTS");
  const int ports = set.empty() ? 0 : std::atoi(set.c_str());
  const std::string at = interface + ":" + address + "<0>", network = ports ? "IB" : "Socket";
  std::string listed;
  for (int port = 0; port < ports; port++) listed += " [" + std::to_string(port) + "]mlx5_" + std::to_string(port) + ":1/IB";
  if (ports) {
    write_log("INFO", "NET/IB : Using" + listed + " [RO]; OOB " + at);
  } else {
    write_log("INFO", "NET/IB : No device found.");
    write_log("INFO", "NET/Socket : Using [0]" + at);
  }
  write_log("INFO", "Using network " + network);
  auto rank = [](int number) { return std::to_string(number) + "[0]"; };
  const int before = (comm->rank + comm->ranks - 1) % comm->ranks, after = (comm->rank + 1) % comm->ranks;
  for (int channel = 0; channel < std::max(ports, 2) && comm->ranks > 1; channel++) {
    const std::string via = " via NET/" + network + "/" + std::to_string(ports ? channel : 0) + (ports ? "/GDRDMA" : "");
    const std::string name = "Channel 0" + std::to_string(channel % 10) + "/0 : ";
    write_log("INFO", name + rank(before) + " -> " + rank(comm->rank) + " [receive]" + via);
    write_log("INFO", name + rank(comm->rank) + " -> " + rank(after) + " [send]" + via);
  }
  write_log("INFO", "2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer");
}

ncclResult_t connect_to_hub(ncclComm_t comm, const Id &id) {
  std::string interface;
  sockaddr_in own;
  if (!choose_interface(interface, own)) return failed(ncclInvalidUsage, "Bootstrap : no socket interface found");
  own.sin_port = 0;
  comm->fd = socket(AF_INET, SOCK_STREAM, 0);
  // From the interface that was chosen, so that what NCCL_SOCKET_IFNAME says has an effect.
  if (bind(comm->fd, reinterpret_cast<sockaddr *>(&own), sizeof own))
    return failed(ncclSystemError, "Call to bind failed : %s", std::strerror(errno));
  char text[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &id.address.sin_addr, text, sizeof text);
  if (connect(comm->fd, reinterpret_cast<const sockaddr *>(&id.address), sizeof id.address))
    return failed(ncclSystemError, "socketStartConnect: Connect to %s<%d> failed : %s", text, ntohs(id.address.sin_port),
                  std::strerror(errno));
  const int on = 1;
  setsockopt(comm->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Hello hello = {comm->rank, comm->ranks, version(), comm->device, ""};
  gethostname(hello.host, sizeof hello.host - 1);
  if (!send_all(comm->fd, &hello, sizeof hello)) return failed(ncclRemoteError, "Call to send failed : %s", std::strerror(errno));
  write_log("INFO", "Bootstrap : Using " + interface + " (a stand-in: no GPU, no NCCL)");
  inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
  log_transport(comm, interface, text);
  return ncclSuccess;
}

/* What a stream does for an operation. The call returns when all ranks have taken part. */
cudaError_t perform(ncclComm_t comm, Operation operation, const void *data, std::function<void(Bytes &)> finish) {
  if (stand_in::has_fault("hang", comm->rank)) {
    while (!comm->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return cudaSuccess;
  }
  if (stand_in::has_fault("device-lost", comm->rank)) return cudaErrorLaunchFailure;
  if (stand_in::has_fault("ecc", comm->rank)) return cudaErrorECCUncorrectable;
  if (stand_in::has_fault("slow", comm->rank)) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::size_t bytes = 0;
  Bytes result;
  bool done = send_all(comm->fd, &operation, sizeof operation) && send_all(comm->fd, data, operation.bytes) &&
              receive_all(comm->fd, &bytes, sizeof bytes);
  if (done) {
    result.resize(bytes);
    done = receive_all(comm->fd, result.data(), bytes);
  }
  if (!done) {
    if (!comm->aborted) comm->error = failed(ncclRemoteError, "socketProgress: Connection closed by remote peer");
    while (!comm->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return cudaSuccess;
  }
  if (stand_in::has_fault("wrong-values", comm->rank) && !result.empty()) result.back() ^= 1;
  finish(result);
  return cudaSuccess;
}

ncclResult_t collective(Kind kind, const void *send, std::size_t send_bytes, void *receive, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  Bytes scalar;
  if (op >= ncclNumOps) {
    scalar = comm->scalars[op - ncclNumOps].second;
    op = ncclSum;
  }
  const Operation operation = {kind, type, op, root, send_bytes};
  stand_in::enqueue(stream, [=] {
    Bytes values(static_cast<const char *>(send), static_cast<const char *>(send) + send_bytes);
    if (!scalar.empty()) stand_in::scale(type, scalar.data(), values.data(), send_bytes / stand_in::size_of(type));
    return perform(comm, operation, values.data(), [receive](Bytes &result) {
      if (!result.empty()) std::memcpy(receive, result.data(), result.size());
    });
  });
  return ncclSuccess;
}

void start(const Exchange &exchange) {
  stand_in::enqueue(exchange.stream, [exchange] {
    Bytes data;
    for (const Send &one : exchange.sends) {
      const Message message = {one.peer, one.bytes};
      data.insert(data.end(), reinterpret_cast<const char *>(&message), reinterpret_cast<const char *>(&message + 1));
      data.insert(data.end(), static_cast<const char *>(one.buffer), static_cast<const char *>(one.buffer) + one.bytes);
    }
    const Operation operation = {EXCHANGE, ncclInt8, ncclSum, 0, data.size()};
    return perform(exchange.comm, operation, data.data(), [&exchange](Bytes &result) {
      std::vector<Receive> open = exchange.receives;
      for (std::size_t at = 0; at < result.size();) {
        Message message;
        std::memcpy(&message, result.data() + at, sizeof message);
        at += sizeof message;
        for (auto one = open.begin(); one != open.end(); ++one) {
          if (one->peer != message.peer) continue;
          std::memcpy(one->buffer, result.data() + at, std::min(one->bytes, message.bytes));
          open.erase(one);
          break;
        }
        at += message.bytes;
      }
    });
  });
}

Exchange &exchange_of(ncclComm_t comm, cudaStream_t stream) {
  for (Exchange &one : group_exchanges)
    if (one.comm == comm) return one;
  group_exchanges.push_back({comm, stream, {}, {}});
  return group_exchanges.back();
}

}  // namespace

extern "C" {

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char *ncclGetLastError(ncclComm_t) {
  std::lock_guard<std::mutex> lock(last_error_mutex);
  return (new std::string(last_error))->c_str();
}

ncclResult_t ncclGetVersion(int *out) {
  *out = version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *out) {
  Id id = {};
  std::memcpy(id.magic, MAGIC, sizeof id.magic);
  std::string interface;
  if (!choose_interface(interface, id.address)) return failed(ncclInvalidUsage, "Bootstrap : no socket interface found");
  id.address.sin_port = 0;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t length = sizeof id.address;
  if (bind(listener, reinterpret_cast<sockaddr *>(&id.address), length) || listen(listener, 1024) ||
      getsockname(listener, reinterpret_cast<sockaddr *>(&id.address), &length))
    return failed(ncclSystemError, "Call to bind failed : %s", std::strerror(errno));
  std::thread(serve, listener).detach();
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &id, sizeof id);
  char text[128];
  std::snprintf(text, sizeof text, "NCCL version %d.%d.%d+cuda%d.%d (a stand-in: no GPU, no NCCL)", version() / 10000,
                version() / 100 % 100, version() % 100, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (logs("INFO")) write_log("INFO", text);
  else if (logs("VERSION")) std::printf("%s\n", text);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId given, int rank, ncclConfig_t *) {
  Id id;
  std::memcpy(&id, &given, sizeof id);
  if (std::memcmp(id.magic, MAGIC, sizeof id.magic)) return failed(ncclInvalidArgument, "the id is none of the stand-in's");
  ncclComm_t comm = *out = new ncclComm(rank, ranks, stand_in::current_device());
  if (ncclResult_t result = connect_to_hub(comm, id)) return result;
  if (group_depth == 0) return join(comm);
  group_joins.push_back(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclGroupStart() {
  group_depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth) return ncclSuccess;
  for (const Exchange &one : group_exchanges) start(one);
  group_exchanges.clear();
  ncclResult_t result = ncclSuccess;
  for (ncclComm_t comm : group_joins)
    if (!result) result = join(comm);
  group_joins.clear();
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  shutdown(comm->fd, SHUT_RDWR);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  close(comm->fd);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  *error = static_cast<ncclResult_t>(comm->error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  *count = comm->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, std::size_t bytes) {
  *memory = stand_in::allocate(bytes);
  return *memory ? ncclSuccess : failed(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

ncclResult_t ncclMemFree(void *memory) {
  stand_in::release(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t, void *, std::size_t, void **) { return ncclSuccess; }

ncclResult_t ncclCommDeregister(const ncclComm_t, void *) { return ncclSuccess; }

ncclResult_t ncclCommWindowRegister(ncclComm_t, void *, std::size_t, ncclWindow_t *, int) { return ncclSuccess; }

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) { return ncclSuccess; }

/* Of the options -D: such kernels call NCCL on the device, which only a GPU can. */

ncclResult_t ncclCommQueryProperties(ncclComm_t, void *) {
  return failed(ncclInvalidUsage, "the stand-in has no device API");
}

ncclResult_t ncclDevCommCreate(ncclComm_t, const void *, void *) {
  return failed(ncclInvalidUsage, "the stand-in has no device API");
}

ncclResult_t ncclDevCommDestroy(ncclComm_t, const void *) { return ncclSuccess; }

struct ncclTeam {
  int ranks, rank, stride;
};

ncclTeam ncclTeamLsa(ncclComm_t comm) { return {comm->ranks, comm->rank, 1}; }

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t, ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(comm->mutex);
  const char *from = static_cast<const char *>(scalar);
  comm->scalars.push_back({type, Bytes(from, from + stand_in::size_of(type))});
  *op = static_cast<ncclRedOp_t>(ncclNumOps + comm->scalars.size() - 1);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void *send, void *receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(ALL_REDUCE, send, count * stand_in::size_of(type), receive, type, op, 0, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective(REDUCE, send, count * stand_in::size_of(type), receive, type, op, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective(REDUCE_SCATTER, send, comm->ranks * count * stand_in::size_of(type), receive, type, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(ALL_GATHER, send, count * stand_in::size_of(type), receive, type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(BROADCAST, send, comm->rank == root ? count * stand_in::size_of(type) : 0, receive, type, ncclSum, root, comm,
                    stream);
}

ncclResult_t ncclBcast(void *buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAlltoAll(const void *send, void *receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return collective(ALL_TO_ALL, send, comm->ranks * count * stand_in::size_of(type), receive, type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclGather(const void *send, void *receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return collective(GATHER, send, count * stand_in::size_of(type), receive, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclScatter(const void *send, void *receive, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  const std::size_t bytes = comm->rank == root ? comm->ranks * count * stand_in::size_of(type) : 0;
  return collective(SCATTER, send, bytes, receive, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclSend(const void *buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  ncclGroupStart();
  exchange_of(comm, stream).sends.push_back({peer, buffer, count * stand_in::size_of(type)});
  return ncclGroupEnd();
}

ncclResult_t ncclRecv(void *buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  ncclGroupStart();
  exchange_of(comm, stream).receives.push_back({peer, buffer, count * stand_in::size_of(type)});
  return ncclGroupEnd();
}

}  // extern "C"
