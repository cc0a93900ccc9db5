// Whether CUDA loads all kernels of all libraries as it is initialised, or each at its first use.
//
// A first use may wait for all work of its card while it holds the driver's lock. Where one process
// has several cards that reduce through NCCL, that work may wait in turn for what a peer has yet to
// launch, and the lock keeps the peer from it: nobody goes on. So there all are loaded at once. A
// process of one card loads at the first use, since cuBLASLt alone takes 541 MB; Gangway's own
// kernels are loaded as a driver opens and as a source is compiled, whatever is chosen here. The
// environment's CUDA_MODULE_LOADING has the last word.
//
// Threads: any.
#pragma once

#include <filesystem>

namespace gangway::cuda {

// By the device nodes nvidia0, nvidia1, ... in `folder`: CUDA reads the choice before it can be
// asked. 0: they are not known there.
int cards_of(const std::filesystem::path& folder);

// `visible`: the value of CUDA_VISIBLE_DEVICES, a list of cards; null: all.
bool loads_all_kernels_at_once(int cards, const char* visible);

}  // namespace gangway::cuda
