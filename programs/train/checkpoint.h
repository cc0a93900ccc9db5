// Training checkpoints: everything that a resumed run needs to give bit for bit the losses of one
// that never stopped.
//
// A folder for each step (checkpoint/checkpoint_dir.h) in the safetensors layout:
// model*.safetensors holds the parameters, states below "params.", under their own names
// ("layers.0.attn.q"), so that other tools read them; optimizer.safetensors the moments, states
// below "adamw."; states.safetensors all other states, where there are any. Step, data position,
// seed, the data's hash and the model's sizes are metadata of the model files; b2sums.txt has the
// hashes of all. Layers that a program stacks in one state are tensors of their own in the file, so
// a program loads what another one wrote, whichever of them stacks its layers. Tensors are read
// from the cluster, and written to it, a piece of at most 64 MiB at a time, of which each host
// takes or gives what its devices have: nobody holds a model, nor a tensor of it.
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
  uint64_t position = 0;  // Of the data source: the next batch.
  uint64_t seed = 0;      // Of the parameters and the order of the data.
  std::string data;       // What `position` counts in: a hash of text, batch and sequence.
  std::string model;      // sizes_text() of the model (programs/train/model_sizes.h), or empty.
  // What else losses depend on, as flags of `gangway train`: "--lr 0.002 --steps 577"; or empty.
  std::string settings;
};

// A checkpoint says nothing of how states are sharded: it is written on one mesh and loaded on any
// other. Of a tensor so many bytes are in this process at once.
inline constexpr int64_t kPieceBytesMax = int64_t{64} << 20;

struct SaveOptions {
  int keep = 2;  // Older checkpoints are removed (CheckpointDir::prune).
  int64_t file_bytes_max = int64_t{5} << 30;  // Parameters are split over files of about this size.
  int64_t piece_bytes_max = kPieceBytesMax;
  // Which states' tensors, as patterns ("params.*"); none: all.
  std::vector<std::string> states = {};
};
struct LoadOptions {
  int64_t piece_bytes_max = kPieceBytesMax;
  // Not empty: a training checkpoint that says to be of another model is refused. Shapes do not
  // tell all models apart: the number of heads is in none.
  std::string model;
  // Hears of checkpoints that were passed over because they are damaged.
  std::function<void(const std::string&)> on_warning = {};
  // As SaveOptions: what else the files have is left there.
  std::vector<std::string> states = {};
};

// All tensors of the slice's states. Returns the checkpoint's folder. kInvalid where there are
// none, and for a pattern that matches none.
std::filesystem::path save_checkpoint(const Slice& slice, const std::filesystem::path& root,
                                      const TrainingPosition& at, const SaveOptions& options = {});

// Has the cluster keep checkpoints of the slice by itself, one every so many steps, as a training
// goes on that is at `first` now: Slice::keep_checkpoints(), of which no run is done yet. They
// hold all states, in one set of files, under their whole names. `elastic`: RecoveryOptions.
void keep_checkpoints(const Slice& slice, int64_t every, const TrainingPosition& first,
                      const std::vector<std::string>& elastic = {});

// Reads every tensor of the slice's states from the newest checkpoint under `path` whose files
// have the hashes that are written beside them (or from the folder itself), one that
// save_checkpoint() wrote or the cluster has kept. kInvalid, naming the tensor, when one is missing
// or differs in type, or when the files have one that no state takes, and naming the file where all
// are damaged; nothing is written then.
TrainingPosition load_checkpoint(const Slice& slice, const std::filesystem::path& path,
                                 const LoadOptions& options = {});

// Parameters alone from a foreign file: `name_of` gives the name in the file of a parameter
// ("layers.0.attn.q"); an empty name leaves the parameter as it is. F16, BF16, F32
// and F64 are converted to the parameter's float type, to nearest, a piece at a time. Returns how
// many tensors were loaded, each layer of a stack counted. Errors: as load_checkpoint().
int load_parameters(const Slice& slice, const std::filesystem::path& path,
                    const std::function<std::string(const std::string&)>& name_of,
                    const LoadOptions& options = {});

}  // namespace gangway::programs
