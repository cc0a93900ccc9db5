// Trains a language model on text, from a text file to a checkpoint, and reports its progress.
// `gangway train` runs it.
//
// Threads: one thread; steps are enqueued ahead of the devices.
// Errors: gangway::Error, with the place to look at; kCancelled if the caller asked it to stop
// before its first step; for the folder `out` those of programs/train/out_folder.h, before anything
// is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "client/client.h"
#include "programs/optim/schedule.h"
#include "programs/train/language_model.h"

namespace gangway::programs {

struct TrainedStep {
  int64_t step = 0;
  float loss = 0;
  double tokens_per_s = 0;  // Over all steps so far.
};

struct TrainOptions {
  std::string cluster = "local:2x2";  // Address, as connect() takes it.
  std::string device = "cpu";         // Kind of device of a local cluster: "cpu" or "cuda".
  // Devices to train on; 0: as many as the mesh has, or without a mesh all ranks of a local
  // cluster.
  int64_t devices = 0;
  std::vector<MeshAxis> mesh;              // Empty: all devices along "data".
  std::string strategy = "data_parallel";  // Names, as strategy_of() takes them.
  int64_t ranks_per_device = 1;            // SliceOptions::ranks_per_device.
  // Name of the program, on a cluster that others use too. Empty: "train", or the first of
  // "train-2", "train-3" ... that no other program of this user has.
  std::string name;
  int64_t wait_ms = 0;  // SliceOptions::wait_ms: how long to wait for devices.
  double weight = 1;    // ConnectOptions::weight and priority.
  int32_t priority = 0;
  Dispatch dispatch = Dispatch::kParallel;  // CompileOptions::dispatch.
  std::string text;  // A file or a folder; empty: the book that quickstart installs.
  // One training at a time writes to this folder, and it replaces no checkpoints of another one.
  std::filesystem::path out = "out/quickstart";
  // Takes `out` or, if it has checkpoints or another training writes there, the first of out-2,
  // out-3 ... that is free.
  bool take_next_free = false;
  LanguageModelConfig config;  // `text` and `optimizer.rate` are filled in.
  CosineSchedule schedule;     // The learning rate; `steps` is filled in.
  int64_t steps = 577;
  // Steps between measurements on a few held-out batches; 0: only at the end.
  int64_t heldout_every = 50;
  int64_t checkpoint_every = 0;  // 0: only at the end.
  // Steps between checkpoints that the cluster keeps by itself; 0: it keeps none.
  int64_t keep_every = 0;
  // Axes of the mesh that may shrink when a host is lost; see RecoveryOptions.
  std::vector<std::string> elastic;
  // Resumes from the newest checkpoint there, which may be one that a cluster has kept; empty: does
  // not. `resume` wins.
  std::filesystem::path resume_from;
  bool resume = false;         // Resumes from the newest checkpoint under `out`.
  bool replace = false;        // The first checkpoint replaces those of another training.
  int64_t sample_bytes = 120;  // Length of the text generated at the end; 0: none.
  double temperature = 0.8;
  bool in_process = false;  // The cluster runs in this process (tests).
  // Called before each step, and while programs are compiled. Once it returns true, the steps under
  // way end, a checkpoint is written and train() returns, as when `gangway stop` asks. Empty:
  // never.
  std::function<bool()> is_asked_to_stop;
  std::function<void(const TrainedStep&)> on_step;  // Called for each step, in the order of steps.
};

struct TrainReport {
  int64_t steps = 0;          // Steps done, with those before a resumed checkpoint.
  bool is_stopped = false;    // Asked to stop: the final measurements are missing.
  std::filesystem::path out;  // The folder that has all files.
  int64_t trained = 0;        // Steps of this call; 0: the checkpoint had them all.
  double tokens_per_s = 0;    // Not a number if no step was trained.
  double train_loss = 0;      // Mean over the last steps; not a number if there were none.
  double heldout_loss = 0;    // Mean over the whole held-out text, in nats a byte.
  double bigram_loss = 0;
  int64_t params = 0;
  std::string checkpoint, trace, graph;
  double last_step_at_s = 0;  // End of the last step, on the clock of the trace.
  double seconds = 0;
  std::string sample;
};

// The 1.0 M parameter mixture of experts of the quickstart.
TrainOptions quickstart_options();

TrainReport train(const TrainOptions& options);

}  // namespace gangway::programs
