#include "tests/cuda_module/stand_in_cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>

#include "executor/devices/cuda/module/own_kernels.h"

namespace gangway::cuda {
namespace {

constexpr int kDevices = 2;
constexpr uint32_t kGridYMax = 65535;

thread_local int current_device = 0;

// Objects whose addresses serve as handles; nothing reads them. All communicators have one address.
int a_pool, a_library, a_kernel, a_communicator;
std::vector<int> streams(64);

StandInCuda& state() { return StandInCuda::get(); }

}  // namespace

StandInCuda& StandInCuda::get() {
  static StandInCuda one;
  return one;
}

std::map<std::string, const void*, std::less<>> own_kernels() { return {{"decode", &a_kernel}}; }

}  // namespace gangway::cuda

using gangway::cuda::StandInCuda;
using namespace gangway::cuda;

extern "C" {

const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  StandInCuda::get().devices_set.insert(device);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
  *found = {};
  std::snprintf(found->name, sizeof(found->name), "stand-in %d", device);
  found->major = 9;
  found->multiProcessorCount = 2;
  found->totalGlobalMem = size_t{1} << 30;
  found->sharedMemPerBlockOptin = StandInCuda::kSharedBytesMax;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* all_bytes) {
  *free_bytes = *all_bytes = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(&a_pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = StandInCuda::kGreatestPriority;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  auto& made = state().stream_devices;
  *stream = reinterpret_cast<cudaStream_t>(&streams.at(made.size()));
  made.push_back(current_device);
  state().stream_priorities.push_back(priority);
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<cudaLibrary_t>(&a_library);
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char*) {
  *kernel = reinterpret_cast<cudaKernel_t>(&a_kernel);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  ++state().kernels_loaded;
  *attributes = {};
  attributes->sharedSizeBytes = StandInCuda::kStaticBytes;
  attributes->maxDynamicSharedSizeBytes = state().dynamic_bytes_max;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorNotSupported;
  if (state().attributes_to_refuse > 0) {
    --state().attributes_to_refuse;
    return cudaErrorMemoryAllocation;
  }
  if (static_cast<size_t>(value) + StandInCuda::kStaticBytes > StandInCuda::kSharedBytesMax)
    return cudaErrorInvalidValue;
  state().dynamic_bytes_max = value;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3, void**, size_t shared_bytes,
                             cudaStream_t) {
  if (grid.y > kGridYMax || grid.z > kGridYMax) return cudaErrorInvalidConfiguration;
  if (shared_bytes > static_cast<size_t>(state().dynamic_bytes_max)) return cudaErrorInvalidValue;
  ++state().launches;
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&a_library);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "an error of the stand-in"; }

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int, ncclUniqueId, int, ncclConfig_t*) {
  *made = reinterpret_cast<ncclComm_t>(&a_communicator);
  ++state().communicators;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* answer) {
  const bool busy = state().looks_in_progress > 0;
  if (busy) --state().looks_in_progress;
  *answer = busy ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t, int* count) {
  state().touched_after_their_end += state().communicators == 0 ? 1 : 0;
  *count = 0;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  --state().communicators;
  ++state().communicators_aborted;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  --state().communicators;
  ++state().communicators_destroyed;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  state().group.clear();
  return ncclSuccess;
}
// A communicator that does not block starts the calls of its group after ncclGroupEnd().
ncclResult_t ncclAllReduce(const void* in, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  state().group.push_back(in);
  return ncclInProgress;
}
ncclResult_t ncclGroupEnd() {
  auto& all = state().reduced;
  all.insert(all.end(), state().group.begin(), state().group.end());
  state().looks_in_progress = 3;
  return ncclInProgress;
}
}
