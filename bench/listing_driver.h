// ListingDriver: stands for a GPU that is not there, and lists the calls that it gets.
//
// Why: the table of a step's costs is made from the calls that a GPU would get. Nothing runs, and
// no address is ever read or written. The driver offers what cuBLASLt and cuDNN offer on an H200.
// They refuse products of experts there, and so does the driver.
// Threads: any; list() once no call is under way.
// Ownership: sources are kept as long as it lives.
// Errors: calls that no step of one GPU makes (graphs, communicators) get kUnsupported.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"

namespace gangway::bench {

// One call, or several equal ones.
struct ListedCall {
  enum Kind : uint8_t { kKernel, kProduct, kAttention, kAttentionGrad, kCopy };
  struct Tensor {
    int64_t bytes = 0;
    cuda::AccessKind kind = cuda::AccessKind::kRead;
    bool operator==(const Tensor&) const = default;
  };
  Kind kind = kKernel;
  std::string label;    // Label of the first.
  std::string kernel;   // "chain" if it is from a source.
  int64_t source = -1;  // Index into sources(); -1: a kernel that Gangway comes with.
  uint32_t grid[3] = {}, block = 0;
  uint32_t shared_bytes = 0;
  std::vector<Tensor> tensors;
  double flops = 0;   // For products and attention; without masked scores.
  int64_t count = 1;  // Number of calls in a step.
};

class ListingDriver final : public cuda::Driver {
 public:
  // The calls of one step. Calls that differ only in their labels are one entry.
  const std::vector<ListedCall>& list() const { return list_; }
  const std::vector<std::string>& sources() const { return sources_; }

  cuda::GpuInfo info() const override;
  cuda::Status health() const override { return {}; }

  using cuda::Driver::make_stream;
  Result<cuda::StreamHandle> make_stream(std::string_view, cuda::StreamPriority) override;
  void destroy(cuda::StreamHandle) override {}
  Result<cuda::EventHandle> make_event() override;
  void destroy(cuda::EventHandle) override {}
  cuda::Status record(cuda::At, cuda::EventHandle) override { return {}; }
  cuda::Status wait(cuda::At, cuda::EventHandle) override { return {}; }
  cuda::Status query(cuda::EventHandle) override { return {}; }
  cuda::Status synchronize(cuda::EventHandle) override { return {}; }
  cuda::Status synchronize(cuda::StreamHandle) override { return {}; }
  Result<int64_t> elapsed_ns(cuda::EventHandle, cuda::EventHandle) override { return 0; }
  cuda::Status notify(cuda::At, void (*)(void*), void*) override { return {}; }

  Result<std::byte*> allocate(cuda::At at, int64_t) override { return refused(at.label); }
  cuda::Status free(cuda::At, std::byte*) override { return {}; }
  int64_t memory_in_use() const override { return 0; }
  int64_t memory_peak() const override { return 0; }
  Result<std::byte*> allocate_pinned(int64_t) override { return refused("pinned memory"); }
  void free_pinned(std::byte*) override {}
  cuda::Status pin(void*, int64_t) override { return {}; }
  void unpin(void*) override {}
  void host_access(const cuda::Access&, std::string_view) override {}
  cuda::Status copy(cuda::At at, void* to, const void* from, int64_t bytes) override;
  cuda::Status copy_rows(cuda::At at, const RowCopies&) override { return unsupported(at); }
  cuda::Status fill(cuda::At at, void*, uint8_t, int64_t) override { return unsupported(at); }

  cuda::Status begin_capture(cuda::StreamHandle) override { return unsupported({}); }
  Result<cuda::GraphHandle> end_capture(cuda::StreamHandle) override { return refused("graph"); }
  cuda::Status launch(cuda::At at, cuda::GraphHandle) override { return unsupported(at); }
  void destroy(cuda::GraphHandle) override {}

  Result<cuda::ModuleHandle> compile(const cuda::ModuleSource& source) override;
  void destroy(cuda::ModuleHandle) override {}
  Result<cuda::KernelHandle> kernel(cuda::ModuleHandle module, std::string_view name) override;
  cuda::Status launch(cuda::At at, const cuda::Launch& launch) override;

  Result<cuda::Prepared> prepare(const MatmulDesc& desc, const cuda::Epilogue& epilogue) override;
  Result<cuda::Prepared> prepare(const GroupedMatmulDesc&) override {
    return refused("products of experts");
  }
  Result<cuda::Prepared> prepare_attention(const AttentionShape& shape) override;
  Result<cuda::Prepared> prepare_attention_grad(const AttentionShape& shape) override;
  void destroy(cuda::PreparedHandle) override {}
  cuda::Status run(cuda::At at, cuda::PreparedHandle operation, std::span<void* const> tensors,
                   void* scratch) override;

  Result<cuda::CommId> new_comm_id() override { return refused("communicator"); }
  Result<cuda::CommHandle> create_comm(const cuda::CommId&, uint32_t, uint32_t) override {
    return refused("communicator");
  }
  cuda::Status query(cuda::CommHandle) override { return unsupported({}); }
  cuda::Status all_reduce(cuda::At at, cuda::CommHandle, std::span<const CollectiveTensor>,
                          Reduction) override {
    return unsupported(at);
  }
  cuda::Status all_gather(cuda::At at, cuda::CommHandle,
                          std::span<const CollectiveTensor>) override {
    return unsupported(at);
  }
  cuda::Status reduce_scatter(cuda::At at, cuda::CommHandle, std::span<const CollectiveTensor>,
                              Reduction) override {
    return unsupported(at);
  }
  cuda::Status broadcast(cuda::At at, cuda::CommHandle, std::span<const CollectiveTensor>,
                         uint32_t) override {
    return unsupported(at);
  }
  cuda::Status exchange(cuda::At at, cuda::CommHandle, std::span<const cuda::Message>) override {
    return unsupported(at);
  }
  cuda::Status abort(cuda::CommHandle) override { return {}; }
  void destroy(cuda::CommHandle) override {}

 private:
  struct Kernel {
    std::string name;
    int64_t source = -1;
  };

  static Error refused(std::string_view what);
  static cuda::Status unsupported(cuda::At at);
  Result<cuda::Prepared> keep(ListedCall operation);
  void add(ListedCall call);

  std::mutex mutex_;
  uint64_t handles_ = 0;
  std::vector<std::string> sources_;
  std::vector<Kernel> kernels_;         // Index: the handle less 1.
  std::vector<ListedCall> operations_;  // Indexed likewise.
  std::vector<ListedCall> list_;
};

}  // namespace gangway::bench
