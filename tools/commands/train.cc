// `gangway train NAME`: trains one of the models that come with Gangway on text, with its own sizes
// or others.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "programs/strategies/strategies.h"
#include "programs/train/out_folder.h"
#include "programs/train/train.h"
#include "protocol/slice_shape.h"
#include "runtime/base/printable.h"
#include "tools/commands/command.h"
#include "tools/commands/mesh.h"
#include "tools/commands/resume_command.h"
#include "tools/commands/sizes_file.h"
#include "tools/commands/stop_signals.h"
#include "tools/commands/train_page.h"
#include "tools/io/json.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

// The shape on which Gangway's speed is reported, with `experts` > 0 as a mixture of experts.
programs::TrainOptions reference_options(int64_t experts) {
  programs::TrainOptions options = programs::quickstart_options();
  options.out = experts > 0 ? "out/reference-moe" : "out/reference";
  options.config.batch = 16;
  options.config.model = {.seq = 256, .dim = 256, .layers = 4, .heads = 4, .hidden = 1024};
  options.config.model.moe = {.experts = experts, .top_k = 2, .groups = 4};
  if (experts > 0) options.config.model.hidden = 512;
  options.schedule.peak = 1e-3;
  return options;
}

programs::TrainOptions options_of(const std::string& name) {
  if (name == "quickstart") return programs::quickstart_options();
  if (name == "reference") return reference_options(0);
  return reference_options(8);
}

constexpr int64_t kBatchMax = int64_t{1} << 30;

// Values that the command line changed; others are the model's own.
struct Given {
  std::string name, text, cluster, program, device, out, dtype, mesh, sizes_file, resume_from;
  std::vector<programs::SaidSize> sizes;
  std::string strategy = programs::TrainOptions().strategy;
  std::string dispatch = to_string(Dispatch::kParallel);
  int64_t devices = 0, ranks_per_device = 1, steps = 0, batch = 0, accumulate = 0,
          heldout_every = -1, checkpoint_every = -1, keep_every = 0;
  std::vector<std::string> elastic;
  int64_t seed = -1, sample_bytes = -1;
  double lr = 0, weight = Share().weight;
  int32_t priority = Share().priority;
  int64_t wait_s = 0;
  bool resume = false, replace = false, remat = false;
};

// A file's sizes come first, so that flags win.
std::vector<programs::SaidSize> said_sizes(const Given& given) {
  std::vector<programs::SaidSize> said;
  if (!given.sizes_file.empty()) said = read_sizes(given.sizes_file);
  said.insert(said.end(), given.sizes.begin(), given.sizes.end());
  return said;
}

double rounded(double value, double parts) { return std::round(value * parts) / parts; }

// All fields but the sample, which was shown as text.
JsonObject fields_of(const programs::TrainReport& report, const std::string& page) {
  JsonObject fields;
  if (report.is_stopped) fields.emplace_back("stopped", true);
  fields.insert(fields.end(), {{"steps", report.steps},
                               {"tokens_per_s", rounded(report.tokens_per_s, 10)},
                               {"train_loss", rounded(report.train_loss, 1e5)}});
  if (!report.is_stopped) {
    fields.insert(fields.end(), {{"heldout_loss", rounded(report.heldout_loss, 1e5)},
                                 {"bigram_loss", rounded(report.bigram_loss, 1e5)},
                                 {"params", report.params}});
  }
  fields.insert(fields.end(), {{"checkpoint", report.checkpoint},
                               {"trace", report.trace},
                               {"graph", report.graph},
                               {"page", page},
                               {"seconds", rounded(report.seconds, 10)}});
  return fields;
}

// Without --out a training goes to a new folder. With --resume or --replace it goes to the only
// folder that has checkpoints.
void choose_folder(programs::TrainOptions& options, const Given& given) {
  options.resume = given.resume;
  options.replace = given.replace;
  options.take_next_free = given.out.empty() && !given.resume && !given.replace;
  if (!given.out.empty()) {
    options.out = given.out;
  } else if (given.resume || given.replace) {
    const std::vector<std::filesystem::path> all = programs::folders_with_checkpoints(options.out);
    std::string names;
    for (const std::filesystem::path& out : all)
      names += cat(names.empty() ? "" : ", ", out.string());
    GW_REQUIRE(all.size() <= 1, given.resume ? "--resume" : "--replace",
               ": there are checkpoints in ", names, ": say which of them is meant with --out");
    if (!all.empty()) options.out = all[0];
  }
}

programs::TrainOptions options_of(const Given& given) {
  programs::TrainOptions options = options_of(given.name);
  auto set = [](auto& target, const auto& value, bool is_given) {
    if (is_given) target = value;
  };
  programs::LanguageModelConfig& config = options.config;
  set(options.text, given.text, !given.text.empty());
  set(options.cluster, given.cluster, !given.cluster.empty());
  set(options.name, given.program, !given.program.empty());
  options.wait_ms = given.wait_s * 1000;
  options.weight = given.weight;
  options.priority = given.priority;
  options.dispatch = dispatch_of("--dispatch", given.dispatch);
  set(options.device, given.device, !given.device.empty());
  set(options.devices, given.devices, given.devices > 0);
  options.ranks_per_device = given.ranks_per_device;
  options.mesh = parse_mesh(given.mesh);
  options.strategy = given.strategy;
  choose_folder(options, given);
  set(options.steps, given.steps, given.steps > 0);
  set(config.batch, given.batch, given.batch > 0);
  set(config.accumulate, given.accumulate, given.accumulate > 0);
  set(options.heldout_every, given.heldout_every, given.heldout_every >= 0);
  set(options.checkpoint_every, given.checkpoint_every, given.checkpoint_every >= 0);
  set_sizes(config, said_sizes(given));
  // A sample is at most as long as a sequence; the default one is cut to that.
  set(options.sample_bytes, std::min(options.sample_bytes, config.model.seq), true);
  set(options.sample_bytes, given.sample_bytes, given.sample_bytes >= 0);
  set(config.seed, static_cast<uint64_t>(given.seed), given.seed >= 0);
  set(options.schedule.peak, given.lr, given.lr > 0);
  set(config.model.compute, DType::kBF16, given.dtype == "bf16");
  options.resume_from = given.resume_from;
  options.keep_every = given.keep_every;
  options.elastic = given.elastic;
  config.model.remat = given.remat;
  return options;
}

// Number of hosts of a local cluster; 1 for another one, whose hosts are unknown here.
int64_t hosts_of(const Given& given) {
  const std::string cluster =
      given.cluster.empty() ? programs::TrainOptions().cluster : given.cluster;
  return cluster.starts_with("local:") ? parse_local(cluster).executors : 1;
}

// Returns the path of the page; empty if it could not be written, which loses nothing else.
std::string write_pictures(const Given& given, const std::filesystem::path& out,
                           const programs::TrainReport& report, std::vector<CurvePoint> points) {
  std::string page = (out / "page.html").string();
  try {
    write_training_page(page, {.name = given.program.empty() ? given.name : given.program,
                               .program = out / "train_step.gwp",
                               .trace = report.trace,
                               .last_step_at_s = report.last_step_at_s,
                               .hosts = hosts_of(given),
                               .points = std::move(points)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s is not written: %s\n", page.c_str(),
                 printable_lines(error.what()).c_str());
    return "";
  }
  std::fprintf(stderr, "open %s in a browser: loss curve, timeline, graph\n", page.c_str());
  return page;
}

// The first Ctrl-C, SIGTERM or SIGHUP ends a training with a checkpoint and status 0.
int train(const Given& given, const CommonOptions& common) {
  programs::TrainOptions options = options_of(given);
  const StopSignals signals(
      "stopping: the steps under way end and a checkpoint is written; Ctrl-C again ends at once");
  options.is_asked_to_stop = [&signals] { return signals.is_asked(); };
  std::vector<CurvePoint> points;
  options.on_step = [&points](const programs::TrainedStep& done) {
    points.push_back({done.step, done.loss, done.tokens_per_s});
  };
  bool is_saved = false;
  std::filesystem::path out;
  try {
    const programs::TrainReport report = programs::train(options);
    out = report.out;
    // A training that had nothing left to do keeps its old page, which shows how it went.
    const std::string page =
        report.trained > 0 ? write_pictures(given, out, report, std::move(points)) : "";
    print_line(to_json(fields_of(report, page)));
    if (!report.is_stopped) return 0;
    is_saved = true;
  } catch (const Error& error) {
    if (!signals.is_asked() || error.kind() != ErrorKind::kCancelled) throw;
    std::fprintf(stderr, "%s\n", error.message().c_str());
  }
  std::fprintf(stderr, "to go on: %s\n",
               resume_command(common.command_line,
                              {.resume = is_saved && !given.resume,
                               .out = is_saved && given.out.empty() ? out.string() : ""})
                   .c_str());
  return 0;
}

// Adds a flag for each size: --layers, --top-k; for a size that is true or false --gated and
// --no-gated.
void add_sizes(CLI::App& command, const std::shared_ptr<Given>& given) {
  for (const programs::SizeName& size : programs::size_names()) {
    const std::string name(size.name), help(size.help);
    std::string flag = "--" + name;
    std::ranges::replace(flag, '_', '-');
    const auto say = [given, name, flag](const auto& value) {
      given->sizes.push_back({name, value, flag});
    };
    switch (size.kind) {
      case programs::SizeKind::kWhole:
        command.add_option_function<int64_t>(flag, say, help)
            ->check(whole_number(1, programs::kSizeMax));
        break;
      case programs::SizeKind::kReal:
        command.add_option_function<double>(flag, say, help)
            ->check(real_number(0, programs::kRealSizeMax));
        break;
      case programs::SizeKind::kBool:
        command.add_flag_function(
            cat(flag, ",!--no-", flag.substr(2)), [say](int64_t count) { say(count > 0); }, help);
        break;
      case programs::SizeKind::kList:
        command.add_option_function<std::vector<int64_t>>(flag, say, help)
            ->delimiter(',')
            ->check(whole_number(0, programs::kExpertsMax));
        break;
    }
  }
}

// Options of the cluster on which it trains, and of its part of the cluster.
void add_cluster(CLI::App& command, const std::shared_ptr<Given>& given) {
  command.add_option("--connect", given->cluster,
                     "local:EXECUTORSxDEVICES (default: local:2x2), or host:port");
  command.add_option("--name", given->program,
                     "of the program, on a shared cluster, which no other of yours has; default: "
                     "train, or train-2 ... where that is taken");
  command
      .add_option("--wait", given->wait_s,
                  "seconds, for devices that others hold; it says who holds them meanwhile")
      ->check(whole_number(0, kSliceWaitMsMax / 1000));
  command.add_option("--weight", given->weight, "its part of shared devices' time")
      ->check(real_number(kWeightMin, kWeightMax))
      ->capture_default_str();
  command.add_option("--priority", given->priority, "under the policy \"priority\": higher first")
      ->check(whole_number(-kPriorityMax, kPriorityMax))
      ->capture_default_str();
  command
      .add_option("--dispatch", given->dispatch,
                  "parallel: hosts prepare all nodes of a step ahead; sequential: one by one")
      ->check(CLI::IsMember({"parallel", "sequential"}))
      ->capture_default_str();
  command.add_option("--device", given->device, "of a local cluster; default: cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--devices", given->devices, "to train on; default: all of a local cluster")
      ->check(whole_number(1, kMeshDevicesMax));
  command
      .add_option("--ranks-per-device", given->ranks_per_device,
                  "so many of --devices share each device of the cluster")
      ->check(whole_number(1, kMeshDevicesMax))
      ->capture_default_str();
}

void add_checkpoints(CLI::App& command, const std::shared_ptr<Given>& given) {
  command.add_option("--checkpoint-every", given->checkpoint_every, "steps; 0: only at the end")
      ->check(whole_number(0, kCountMax));
  command
      .add_option("--keep-checkpoints", given->keep_every,
                  "have the cluster keep a checkpoint every so many steps by itself, in the "
                  "folder of its controller (--checkpoint-dir); 0: none")
      ->check(whole_number(0, kCountMax));
  command
      .add_option("--elastic", given->elastic,
                  "axes of the mesh that may shrink when a host is lost, with --keep-checkpoints: "
                  "data,expert")
      ->delimiter(',')
      ->needs("--keep-checkpoints");
  auto* resume =
      command.add_flag("--resume", given->resume, "go on from the newest checkpoint under --out");
  command
      .add_flag(
          "--replace", given->replace,
          "remove the checkpoints of another training under --out, once the first of this one "
          "is written")
      ->excludes(resume);
  command.add_option("--resume-from", given->resume_from,
                     "go on from the newest checkpoint there, also one that a cluster has kept; "
                     "with --resume, from that under --out");
}

}  // namespace

void add_train(CLI::App& app, const CommonOptions& common, Chosen& chosen) {
  auto* command = app.add_subcommand("train", "Train a language model on text");
  auto given = std::make_shared<Given>();
  command->add_option("NAME", given->name, "quickstart, reference or reference-moe")
      ->required()
      ->check(CLI::IsMember({"quickstart", "reference", "reference-moe"}));
  command->add_option("--text", given->text, "a file or a folder; default: the King James Bible");
  add_cluster(*command, given);
  command->add_option("--mesh", given->mesh,
                      "AXIS=SIZE,...: axes over the devices (data, expert, expert2, model ...); "
                      "default: all of them along data");
  command
      ->add_option("--strategy", given->strategy,
                   "what is cut over them: names joined by +, of " + programs::strategy_names() +
                       "; layers with more experts than others over expert2 too")
      ->capture_default_str();
  command->add_option("--out", given->out,
                      "where checkpoint, trace and graph go; default: out/NAME or, where that has "
                      "checkpoints, the next of out/NAME-2, out/NAME-3 ... that is free");
  command->add_option("--steps", given->steps, "training steps")->check(whole_number(1, kCountMax));
  command->add_option("--batch", given->batch, "sequences a step")
      ->check(whole_number(1, kBatchMax));
  command->add_option("--accumulate", given->accumulate, "microbatches a step")
      ->check(whole_number(1, kBatchMax));
  command->add_option("--lr", given->lr, "peak learning rate")->check(positive_number(1e6));
  command->add_option("--seed", given->seed, "of the parameters and of the order of the data")
      ->check(whole_number(0, INT64_MAX));
  command->add_option("--config", given->sizes_file,
                      "a JSON file of the model's sizes, as a run leaves model.json; flags win");
  add_sizes(*command, given);
  command->add_option("--dtype", given->dtype, "f32, or bf16 with f32 master weights")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--heldout-every", given->heldout_every, "steps; 0: only at the end")
      ->check(whole_number(0, kCountMax));
  command->add_option("--sample-bytes", given->sample_bytes, "of generated text; 0: none")
      ->check(whole_number(0, kBatchMax));
  add_checkpoints(*command, given);
  command->add_flag("--remat", given->remat, "recompute each layer in the backward pass");
  command->footer(
      "SIGTERM, SIGHUP or Ctrl-C stops it with a checkpoint, and it prints the command that goes "
      "on from there; a second SIGTERM or Ctrl-C ends it at once.");
  command->callback(
      [&common, &chosen, given] { chosen = [&common, given] { return train(*given, common); }; });
}

}  // namespace gangway::tool
