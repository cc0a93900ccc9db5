// TensorShards: the parts of one logical tensor that lie on this host's devices.
//
// Threads: a value; the contents of its buffers belong to the devices' streams.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/store/memory.h"
#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway {

struct Shard {
  uint32_t device = 0;       // Of this host.
  uint32_t rank = 0;         // Of those on the device (ir/plan/plan_members.h).
  uint32_t mesh_device = 0;  // Its place in the mesh.
  BufferPtr buffer;
};

struct TensorShards {
  Type type;  // Global.
  Type local;
  Mesh mesh;
  Sharding sharding;
  std::vector<Shard> shards;  // Ascending by device, then by rank.

  bool same_placement(const TensorShards& other) const {
    if (mesh != other.mesh || sharding != other.sharding || shards.size() != other.shards.size())
      return false;
    for (size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].device != other.shards[i].device || shards[i].rank != other.shards[i].rank ||
          shards[i].mesh_device != other.shards[i].mesh_device)
        return false;
    }
    return true;
  }
  // Null: a rank of a device that has no part of it.
  const Shard* on(uint32_t device, uint32_t rank) const {
    for (const Shard& shard : shards) {
      if (shard.device == device && shard.rank == rank) return &shard;
    }
    return nullptr;
  }
};

// The contiguous runs of bytes that a shard shares with the global tensor in row-major order.
class ShardRuns {
 public:
  ShardRuns(const TensorShards& tensor, uint32_t mesh_device);

  // body(global_offset, local_offset, bytes)
  template <class Body>
  void for_each(Body body) const {
    if (bytes_ == 0) return;
    std::vector<int64_t> index(counts_.size(), 0);
    for (int64_t n = 0; n < total_; ++n) {
      int64_t global = offset_;
      for (size_t d = 0; d < counts_.size(); ++d) global += index[d] * strides_[d];
      body(global, n * bytes_, bytes_);
      for (size_t d = counts_.size(); d-- > 0;) {
        if (++index[d] < counts_[d]) break;
        index[d] = 0;
      }
    }
  }

 private:
  int64_t offset_ = 0;  // Where the shard begins in the global tensor, in bytes.
  int64_t bytes_ = 0;   // Of one run.
  int64_t total_ = 1;   // Runs.
  std::vector<int64_t> counts_, strides_;
};

// Whether this mesh device is the first of those that hold the same part: who writes it out.
bool is_first_copy(const TensorShards& tensor, uint32_t mesh_device);

}  // namespace gangway
