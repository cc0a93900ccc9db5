// A libcuda.so.1 for machines that have none: it finds no GPU, and takes every binary that it is
// given to load. With it cuDNN makes plans, to the compiled kernel, for a card that is not there.
namespace {
constexpr int kSuccess = 0, kNoDevice = 100;
}

#define GW_NO_DEVICE(name) \
  int name() { return kNoDevice; }

extern "C" {
GW_NO_DEVICE(cuInit)
GW_NO_DEVICE(cuDriverGetVersion)
GW_NO_DEVICE(cuDeviceGet)
GW_NO_DEVICE(cuDeviceGetCount)
GW_NO_DEVICE(cuGetErrorName)
GW_NO_DEVICE(cuGetErrorString)
GW_NO_DEVICE(cuCtxGetCurrent)
GW_NO_DEVICE(cuCtxGetLimit)
GW_NO_DEVICE(cuCtxPopCurrent)
GW_NO_DEVICE(cuCtxPushCurrent)
GW_NO_DEVICE(cuStreamGetCtx)
GW_NO_DEVICE(cuLinkCreate)
GW_NO_DEVICE(cuLinkAddData)
GW_NO_DEVICE(cuLinkComplete)
GW_NO_DEVICE(cuLinkDestroy)
GW_NO_DEVICE(cuLaunchKernel)
GW_NO_DEVICE(cuLaunchKernelEx)
GW_NO_DEVICE(cuLaunchCooperativeKernel)
GW_NO_DEVICE(cuLibraryLoadFromFile)
GW_NO_DEVICE(cuKernelGetAttribute)
GW_NO_DEVICE(cuKernelSetAttribute)
GW_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)

int cuLibraryLoadData(void** library) {
  static int loaded;
  *library = &loaded;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel) {
  static int found;
  *kernel = &found;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
}
