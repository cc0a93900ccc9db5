#include "executor/devices/cuda/module/check.h"

#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// Whether the process can't use the device any more after this error.
bool is_sticky(cudaError_t code) {
  switch (static_cast<int>(code)) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

StatusKind kind_of(cudaError_t code) {
  if (is_sticky(code)) return StatusKind::kFault;
  switch (static_cast<int>(code)) {
    case cudaErrorNotReady: return StatusKind::kNotReady;
    case cudaErrorMemoryAllocation: return StatusKind::kOutOfMemory;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return StatusKind::kUnsupported;
    case cudaErrorLaunchOutOfResources:
    case cudaErrorInvalidConfiguration: return StatusKind::kLaunch;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch: return StatusKind::kNoDriver;
    default: return StatusKind::kInvalid;
  }
}

}  // namespace

Status status_of(cudaError_t code, std::string_view label) {
  if (code == cudaSuccess) return {};
  cudaGetLastError();  // Otherwise a later call would return it again.
  if (code == cudaErrorNotReady) return {StatusKind::kNotReady, false, {}};
  return {kind_of(code), is_sticky(code), cat(label, ": ", cudaGetErrorString(code))};
}

Status status_of(cublasStatus_t code, std::string_view label) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  const StatusKind kind = code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_ARCH_MISMATCH
                              ? StatusKind::kUnsupported
                          : code == CUBLAS_STATUS_EXECUTION_FAILED ? StatusKind::kLaunch
                                                                   : StatusKind::kInvalid;
  return {kind, false, cat(label, ": cublasLt: ", cublasLtGetStatusName(code))};
}

Status status_of(ncclResult_t code, std::string_view label) {
  if (code == ncclSuccess) return {};
  if (code == ncclInProgress) return {StatusKind::kNotReady, false, {}};
  const bool caller = code == ncclInvalidArgument || code == ncclInvalidUsage;
  return {caller ? StatusKind::kInvalid : StatusKind::kAborted, false,
          cat(label, ": nccl: ", ncclGetErrorString(code))};
}

}  // namespace gangway::cuda
