/* Copyright (c) 2026, gpufabric contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The four kernels of nccl-tests, on the host. They make the values that are sent and those that are expected, and count those that
 * differ. The values come from nccl-tests' own functions, which its source has for host and device: the Makefile takes them from there
 * into generators.h. Only the loops around them are written anew.
 */
#include "stand_in.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <type_traits>

#include <cxxabi.h>

#include "generators.h"

namespace {

using Kernel = std::function<void(void **)>;

template <typename T>
T argument(void **arguments, int index) {
  return *static_cast<T *>(arguments[index]);
}

template <typename T>
struct Bits;
template <>
struct Bits<std::integral_constant<int, 1>> {
  using type = uint8_t;
};
template <>
struct Bits<std::integral_constant<int, 2>> {
  using type = uint16_t;
};
template <>
struct Bits<std::integral_constant<int, 4>> {
  using type = uint32_t;
};
template <>
struct Bits<std::integral_constant<int, 8>> {
  using type = uint64_t;
};

template <typename Uint>
bool differ(const void *left, const void *right, unsigned tolerance) {
  Uint a, b;
  std::memcpy(&a, left, sizeof a);
  std::memcpy(&b, right, sizeof b);
  Uint delta = a < b ? b - a : a - b;
  return tolerance < delta;
}

template <typename T, typename Op>
void add_kernels_of_operation(std::map<std::string, Kernel> &kernels, const std::string &type, const std::string &op) {
  const std::string of = "<" + type + "," + op + ">";
  kernels["prepareInput2" + of] = [](void **a) {
    T *elements = argument<T *>(a, 0);
    for (intptr_t i = 0; i < argument<intptr_t>(a, 1); i++)
      elements[i] = genInput<T>(argument<Op>(a, 2), argument<int>(a, 3), argument<int>(a, 4), argument<uint64_t>(a, 5),
                                argument<intptr_t>(a, 6) + i);
  };
  kernels["prepareExpected2" + of] = [](void **a) {
    T *elements = argument<T *>(a, 0);
    for (intptr_t i = 0; i < argument<intptr_t>(a, 1); i++)
      elements[i] =
          genOutput<T>(argument<Op>(a, 2), argument<int>(a, 3), argument<uint64_t>(a, 4), argument<intptr_t>(a, 5) + i);
  };
  kernels["verifyInline2" + of] = [](void **a) {
    using Uint = typename Bits<std::integral_constant<int, sizeof(T)>>::type;
    const T *results = argument<const T *>(a, 0);
    for (intptr_t i = 0; i < argument<intptr_t>(a, 1); i++) {
      T expected =
          genOutput<T>(argument<Op>(a, 2), argument<int>(a, 3), argument<uint64_t>(a, 4), argument<intptr_t>(a, 5) + i);
      *argument<int64_t *>(a, 7) += differ<Uint>(results + i, &expected, argument<unsigned>(a, 6));
    }
  };
}

template <typename Uint>
void add_verify_prepared(std::map<std::string, Kernel> &kernels, const std::string &type) {
  kernels["verifyPrepared<" + type + ">"] = [](void **a) {
    const Uint *results = argument<const Uint *>(a, 0), *expected = argument<const Uint *>(a, 1);
    for (intptr_t i = 0; i < argument<intptr_t>(a, 2); i++)
      *argument<int64_t *>(a, 4) += differ<Uint>(results + i, expected + i, argument<unsigned>(a, 3));
  };
}

template <typename T>
void add_kernels(std::map<std::string, Kernel> &kernels, const std::string &type) {
  add_kernels_of_operation<T, ReduceNil>(kernels, type, "ReduceNil");
  add_kernels_of_operation<T, ReduceSum>(kernels, type, "ReduceSum");
  add_kernels_of_operation<T, ReduceProd>(kernels, type, "ReduceProd");
  add_kernels_of_operation<T, ReduceMin>(kernels, type, "ReduceMin");
  add_kernels_of_operation<T, ReduceMax>(kernels, type, "ReduceMax");
  add_kernels_of_operation<T, ReduceAvg>(kernels, type, "ReduceAvg");
  add_kernels_of_operation<T, ReducePreMulSum>(kernels, type, "ReducePreMulSum");
}

const std::map<std::string, Kernel> &all_kernels() {
  static const auto &all = *[] {
    auto *kernels = new std::map<std::string, Kernel>;
    add_kernels<int8_t>(*kernels, "signed char");
    add_kernels<uint8_t>(*kernels, "unsigned char");
    add_kernels<int32_t>(*kernels, "int");
    add_kernels<uint32_t>(*kernels, "unsigned int");
    add_kernels<int64_t>(*kernels, "long");
    add_kernels<uint64_t>(*kernels, "unsigned long");
    add_kernels<half>(*kernels, "__half");
    add_kernels<__nv_bfloat16>(*kernels, "__nv_bfloat16");
    add_kernels<__nv_fp8_e4m3>(*kernels, "__nv_fp8_e4m3");
    add_kernels<__nv_fp8_e5m2>(*kernels, "__nv_fp8_e5m2");
    add_kernels<float>(*kernels, "float");
    add_kernels<double>(*kernels, "double");
    add_verify_prepared<uint8_t>(*kernels, "unsigned char");
    add_verify_prepared<uint16_t>(*kernels, "unsigned short");
    add_verify_prepared<uint32_t>(*kernels, "unsigned int");
    add_verify_prepared<uint64_t>(*kernels, "unsigned long");
    return kernels;
  }();
  return all;
}

/* "prepareInput2<float,ReduceSum>" of "void SOME::NAMESPACE::prepareInput2<float, SOME::NAMESPACE::ReduceSum>(float*, ...)". */
std::string short_name(const char *mangled) {
  int status = 0;
  char *demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = demangled ? demangled : mangled;
  std::free(demangled);
  for (std::size_t anonymous; (anonymous = name.find("(anonymous namespace)::")) != std::string::npos;)
    name.erase(anonymous, std::strlen("(anonymous namespace)::"));
  name = name.substr(0, name.find('('));
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  std::string result, word;
  for (char c : name) {
    if (c == ':') {
      word.clear();
    } else if (c == '<' || c == ',' || c == '>') {
      word.erase(0, std::min(word.find_first_not_of(' '), word.size()));
      result += word + c;
      word.clear();
    } else {
      word += c;
    }
  }
  return result;
}

/* Call a function with a null pointer of the C++ type of an element. */
template <typename Function>
auto with_type(ncclDataType_t type, Function function) {
  switch (type) {
    case ncclInt8: return function(static_cast<int8_t *>(nullptr));
    case ncclUint8: return function(static_cast<uint8_t *>(nullptr));
    case ncclInt32: return function(static_cast<int32_t *>(nullptr));
    case ncclUint32: return function(static_cast<uint32_t *>(nullptr));
    case ncclInt64: return function(static_cast<int64_t *>(nullptr));
    case ncclUint64: return function(static_cast<uint64_t *>(nullptr));
    case ncclFloat16: return function(static_cast<half *>(nullptr));
    case ncclBfloat16: return function(static_cast<__nv_bfloat16 *>(nullptr));
    case ncclFloat8e4m3: return function(static_cast<__nv_fp8_e4m3 *>(nullptr));
    case ncclFloat8e5m2: return function(static_cast<__nv_fp8_e5m2 *>(nullptr));
    case ncclFloat64: return function(static_cast<double *>(nullptr));
    default: return function(static_cast<float *>(nullptr));
  }
}

template <typename T, typename Op>
void combine(Op op, T *acc, const T *in, std::size_t count) {
  for (std::size_t i = 0; i < count; i++) acc[i] = op(acc[i], in[i]);
}

}  // namespace

bool stand_in::run_kernel(const char *mangled, void **arguments) {
  auto found = all_kernels().find(short_name(mangled));
  if (found == all_kernels().end()) return false;
  found->second(arguments);
  return true;
}

std::size_t stand_in::size_of(ncclDataType_t type) {
  return with_type(type, [](auto *none) { return sizeof(*none); });
}

void stand_in::reduce(ncclDataType_t type, ncclRedOp_t op, void *acc, const void *in, std::size_t count) {
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    T *to = static_cast<T *>(acc);
    const T *from = static_cast<const T *>(in);
    switch (op) {
      case ncclProd: combine(ReduceProd(), to, from, count); break;
      case ncclMin: combine(ReduceMin(), to, from, count); break;
      case ncclMax: combine(ReduceMax(), to, from, count); break;
      default: combine(ReduceSum(), to, from, count);
    }
  });
}

void stand_in::before_average(ncclDataType_t type, int ranks, void *values, std::size_t count) {
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    for (std::size_t i = 0; i < count; i++) {
      T &value = static_cast<T *>(values)[i];
      value = ReduceAvg{ranks}.preOp(value, 0);
    }
  });
}

void stand_in::after_average(ncclDataType_t type, int ranks, void *values, std::size_t count) {
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    for (std::size_t i = 0; i < count; i++) {
      T &value = static_cast<T *>(values)[i];
      value = ReduceAvg{ranks}.postOp(value);
    }
  });
}

void stand_in::scale(ncclDataType_t type, const void *scalar, void *values, std::size_t count) {
  with_type(type, [&](auto *none) {
    using T = std::remove_pointer_t<decltype(none)>;
    T factor;
    std::memcpy(&factor, scalar, sizeof factor);
    for (std::size_t i = 0; i < count; i++) {
      T &value = static_cast<T *>(values)[i];
      value = ReduceProd()(value, factor);
    }
  });
}
