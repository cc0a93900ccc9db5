#include "programs/train/checkpoint.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <vector>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/tensor_parts.h"
#include "programs/train/convert_floats.h"
#include "programs/train/earlier_names.h"
#include "programs/train/stored_states.h"

namespace gangway::programs {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStatesFile = "states.safetensors";

std::vector<TensorSpec> specs_of(const std::vector<StateTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const StateTensor& tensor : tensors) {
    specs.push_back({.name = tensor.name,
                     .dtype = to_file_dtype(tensor.type.dtype),
                     .shape = tensor.type.dims});
  }
  return specs;
}

// Returns the file's hash.
std::string write_file(const Slice& slice, const std::filesystem::path& path,
                       const std::vector<TensorSpec>& specs,
                       const std::vector<StateTensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       int64_t piece_bytes_max) {
  std::map<std::string_view, const StateTensor*> by_name;
  for (const StateTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  SafetensorsWriter out(path, specs, metadata);
  for (const TensorEntry& entry : out.tensors()) {
    const StateTensor& tensor = *by_name.at(entry.spec.name);
    for (const Box& piece : pieces_of(tensor.type, piece_bytes_max)) {
      out.append(tensor.name, slice.read_state(tensor.state, tensor.in_state(piece)).bytes);
    }
  }
  return out.finish();
}

// Files that the cluster has kept (Slice::keep_checkpoints) have all states in one set, under their
// whole names, and count versions from the beginning of the training.
constexpr const char* kVersion = "version";
constexpr const char* kFirstStep = "first_step";
constexpr const char* kFirstPosition = "first_position";

bool is_kept_by_cluster(const TensorFiles& files) {
  return files.metadata().contains(kVersion) && files.metadata().contains(kFirstStep);
}

uint64_t number(const TensorFiles& files, const std::string& key,
                const std::filesystem::path& path) {
  auto at = files.metadata().find(key);
  GW_REQUIRE(at != files.metadata().end() && !at->second.empty() && at->second.size() < 20 &&
                 at->second.find_first_not_of("0123456789") == std::string::npos,
             "checkpoint: ", path.string(), " does not say its ", key,
             ": it is not a training checkpoint");
  return std::stoull(at->second);
}

Type type_of(const TensorView& view, const std::string& name) {
  auto dtype = to_dtype(view.spec->dtype);
  GW_REQUIRE(dtype.has_value(), "checkpoint: tensor \"", name, "\" is of type ",
             to_string(view.spec->dtype), ", which has no counterpart");
  return {*dtype, view.spec->shape};
}

// A tensor of the slice's states, and its place in a file.
struct Restored {
  StateTensor tensor;
  FileDType found = FileDType::kF32;  // Its type in the file.
  TensorView view;
};

// Finds a tensor by its name, or by a name that it had in an earlier version.
const TensorView& view_of(const TensorFiles& files, const std::string& name) {
  if (files.tensors().contains(name)) return files.at(name);
  for (const std::string& earlier : earlier_names(name)) {
    if (files.tensors().contains(earlier)) return files.at(earlier);
  }
  return files.at(name);
}

// Whether the elements lie in the file as they do in the tensor. GPT-2's files have queries, keys
// and values side by side in one dimension, [dim, 3 * dim].
bool lie_alike(const Dims& file, const StateTensor& tensor) {
  const Dims& dims = tensor.type.dims;
  if (file == dims) return true;
  return !names_of_parts(tensor.name, dims).empty() && dims.size() == 3 &&
         file == Dims{dims[0], dims[1] * dims[2]};
}

void require_convertible(const TensorSpec& from, const StateTensor& tensor) {
  const Type& to = tensor.type;
  GW_REQUIRE(lie_alike(from.shape, tensor), "parameters: tensor \"", from.name,
             "\" does not fit: expected ", to_string(to), ", got ", to_string(from.dtype),
             to_string(Dims(from.shape)));
  const bool are_floats = is_convertible_float(from.dtype) && is_float(to.dtype);
  GW_REQUIRE(to_dtype(from.dtype) == to.dtype || are_floats, "parameters: tensor \"", from.name,
             "\" can't be converted from ", to_string(from.dtype), " to ", to_string(to.dtype));
}

// Writes the tensor into its state, a piece at a time, converted to the state's type.
void write_tensor(const Slice& slice, const Restored& restored, int64_t piece_bytes_max) {
  const auto& [tensor, found, view] = restored;
  size_t at = 0;
  for (const Box& piece : pieces_of(tensor.type, piece_bytes_max)) {
    const Box part = tensor.in_state(piece);
    HostTensor values(Type{tensor.type.dtype, part.size});
    const size_t taken = static_cast<size_t>(values.type.elements()) * size_of(found);
    std::vector<std::byte> bytes(taken);
    view.read(at, bytes);
    convert_floats(found, bytes, tensor.type.dtype, values.bytes);
    at += taken;
    slice.write_state(tensor.state, part, values);
  }
}

struct Checkpoint {
  std::filesystem::path folder;
  TensorFiles model;
  std::optional<TensorFiles> optimizer;  // Empty: `model` has all states, under their own names.
  std::optional<TensorFiles> states;     // Empty: there are no other states.
};

// Opens a checkpoint and verifies all files that have a hash.
Checkpoint open_checkpoint(const std::filesystem::path& folder) {
  Checkpoint found{folder, TensorFiles::open(folder), {}, {}};
  std::error_code unread;
  if (!is_kept_by_cluster(found.model)) {
    found.optimizer = TensorFiles::open(folder / kOptimizerFile);
    if (std::filesystem::exists(folder / kStatesFile, unread))
      found.states = TensorFiles::open(folder / kStatesFile);
  }
  found.model.read({});
  if (found.optimizer) found.optimizer->read({});
  if (found.states) found.states->read({});
  return found;
}

// The files that have the tensor of a state of this name, and its name there.
struct StoredTensor {
  const TensorFiles* files = nullptr;  // Null: the checkpoint has no such files.
  std::string name;
};
StoredTensor stored_tensor(const Checkpoint& checkpoint, const std::string& name) {
  if (!checkpoint.optimizer) return {&checkpoint.model, name};
  switch (place_of(name)) {
    case StoredIn::kModel: return {&checkpoint.model, name_in_model(name)};
    case StoredIn::kOptimizer: return {&*checkpoint.optimizer, name};
    case StoredIn::kStates: break;
  }
  return {checkpoint.states ? &*checkpoint.states : nullptr, name};
}

const TensorView& find(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor stored = stored_tensor(checkpoint, name);
  GW_REQUIRE(stored.files != nullptr, "checkpoint: ", checkpoint.folder.string(), " has no tensor ",
             name);
  return view_of(*stored.files, stored.name);
}

// Checkpoints that the cluster keeps hold tensors as states do.
bool holds(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor stored = stored_tensor(checkpoint, name);
  return stored.files != nullptr && stored.files->tensors().contains(stored.name);
}

// Returns the states' names of the checkpoint's tensors that are not in `taken`.
std::vector<std::string> left_over(const Checkpoint& checkpoint,
                                   const std::set<const TensorView*>& taken) {
  std::vector<std::string> names;
  const auto add = [&](const TensorFiles& files, const auto& name_of) {
    for (const auto& [name, view] : files.tensors()) {
      if (!taken.contains(&view)) names.push_back(name_of(name));
    }
  };
  const auto as_it_is = [](const std::string& name) { return name; };
  if (!checkpoint.optimizer) {
    add(checkpoint.model, as_it_is);
    return names;
  }
  add(checkpoint.model, [](const std::string& name) { return state_of(name); });
  add(*checkpoint.optimizer, as_it_is);
  if (checkpoint.states) add(*checkpoint.states, as_it_is);
  std::ranges::sort(names);
  return names;
}

// Pairs the slice's states with the checkpoint's tensors. Checks all before the first is written.
std::vector<Restored> fitting(const Slice& slice, const Checkpoint& checkpoint,
                              const std::vector<std::string>& patterns) {
  std::vector<Restored> all;
  std::set<const TensorView*> taken;
  const auto is_whole = [&](const std::string& name) { return holds(checkpoint, name); };
  for (StateTensor& tensor : chosen_states(slice, patterns, is_whole)) {
    const TensorView& view = find(checkpoint, tensor.name);
    const Type found = type_of(view, tensor.name);
    GW_REQUIRE(found == tensor.type, "checkpoint: tensor \"", tensor.name,
               "\" does not fit: expected ", to_string(tensor.type), ", got ", to_string(found));
    taken.insert(&view);
    all.push_back({std::move(tensor), view.spec->dtype, view});
  }
  if (!patterns.empty()) return all;
  const std::vector<std::string> left = left_over(checkpoint, taken);
  if (left.empty()) return all;
  throw Error(ErrorKind::kInvalid,
              cat("checkpoint: ", checkpoint.folder.string(), " has tensors that no state of the ",
                  "slice takes: ", some_of(left)),
              {}, "say which states are to be loaded: LoadOptions::states = {\"params.*\"}");
}

// Opens the checkpoint `path`, or the newest one in the folder `path` that is not damaged.
Checkpoint find_checkpoint(const std::filesystem::path& path, const LoadOptions& options) {
  std::error_code unread;
  if (std::filesystem::exists(path / kModelFile, unread) ||
      std::filesystem::exists(path / kIndexFile, unread))
    return open_checkpoint(path);
  GW_REQUIRE(std::filesystem::is_directory(path, unread), "checkpoint: ", path.string(),
             " is not a folder");
  const CheckpointDir directory(path);
  const std::optional<std::filesystem::path> latest = directory.latest();
  GW_REQUIRE(latest.has_value(), "checkpoint: there is none under ", path.string());
  std::vector<std::filesystem::path> folders;
  for (const int64_t step : directory.steps()) {
    if (directory.folder_of(step) == *latest) break;
    folders.push_back(directory.folder_of(step));
  }
  folders.push_back(*latest);
  std::ranges::reverse(folders);
  std::optional<Error> damaged;
  for (const std::filesystem::path& folder : folders) {
    try {
      return open_checkpoint(folder);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      if (options.on_warning) {
        options.on_warning(
            cat("the checkpoint ", folder.string(), " is passed over: ", error.message()));
      }
      if (!damaged) damaged = error;
    }
  }
  throw Error(*damaged);
}

}  // namespace

std::filesystem::path save_checkpoint(const Slice& slice, const std::filesystem::path& root,
                                      const TrainingPosition& at, const SaveOptions& options) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                       {"step", std::to_string(at.step)},
                                                       {"position", std::to_string(at.position)},
                                                       {"seed", std::to_string(at.seed)},
                                                       {"data", at.data},
                                                       {"model", at.model},
                                                       {"settings", at.settings}};
  const std::vector<StateTensor> all = chosen_states(slice, options.states);
  const std::vector<StateTensor> parameters = stored_in(StoredIn::kModel, all);
  const std::vector<StateTensor> moments = stored_in(StoredIn::kOptimizer, all);
  const std::vector<StateTensor> others = stored_in(StoredIn::kStates, all);
  const std::vector<TensorSpec> specs = specs_of(parameters);
  int64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += static_cast<int64_t>(byte_size(spec).value_or(0));
  int files = static_cast<int>(bytes / std::max<int64_t>(1, options.file_bytes_max)) + 1;

  CheckpointDir directory(root);
  PendingCheckpoint pending = directory.begin(at.step);
  std::vector<TensorFilePlan> plan = {TensorFilePlan{kModelFile, specs}};
  if (files > 1) plan = plan_tensor_files(specs, files);
  FileHashes hashes;
  for (const TensorFilePlan& file : plan) {
    hashes[file.name] = write_file(slice, pending.folder() / file.name, file.tensors, parameters,
                                   metadata, options.piece_bytes_max);
  }
  if (files > 1) write_tensor_index(pending.folder(), plan);
  hashes[kOptimizerFile] = write_file(slice, pending.folder() / kOptimizerFile, specs_of(moments),
                                      moments, metadata, options.piece_bytes_max);
  if (!others.empty()) {
    hashes[kStatesFile] = write_file(slice, pending.folder() / kStatesFile, specs_of(others),
                                     others, metadata, options.piece_bytes_max);
  }
  write_file_hashes(pending.folder(), hashes);
  std::filesystem::path folder = pending.commit();
  directory.prune(options.keep);
  return folder;
}

void keep_checkpoints(const Slice& slice, int64_t every, const TrainingPosition& first,
                      const std::vector<std::string>& elastic) {
  slice.keep_checkpoints({.every = static_cast<uint64_t>(every),
                          .first = static_cast<uint64_t>(first.step),
                          .elastic = elastic,
                          .metadata = {{kFirstStep, std::to_string(first.step)},
                                       {kFirstPosition, std::to_string(first.position)},
                                       {"seed", std::to_string(first.seed)},
                                       {"data", first.data},
                                       {"model", first.model},
                                       {"settings", first.settings}}});
}

TrainingPosition load_checkpoint(const Slice& slice, const std::filesystem::path& path,
                                 const LoadOptions& options) {
  const Checkpoint found = find_checkpoint(path, options);
  const auto& [folder, model, optimizer, states] = found;
  const bool is_kept = is_kept_by_cluster(model);
  TrainingPosition at{.seed = number(model, "seed", folder)};
  if (is_kept) {
    const uint64_t version = number(model, kVersion, folder);
    at.step = static_cast<int64_t>(number(model, kFirstStep, folder) + version);
    at.position = number(model, kFirstPosition, folder) + version;
  } else {
    at.step = static_cast<int64_t>(number(model, "step", folder));
    at.position = number(model, "position", folder);
  }
  if (auto data = model.metadata().find("data"); data != model.metadata().end())
    at.data = data->second;
  if (auto sizes = model.metadata().find("model"); sizes != model.metadata().end())
    at.model = sizes->second;
  if (auto said = model.metadata().find("settings"); said != model.metadata().end())
    at.settings = said->second;
  GW_REQUIRE(options.model.empty() || at.model.empty() || at.model == options.model,
             "checkpoint: ", folder.string(), " is of another model: it has the sizes ", at.model,
             ", and the program ", options.model);
  for (const Restored& restored : fitting(slice, found, options.states))
    write_tensor(slice, restored, options.piece_bytes_max);
  return at;
}

int load_parameters(const Slice& slice, const std::filesystem::path& path,
                    const std::function<std::string(const std::string&)>& name_of,
                    const LoadOptions& options) {
  const TensorFiles files = TensorFiles::open(path);
  files.read({});  // Verifies the files that have a hash.
  // Where `name_of` knows the tensor and none of its parts, it is looked for as it is.
  const auto is_whole = [&](const std::string& name) {
    const std::vector<std::string> parts = names_of_parts(name, {1, 3, 1});
    const auto is_skipped = [&](const std::string& part) { return name_of(part).empty(); };
    const std::string foreign = name_of(name);
    return files.tensors().contains(foreign) ||
           (!foreign.empty() && std::ranges::all_of(parts, is_skipped));
  };
  std::vector<Restored> all;
  const auto tensors = in_parts(stored_in(StoredIn::kModel, slice.state_tensors()), is_whole);
  for (const StateTensor& tensor : tensors) {
    const std::string foreign = name_of(tensor.name);
    if (foreign.empty()) continue;
    const TensorView& view = files.at(foreign);
    require_convertible(*view.spec, tensor);
    all.push_back({tensor, view.spec->dtype, view});
  }
  for (const Restored& restored : all) write_tensor(slice, restored, options.piece_bytes_max);
  return static_cast<int>(all.size());
}

}  // namespace gangway::programs
