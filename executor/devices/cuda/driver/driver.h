// Driver: all operations that Gangway needs of one GPU and its libraries, as one table of
// functions.
//
// Why a table: the module that fills it with CUDA, cuBLASLt, cuDNN and NCCL is loaded when a driver
// is there; everything else builds, and is tested on the emulated driver, without any of them.
//
//   streams, events, memory, copies, graphs    the CUDA runtime
//   compile(), kernel(), launch()              NVRTC and the driver API
//   prepare*(), run()                          cuBLASLt, cuDNN
//   communicators                              NCCL
//
// Invariants
//  - Calls that take an At only enqueue; they run in the order of their stream, and are ordered
//    between streams by events alone. A new stream waits for nothing (there is no default stream).
//  - An address is device memory or pinned host memory, and says by its value which. The host never
//    dereferences device memory; before it touches pinned memory it says so with host_access().
//  - Handles and addresses of all drivers of one process may be mixed where it makes sense: a
//    stream waits for another device's event, a copy goes from device to device.
//  - Between begin_capture() and end_capture() the calls on that stream, and on streams that wait
//    for its events, are recorded, not run. allocate, free, notify, query, synchronize and calls
//    that create or destroy something are refused on those streams.
//
// Threads: any, one call on one stream at a time. notify() calls back on a thread of the driver's.
// Ownership: the caller destroys the results of make/compile/prepare/create, after their last use
// is done (free() alone is in stream order).
// Errors: statuses. An error of an operation while it runs shows in a later query or synchronize,
// of any stream: it is sticky.
// Cost: 1-5 us for an enqueue on a card, none of it waiting, except where a call says "Blocks".
//
// Example:
//   At at{stream, "%3 add"};
//   driver.copy(at, device, pinned, bytes);
//   driver.launch(at, {.kernel = add, .grid = {8}, .block = {256}, .arguments = a, .accesses = r});
//   driver.record(at, event);  // Later: driver.query(event).
#pragma once

#include <memory>

#include "executor/devices/cuda/driver/calls.h"
#include "executor/devices/cuda/driver/status.h"
#include "executor/store/row_copies.h"
#include "runtime/base/result.h"

namespace gangway::cuda {

class Driver {
 public:
  virtual ~Driver() = default;

  virtual GpuInfo info() const = 0;
  // The first sticky error, or kOk.
  virtual Status health() const = 0;

  // Streams and events. An event that was never recorded is done. A wait means the latest record()
  // before it.
  virtual Result<StreamHandle> make_stream(std::string_view name, StreamPriority priority) = 0;
  Result<StreamHandle> make_stream(std::string_view name) {
    return make_stream(name, StreamPriority::kNormal);
  }
  virtual void destroy(StreamHandle stream) = 0;
  virtual Result<EventHandle> make_event() = 0;
  virtual void destroy(EventHandle event) = 0;
  virtual Status record(At at, EventHandle event) = 0;
  virtual Status wait(At at, EventHandle event) = 0;
  // kNotReady, kOk, or what failed on the way there. Once kOk, the host sees all that the event
  // comes after.
  virtual Status query(EventHandle event) = 0;
  virtual Status synchronize(EventHandle event) = 0;    // Blocks.
  virtual Status synchronize(StreamHandle stream) = 0;  // Blocks.
  // Time on the device between two events that are done.
  virtual Result<int64_t> elapsed_ns(EventHandle from, EventHandle to) = 0;
  // Calls function(argument) when the stream has come to this point, on a thread that must not call
  // the driver. It is a hint to query(): after a sticky error it may never come, so nobody may wait
  // for it without a time limit.
  virtual Status notify(At at, void (*function)(void*), void* argument) = 0;

  // Memory, from a pool of this device that never exceeds its budget. An allocation may be used by
  // what its stream does after it; a free() ends that for every stream: what other streams do with
  // it must be ordered before. Alignment: 256 bytes. The content is not initialised.
  virtual Result<std::byte*> allocate(At at, int64_t bytes) = 0;
  virtual Status free(At at, std::byte* data) = 0;
  // Bytes that the pool has given out, in its own units.
  virtual int64_t memory_in_use() const = 0;
  virtual int64_t memory_peak() const = 0;
  // Host memory that the device reads and writes by itself. Blocks (about 1 ms a call), so slots
  // are allocated once.
  virtual Result<std::byte*> allocate_pinned(int64_t bytes) = 0;
  virtual void free_pinned(std::byte* data) = 0;
  // The same for memory of the caller, such as a shared segment, in whole pages. Blocks.
  virtual Status pin(void* data, int64_t bytes) = 0;
  virtual void unpin(void* data) = 0;
  // Says that the host is about to touch pinned memory. Does nothing on a card; the emulated driver
  // checks that no operation in flight may touch it too.
  virtual void host_access(const Access& access, std::string_view label) = 0;

  // Copies between any two places; host memory must be pinned. Ranges do not overlap.
  virtual Status copy(At at, void* to, const void* from, int64_t bytes) = 0;
  // The same for rows, in one operation. Steps are at most kRowStepMax.
  virtual Status copy_rows(At at, const RowCopies& rows) = 0;
  virtual Status fill(At at, void* to, uint8_t value, int64_t bytes) = 0;

  // Graphs. A captured operation keeps the addresses that it was captured with. A graph that is
  // launched again waits for its own last launch.
  virtual Status begin_capture(StreamHandle stream) = 0;
  // Ready to launch. Blocks (about 10 us a node).
  virtual Result<GraphHandle> end_capture(StreamHandle stream) = 0;
  virtual Status launch(At at, GraphHandle graph) = 0;
  virtual void destroy(GraphHandle graph) = 0;

  // Kernels. Blocks (50 ms to seconds); the module caches binaries on disk by content.
  virtual Result<ModuleHandle> compile(const ModuleSource& source) = 0;
  virtual void destroy(ModuleHandle module) = 0;
  // A kernel of a module; with none, one of those that Gangway comes with (kernels/).
  virtual Result<KernelHandle> kernel(ModuleHandle module, std::string_view name) = 0;
  virtual Status launch(At at, const Launch& launch) = 0;

  // Library operations, prepared once. Blocks (up to seconds). kUnimplemented for what no library
  // offers: the caller then uses its own kernels. The tensors of run(), in order:
  //
  //   matmul          a, b, c, then bias, added and pre where the epilogue has them; c is also
  //                   read where the description accumulates, pre where it is a gradient's
  //   grouped_matmul  in0, in1, sizes i32[groups, experts], out
  //   attention       q, k, v, out, lse
  //   attention_grad  q, k, v, out, lse, dout, dq, dk, dv
  virtual Result<Prepared> prepare(const MatmulDesc& desc, const Epilogue& epilogue) = 0;
  virtual Result<Prepared> prepare(const GroupedMatmulDesc& desc) = 0;
  virtual Result<Prepared> prepare_attention(const AttentionShape& shape) = 0;
  virtual Result<Prepared> prepare_attention_grad(const AttentionShape& shape) = 0;
  virtual void destroy(PreparedHandle operation) = 0;
  virtual Status run(At at, PreparedHandle operation, std::span<void* const> tensors,
                     void* scratch) = 0;

  // Communicators: one per group of devices. All members make the same calls in the same order,
  // and a device's communicators share one stream. create() returns at once; query() says
  // kNotReady until all members have come, later whether something broke.
  virtual Result<CommId> new_comm_id() = 0;
  virtual Result<CommHandle> create_comm(const CommId& id, uint32_t rank, uint32_t size) = 0;
  virtual Status query(CommHandle comm) = 0;
  virtual Status all_reduce(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                            Reduction reduction) = 0;
  // `elements` counts each rank's part: out has size * elements (all_gather), in has
  // (reduce_scatter); parts lie in the order of ranks.
  virtual Status all_gather(At at, CommHandle comm, std::span<const CollectiveTensor> tensors) = 0;
  virtual Status reduce_scatter(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                                Reduction reduction) = 0;
  // The tensors of the member of that rank; its `out` too is written.
  virtual Status broadcast(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                           uint32_t root) = 0;
  // All messages together, as one operation.
  virtual Status exchange(At at, CommHandle comm, std::span<const Message> messages) = 0;
  // Ends the operations that wait inside it; they and later calls answer kAborted. Then destroy()
  // it.
  virtual Status abort(CommHandle comm) = 0;
  virtual void destroy(CommHandle comm) = 0;
};

}  // namespace gangway::cuda
