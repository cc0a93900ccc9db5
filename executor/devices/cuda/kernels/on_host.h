// kernel_source.h for a host compiler: a kernel's thread calls the emulated driver for everything,
// so that the driver sees every access.
//
// Light on purpose: generated sources are compiled with it while tests run.
// Threads: a kernel runs on one thread of the host; the fibers of a block take turns on it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define GW_KERNEL static
#define GW_DEVICE inline
#define GW_BLOCKS(threads, at_once)
#define GW_UNROLL
#define GW_SHARED(type, name, count)                                                    \
  static const char name##_key = 0;                                                     \
  const ::gangway::cuda::Shared<type> name {                                            \
    static_cast<type*>(                                                                 \
        ::gangway::cuda::this_block->shared_array(&name##_key, (count) * sizeof(type))) \
  }
#define GW_DYNAMIC_SHARED(type, name)                                 \
  const ::gangway::cuda::Shared<type> name {                          \
    static_cast<type*>(::gangway::cuda::this_block->dynamic_shared()) \
  }
#define GW_KERNEL_TEMPLATE static
#define GW_ENTRY(kernel) ::gangway::cuda::host_kernel<&kernel>(#kernel)
#define GW_INSTANCE(name, ...) ::gangway::cuda::host_kernel<&__VA_ARGS__>(name)
// Found by name by whoever links the source (kernel_tables.h) or loads it.
#define GW_KERNEL_TABLE(name, ...)                                           \
  static const ::gangway::cuda::HostKernel name##_entries[] = {__VA_ARGS__}; \
  extern "C" const ::gangway::cuda::HostKernelTable gangway_kernels_##name;  \
  const ::gangway::cuda::HostKernelTable gangway_kernels_##name = {          \
      name##_entries, sizeof(name##_entries) / sizeof(::gangway::cuda::HostKernel)}

namespace gangway::cuda {

struct Index3 {
  uint32_t x = 0, y = 0, z = 0;
};

// The emulated driver, as the running thread of a block sees it.
class RunningBlock {
 public:
  virtual ~RunningBlock() = default;
  // Address at which to read or write `bytes` for a device address. A wrong access is reported, and
  // gets memory that does no harm.
  virtual const void* load(const void* address, size_t bytes, size_t alignment) = 0;
  virtual void* store(void* address, size_t bytes, size_t alignment) = 0;
  // Stores 1.
  virtual void raise(uint32_t* flag) = 0;
  virtual void* shared_array(const void* key, size_t bytes) = 0;
  virtual void* dynamic_shared() = 0;
  virtual void sync_block() = 0;
  virtual void sync_warp() = 0;
  // The words that all lanes of the warp pass in; read before the next exchange.
  virtual const uint64_t* exchange(uint64_t bits) = 0;

  Index3 thread, block, block_size, grid_size;
};
inline thread_local RunningBlock* this_block = nullptr;

// An element of checked memory.
template <class T>
class Element {
 public:
  explicit Element(T* address) : address_(address) {}
  operator std::remove_const_t<T>() const {
    std::remove_const_t<T> value;
    std::memcpy(&value, this_block->load(address_, sizeof(T), alignof(T)), sizeof(T));
    return value;
  }
  const Element& operator=(const std::remove_const_t<T>& value) const {
    static_assert(!std::is_const_v<T>, "this memory is read-only");
    std::memcpy(this_block->store(address_, sizeof(T), alignof(T)), &value, sizeof(T));
    return *this;
  }
  const Element& operator=(const Element& from) const {
    return *this = static_cast<std::remove_const_t<T>>(from);
  }

 private:
  T* address_;
};

// A pointer whose accesses are checked. It has the size of a plain one, so that structs of pointers
// are arguments too.
template <class T>
struct Checked {
  T* address = nullptr;
  Element<T> operator[](int64_t i) const { return Element<T>(address + i); }
  Checked operator+(int64_t i) const { return {address + i}; }
  operator Checked<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {address};
  }
};
template <class T>
using Global = Checked<T>;
template <class T>
using Shared = Checked<T>;

template <class V, class T>
Checked<V> as_vectors(Checked<T> data) {
  return {reinterpret_cast<V*>(data.address)};
}

// A card overloads these for float.
using std::cos;
using std::exp;
using std::expm1;
using std::fabs;
using std::log;
using std::log1p;
using std::sin;
using std::sqrt;
using std::tanh;

inline Index3 thread_index() { return this_block->thread; }
inline Index3 block_index() { return this_block->block; }
inline Index3 block_size() { return this_block->block_size; }
inline Index3 grid_size() { return this_block->grid_size; }
inline void raise(Checked<uint32_t> flag) { this_block->raise(flag.address); }
inline void sync_block() { this_block->sync_block(); }
inline void sync_warp() { this_block->sync_warp(); }
inline uint32_t this_lane() {
  const Index3 &at = this_block->thread, &size = this_block->block_size;
  return (at.x + size.x * (at.y + size.y * at.z)) % 32;
}
template <class T>
T shuffle_xor(T value, uint32_t mask) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = this_block->exchange(bits)[(this_lane() ^ mask) % 32];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline float float_of_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline uint32_t bits_of_float(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(x));
  return bits;
}

// One kernel as the emulated driver calls it: once for each thread, with pointers to its arguments.
struct HostKernel {
  const char* name;
  void (*call)(RunningBlock&, const void* const* arguments);
  const uint32_t* argument_bytes;
  uint32_t arguments;
};
struct HostKernelTable {
  const HostKernel* kernels;
  size_t count;
};

template <auto kFunction, class... P>
struct HostCall {
  static constexpr uint32_t kBytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
  static void call(RunningBlock& block, const void* const* arguments) {
    this_block = &block;
    call_with(arguments, std::index_sequence_for<P...>());
  }
  template <size_t... kIndex>
  static void call_with(const void* const* arguments, std::index_sequence<kIndex...>) {
    kFunction(*static_cast<const P*>(arguments[kIndex])...);
  }
};
template <auto kFunction, class... P>
HostKernel host_kernel_of(const char* name, void (*)(P...)) {
  using Call = HostCall<kFunction, P...>;
  return {name, &Call::call, Call::kBytes, sizeof...(P)};
}
template <auto kFunction>
HostKernel host_kernel(const char* name) {
  return host_kernel_of<kFunction>(name, kFunction);
}

}  // namespace gangway::cuda
