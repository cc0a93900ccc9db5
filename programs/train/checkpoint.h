// Training checkpoints: everything that a resumed run needs to give bit for bit the losses of one
// that never stopped.
//
// Each step has a folder (checkpoint/checkpoint_dir.h) in the safetensors layout.
// model*.safetensors holds the parameters, states below "params.", under their own names
// ("layers.0.attn.q"), so that other tools read them; optimizer.safetensors the moments, states
// below "adamw."; states.safetensors all other states, if there are any. Step, data position, seed,
// the data's hash and the model's sizes are metadata of the model files; b2sums.txt has the hashes
// of all files. Layers that a program stacks in one state are tensors of their own in the file, so
// that a program loads the checkpoint of another one, whichever of them stacks its layers. Queries,
// keys and values are apart too (checkpoint/tensor_parts.h), as in files of earlier versions.
// Tensors are read from the cluster, and written to it, in pieces of at most 64 MiB; each host
// takes or gives the part of a piece that its devices have. No process holds a whole model, nor a
// whole tensor of it.
//
// Threads: one thread.
// Errors: as runtime/base/durable_file.h; on any failure the last good checkpoint survives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/client.h"

namespace gangway::programs {

struct TrainingPosition {
  int64_t step = 0;       // Steps done.
  uint64_t position = 0;  // Position of the data source: its next batch.
  uint64_t seed = 0;      // Seed of the parameters and of the order of the data.
  std::string data;       // The data that `position` counts in: a hash of text, batch and sequence.
  std::string model;      // sizes_text() of the model (programs/train/model_sizes.h), or empty.
  // Flags of `gangway train` that losses depend on too, "--lr 0.002 --steps 577"; or empty.
  std::string settings;
};

// A checkpoint says nothing about how states are sharded: it is written on one mesh and loaded on
// any other. This process holds at most this many bytes of a tensor at once.
inline constexpr int64_t kPieceBytesMax = int64_t{64} << 20;

struct SaveOptions {
  int keep = 2;  // Older checkpoints are removed (CheckpointDir::prune).
  int64_t file_bytes_max = int64_t{5} << 30;  // Parameters are split over files of about this size.
  int64_t piece_bytes_max = kPieceBytesMax;
  // Patterns of the states that are saved ("params.*"); empty: all.
  std::vector<std::string> states = {};
};
struct LoadOptions {
  int64_t piece_bytes_max = kPieceBytesMax;
  // If not empty, a training checkpoint that says that it belongs to another model is refused.
  // Shapes do not distinguish all models: none of them shows the number of heads.
  std::string model;
  // Called for each checkpoint that was passed over because it is damaged.
  std::function<void(const std::string&)> on_warning = {};
  // Patterns as in SaveOptions; other tensors in the files are ignored.
  std::vector<std::string> states = {};
};

// Saves all tensors of the slice's states and returns the checkpoint's folder. kInvalid if the
// slice has no states, or if no state matches a pattern.
std::filesystem::path save_checkpoint(const Slice& slice, const std::filesystem::path& root,
                                      const TrainingPosition& at, const SaveOptions& options = {});

// Has the cluster keep checkpoints of the slice by itself, one every `every` steps, for a training
// that is at `first` now and has done no run on the slice yet (Slice::keep_checkpoints()). These
// checkpoints hold all states, in one set of files, under their whole names. `elastic` is
// RecoveryOptions::elastic.
void keep_checkpoints(const Slice& slice, int64_t every, const TrainingPosition& first,
                      const std::vector<std::string>& elastic = {});

// Reads every tensor of the slice's states from the newest checkpoint under `path` (or from `path`
// itself) whose files have the hashes that are written beside them. save_checkpoint() wrote it or
// the cluster has kept it. kInvalid, naming the tensor, if one is missing or differs in type, or if
// the files have one that no state takes, and naming the file if all checkpoints are damaged; no
// state is written then.
TrainingPosition load_checkpoint(const Slice& slice, const std::filesystem::path& path,
                                 const LoadOptions& options = {});

// Loads only parameters, from a foreign file. `name_of` gives the name in the file of a parameter
// ("layers.0.attn.q"); an empty name leaves the parameter as it is. A file that has queries, keys
// and values in one tensor, [dim, 3 * dim] as GPT-2's or [dim, 3, dim], has it under the name of
// "layers.0.attn.qkv". F16, BF16, F32 and F64 are
// converted to the parameter's float type, to nearest, a piece at a time. Returns the number of
// tensors that were loaded, each layer of a stack counted. Errors: as load_checkpoint().
int load_parameters(const Slice& slice, const std::filesystem::path& path,
                    const std::function<std::string(const std::string&)>& name_of,
                    const LoadOptions& options = {});

}  // namespace gangway::programs
