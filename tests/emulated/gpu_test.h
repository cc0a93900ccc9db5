// Short functions with which a test uses a device: streams, filled buffers, launches, downloads.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/emulated/machine.h"

namespace gangway::emulated {

// One device of an emulated machine, with one stream; each test may open more.
class Gpu {
 public:
  explicit Gpu(EmulatedMachine& machine, uint32_t device = 0)
      : driver(machine.driver(device)), stream(driver.make_stream("main").take()) {}

  cuda::At at(std::string_view label) const { return {stream, label}; }

  template <class T>
  T* buffer(int64_t n, std::string_view label = "buffer") {
    return reinterpret_cast<T*>(
        driver.allocate(at(label), n * static_cast<int64_t>(sizeof(T))).take());
  }
  template <class T>
  T* pinned(int64_t n) {
    return reinterpret_cast<T*>(driver.allocate_pinned(n * static_cast<int64_t>(sizeof(T))).take());
  }

  // A pinned copy of `values`, and a buffer that it is copied to.
  template <class T>
  T* upload(const std::vector<T>& values, std::string_view label = "upload") {
    const auto n = static_cast<int64_t>(values.size());
    T* const staging = pinned<T>(n);
    driver.host_access({staging, bytes_of<T>(n), cuda::AccessKind::kWrite}, "stage");
    std::copy(values.begin(), values.end(), staging);
    T* const data = buffer<T>(n, label);
    EXPECT_TRUE(driver.copy(at(label), data, staging, bytes_of<T>(n)).ok());
    return data;
  }
  // Waits for the stream.
  template <class T>
  std::vector<T> download(const T* data, int64_t n) {
    T* const staging = pinned<T>(n);
    EXPECT_TRUE(driver.copy(at("download"), staging, data, bytes_of<T>(n)).ok());
    EXPECT_TRUE(driver.synchronize(stream).ok());
    driver.host_access({staging, bytes_of<T>(n), cuda::AccessKind::kRead}, "look");
    return {staging, staging + n};
  }

  template <class... Arguments>
  cuda::Status launch(cuda::At where, std::string_view name, cuda::Grid grid, cuda::Grid block,
                      const std::vector<cuda::Access>& accesses, const Arguments&... arguments) {
    const void* pointers[] = {&arguments...};
    return driver.launch(where, {.kernel = driver.kernel({}, name).take(),
                                 .grid = grid,
                                 .block = block,
                                 .arguments = pointers,
                                 .accesses = accesses});
  }
  // out = a + b, in blocks of 64.
  cuda::Status add(cuda::At where, const float* a, const float* b, float* out, int64_t n) {
    return launch(where, "add_f32", {2}, {64}, {reads(a, n), reads(b, n), writes(out, n)}, a, b,
                  out, n);
  }

  template <class T>
  static int64_t bytes_of(int64_t n) {
    return n * static_cast<int64_t>(sizeof(T));
  }
  template <class T>
  static cuda::Access reads(const T* data, int64_t n) {
    return {data, bytes_of<T>(n), cuda::AccessKind::kRead};
  }
  template <class T>
  static cuda::Access writes(const T* data, int64_t n) {
    return {data, bytes_of<T>(n), cuda::AccessKind::kWrite};
  }

  cuda::Driver& driver;
  const cuda::StreamHandle stream;
};

}  // namespace gangway::emulated
