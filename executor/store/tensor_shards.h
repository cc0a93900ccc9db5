// TensorShards: the parts of one logical tensor that lie on this host's devices.
//
// Threads: a value; the contents of its buffers belong to the devices' streams.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/store/buffer.h"
#include "ir/types/box.h"
#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway {

struct Shard {
  uint32_t device = 0;       // Index on this host.
  uint32_t rank = 0;         // Rank on the device (ir/plan/plan_members.h).
  uint32_t mesh_device = 0;  // Position in the mesh.
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
  // Null if that rank of the device has no part of the tensor.
  const Shard* on(uint32_t device, uint32_t rank) const {
    for (const Shard& shard : shards) {
      if (shard.device == device && shard.rank == rank) return &shard;
    }
    return nullptr;
  }
};

// The contiguous runs of bytes that a shard shares with the global tensor, or with a part of it
// that is dense in row-major order.
class ShardRuns {
 public:
  // `part`: a box in the tensor; empty: all of it.
  ShardRuns(const TensorShards& tensor, uint32_t mesh_device, const Box& part = {});

  int64_t bytes() const { return bytes_ * total_; }  // Bytes of all runs.

  // Runs of `bytes` bytes in equal steps.
  struct Rows {
    int64_t in_part = 0, in_shard = 0;      // Offsets of the first run.
    int64_t part_step = 0, shard_step = 0;  // From one run to the next.
    int64_t bytes = 0, count = 0;
  };
  // body(Rows), which gets all runs in few calls: one for a part that is cut in two dimensions.
  template <class Body>
  void for_each_rows(Body body) const {
    if (bytes() == 0) return;
    const size_t outer = steps_.empty() ? 0 : steps_.size() - 1;
    const Step inner = steps_.empty() ? Step{1, bytes_, bytes_} : steps_.back();
    std::vector<int64_t> index(outer, 0);
    for (int64_t n = 0; n < total_ / inner.count; ++n) {
      int64_t there = part_offset_, here = shard_offset_;
      for (size_t d = 0; d < outer; ++d) {
        there += index[d] * steps_[d].in_part;
        here += index[d] * steps_[d].in_shard;
      }
      body(Rows{there, here, inner.in_part, inner.in_shard, bytes_, inner.count});
      for (size_t d = outer; d-- > 0;) {
        if (++index[d] < steps_[d].count) break;
        index[d] = 0;
      }
    }
  }
  // body(offset in the part, offset in the shard, bytes) for each run.
  template <class Body>
  void for_each(Body body) const {
    for_each_rows([&](const Rows& rows) {
      for (int64_t i = 0; i < rows.count; ++i)
        body(rows.in_part + i * rows.part_step, rows.in_shard + i * rows.shard_step, rows.bytes);
    });
  }

 private:
  struct Step {
    int64_t count = 0, in_part = 0, in_shard = 0;  // In bytes.
  };
  int64_t part_offset_ = 0, shard_offset_ = 0;  // Offsets of the first run.
  int64_t bytes_ = 0;                           // Bytes of one run.
  int64_t total_ = 1;                           // Number of runs.
  std::vector<Step> steps_;                     // Outer dimensions first.
};

// The runs were written to a shard of `shard_bytes` bytes, or the write failed. A buffer with an
// error keeps it until all of it has been written again: at once, or in parts. A part that overlaps
// an earlier one begins anew: the earlier ones may be another attempt's. Device thread.
void is_written(Buffer& shard, const ShardRuns& runs, int64_t shard_bytes,
                const std::shared_ptr<const Error>& failure);

// Whether this mesh device is the first of those that hold the same part, and so writes it out.
bool is_first_copy(const TensorShards& tensor, uint32_t mesh_device);

}  // namespace gangway
