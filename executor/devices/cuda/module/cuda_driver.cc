#include "executor/devices/cuda/module/cuda_driver.h"

#include "executor/devices/cuda/module/own_kernels.h"
#include "runtime/base/error.h"

namespace gangway::cuda {

Status CudaDriver::start() {
  enter();
  size_t free_bytes = 0, all_bytes = 0;
  if (Status status = done(cudaMemGetInfo(&free_bytes, &all_bytes), "free memory"); !status.ok())
    return status;
  info_.memory_free = static_cast<int64_t>(free_bytes);
  if (options_.memory_bytes == 0) options_.memory_bytes = info_.memory_free / 10 * 9;
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, static_cast<int>(options_.index)};
  if (Status status = done(cudaMemPoolCreate(&pool_, &props), "memory pool"); !status.ok())
    return status;
  // Freed memory stays with the pool: giving it back would synchronise.
  uint64_t keep = UINT64_MAX;
  Status status =
      done(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
  if (!status.ok()) return status;
  let_peers_in();
  if (status = status_of(cublasLtCreate(&cublas_), "cublasLt"); !status.ok()) return status;
  own_kernels_ = own_kernels();
  // Loaded now: a load while work is in flight may wait for all of it.
  for (const auto& [name, function] : own_kernels_) {
    cudaFuncAttributes attributes;
    if (status = done(cudaFuncGetAttributes(&attributes, function), name); !status.ok())
      return status;
  }
  return {};
}

// Other cards copy straight into the pool; where they may not, the driver copies through the host.
void CudaDriver::let_peers_in() {
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess) return;
  for (int card = 0; card < cards; ++card) {
    int can = 0;
    const auto self = static_cast<int>(options_.index);
    if (card == self || cudaDeviceCanAccessPeer(&can, card, self) != cudaSuccess || can == 0)
      continue;
    const cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, card},
                                      cudaMemAccessFlagsProtReadWrite};
    static_cast<void>(done(cudaMemPoolSetAccess(pool_, &access, 1), "peer access"));
  }
}

CudaDriver::~CudaDriver() {
  enter();
  cudaDeviceSynchronize();
  if (cublas_ != nullptr) cublasLtDestroy(cublas_);
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

void CudaDriver::enter() const {
  thread_local int current = -1;
  const auto wanted = static_cast<int>(options_.index);
  if (current == wanted) return;
  if (cudaSetDevice(wanted) == cudaSuccess) current = wanted;
}

Status CudaDriver::done(cudaError_t code, std::string_view label) const {
  if (code == cudaSuccess) return {};
  Status status = status_of(code, label);
  if (!status.sticky) return status;
  const std::lock_guard lock(mutex_);
  if (lost_.ok()) lost_ = status;
  return lost_;
}

Status CudaDriver::health() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

Result<StreamHandle> CudaDriver::make_stream(std::string_view name, StreamPriority priority) {
  enter();
  int least = 0, greatest = 0;
  Status status = done(cudaDeviceGetStreamPriorityRange(&least, &greatest), name);
  if (!status.ok()) return to_error(status);
  const int chosen = priority == StreamPriority::kUrgent ? greatest : least;
  cudaStream_t made;
  status = done(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, chosen), name);
  if (!status.ok()) return to_error(status);
  return StreamHandle{reinterpret_cast<uint64_t>(made)};
}

void CudaDriver::destroy(StreamHandle stream) {
  enter();
  cudaStreamDestroy(stream_of(stream));
}

Result<EventHandle> CudaDriver::make_event() {
  enter();
  cudaEvent_t made;
  if (Status status = done(cudaEventCreate(&made), "event"); !status.ok()) return to_error(status);
  return EventHandle{reinterpret_cast<uint64_t>(made)};
}

void CudaDriver::destroy(EventHandle event) {
  enter();
  cudaEventDestroy(event_of(event));
}

Status CudaDriver::record(At at, EventHandle event) {
  enter();
  return done(cudaEventRecord(event_of(event), stream_of(at.stream)), at.label);
}

Status CudaDriver::wait(At at, EventHandle event) {
  enter();
  return done(cudaStreamWaitEvent(stream_of(at.stream), event_of(event), 0), at.label);
}

Status CudaDriver::query(EventHandle event) {
  enter();
  return done(cudaEventQuery(event_of(event)), "query");
}

Status CudaDriver::synchronize(EventHandle event) {
  enter();
  return done(cudaEventSynchronize(event_of(event)), "synchronize");
}

Status CudaDriver::synchronize(StreamHandle stream) {
  enter();
  return done(cudaStreamSynchronize(stream_of(stream)), "synchronize");
}

Result<int64_t> CudaDriver::elapsed_ns(EventHandle from, EventHandle to) {
  enter();
  float milliseconds = 0;
  Status status =
      done(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)), "elapsed_ns");
  if (!status.ok()) return to_error(status);
  return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}

Status CudaDriver::notify(At at, void (*function)(void*), void* argument) {
  enter();
  return done(cudaLaunchHostFunc(stream_of(at.stream), function, argument), at.label);
}

// Only the capturing thread must not make calls that synchronise; other threads may.
Status CudaDriver::begin_capture(StreamHandle stream) {
  enter();
  return done(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal),
              "begin_capture");
}

Result<GraphHandle> CudaDriver::end_capture(StreamHandle stream) {
  enter();
  cudaGraph_t graph = nullptr;
  Status status = done(cudaStreamEndCapture(stream_of(stream), &graph), "end_capture");
  if (!status.ok()) return to_error(status);
  cudaGraphExec_t ready = nullptr;
  status = done(cudaGraphInstantiate(&ready, graph, 0), "end_capture");
  cudaGraphDestroy(graph);
  if (!status.ok()) return to_error(status);
  return GraphHandle{reinterpret_cast<uint64_t>(ready)};
}

Status CudaDriver::launch(At at, GraphHandle graph) {
  enter();
  auto* ready = pointer_of<cudaGraphExec_t>(graph);
  return done(cudaGraphLaunch(ready, stream_of(at.stream)), at.label);
}

void CudaDriver::destroy(GraphHandle graph) {
  enter();
  cudaGraphExecDestroy(pointer_of<cudaGraphExec_t>(graph));
}

}  // namespace gangway::cuda
