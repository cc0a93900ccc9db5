// CudaDriver: the table of functions of one GPU, filled from CUDA, cuBLASLt, cuDNN, NVRTC and NCCL.
//
// One file for each part: cuda_driver.cc streams, events and graphs; cuda_memory.cc;
// cuda_kernel.cc kernels and modules; cuda_library.cc products and attention; cuda_comm.cc. Handles
// of streams, events, graphs, modules and kernels are NVIDIA's own pointers.
//
// Attention that cuDNN lacks (fused_attention.h), products of experts and epilogues that cuBLASLt
// lacks are kUnimplemented when they are prepared.
#pragma once

#include <bit>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "executor/devices/cuda/driver/module_api.h"
#include "executor/devices/cuda/module/check.h"
#include "executor/devices/cuda/module/fused_attention.h"

namespace gangway::cuda {

class CudaDriver final : public Driver {
 public:
  CudaDriver(OpenOptions options, GpuInfo info)
      : options_(std::move(options)), info_(info), attention_(info.architecture) {}
  ~CudaDriver() override;
  // Creates the memory pool and the libraries' handles.
  Status start();

  GpuInfo info() const override { return info_; }
  Status health() const override;

  using Driver::make_stream;
  Result<StreamHandle> make_stream(std::string_view name, StreamPriority priority) override;
  void destroy(StreamHandle stream) override;
  Result<EventHandle> make_event() override;
  void destroy(EventHandle event) override;
  Status record(At at, EventHandle event) override;
  Status wait(At at, EventHandle event) override;
  Status query(EventHandle event) override;
  Status synchronize(EventHandle event) override;
  Status synchronize(StreamHandle stream) override;
  Result<int64_t> elapsed_ns(EventHandle from, EventHandle to) override;
  Status notify(At at, void (*function)(void*), void* argument) override;

  Result<std::byte*> allocate(At at, int64_t bytes) override;
  Status free(At at, std::byte* data) override;
  int64_t memory_in_use() const override;
  int64_t memory_peak() const override;
  Result<std::byte*> allocate_pinned(int64_t bytes) override;
  void free_pinned(std::byte* data) override;
  Status pin(void* data, int64_t bytes) override;
  void unpin(void* data) override;
  void host_access(const Access&, std::string_view) override {}
  Status copy(At at, void* to, const void* from, int64_t bytes) override;
  Status copy_rows(At at, const RowCopies& rows) override;
  Status fill(At at, void* to, uint8_t value, int64_t bytes) override;

  Status begin_capture(StreamHandle stream) override;
  Result<GraphHandle> end_capture(StreamHandle stream) override;
  Status launch(At at, GraphHandle graph) override;
  void destroy(GraphHandle graph) override;

  Result<ModuleHandle> compile(const ModuleSource& source) override;
  void destroy(ModuleHandle module) override;
  Result<KernelHandle> kernel(ModuleHandle module, std::string_view name) override;
  Status launch(At at, const Launch& launch) override;

  Result<Prepared> prepare(const MatmulDesc& desc, const Epilogue& epilogue) override;
  Result<Prepared> prepare(const GroupedMatmulDesc& desc) override;
  Result<Prepared> prepare_attention(const AttentionShape& shape) override;
  Result<Prepared> prepare_attention_grad(const AttentionShape& shape) override;
  void destroy(PreparedHandle operation) override;
  Status run(At at, PreparedHandle operation, std::span<void* const> tensors,
             void* scratch) override;

  Result<CommId> new_comm_id() override;
  Result<CommHandle> create_comm(const CommId& id, uint32_t rank, uint32_t size) override;
  Status query(CommHandle comm) override;
  Status all_reduce(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                    gangway::Reduction reduction) override;
  Status all_gather(At at, CommHandle comm, std::span<const CollectiveTensor> tensors) override;
  Status reduce_scatter(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                        gangway::Reduction reduction) override;
  Status broadcast(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                   uint32_t root) override;
  Status exchange(At at, CommHandle comm, std::span<const Message> messages) override;
  Status abort(CommHandle comm) override;
  void destroy(CommHandle comm) override;

 private:
  // Makes this device the calling thread's. Every call does this first.
  void enter() const;
  void let_peers_in();
  int64_t pool_bytes(cudaMemPoolAttr which) const;
  // Converts `code`, and keeps a sticky error for health().
  Status done(cudaError_t code, std::string_view label) const;
  // Needed before a launch with dynamic shared memory.
  Status lend_shared_memory(KernelHandle kernel, std::string_view label);
  Result<Prepared> prepare_attention(const AttentionShape& shape, AttentionPass pass);
  // enqueue(item) for each, as one operation of NCCL.
  template <class Items, class Enqueue>
  Status grouped(CommHandle comm, std::string_view label, const Items& items,
                 const Enqueue& enqueue);

  // Not changed after start().
  OpenOptions options_;
  GpuInfo info_;
  cudaMemPool_t pool_ = nullptr;
  cublasLtHandle_t cublas_ = nullptr;
  FusedAttention attention_;

  mutable std::mutex mutex_;
  mutable Status lost_;
  std::map<const std::byte*, int64_t> allocations_;
  int64_t in_use_ = 0;  // Sum of requested sizes, without the pool's rounding.
  std::map<std::string, const void*, std::less<>> own_kernels_;
  std::set<uint64_t> wide_kernels_;  // May use all the shared memory of a block.
};

// A handle's bits are the pointer.
template <class Pointer, class Tag>
Pointer pointer_of(Handle<Tag> handle) {
  return std::bit_cast<Pointer>(handle.bits);
}
inline cudaStream_t stream_of(StreamHandle handle) { return pointer_of<cudaStream_t>(handle); }
inline cudaEvent_t event_of(EventHandle handle) { return pointer_of<cudaEvent_t>(handle); }

}  // namespace gangway::cuda
