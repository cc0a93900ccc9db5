// Tests the gangway tool's output, refusals and exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "executor/devices/cuda/driver/loader.h"
#include "gangway.h"
#include "ir/inspect/outline.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/run_tool.h"

namespace gangway::tool_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// y = 2 x for x: f32[4], and the program's file.
class ToolTest : public testing::Test {
 protected:
  ToolTest() {
    ProgramBuilder b("twice", Mesh{{{"data", 2}}});
    b.output("y", b.input("x", f32({4}), {{"data", shard(0)}}) * 2.0, {{"data", shard(0)}});
    b.build().save(program_);
    write_x(tensors_, {1, 2, 3, 6});
  }

  static void write_x(const std::string& file, const std::vector<float>& x) {
    SafetensorsWriter out(file, {{"x", FileDType::kF32, {4}}});
    out.append("x", std::as_bytes(std::span(x)));
    out.finish();
  }

  TempDir folder_;
  const std::string program_ = (folder_.path() / "twice.program").string();
  const std::string tensors_ = (folder_.path() / "x.safetensors").string();
};

TEST_F(ToolTest, DevicesNamesTheGpusOrSaysWhyThereAreNone) {
  const cuda::FoundGpus found = cuda::find_gpus();
  const std::string expected = found.gpus.empty() ? found.why_none : found.gpus[0].name;
  const Ended ended = gangway({"devices"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_FALSE(expected.empty());
  EXPECT_THAT(ended.text, HasSubstr(expected));
}

TEST_F(ToolTest, AnExecutorOfGpusSaysWhyThereAreNoneAndFails) {
  const cuda::FoundGpus found = cuda::find_gpus();
  if (!found.gpus.empty()) GTEST_SKIP() << "this machine has " << found.gpus[0].name;
  const Ended ended = gangway({"executor", "--device", "cuda"});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.text, AllOf(HasSubstr("no CUDA devices: " + found.why_none),
                                HasSubstr("use --device cpu")));
}

TEST_F(ToolTest, EveryCommandHasHelpAndSaysItsVersion) {
  for (const char* command : {"controller", "executor", "train", "run", "graph", "devices", "ps",
                              "top", "checkpoint", "sim", "stop", "suspend", "resume", "cert"}) {
    const Ended help = gangway({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_THAT(help.text, HasSubstr("Usage:")) << command;
    const Ended version = gangway({command, "--version"});
    EXPECT_EQ(version.status, 0) << command;
    EXPECT_THAT(version.text, HasSubstr("0.1")) << command;
  }
  EXPECT_EQ(gangway({"devices", "--log-level", "info"}).status, 0);
  EXPECT_EQ(gangway({"--log-level", "info", "devices"}).status, 0);
  EXPECT_THAT(gangway({"checkpoint", "ls", "--help"}).text,
              AllOf(HasSubstr("--log-level"), HasSubstr("--version"), HasSubstr("--json")));
  const Ended refused = gangway({"graph", program_, "--log-level", "loud"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("loud"));
}

TEST_F(ToolTest, AnUnknownCommandOrOptionExitsWithTwo) {
  EXPECT_EQ(gangway({"dance"}).status, 2);
  EXPECT_EQ(gangway({"devices", "--colour"}).status, 2);
  EXPECT_EQ(gangway({}).status, 2);
}

TEST_F(ToolTest, RunTakesAnInputFromASafetensorsFile) {
  const Ended ran =
      gangway({"run", program_, "--connect", "local:1x2", "--input", "x=" + tensors_, "--json"});
  ASSERT_EQ(ran.status, 0) << ran.text;
  const json outputs = json::parse(ran.text);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0]["name"], "y");
  EXPECT_EQ(outputs[0]["type"], "f32[4]");
  EXPECT_EQ(outputs[0]["min"], 2.0);
  EXPECT_EQ(outputs[0]["max"], 12.0);
  EXPECT_EQ(outputs[0]["mean"], 6.0);
}

TEST_F(ToolTest, RunPrintsJsonAlsoOfAnOutputThatIsNotFinite) {
  const std::string file = (folder_.path() / "nan.safetensors").string();
  write_x(file, {1, std::nanf(""), 3, INFINITY});
  const Ended ran =
      gangway({"run", program_, "--connect", "local:1x2", "--input", "x=" + file, "--json"});
  ASSERT_EQ(ran.status, 0) << ran.text;
  const json outputs = json::parse(ran.text);
  EXPECT_EQ(outputs[0]["min"], 2.0);
  EXPECT_TRUE(outputs[0]["max"].is_null());
  EXPECT_TRUE(outputs[0]["mean"].is_null());
}

TEST_F(ToolTest, RunMakesTheSameInputsFromTheSameSeed) {
  const std::vector<std::string> call = {"run",       program_,   "--connect",
                                         "local:1x2", "--random", "7"};
  const Ended first = gangway(call), second = gangway(call);
  ASSERT_EQ(first.status, 0) << first.text;
  EXPECT_THAT(first.text, StartsWith("y "));
  EXPECT_EQ(first.text, second.text);
  EXPECT_NE(first.text, gangway({"run", program_, "--connect", "local:1x2", "--random", "8"}).text);
}

TEST_F(ToolTest, ASimulationSaysWhatProgramsHadOfTheDevicesAndRepeats) {
  const std::vector<std::string> call = {
      "sim", "--program",          program_, "--program", program_, "--mesh", "data=4", "--hosts",
      "2",   "--devices-per-host", "2",      "--faults",  "seed:3", "--json"};
  const Ended first = gangway(call);
  ASSERT_EQ(first.status, 0) << first.text;
  const json report = json::parse(first.text);
  ASSERT_EQ(report["programs"].size(), 2u);
  EXPECT_EQ(report["programs"][0]["devices"], 4);
  EXPECT_EQ(report["programs"][1]["name"], report["programs"][0]["name"].get<std::string>() + "#2");
  EXPECT_GT(report["makespan_ns"], 0);
  EXPECT_GT(report["controller_ns_per_run"], 0.0);
  EXPECT_EQ(first.text, gangway(call).text);

  // Without faults, any error is printed and fails the command.
  const Ended too_few =
      gangway({"sim", "--program", program_, "--mesh", "data=64", "--hosts", "2"});
  EXPECT_EQ(too_few.status, 1);
  EXPECT_THAT(too_few.text, HasSubstr("can't run: allocate: not so many devices"));
  // Faults come later, and are no excuse.
  EXPECT_EQ(
      gangway({"sim", "--program", program_, "--mesh", "data=64", "--faults", "seed:3"}).status, 1);
}

TEST_F(ToolTest, ASimulationTakesAProgramAsTextToo) {
  const std::string file = (folder_.path() / "twice.txt").string();
  std::ofstream(file) << gangway({"graph", program_, "--level", "all"}).text;
  const Ended ran = gangway({"sim", "--program", file, "--runs", "3"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.text, HasSubstr("3 of 3 runs done"));
  const Ended refused = gangway({"sim", "--program", file, "--mesh", "model=2"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("no mesh of it has an axis \"model\""));
}

TEST_F(ToolTest, RunWithoutAnInputSaysHowToGiveIt) {
  const Ended ran = gangway({"run", program_, "--connect", "local:1x2"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.text, HasSubstr("input \"x\" f32[4] is missing: give --input x=FILE"));
}

TEST_F(ToolTest, RunAtAnAddressWhereNobodyAnswersSaysSo) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", program_, "--random", "1"}, {"devices"}}) {
    std::vector<std::string> call = command;
    call.insert(call.end(), {"--connect", "127.0.0.1:1", "--timeout-ms", "50"});
    const Ended ran = gangway(call);
    EXPECT_EQ(ran.status, 1) << command[0];
    EXPECT_THAT(ran.text, HasSubstr("error (unavailable): connect: nobody answers at 127.0.0.1:1 "
                                    "after 50.0 ms"));
  }
}

TEST_F(ToolTest, AnExecutorEndsWhereItIsNotToWaitLongerForAController) {
  const Ended ended = gangway(
      {"executor", "--connect", "127.0.0.1:1", "--name", "e", "--wait-for-controller", "0.05"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.text,
              AllOf(HasSubstr("waits for its controller  controller=127.0.0.1:1"),
                    HasSubstr("error (unavailable): executor \"e\": no controller for "),
                    HasSubstr("connect: nobody answers at 127.0.0.1:1")));
}

TEST_F(ToolTest, GraphPrintsTextDotAndJsonAndWhatModelExplorerReads) {
  const Ended text = gangway({"graph", program_, "--level", "all"});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.text, print(Program::load(program_)));
  const Ended page = gangway({"graph", program_});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.text, StartsWith(outline(Program::load(program_))));
  EXPECT_THAT(page.text, HasSubstr("  // a run: "));
  EXPECT_THAT(page.text, Not(HasSubstr("\033")));
  const Ended dot = gangway({"graph", program_, "--dot"});
  EXPECT_EQ(dot.status, 0);
  EXPECT_THAT(dot.text, StartsWith("digraph"));
  const Ended as_json = gangway({"graph", program_, "--json"});
  EXPECT_EQ(as_json.status, 0);
  EXPECT_TRUE(json::parse(as_json.text).is_object());
  const Ended explorer = gangway({"graph", program_, "--model-explorer"});
  EXPECT_EQ(explorer.status, 0);
  EXPECT_EQ(json::parse(explorer.text)["graphs"][0]["id"], "program");
  EXPECT_EQ(gangway({"graph", program_, "--json", "--dot"}).status, 2);
  for (const char* form : {"--json", "--dot", "--model-explorer"})
    EXPECT_EQ(gangway({"graph", program_, "--collectives", form}).status, 2) << form;
}

TEST_F(ToolTest, GraphShowsLevelsForAMeshOfMissingDevices) {
  EXPECT_THAT(gangway({"graph", program_, "--level", "function"}).text, StartsWith("func @"));
  const Ended plan = gangway({"graph", program_, "--level", "plan", "--mesh", "data=4"});
  EXPECT_EQ(plan.status, 0);
  EXPECT_THAT(plan.text, StartsWith("plan @"));
  EXPECT_THAT(plan.text, HasSubstr("{data: 4} on host:0-3"));
  EXPECT_EQ(gangway({"graph", program_, "--level", "engine"}).status, 2);
  EXPECT_THAT(gangway({"graph", program_, "--after", "cut_sections"}).text, HasSubstr("commit at"));
  const Ended no_pass = gangway({"graph", program_, "--after", "polish"});
  EXPECT_EQ(no_pass.status, 2);
  EXPECT_THAT(no_pass.text, HasSubstr("fuse_elementwise")) << "the passes that there are";
  const Ended all = gangway({"graph", program_, "--level", "plan", "--op", "add"});
  EXPECT_EQ(all.status, 2);
  EXPECT_THAT(all.text, HasSubstr("--level plan shows everything: expected no --node"));
  const Ended op = gangway({"graph", program_, "--op", "matmul"});
  EXPECT_EQ(op.status, 2);
  EXPECT_THAT(op.text, HasSubstr("there is no op \"matmul\""));
}

TEST_F(ToolTest, GraphSaysWhyAndWhatDiffersAndWhoHoldsMemory) {
  const Ended why = gangway({"graph", program_, "--why", "y"});
  EXPECT_EQ(why.status, 0);
  EXPECT_THAT(why.text, HasSubstr("is shard(0) on data"));
  const Ended nothing = gangway({"graph", program_, "--why", "nothing"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.text, HasSubstr("has no one node \"nothing\""));
  const Ended memory = gangway({"graph", program_, "--memory"});
  EXPECT_EQ(memory.status, 0);
  EXPECT_THAT(memory.text, HasSubstr("call \"main\", on each device, as a CPU does it: arena "));
  EXPECT_EQ(gangway({"graph", "--diff", program_, program_}).text, "the same graph\n");
  EXPECT_EQ(gangway({"graph", "--diff", program_}).status, 2);
  const Ended none = gangway({"graph"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.text, HasSubstr("graph: no program: expected FILE"));
  const Ended hosts = gangway({"graph", program_, "--hosts", "3"});
  EXPECT_EQ(hosts.status, 2);
  EXPECT_THAT(hosts.text, HasSubstr("--hosts: expected a divisor of the 2 devices"));
}

TEST_F(ToolTest, CheckpointListsTensorsAsATableAndAsJson) {
  const Ended table = gangway({"checkpoint", "ls", tensors_});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.text, StartsWith("x "));
  const Ended listed = gangway({"checkpoint", "ls", tensors_, "--json"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_EQ(json::parse(listed.text)[0]["bytes"], 16);
  EXPECT_NE(gangway({"checkpoint", "ls", "/nowhere"}).status, 0);
}

TEST_F(ToolTest, TrainEndsWithOneJsonLineThatSaysWhatItMadeAndWhere) {
  const std::string text = (folder_.path() / "text.txt").string();
  const std::string out = (folder_.path() / "out").string();
  std::ofstream file(text);
  for (int verse = 1; verse <= 4000; ++verse) file << "And this is verse " << verse * 7919 << ".\n";
  file.close();
  const Ended trained =
      gangway({"train", "quickstart", "--text", text, "--out", out, "--steps", "2",
               "--sample-bytes", "8", "--mesh", "data=2,expert=2", "--strategy", "zero3"});
  ASSERT_EQ(trained.status, 0) << trained.text;
  EXPECT_THAT(trained.text, HasSubstr("step 2/2  train"));
  const std::string lines = trained.text.substr(0, trained.text.size() - 1);
  const json last = json::parse(lines.substr(lines.rfind('\n') + 1));
  for (const char* number : {"steps", "tokens_per_s", "train_loss", "heldout_loss", "bigram_loss",
                             "params", "seconds"}) {
    EXPECT_GT(last.at(number).get<double>(), 0) << number;
  }
  EXPECT_EQ(last["steps"], 2);
  EXPECT_EQ(gangway({"checkpoint", "ls", last["checkpoint"]}).status, 0);
  EXPECT_TRUE(json::parse(std::ifstream(last["trace"].get<std::string>())).is_object());
  EXPECT_THAT(gangway({"graph", out + "/train_step.gwp", "--dot"}).text, StartsWith("digraph"));
  EXPECT_THAT(gangway({"graph", out + "/train_step.gwp", "--collectives"}).text,
              AllOf(StartsWith("main over {data: 2, expert: 2}\n"),
                    HasSubstr("all_gather over data,expert: ")));
  EXPECT_EQ(last["graph"], out + "/train_step.gwp");
}

TEST_F(ToolTest, TrainTakesSizesFromAFileAndFromFlagsAndItsCheckpointKnowsThem) {
  const std::string text = (folder_.path() / "text.txt").string();
  const std::string out = (folder_.path() / "out").string();
  const std::string sizes = (folder_.path() / "sizes.json").string();
  std::ofstream(text) << std::string(20'000, 'a');
  std::ofstream(sizes) << "{\n  \"layers\": 2,\n  \"dim\": 64,\n  \"experts\": 0, \"seq\": 16\n}\n";
  std::vector<std::string> command = {"train",   "quickstart", "--connect", "local:1x1", "--text",
                                      text,      "--out",      out,         "--steps",   "1",
                                      "--batch", "2",          "--config",  sizes,       "--dim",
                                      "16",      "--heads",    "2",         "--gated"};
  const Ended trained = gangway(command);
  ASSERT_EQ(trained.status, 0) << trained.text;
  EXPECT_EQ(json::parse(std::ifstream(out + "/model.json")), (json{{"layers", 2},
                                                                   {"dim", 16},
                                                                   {"heads", 2},
                                                                   {"hidden", 256},
                                                                   {"seq", 16},
                                                                   {"vocab", 256},
                                                                   {"experts", 0},
                                                                   {"gated", true},
                                                                   {"tied", true}}));
  command.emplace_back("--resume");
  command[9] = "2";   // Steps.
  command[17] = "4";  // Heads; no tensor's shape has them.
  const Ended other = gangway(command);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.text,
              HasSubstr("is of another model: it has the sizes {\"layers\":2,\"dim\":16,"
                        "\"heads\":2,"));
  command[17] = "3";
  const Ended odd = gangway(command);
  EXPECT_EQ(odd.status, 2);
  EXPECT_THAT(odd.text, HasSubstr("--heads: heads must divide dim: 3 heads (--heads), dim 16 "
                                  "(--dim)"));
  std::ofstream(sizes) << "{\n  \"layers\": 2,\n  \"dim\": 30\n}\n";
  const Ended refused = gangway({"train", "quickstart", "--out", out, "--config", sizes});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr(sizes + ":3: \"dim\": heads must divide dim: 4 heads (the "
                                              "model's own), dim 30"));
}

TEST_F(ToolTest, TrainRefusesAMeshThatItsStrategyLeavesUnused) {
  const Ended refused = gangway({"train", "quickstart", "--out", folder_.path().string(), "--mesh",
                                 "data=2,model=2", "--strategy", "zero3"});
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.text, HasSubstr("expected megatron or vocab_parallel too"));
}

TEST_F(ToolTest, DevicesNamesEveryKind) {
  const json devices = json::parse(gangway({"devices", "--json"}).text);
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0]["kind"], "cpu");
  EXPECT_EQ(devices[0]["usable"], true);
}

TEST_F(ToolTest, AControllerRefusesAnAddressThatOthersCanReach) {
  const Ended refused = gangway({"controller", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("not encrypted"));
  EXPECT_THAT(refused.text, HasSubstr("ssh -L"));
}

TEST_F(ToolTest, AControllerRefusesAPortThatIsTakenAndAnExecutorWritesItsTrace) {
  AnonymousFile said("controller"), executor_said("executor");
  const auto trace = [this](const char* name) { return (folder_.path() / name).string(); };
  ChildProcess first({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0",
                                    "--trace", trace("controller.json")},
                      .output_file = said.path()});
  const timespec tick{0, 2'000'000};
  std::string address;
  for (int i = 0; i < 5000 && address.empty(); ++i) {
    nanosleep(&tick, nullptr);
    address = first_line_of(said);
  }
  const Ended second = gangway({"controller", "--listen", address});
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(second.text, HasSubstr(address + " is in use by another process"));
  EXPECT_THAT(second.text, HasSubstr("choose another port"));
  ChildProcess executor({.arguments = {tests::gangway_tool(), "executor", "--connect", address,
                                       "--trace", trace("executor.json"), "--devices", "2",
                                       "--island", "rack-7", "--end-with-controller"},
                         .output_file = executor_said.path()});
  Ended ran{1, {}};
  for (int i = 0; i < 100 && ran.status != 0; ++i) {  // Waits for the executor.
    ran = gangway({"run", program_, "--random", "1", "--connect", address});
  }
  EXPECT_EQ(ran.status, 0) << ran.text;
  const json hosts = json::parse(gangway({"devices", "--connect", address, "--json"}).text);
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts[0]["devices"], 2);
  EXPECT_EQ(hosts[0]["runs_done"], 1);
  EXPECT_EQ(hosts[0]["island"], "rack-7");
  EXPECT_EQ(hosts[0]["suspect_ms"], 0);
  EXPECT_EQ(hosts[0]["stuck"], "");
  EXPECT_THAT(gangway({"devices", "--connect", address}).text, HasSubstr(": island rack-7, 2 cpu"));
  Client client = connect(address, {.name = "a trainer", .weight = 2});
  const json programs = json::parse(gangway({"ps", "--connect", address, "--json"}).text);
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_EQ(programs[0]["program"], "a trainer");
  EXPECT_EQ(programs[0]["weight"], 2.0);
  EXPECT_EQ(programs[0]["runs_done"], 0);
  EXPECT_THAT(gangway({"ps", "--connect", address}).text,
              AllOf(HasSubstr("PRIORITY"), HasSubstr("a trainer")));
  client.close();
  const std::string metrics = gangway({"devices", "--connect", address, "--metrics"}).text;
  const std::string label = cat("{host=", hosts[0]["host"].dump(), "} ");
  EXPECT_THAT(metrics, HasSubstr(cat("gangway_runs_done_total", label, "1\n")));
  EXPECT_THAT(metrics, HasSubstr(cat("gangway_frames_sent_total", label)));
  EXPECT_THAT(metrics, HasSubstr(cat("gangway_host_suspect", label, "0\n")));
  const std::string moved = cat("gangway_link_bytes_total{host=", hosts[0]["host"].dump());
  EXPECT_THAT(metrics, AllOf(HasSubstr(cat(moved, ",link=\"host\"} ")),
                             HasSubstr(cat(moved, ",link=\"island\"} 0\n")),
                             HasSubstr(cat(moved, ",link=\"between\"} 0\n"))));
  first.signal(SIGTERM);
  EXPECT_TRUE(first.wait().ok()) << said.text();
  EXPECT_TRUE(executor.wait().ok()) << executor_said.text();  // Its controller is gone.
  for (const char* name : {"controller.json", "executor.json"}) {
    const json written = json::parse(std::ifstream(trace(name)));
    EXPECT_GT(written.at("traceEvents").size(), 2u) << name;
  }
}

}  // namespace
}  // namespace gangway::tool_test
