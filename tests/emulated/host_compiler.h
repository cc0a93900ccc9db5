// Compiles the source of a module with the compiler that built these tests, and loads it.
//
// Results are kept on disk by the hash of the text and of the headers in kernels/, since hundreds
// of tests ask for the same chains.
// Threads: any.
// Errors: kInvalid with the compiler's output.
// Cost: about half a second for a source that is not on disk yet.
#pragma once

#include <memory>
#include <span>

#include "executor/devices/cuda/driver/calls.h"
#include "executor/devices/cuda/kernels/kernel_source.h"
#include "runtime/base/result.h"

namespace gangway::emulated {

class LoadedSource {
 public:
  LoadedSource(std::shared_ptr<void> library, const cuda::HostKernelTable& table)
      : library_(std::move(library)), table_(&table) {}
  std::span<const cuda::HostKernel> kernels() const { return {table_->kernels, table_->count}; }

 private:
  std::shared_ptr<void> library_;
  const cuda::HostKernelTable* table_;
};

Result<LoadedSource> compile_for_host(const cuda::ModuleSource& source);

}  // namespace gangway::emulated
