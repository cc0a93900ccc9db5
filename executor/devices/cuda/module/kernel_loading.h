// Decides whether CUDA loads all kernels of all libraries as it is initialised, or each kernel at
// its first use.
//
// A first use may wait for all work of its card while it holds the driver's lock. Where one process
// has several cards that reduce through NCCL, that work may wait in turn for a launch by a peer,
// and the lock keeps the peer from launching: a deadlock. A process of several cards therefore
// loads all kernels at once. A process of one card loads at the first use, since cuBLASLt alone
// takes 541 MB; Gangway's own kernels are loaded as a driver opens and as a source is compiled,
// whatever is chosen here. The environment's CUDA_MODULE_LOADING has the last word.
//
// Threads: any.
#pragma once

#include <filesystem>

namespace gangway::cuda {

// Counts the device nodes nvidia0, nvidia1, ... in `folder`, since CUDA reads the choice before it
// can be asked for its cards. 0: `folder` shows no cards.
int cards_of(const std::filesystem::path& folder);

// `visible`: the value of CUDA_VISIBLE_DEVICES, a list of cards; null: all.
bool loads_all_kernels_at_once(int cards, const char* visible);

}  // namespace gangway::cuda
