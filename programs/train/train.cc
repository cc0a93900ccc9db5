#include "programs/train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

#include "checkpoint/checkpoint_dir.h"
#include "data/text_corpus.h"
#include "data/windows.h"
#include "programs/bigram.h"
#include "programs/default_text.h"
#include "programs/strategies/strategies.h"
#include "programs/train/checkpoint.h"
#include "programs/train/model_sizes.h"
#include "programs/train/out_folder.h"
#include "programs/train/progress.h"
#include "programs/train/sample.h"
#include "programs/train/stored_states.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/hash.h"

namespace gangway::programs {
namespace {

constexpr size_t kStepsAhead = 4;        // Results are read this many steps behind those enqueued.
constexpr uint64_t kHeldoutBatches = 4;  // During training; at the end the whole held-out text.
constexpr size_t kLossWindow = 20;       // Steps that the reported training loss is averaged over.

double now_s() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

class Training {
 public:
  explicit Training(const TrainOptions& options) : options_(options), began_s_(now_s()) {
    require_valid_options();
    devices_ = count_devices(options_);
    take_folder();
    prepare_text();
    const Mesh mesh = options_.mesh.empty() ? Mesh{{{"data", devices_}}} : Mesh{options_.mesh};
    const Strategy strategy = strategy_of(options_.strategy, mesh, options_.config.model);
    const Program program = train_step(options_.config, mesh, strategy);
    write_graph(program);
    // All mistakes that can be found without a cluster have been found by now.
    client_ = connect(options_.cluster, {.name = options_.name.empty() ? "train" : options_.name,
                                         .number_name = options_.name.empty(),
                                         .weight = options_.weight,
                                         .priority = options_.priority,
                                         .in_process = options_.in_process,
                                         .device = options_.device,
                                         .trace_path = report_.trace});
    progress_.log_to([this](const std::string& line) { client_->log(line); });
    slice_ = client_->allocate({.devices = devices_,
                                .ranks_per_device = options_.ranks_per_device,
                                .wait_ms = options_.wait_ms,
                                .on_wait = [this](const std::string& what) {
                                  stop_before_first_step();
                                  progress_.show_wait(what, now_s());
                                }});
    stop_before_first_step();
    const double since_s = now_s();
    const CompileOptions how{.dispatch = options_.dispatch,
                             .on_progress = [this, since_s](const CompileProgress& at) {
                               stop_before_first_step();
                               progress_.show_compile(at.what, at.part, since_s, now_s());
                             }};
    step_ = slice_->compile(program, how);
    evaluate_ = slice_->compile(evaluate(options_.config, mesh, strategy), how);
    generate_ = slice_->compile(generate_step(options_.config, mesh, strategy), how);
    report_.params = parameter_count(options_.config.model);
    progress_.note(cat("training ", report_.params, " parameters on ", devices_, " devices",
                       how_divided(mesh),
                       "; planned memory a device: ", planned_bytes() / (1 << 20), " MiB"));
  }

  TrainReport run() {
    const int64_t first = is_resumed() ? resume() : 0;
    if (options_.keep_every > 0)
      programs::keep_checkpoints(*slice_, options_.keep_every, position_at(first),
                                 options_.elastic);
    const double loop_s = now_s();
    if (first >= options_.steps) say_that_nothing_is_left(first);
    int64_t done = first;
    while (done < options_.steps && !is_asked_to_stop()) {
      const int64_t step = ++done;
      enqueue(step);
      while (in_flight_.size() > kStepsAhead) finish_oldest(loop_s, first);
      if (options_.heldout_every > 0 && step % options_.heldout_every == 0) measure_some();
      if (options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0) save(step);
    }
    if (done == first) stop_before_first_step();
    report_.trained = done - first;
    if (done < options_.steps)
      progress_.note(cat("stopping after step ", done, ": writing a checkpoint"));
    while (!in_flight_.empty()) finish_oldest(loop_s, first);
    report_.last_step_at_s = now_s();
    report_.steps = done;
    report_.tokens_per_s = speed(done - first, now_s() - loop_s);
    report_.train_loss = train_loss();
    // A checkpoint that the training resumed from, and that had all steps, is in the folder
    // already.
    report_.checkpoint = report_.trained == 0 && options_.resume
                             ? CheckpointDir(out_->checkpoints()).latest().value().string()
                             : save(done);
    if (!measure_at_the_end(done)) {
      report_.is_stopped = true;
      progress_.note(cat("stopped after step ", done, ": wrote ", report_.checkpoint));
    }
    client_->close();  // Writes the timeline.
    report_.seconds = now_s() - began_s_;
    return report_;
  }

 private:
  struct InFlight {
    int64_t step;
    Run run;
  };

  // Its caller, or `gangway stop`, may ask it to stop.
  bool is_asked_to_stop() const {
    return (options_.is_asked_to_stop && options_.is_asked_to_stop()) ||
           (client_ && client_->stop_requested());
  }

  void stop_before_first_step() const {
    if (is_asked_to_stop())
      throw Error(ErrorKind::kCancelled,
                  "train: stopped before its first step: there is nothing to save");
  }

  // Measures the model after `done` steps. Returns false if steps are missing or it is asked to
  // stop.
  bool measure_at_the_end(int64_t done) {
    if (done < options_.steps) return false;
    const std::optional<double> heldout = heldout_loss(heldout_batches_);
    if (!heldout || is_asked_to_stop()) return false;
    report_.heldout_loss = *heldout;
    if (options_.sample_bytes > 0) {
      report_.sample = sample(*generate_, {.bytes = options_.sample_bytes,
                                           .temperature = options_.temperature,
                                           .seed = options_.config.seed,
                                           .prompt = "In the beginning "});
      progress_.note("sample: " + report_.sample);
    }
    return true;
  }

  static int64_t count_devices(const TrainOptions& options) {
    const int64_t ranks = options.ranks_per_device;
    GW_REQUIRE(ranks >= 1, "train: expected at least 1 rank on a device, got ", ranks);
    const int64_t in_mesh = options.mesh.empty() ? 0 : Mesh{options.mesh}.devices();
    int64_t devices = options.devices > 0 ? options.devices : in_mesh;
    if (options.devices == 0 && options.cluster.starts_with("local:")) {
      const LocalShape shape = parse_local(options.cluster);
      const int64_t there = ranks * shape.executors * shape.devices;
      if (devices == 0) devices = there;
      GW_REQUIRE(devices <= there, "train: the mesh ", to_string(Mesh{options.mesh}), " has ",
                 devices, " devices, and ", options.cluster, " has ", there,
                 ": expected sizes whose product is at most ", there,
                 ", or a larger --connect local:EXECUTORSxDEVICES");
    }
    GW_REQUIRE(devices > 0, "train: on how many devices of ", options.cluster,
               "? Say --devices or --mesh");
    GW_REQUIRE(devices % ranks == 0, "train: ", devices,
               " devices can't be put on devices of the cluster with ", ranks,
               " ranks each: expected --ranks-per-device to divide --devices");
    GW_REQUIRE(in_mesh == 0 || in_mesh == devices, "train: the mesh ",
               to_string(Mesh{options.mesh}), " has ", in_mesh, " devices, and there are ", devices,
               ": expected sizes whose product is ", devices, ", or --devices ", in_mesh);
    return devices;
  }

  // Empty for the usual mesh and strategy.
  std::string how_divided(const Mesh& mesh) const {
    if (options_.mesh.empty() && options_.strategy == "data_parallel") return "";
    return cat(" as ", to_string(mesh), ", ", options_.strategy);
  }

  void require_valid_options() const {
    GW_REQUIRE(options_.steps > 0, "train: steps must be positive, got ", options_.steps);
    GW_REQUIRE(std::isfinite(options_.schedule.peak) && options_.schedule.peak >= 0,
               "train: expected a peak learning rate of at least 0, got ", options_.schedule.peak);
    const int64_t seq = options_.config.model.seq;
    GW_REQUIRE(options_.sample_bytes <= seq, "train: a sample is at most as long as the model's ",
               "sequence: expected at most ", seq, " bytes, got ", options_.sample_bytes);
  }

  // Fails now if the folder can't be written to at the end.
  void take_folder() {
    const std::filesystem::path asked = options_.out;
    out_.emplace(OutOptions{.path = asked,
                            .take_next_free = options_.take_next_free,
                            .resume = options_.resume,
                            .replace = options_.replace});
    options_.out = report_.out = out_->path();
    if (options_.out != asked)
      progress_.note(
          cat(asked.string(), " is another training's: this one goes to ", options_.out.string()));
    report_.trace = (options_.out / "trace.json").string();
    report_.graph = (options_.out / "train_step.gwp").string();
  }

  // The user may have put a text of this name there. It is not replaced, and not taken for the
  // book.
  void write_default_text(const std::filesystem::path& path) {
    const std::string book = default_text();
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      if (std::filesystem::file_size(path, error) == book.size() &&
          read_whole(path, book.size()) == book)
        return;
      throw Error(ErrorKind::kInvalid,
                  cat("train: ", path.string(), " is another text than the book, which is written ",
                      "there"),
                  {}, cat("train on it with --text ", path.string(), ", or choose another --out"));
    }
    replace_whole(path, book);
  }

  void prepare_text() {
    std::string path = options_.text;
    if (path.empty()) {
      path = (options_.out / "text.txt").string();
      write_default_text(path);
    }
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path, error);
    if (error) fail_file("find the folder that is current, for", path, error.value());
    path = whole.string();
    options_.config.text = path;
    TextCorpus corpus = TextCorpus::load(path);
    const auto seq = static_cast<size_t>(options_.config.model.seq);
    corpus.require_windows(seq);
    Hasher hasher;
    hasher.add(corpus.train());
    hasher.add(static_cast<uint64_t>(options_.config.batch));
    hasher.add(static_cast<uint64_t>(seq));
    data_hash_ = to_string(hasher.finish());
    report_.bigram_loss = bigram_nats_per_byte(corpus.train(), corpus.heldout());
    SequentialWindows windows(corpus.heldout(), {.seq = static_cast<int>(seq),
                                                 .batch = static_cast<int>(options_.config.batch)});
    heldout_batches_ = windows.batches();
    progress_.note(cat("text: ", path, ", ", corpus.train().size(), " bytes to train on, ",
                       corpus.heldout().size(), " held out; a bigram model reaches ",
                       report_.bigram_loss, " nats a byte"));
  }

  // Writes the program of a step, which `gangway graph` and `gangway run` read, and the model's
  // sizes, as `gangway train --config` reads them.
  void write_graph(const Program& program) {
    program.save(report_.graph);
    replace_whole(options_.out / "model.json", sizes_file_text(options_.config.model));
  }

  int64_t planned_bytes() const {
    int64_t most = 0;
    for (const auto& device : step_->memory().devices) {
      most = std::max(most, device.total());
    }
    return most;
  }

  bool is_resumed() const { return options_.resume || !options_.resume_from.empty(); }

  int64_t resume() {
    const std::filesystem::path from = options_.resume ? out_->checkpoints() : options_.resume_from;
    const TrainingPosition at =
        load_checkpoint(*slice_, from,
                        {.model = sizes_text(options_.config.model),
                         .on_warning = [this](const std::string& line) { progress_.note(line); },
                         // Leaves out the states of text generation, whose type depends on --dtype.
                         .states = trained_states()});
    GW_REQUIRE(at.seed == options_.config.seed, "train: the checkpoint was made with seed ",
               at.seed, ", not ", options_.config.seed);
    GW_REQUIRE(at.data == data_hash_, "train: the checkpoint was made on another text, batch or ",
               "sequence: its place in the data means nothing here; load its parameters instead");
    step_->set_position(at.position);
    progress_.note(cat("resumed after step ", at.step));
    say_what_differs(at);
    return at.step;
  }

  // Splits settings by flag. A newer version may have more flags.
  static std::map<std::string, std::string> by_flag(const std::string& settings) {
    std::map<std::string, std::string> values;
    std::istringstream words(settings);
    for (std::string flag, value; words >> flag >> value;) values[flag] = value;
    return values;
  }

  // A difference may be intended: a larger number of steps makes a training longer.
  void say_what_differs(const TrainingPosition& at) {
    const auto before = by_flag(at.settings);
    for (const auto& [flag, value] : by_flag(settings())) {
      const auto said = before.find(flag);
      if (said == before.end() || said->second == value) continue;
      progress_.note(cat("from here on with ", flag, " ", value,
                         ": the steps so far were trained with ", flag, " ", said->second));
    }
  }

  void say_that_nothing_is_left(int64_t first) {
    progress_.note(cat("nothing is left to train: the checkpoint has ", first,
                       " steps, and --steps is ", options_.steps,
                       "; a larger --steps goes on from it"));
  }

  // Settings that losses depend on. Model, text, batch, sequence and seed must be the same anyway.
  std::string settings() const {
    return cat("--lr ", options_.schedule.peak, " --steps ", options_.steps, " --dtype ",
               to_string(options_.config.model.compute), " --accumulate ",
               options_.config.accumulate);
  }

  void enqueue(int64_t step) {
    in_flight_.push_back({step, step_->run({{"step", static_cast<float>(step)}})});
  }

  void finish_oldest(double loop_s, int64_t first) {
    InFlight oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    losses_.push_back(oldest.run["cross_entropy"].item<float>());
    if (losses_.size() > kLossWindow) losses_.pop_front();
    const double spent = now_s() - loop_s;
    const auto done = static_cast<double>(oldest.step - first);
    const double tokens_per_s = speed(oldest.step - first, spent);
    if (options_.on_step)
      options_.on_step({oldest.step, static_cast<float>(losses_.back()), tokens_per_s});
    client_->report({{"step", static_cast<double>(oldest.step)},
                     {"steps", static_cast<double>(options_.steps)},
                     {"loss", losses_.back()},
                     {"tokens_per_s", tokens_per_s}});
    progress_.show(
        {.step = oldest.step,
         .steps = options_.steps,
         .loss = losses_.back(),
         .train_loss = train_loss(),
         .heldout_loss = latest_heldout_,
         .tokens_per_s = tokens_per_s,
         .balance = busiest(oldest.run),
         .seconds_left = spent / done * static_cast<double>(options_.steps - oldest.step)},
        now_s());
  }

  // Empty for a model without experts.
  std::optional<double> busiest(const Run& run) const {
    const TransformerConfig& model = options_.config.model;
    if (!has_experts(model)) return std::nullopt;
    const HostTensor load = run["load"].to_host();
    return busiest_expert(load.as<float>(), experts_by_layer(model));
  }

  double speed(int64_t steps, double seconds) const {
    if (steps == 0) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(steps * options_.config.batch * options_.config.model.seq) /
           std::max(1e-9, seconds);
  }

  double train_loss() const {
    double sum = 0;
    for (double loss : losses_) sum += loss;
    return sum / static_cast<double>(losses_.size());  // Not a number if there are no losses.
  }

  // Empty if it is asked to stop meanwhile.
  std::optional<double> heldout_loss(uint64_t batches) {
    evaluate_->set_position(0);
    std::deque<Run> runs;
    double sum = 0;
    auto take = [&] {
      sum += runs.front()["cross_entropy"].item<float>();
      runs.pop_front();
    };
    for (uint64_t i = 0; i < batches; ++i) {
      if (is_asked_to_stop()) return std::nullopt;
      runs.push_back(evaluate_->run());
      if (runs.size() > kStepsAhead) take();
    }
    while (!runs.empty()) take();
    return sum / static_cast<double>(batches);
  }

  void measure_some() {
    if (const auto loss = heldout_loss(std::min(kHeldoutBatches, heldout_batches_)))
      latest_heldout_ = loss;
  }

  TrainingPosition position_at(int64_t step) const {
    return {.step = step,
            .position = step_->position(),
            .seed = options_.config.seed,
            .data = data_hash_,
            .model = sizes_text(options_.config.model),
            .settings = settings()};
  }

  std::string save(int64_t step) {
    const auto write = [&] {
      return save_checkpoint(*slice_, out_->checkpoints(), position_at(step));
    };
    return out_->save(write).string();
  }

  TrainOptions options_;
  double began_s_;
  TrainReport report_;
  Progress progress_;
  std::optional<OutFolder> out_;
  uint64_t heldout_batches_ = 0;
  std::string data_hash_;
  int64_t devices_ = 1;
  std::optional<Client> client_;
  std::optional<Slice> slice_;
  std::optional<Executable> step_, evaluate_, generate_;
  std::deque<InFlight> in_flight_;
  std::deque<double> losses_;
  std::optional<double> latest_heldout_;
};

}  // namespace

TrainOptions quickstart_options() {
  TrainOptions options;
  LanguageModelConfig& config = options.config;
  config.batch = 32;
  config.model = {.seq = 128, .dim = 128, .layers = 3, .heads = 4, .hidden = 256};
  config.model.moe = {.experts = 4, .top_k = 2, .groups = 4};
  options.schedule = {.peak = 2e-3, .warmup = 40, .final_share = 0.05};
  return options;
}

TrainReport train(const TrainOptions& options) {
  TrainOptions filled = options;
  filled.schedule.steps = options.steps;
  filled.config.optimizer.rate = [schedule = filled.schedule](Value step) {
    return warmup_cosine(step, schedule);
  };
  return Training(filled).run();
}

}  // namespace gangway::programs
