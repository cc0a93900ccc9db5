// EmulatedDriver: the table of functions of one emulated device.
//
// It has one source for each part: emulated_driver.cc has streams and events, emulated_memory.cc
// memory, emulated_graph.cc graphs, emulated_kernel.cc modules and launches, emulated_library.cc
// products and attention, and emulated_comm.cc communicators.
#pragma once

#include "tests/emulated/core.h"

namespace gangway::emulated {

struct Letter;
struct Rendezvous;

class EmulatedDriver final : public cuda::Driver {
 public:
  EmulatedDriver(Core& core, uint32_t device) : core_(core), device_(device) {}

  cuda::GpuInfo info() const override;
  Status health() const override;

  using Driver::make_stream;
  Result<cuda::StreamHandle> make_stream(std::string_view name,
                                         cuda::StreamPriority priority) override;
  void destroy(cuda::StreamHandle stream) override;
  Result<cuda::EventHandle> make_event() override;
  void destroy(cuda::EventHandle event) override;
  Status record(cuda::At at, cuda::EventHandle event) override;
  Status wait(cuda::At at, cuda::EventHandle event) override;
  Status query(cuda::EventHandle event) override;
  Status synchronize(cuda::EventHandle event) override;
  Status synchronize(cuda::StreamHandle stream) override;
  Result<int64_t> elapsed_ns(cuda::EventHandle from, cuda::EventHandle to) override;
  Status notify(cuda::At at, void (*function)(void*), void* argument) override;

  Result<std::byte*> allocate(cuda::At at, int64_t bytes) override;
  Status free(cuda::At at, std::byte* data) override;
  int64_t memory_in_use() const override;
  int64_t memory_peak() const override;
  Result<std::byte*> allocate_pinned(int64_t bytes) override;
  void free_pinned(std::byte* data) override;
  Status pin(void* data, int64_t bytes) override;
  void unpin(void* data) override;
  void host_access(const Access& access, std::string_view label) override;
  Status copy(cuda::At at, void* to, const void* from, int64_t bytes) override;
  Status copy_rows(cuda::At at, const RowCopies& rows) override;
  Status fill(cuda::At at, void* to, uint8_t value, int64_t bytes) override;

  Status begin_capture(cuda::StreamHandle stream) override;
  Result<cuda::GraphHandle> end_capture(cuda::StreamHandle stream) override;
  Status launch(cuda::At at, cuda::GraphHandle graph) override;
  void destroy(cuda::GraphHandle graph) override;

  Result<cuda::ModuleHandle> compile(const cuda::ModuleSource& source) override;
  void destroy(cuda::ModuleHandle module) override;
  Result<cuda::KernelHandle> kernel(cuda::ModuleHandle module, std::string_view name) override;
  Status launch(cuda::At at, const cuda::Launch& launch) override;

  Result<cuda::Prepared> prepare(const MatmulDesc& desc, const cuda::Epilogue& epilogue) override;
  Result<cuda::Prepared> prepare(const GroupedMatmulDesc& desc) override;
  Result<cuda::Prepared> prepare_attention(const AttentionShape& shape) override;
  Result<cuda::Prepared> prepare_attention_grad(const AttentionShape& shape) override;
  void destroy(cuda::PreparedHandle operation) override;
  Status run(cuda::At at, cuda::PreparedHandle operation, std::span<void* const> tensors,
             void* scratch) override;

  Result<cuda::CommId> new_comm_id() override;
  Result<cuda::CommHandle> create_comm(const cuda::CommId& id, uint32_t rank,
                                       uint32_t size) override;
  Status query(cuda::CommHandle comm) override;
  Status all_reduce(cuda::At at, cuda::CommHandle comm, std::span<const CollectiveTensor> tensors,
                    Reduction reduction) override;
  Status all_gather(cuda::At at, cuda::CommHandle comm,
                    std::span<const CollectiveTensor> tensors) override;
  Status reduce_scatter(cuda::At at, cuda::CommHandle comm,
                        std::span<const CollectiveTensor> tensors, Reduction reduction) override;
  Status broadcast(cuda::At at, cuda::CommHandle comm, std::span<const CollectiveTensor> tensors,
                   uint32_t root) override;
  Status exchange(cuda::At at, cuda::CommHandle comm,
                  std::span<const cuda::Message> messages) override;
  Status abort(cuda::CommHandle comm) override;
  void destroy(cuda::CommHandle comm) override;

  struct Comm;

 private:
  struct PreparedOperation;
  struct LoadedModule;

  DeviceState& state() const { return core_.devices[device_]; }
  std::unique_lock<std::recursive_mutex> enter(std::string_view call) const;
  // Like tell(), and reports the call if this thread got the error before.
  Status lost(std::string_view label) const;
  // kOk, or the error of the lost device. Notes that this thread has got it.
  Status tell() const;
  Status enqueue(cuda::At at, Work work, bool comm = false);
  // Reports a call that may not stand inside a capture.
  Status outside_capture(cuda::At at, std::string_view call) const;
  Status misuse(std::string_view label, std::string text) const;
  Status wait_for(const PointPtr& point, std::unique_lock<std::recursive_mutex>& lock);
  PointPtr* event(cuda::EventHandle handle);
  // All members of a collective must give the same values.
  struct Together {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Reduction reduction = Reduction::kSum;
    uint32_t root = 0;
  };
  Status collective(cuda::At at, cuda::CommHandle handle, const Together& together,
                    std::span<const CollectiveTensor> tensors);
  std::shared_ptr<Comm> usable(cuda::CommHandle handle, std::string_view label, Status& status);
  void perform(const Rendezvous& rendezvous, const Together& together);
  void perform_move(const Rendezvous& rendezvous, const Together& together, size_t tensor);
  Operation exchange_once(const std::shared_ptr<Comm>& comm,
                          const std::vector<cuda::Message>& messages, const std::string& label);
  // An operation of a communicator: `arrive` says whether all that it needs has come; `run` is
  // not called for one that was aborted.
  Operation operation_of(const std::shared_ptr<Comm>& comm, const std::string& label,
                         std::vector<Access> accesses, std::function<bool()> arrive,
                         std::function<void()> run);
  bool gone(const Group& group, uint32_t rank) const;
  void deliver(Letter& letter, const std::string& label);
  Status offers(std::string_view what) const;
  Result<cuda::Prepared> add(std::shared_ptr<PreparedOperation> operation);
  void run_prepared(const PreparedOperation& operation, const std::vector<void*>& addresses,
                    const std::string& label);

  Core& core_;
  const uint32_t device_;
  std::vector<std::shared_ptr<PreparedOperation>> prepared_;
  std::vector<std::shared_ptr<Comm>> comms_;
  std::vector<std::shared_ptr<LoadedModule>> modules_;
};

}  // namespace gangway::emulated
