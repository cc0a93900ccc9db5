// The exports of the CUDA module: one table, found by its name after dlopen().
//
// The module (module/) is a library of its own, so that nothing else needs NVIDIA's libraries: it
// is built where nvcc is, and loaded where a driver is (loader.h). The module and the program that
// loads it must come from one build; `version` lets the program refuse a module of another one.
//
// Threads: any.
// Errors: values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"

namespace gangway::cuda {

struct FoundGpus {
  std::vector<GpuInfo> gpus;
  std::string why_none;  // Said where there are none.
};

struct OpenOptions {
  uint32_t index = 0;         // Index into FoundGpus::gpus.
  int64_t memory_bytes = 0;   // The budget; 0: nine tenths of the free memory.
  std::string kernel_folder;  // Folder of compiled sources; empty: they are not kept.
};

struct ModuleTable {
  uint64_t version = 0;
  FoundGpus (*find)() = nullptr;
  Result<std::shared_ptr<Driver>> (*open)(const OpenOptions& options) = nullptr;
};

inline constexpr uint64_t kModuleVersion = 2;  // Grows whenever driver.h or calls.h change.
inline constexpr const char* kModuleSymbol = "gangway_cuda_module";

}  // namespace gangway::cuda
