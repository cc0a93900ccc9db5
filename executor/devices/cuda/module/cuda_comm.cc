// Communicators of NCCL. They are created and used without blocking: a call that is "in progress"
// is polled until it is not.
#include <atomic>
#include <cstring>
#include <memory>

#include "executor/devices/cuda/module/cuda_driver.h"
#include "runtime/base/clock_ns.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

// The object of a CommHandle, which lives until destroy(). The handle is not NCCL's own pointer,
// since NCCL may create a new communicator at the address of an aborted one.
struct Communicator {
  const ncclComm_t comm;
  std::atomic<bool> aborted = false;  // The abort has freed `comm`.
};

Communicator& communicator_of(CommHandle handle) { return *pointer_of<Communicator*>(handle); }
ncclComm_t comm_of(CommHandle handle) { return communicator_of(handle).comm; }

Status aborted(CommHandle handle, std::string_view label) {
  if (!communicator_of(handle).aborted.load(std::memory_order_acquire)) return {};
  return {StatusKind::kAborted, false, cat(label, ": the communicator was aborted")};
}

// Whether NCCL accepted the call. Inside a group a communicator that does not block may still be
// busy with earlier calls: the call is part of the group all the same.
bool taken(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kBool: return ncclUint8;
    case DType::kI32: return ncclInt32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF64: return ncclFloat64;
    case DType::kF32: break;
  }
  return ncclFloat32;
}

ncclRedOp_t operation_of(gangway::Reduction reduction) {
  switch (reduction) {
    case gangway::Reduction::kMax: return ncclMax;
    case gangway::Reduction::kMin: return ncclMin;
    case gangway::Reduction::kSum: break;
  }
  return ncclSum;
}

// The first use of a communicator waits for all peers. A peer that does not come, although all
// agreed to, must not hold this thread for good.
constexpr int64_t kSettleMaxNs = 60'000'000'000;

// Waits until nothing is in progress, and returns the communicator's answer then.
ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  const int64_t until_ns = result == ncclInProgress ? clock_ns(CLOCK_MONOTONIC) + kSettleMaxNs : 0;
  while (result == ncclInProgress) {
    if (clock_ns(CLOCK_MONOTONIC) > until_ns) return ncclRemoteError;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &result); asked != ncclSuccess)
      return asked;
  }
  return result;
}

}  // namespace

Result<CommId> CudaDriver::new_comm_id() {
  static_assert(sizeof(ncclUniqueId) == sizeof(CommId));
  ncclUniqueId made;
  if (Status status = status_of(ncclGetUniqueId(&made), "new_comm_id"); !status.ok())
    return to_error(status);
  CommId id;
  std::memcpy(id.bytes, &made, sizeof(made));
  return id;
}

Result<CommHandle> CudaDriver::create_comm(const CommId& id, uint32_t rank, uint32_t size) {
  enter();
  ncclUniqueId unique;
  std::memcpy(&unique, id.bytes, sizeof(unique));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, static_cast<int>(size), unique,
                                                     static_cast<int>(rank), &config);
  Status status = status_of(result, "create_comm");
  if (status.failed()) return to_error(status);
  return CommHandle{reinterpret_cast<uint64_t>(new Communicator{.comm = comm})};
}

Status CudaDriver::query(CommHandle comm) {
  if (Status status = aborted(comm, "communicator"); !status.ok()) return status;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_of(comm), &state);
  return status_of(asked == ncclSuccess ? state : asked, "communicator");
}

template <class Items, class Enqueue>
Status CudaDriver::grouped(CommHandle comm, std::string_view label, const Items& items,
                           const Enqueue& enqueue) {
  enter();
  if (Status status = aborted(comm, label); !status.ok()) return status;
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) {
    for (const auto& item : items) {
      if (taken(result)) result = enqueue(item);
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (taken(result)) result = ended;
  }
  return status_of(settled(comm_of(comm), result), label);
}

Status CudaDriver::all_reduce(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                              gangway::Reduction reduction) {
  return grouped(comm, at.label, tensors, [&](const CollectiveTensor& t) {
    return ncclAllReduce(t.in, t.out, static_cast<size_t>(t.elements), nccl_type(t.dtype),
                         operation_of(reduction), comm_of(comm), stream_of(at.stream));
  });
}

Status CudaDriver::all_gather(At at, CommHandle comm, std::span<const CollectiveTensor> tensors) {
  return grouped(comm, at.label, tensors, [&](const CollectiveTensor& t) {
    return ncclAllGather(t.in, t.out, static_cast<size_t>(t.elements), nccl_type(t.dtype),
                         comm_of(comm), stream_of(at.stream));
  });
}

Status CudaDriver::reduce_scatter(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                                  gangway::Reduction reduction) {
  return grouped(comm, at.label, tensors, [&](const CollectiveTensor& t) {
    return ncclReduceScatter(t.in, t.out, static_cast<size_t>(t.elements), nccl_type(t.dtype),
                             operation_of(reduction), comm_of(comm), stream_of(at.stream));
  });
}

Status CudaDriver::broadcast(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                             uint32_t root) {
  return grouped(comm, at.label, tensors, [&](const CollectiveTensor& t) {
    return ncclBroadcast(t.in, t.out, static_cast<size_t>(t.elements), nccl_type(t.dtype),
                         static_cast<int>(root), comm_of(comm), stream_of(at.stream));
  });
}

Status CudaDriver::exchange(At at, CommHandle comm, std::span<const Message> messages) {
  return grouped(comm, at.label, messages, [&](const Message& m) {
    const auto bytes = static_cast<size_t>(m.bytes);
    const auto peer = static_cast<int>(m.peer);
    return m.direction == Message::kSend
               ? ncclSend(m.data, bytes, ncclUint8, peer, comm_of(comm), stream_of(at.stream))
               : ncclRecv(m.data, bytes, ncclUint8, peer, comm_of(comm), stream_of(at.stream));
  });
}

Status CudaDriver::abort(CommHandle comm) {
  enter();
  if (communicator_of(comm).aborted.exchange(true, std::memory_order_acq_rel)) return {};
  return status_of(ncclCommAbort(comm_of(comm)), "abort");
}

void CudaDriver::destroy(CommHandle comm) {
  enter();
  const std::unique_ptr<Communicator> last(&communicator_of(comm));
  if (aborted(comm, "destroy").ok()) ncclCommDestroy(last->comm);
}

}  // namespace gangway::cuda
