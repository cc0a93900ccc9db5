#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "client/objects.h"
#include "client/program_graph.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/plan/plan_text.h"
#include "runtime/net/sim_network.h"
#include "runtime/os/thread.h"
#include "tests/support/error_of.h"
#include "tests/support/small_programs.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class ClientTest : public testing::Test {
 protected:
  Client client_ = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice_ = client_.allocate({.devices = 4});
  Mesh mesh_ = slice_.mesh({{"data", 4}});
};

std::vector<float> ones(size_t n) { return std::vector<float>(n, 1.0f); }

TEST_F(ClientTest, ATrainingStepUpdatesItsStateAndHandsOutItsResults) {
  Executable step = slice_.compile(accumulate(mesh_));
  auto run = step.run({{"x", HostTensor::of<float>({16, 8}, ones(128))}, {"scale", 1.0f}});
  EXPECT_EQ(run["sum"].item<float>(), 128.0f);
  const HostTensor twice = run["twice"].to_host();
  EXPECT_THAT(twice.as<float>(), testing::Each(2.0f));
}

TEST_F(ClientTest, ACompileReportsItsProgress) {
  std::vector<CompileProgress> reported;
  slice_.compile(accumulate(mesh_),
                 {.on_progress = [&](const CompileProgress& at) { reported.push_back(at); }});
  ASSERT_GE(reported.size(), 3u);
  EXPECT_THAT(reported.front().what, HasSubstr(": verify"));
  EXPECT_EQ(reported.back().what, "installing on 2 hosts");
  for (size_t i = 1; i < reported.size(); ++i) EXPECT_GE(reported[i].part, reported[i - 1].part);
}

TEST_F(ClientTest, AnExecutableSaysWhatItsDevicesDoAndWhy) {
  const Executable step = slice_.compile(accumulate(mesh_));
  EXPECT_THAT(step.plan_text(), testing::StartsWith("plan @"));
  EXPECT_THAT(step.plan_text(), HasSubstr("slice 0 {data: 4} on "));
  const std::string why = step.explain("x");
  EXPECT_THAT(why, HasSubstr("shard(0) on data, as annotated"));
  EXPECT_THAT(why,
              HasSubstr("the best of 2 hosts in 1 island: 2 hosts of island main, whose devices "
                        "had no other slice; 0 of their devices are left unused"));
  EXPECT_THAT(error_text_of([&] { step.explain("nothing"); }),
              HasSubstr("has no one node \"nothing\""));
  EXPECT_THAT(error_text_of([&] { step.explain(""); }), HasSubstr("why: of nothing"));
}

TEST_F(ClientTest, AProgramsGraphIsWhatWasCompiled) {
  const Client client = connect("local:1x4", {.name = "trainer", .in_process = true});
  const Slice slice = client.allocate({.devices = 4});
  const Program program = accumulate(slice.mesh({{"data", 4}}));
  EXPECT_THAT(error_text_of([&] { client.graph("trainer"); }),
              HasSubstr("has no such executable: expected one of those that it will have"));
  const Executable step = slice.compile(program);
  const ProgramGraph graph = client.graph("trainer");
  EXPECT_TRUE(same_graph(graph.program, program));
  EXPECT_EQ(to_text(graph.plan), step.plan_text());
  EXPECT_THAT(graph.kinds, testing::ElementsAre("cpu"));
  const Executable other = slice.compile(program, {.name = "other"});
  EXPECT_THAT(error_text_of([&] { client.graph("trainer"); }),
              HasSubstr("has several executables: expected one of "));
  EXPECT_TRUE(same_graph(client.graph("trainer", "other").program, program));
  EXPECT_THAT(error_text_of([&] { client.graph("nobody"); }),
              HasSubstr("graph: there is no program \"nobody\" that "));
}

TEST_F(ClientTest, AnErrorThrownByTheProgressCallbackEndsTheCompile) {
  const auto enough = [](const CompileProgress&) { GW_REQUIRE(false, "that is enough"); };
  EXPECT_THAT(error_text_of([&] { slice_.compile(accumulate(mesh_), {.on_progress = enough}); }),
              HasSubstr("that is enough"));
  slice_.compile(accumulate(mesh_));
}

TEST_F(ClientTest, AnOutputWithoutAPlacementKeepsItsComputedSharding) {
  ProgramBuilder b("open", mesh_);
  Value x = b.input("x", f32({8}), {{"data", shard(0)}});
  b.output("twice", x + x);
  b.output("sum", sum(x));
  Executable open = slice_.compile(b.build());
  gangway::Run run =
      open.run({{"x", HostTensor::of<float>({8}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7})}});
  const HostTensor twice = run["twice"].to_host();
  EXPECT_THAT(twice.as<float>(), testing::ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_EQ(run["sum"].item<float>(), 28.0f);
}

TEST_F(ClientTest, RunsAreEnqueuedAheadAndSeeOneAnothersState) {
  Executable step = slice_.compile(accumulate(mesh_));
  Array x = slice_.from_host(HostTensor::of<float>({16, 8}, ones(128)));
  std::vector<gangway::Run> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(step.run({{"x", x}, {"scale", 1.0f}}));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(runs[static_cast<size_t>(i)]["sum"].item<float>(),
              128.0f * static_cast<float>(i + 1));
  }
}

TEST_F(ClientTest, StateIsReadAndWrittenInTheOrderOfRuns) {
  Executable step = slice_.compile(accumulate(mesh_));
  Array x = slice_.from_host(HostTensor::of<float>({16, 8}, ones(128)));
  step.run({{"x", x}, {"scale", 1.0f}});
  EXPECT_THAT(slice_.read_state("w").as<float>(), testing::Each(16.0f));
  slice_.write_state("w", HostTensor::of<float>({8}, std::vector<float>(8, 100.0f)));
  EXPECT_EQ(step.run({{"x", x}, {"scale", 0.0f}})["sum"].item<float>(), 800.0f);
}

// 0, 1, 2 ...
HostTensor counted(const Dims& dims) {
  HostTensor tensor(f32(dims));
  for (int64_t i = 0; i < tensor.type.elements(); ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(tensor.bytes.data() + i * 4, &value, 4);
  }
  return tensor;
}

// A program whose one state is cut over both axes.
Program with_cut_state(const Mesh& mesh, const Type& type, const AxisPlacements& cut) {
  ProgramBuilder b("cut", mesh);
  Value w = b.state("w", zeros(type), cut);
  b.output("sum", sum(w));
  b.update(w, w + 1.0);
  return b.build();
}

TEST_F(ClientTest, PartsOfAStateAreReadAndWrittenHoweverItIsCut) {
  const Mesh mesh = slice_.mesh({{"a", 2}, {"b", 2}});
  const Type type = f32({4, 8});
  const std::vector<AxisPlacements> cuts = {
      {}, {{"a", shard(0)}, {"b", shard(1)}}, {{"a", shard(1, 1)}, {"b", shard(1)}}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    const Slice slice = client_.allocate({.devices = 4});
    Executable step = slice.compile(with_cut_state(mesh, type, cuts[i]));
    const HostTensor all = counted(type.dims);
    for (const Box& piece : pieces_of(type, 48)) {
      HostTensor part(Type{type.dtype, piece.size});
      const int64_t first = piece.begin[0] * 8 + piece.begin[1];
      std::memcpy(part.bytes.data(), all.bytes.data() + first * 4, part.bytes.size());
      slice.write_state("w", piece, part);
    }
    EXPECT_EQ(slice.read_state("w").bytes, all.bytes);
    step.run();
    const HostTensor middle = slice.read_state("w", {{1, 3}, {2, 4}});
    EXPECT_EQ(middle.type, f32({2, 4}));
    EXPECT_THAT(middle.as<float>(), testing::ElementsAre(12, 13, 14, 15, 20, 21, 22, 23));
  }
}

// A program whose state begins with random numbers.
Program with_random_state(const Mesh& mesh, const AxisPlacements& cut) {
  ProgramBuilder b("random", mesh, 11);
  b.output("sum", sum(b.state("w", normal(f32({1024, 256}), 0.5), cut)));
  return b.build();
}

TEST_F(ClientTest, BracedOptionsAreTakenAsOptionsAndNotAsSlices) {
  const Slice one = client_.allocate({.devices = 1});
  const Program program = with_random_state({{{"data", 1}}}, {});
  EXPECT_NO_THROW(one.compile(program, {.runs_in_flight_max = 1}).run().wait());
  EXPECT_NO_THROW(one.compile(program, {}).run().wait());
}

TEST_F(ClientTest, AStateBeginsTheSameOnEveryMeshAndEachDeviceMakesItsPartOnly) {
  const Slice one = client_.allocate({.devices = 1});
  const Executable alone = one.compile(with_random_state({{{"data", 1}}}, {}));
  const HostTensor want = one.read_state("w");
  const auto bytes_of = [](const Executable& executable) {
    const MemoryReport::Device need = executable.memory().devices.at(0);
    return static_cast<double>(need.state + need.arena);
  };
  EXPECT_GE(bytes_of(alone), 2 * want.type.bytes()) << "the state, and what it is made from";
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  for (const AxisPlacements& cut : {AxisPlacements{{"a", shard(0)}, {"b", shard(0)}},
                                    {{"a", shard(0, 1)}, {"b", shard(0)}},
                                    {{"a", shard(1)}, {"b", shard(0)}},
                                    {{"a", shard(1, 1)}, {"b", shard(1)}}}) {
    const Slice slice = client_.allocate({.devices = 4});
    const Executable on_four = slice.compile(with_random_state(mesh, cut));
    EXPECT_EQ(slice.read_state("w").bytes, want.bytes) << to_string(cut);
    EXPECT_NEAR(bytes_of(on_four), bytes_of(alone) / 4, 4096) << to_string(cut);
  }
}

TEST_F(ClientTest, APartThatDoesNotFitItsStateIsRefused) {
  slice_.compile(accumulate(mesh_));
  EXPECT_THAT(error_of([&] { slice_.read_state("w", {{4}, {5}}); }).message(),
              HasSubstr("the part [4:9] does not lie in f32[8]"));
  EXPECT_THAT(error_of([&] { slice_.read_state("w", {{-1}, {2}}); }).message(),
              HasSubstr("does not lie in f32[8]"));
  EXPECT_THAT(error_of([&] { slice_.write_state("w", {{4}, {4}}, counted({8})); }).message(),
              HasSubstr("expected f32[4] for [4:8], got f32[8]"));
}

// Each of two slices has a state of its own, [8] and [4, 6], to which a run adds one.
Program two_slices(const Mesh& here, const Mesh& there) {
  ProgramBuilder b("two slices", here);
  const auto add_one = [&](uint32_t slice, const std::string& name, const Mesh& mesh,
                           const Type& type, const AxisPlacements& cut) {
    const ProgramValue state = b.state_on(slice, name, zeros(type), cut);
    Builder f(cat("add one to ", name), mesh);
    f.result("next", f.parameter("x", type, cut) + 1.0);
    b.call(slice, cat("add to ", name), std::make_shared<const Function>(f.build()), {state},
           {{.result = 0, .state = state.edge.node}});
  };
  add_one(0, "near", here, f32({8}), {});
  add_one(b.slice("second", there), "far", there, f32({4, 6}), {{"data", shard(1)}});
  return b.build();
}

TEST(SlicesTest, StatesOfASecondSliceAreReadAndWrittenThroughTheFirst) {
  const Client client = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  const Slice first = client.allocate({.devices = 2}), second = client.allocate({.devices = 2});
  const Mesh mesh = first.mesh({{"data", 2}});
  const Executable step = first.compile(two_slices(mesh, mesh), {second});
  first.write_state("far", counted({4, 6}));
  step.run();
  EXPECT_THAT(first.read_state("near").as<float>(), testing::Each(1.0f));
  const HostTensor far = first.read_state("far");
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(far.as<float>()[i], static_cast<float>(i + 1));
  EXPECT_THAT(first.read_state("far", {{2, 2}, {1, 3}}).as<float>(),
              testing::ElementsAre(15, 16, 17));
}

TEST_F(ClientTest, ProgramsOnOneSliceShareTheStatesOfEqualName) {
  Executable one = slice_.compile(accumulate(mesh_));
  Executable two = slice_.compile(accumulate(mesh_));
  Array x = slice_.from_host(HostTensor::of<float>({16, 8}, ones(128)));
  one.run({{"x", x}, {"scale", 1.0f}});
  EXPECT_EQ(two.run({{"x", x}, {"scale", 1.0f}})["sum"].item<float>(), 256.0f);
}

TEST_F(ClientTest, AWrongInputIsNamedWithWhatExists) {
  Executable step = slice_.compile(accumulate(mesh_));
  EXPECT_THAT(error_of([&] { step.run({{"y", 1.0f}}); }).what(),
              HasSubstr("no input \"y\"; there are: x, scale"));
  EXPECT_THAT(error_of([&] { step.run({{"scale", 1}}); }).what(),
              HasSubstr("input \"scale\": expected f32[], got i32[]"));
  EXPECT_THAT(error_of([&] { step.run({{"scale", 1.0f}}); }).what(),
              HasSubstr("run of \"accumulate\": input \"x\" is missing: it takes x, scale"));
  EXPECT_THAT(error_of([&] { step.run({{"scale", 1.0f}, {"scale", 2.0f}}); }).what(),
              HasSubstr("input \"scale\" is given twice"));
  auto run = step.run({{"scale", 1.0f}, {"x", HostTensor::of<float>({16, 8}, ones(128))}});
  EXPECT_THAT(error_of([&] { run["loss"]; }).what(), HasSubstr("there are: sum, twice"));
}

TEST_F(ClientTest, ErrorsOfACallNameTheLineOfItsCaller) {
  const Executable step = slice_.compile(accumulate(mesh_));
  const HostTensor x = HostTensor::of<float>({16, 8}, ones(128));
  const gangway::Run run = step.run({{"x", x}, {"scale", 1.0f}});
  int line = 0;
  const auto at = [&](const auto& call) {
    const Error error = error_of(call);
    EXPECT_EQ(error.where().at, cat("client_test.cc:", line)) << error.what();
    return std::string(error.what());
  };
  line = __LINE__ + 1;
  const std::string unknown = at([&] { slice_.read_state("v"); });
  EXPECT_THAT(unknown,
              HasSubstr("state \"v\": no program compiled on this slice has it; there are: w"));
  line = __LINE__ + 1;
  at([&] { slice_.read_state("w", {{99}, {1}}); });
  line = __LINE__ + 1;
  at([&] { slice_.write_state("w", x); });
  line = __LINE__ + 1;
  at([&] { step.run({{"y", x}}); });
  line = __LINE__ + 1;
  const std::string many = at([&] { run["twice"].item<float>(); });
  EXPECT_THAT(many, HasSubstr("item: needs one element"));
  client_.close();
  line = __LINE__ + 1;
  at([&] { run["twice"].to_host(); });
}

class ClientWarningTest : public testing::Test {
 protected:
  std::string reported_;
  const Client client_ =
      connect("local:1x1", {.in_process = true,
                            .memory_bytes = 1 << 20,
                            .on_warning = [this](const auto& line) { reported_ += line; }});
  const Slice slice_ = client_.allocate({.devices = 1});
};

TEST_F(ClientWarningTest, AStateThatExistsAlreadyKeepsItsValueAndTheUserIsWarned) {
  const auto adding = [](const std::string& name, double first, Mesh mesh) {
    ProgramBuilder b(name, std::move(mesh));
    const Value w = b.state("w", filled(f32({2}), first));
    b.update(w, w + 1.0);
    return b.build();
  };
  slice_.compile(adding("first", 3, {{{"data", 1}}}));
  slice_.compile(adding("same", 3, {{{"data", 1}}}));
  EXPECT_EQ(reported_, "");
  slice_.compile(adding("other", 5, {{{"data", 1}}}));
  EXPECT_EQ(reported_,
            "program \"other\": states that are on the slice already keep what they hold, its "
            "initialisers of them are not used: w");
  EXPECT_THAT(slice_.read_state("w").as<float>(), testing::Each(3.0f));
}

TEST_F(ClientWarningTest, AStateWithTheSameFirstValueCausesNoWarning) {
  const auto adding = [](const std::string& name, bool has_more) {
    ProgramBuilder b(name, Mesh{{{"data", 1}}});
    if (has_more) b.output("twice", b.state("v", filled(f32({2}), 5)) * 2.0);
    const Value w = b.state("w", filled(f32({2}), 3));
    b.update(w, w + 1.0);
    return b.build();
  };
  slice_.compile(adding("first", false));
  slice_.compile(adding("more", true));
  EXPECT_EQ(reported_, "");
}

TEST_F(ClientTest, AProgramThatDoesNotFitSaysWhatNeedsHowMuchAndWhere) {
  ProgramBuilder b("big", mesh_);
  Value w = b.state("w", zeros(f32({1 << 25})));
  b.update(w, w + w);
  const int line = __LINE__ + 1;
  const Error error = error_of([&, program = b.build()] { slice_.compile(program); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << "waiting does not help";
  EXPECT_THAT(error.what(), HasSubstr("big"));
  EXPECT_THAT(error.what(), HasSubstr("does not fit, nor ever will on this cluster: needs "));
  EXPECT_THAT(error.what(), HasSubstr("which has 64.0 MiB: 192.0 MiB short"));
  EXPECT_THAT(error.what(), HasSubstr("cut states over an axis"));
  EXPECT_EQ(error.where().at, cat("client_test.cc:", line)) << "who compiled it";
}

TEST_F(ClientTest, ARunPastItsTimeLimitOrCancelledSaysSoAndLeavesItsState) {
  ProgramBuilder b("slow", mesh_);
  Value w = b.state("w", zeros(f32({8})));
  Value next = timed(w, 500'000) + 1.0;
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  Executable step = slice_.compile(b.build());
  auto late = step.run({}, {.time_limit_ms = 10});
  const int line = __LINE__ + 1;
  const Error error = error_of([&] { late.wait(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("limit of 10 ms"));
  EXPECT_EQ(error.where().at, cat("client_test.cc:", line)) << "who waited for it";
  auto cancelled = step.run();
  cancelled.cancel();
  EXPECT_EQ(error_of([&] { cancelled["sum"].item<float>(); }).kind(), ErrorKind::kCancelled);
  EXPECT_THAT(slice_.read_state("w").as<float>(), testing::Each(0.0f));
}

TEST_F(ClientTest, AProgramHasANameAndAShareThatChangeWhileItRuns) {
  const Client named = connect(
      "local:1x1",
      {.name = "trainer", .weight = 3, .priority = 2, .in_process = true, .memory_bytes = 1 << 20});
  const auto self = [&] {
    const std::vector<ProgramStatus> programs = named.status().programs;
    EXPECT_EQ(programs.size(), 1u);
    return programs.at(0);
  };
  EXPECT_EQ(self().name, "trainer");
  EXPECT_EQ(self().share, (Share{.weight = 3, .priority = 2}));
  EXPECT_TRUE(self().is_self);
  named.set_share(0.5, -1);
  EXPECT_EQ(self().share, (Share{.weight = 0.5, .priority = -1}));
  EXPECT_THROW(named.set_share(0, 0), Error);
  EXPECT_THROW(connect("local:1x1", {.weight = -1, .in_process = true}), Error);
}

TEST(ConnectTest, DealsTheExecutorsOfALocalClusterOutToIslands) {
  const Client client =
      connect("local:4x1", {.in_process = true, .memory_bytes = 1 << 20, .islands = 2});
  std::vector<std::string> islands;
  for (const HostStatus& host : client.status().hosts) islands.push_back(host.island);
  EXPECT_THAT(islands, testing::ElementsAre("island-0", "island-0", "island-1", "island-1"));
  EXPECT_EQ(client.allocate({.devices = 2, .one_island = true}).devices(), 2);
  EXPECT_THROW(client.allocate({.devices = 3, .one_island = true}), Error);
  EXPECT_THAT(error_text_of([] { connect("local:2x1", {.in_process = true, .islands = 3}); }),
              testing::HasSubstr("expected 1 to 2 islands for \"local:2x1\", got 3"));
}

TEST_F(ClientTest, RunsThatEndedAreCountedForTheirProgram) {
  Executable step = slice_.compile(accumulate(mesh_));
  for (int i = 0; i < 3; ++i)
    step.run({{"x", HostTensor::of<float>({16, 8}, ones(128))}, {"scale", 1.0f}}).wait();
  const ProgramStatus self = client_.status().programs.at(0);
  EXPECT_EQ(self.runs_done, 3u);
  EXPECT_EQ(self.runs_waiting + self.runs_in_flight, 0u);
}

TEST_F(ClientTest, AMeshMustCoverItsSlice) {
  EXPECT_THAT(error_of([&] { slice_.mesh({{"data", 3}}); }).what(), HasSubstr("4 devices, got 3"));
}

TEST_F(ClientTest, MoreDevicesThanThereAreAreRefused) {
  EXPECT_THAT(error_of([&] { client_.allocate({.devices = 5}); }).what(),
              HasSubstr("expected at most 4, got 5"));
}

TEST_F(ClientTest, RanksThatDoNotDivideTheDevicesAreRefusedWithTheNumbersAndTheLine) {
  const int line = __LINE__ + 1;
  const Error error = error_of([&] { client_.allocate({.devices = 8, .ranks_per_device = 3}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("8 devices of a slice do not divide into physical ones "
                                         "with ranks_per_device = 3 each"));
  EXPECT_EQ(error.where().at, "client_test.cc:" + std::to_string(line));
  for (const int64_t ranks : {-1, 0, 65})
    EXPECT_THAT(
        error_of([&] { client_.allocate({.devices = 65, .ranks_per_device = ranks}); }).what(),
        HasSubstr("ranks_per_device: expected 1 to 64, got " + std::to_string(ranks)));
  EXPECT_THAT(error_of([&] { client_.allocate({.devices = 10, .ranks_per_device = 2}); }).what(),
              HasSubstr("expected at most 8, got 10 with ranks_per_device = 2"));
}

TEST_F(ClientTest, AMeshIsOfAllRanksOfItsSlice) {
  const Slice ranks = client_.allocate({.devices = 8, .ranks_per_device = 2});
  EXPECT_THAT(error_of([&] { ranks.mesh({{"data", 4}}); }).what(),
              HasSubstr("8 devices, 2 ranks on each of 4, got 4"));
  const Error error = error_of([&] { ranks.compile(accumulate(mesh_)); });
  EXPECT_THAT(error.message(), HasSubstr("is a mesh {data: 4} of 4 devices, the allocated slice "
                                         "has 8: 2 ranks on each of 4 devices"));
  EXPECT_THAT(error.where().at, HasSubstr("client_test.cc:"));
}

TEST_F(ClientTest, AClosedClientSaysSo) {
  client_.close();
  EXPECT_EQ(error_of([&] { client_.allocate({.devices = 1}); }).kind(), ErrorKind::kCancelled);
}

TEST_F(ClientTest, AClosedClientRefusesRunsAndCopies) {
  Executable step = slice_.compile(accumulate(mesh_));
  auto run = step.run({{"x", HostTensor::of<float>({16, 8}, ones(128))}, {"scale", 1.0f}});
  run.wait();
  client_.close();
  const auto expect_closed = [](const auto& body) {
    const Error error = error_of(body);
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_THAT(error.what(), HasSubstr("client: closed"));
  };
  expect_closed([&] { step.run({{"scale", 1.0f}}); });
  expect_closed([&] { run["twice"].to_host(); });
  expect_closed([&] { slice_.read_state("w"); });
  expect_closed([&] { slice_.compile(accumulate(mesh_)); });
}

TEST_F(ClientTest, ARunThatWaitsForItsPlaceEndsWhenTheClientIsClosed) {
  ProgramBuilder b("slow", mesh_);
  Value w = b.state("w", zeros(f32({8})));
  b.update(w, timed(w, 1'000'000) + 1.0);
  Executable step = slice_.compile(b.build(), CompileOptions{.runs_in_flight_max = 1});
  auto first = step.run();
  std::optional<Error> error;
  {
    Thread second("second run", [&] { error = error_of([&] { step.run().wait(); }); });
    client_.close();
  }
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(error_of([&] { first.wait(); }).kind(), ErrorKind::kCancelled);
}

TEST_F(ClientTest, AnArgumentThatFoundNoMemorySaysSoAndFindsItLater) {
  ProgramBuilder b("sum", mesh_);
  Value x = b.input("x", f32({4, 1 << 21}), {{"data", shard(0)}});
  b.output("sum", sum(x));
  Executable step = slice_.compile(b.build(), CompileOptions{.runs_in_flight_max = 1});
  const HostTensor tensor(f32({4, 1 << 21}));
  const auto hold = [&] { return slice_.from_host(tensor); };
  std::vector<Array> held;
  Array last;
  std::optional<Error> failed;
  for (int i = 0; i < 16 && !failed; ++i) {  // 8 MiB each, of 64.
    last = hold();
    try {
      step.run({{"x", last}}).wait();
      held.push_back(last);
    } catch (const Error& error) {
      failed = error;
    }
  }
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->kind(), ErrorKind::kOverloaded) << failed->what();
  EXPECT_THAT(failed->what(), HasSubstr("no memory for input \"x\""));
  held.clear();
  EXPECT_EQ(step.run({{"x", last}})["sum"].item<float>(), 0.0f);
}

TEST_F(ClientTest, ATensorWhoseBytesDoNotFitItsTypeIsRefused) {
  Executable step = slice_.compile(accumulate(mesh_));
  for (const size_t bytes : {0, 511, 4096}) {
    HostTensor x(f32({16, 8})), scale(1.0f), w(f32({8}));
    x.bytes.resize(bytes);
    scale.bytes.resize(bytes);
    w.bytes.resize(bytes);
    const auto expect_refused = [&](const auto& body) {
      const Error error = error_of(body);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(cat("bytes, got ", bytes)));
    };
    expect_refused([&] { step.run({{"x", x}, {"scale", 1.0f}}); });
    expect_refused([&] { step.run({{"scale", scale}}); });
    expect_refused([&] { slice_.from_host(x); });
    expect_refused([&] { slice_.write_state("w", w); });
    expect_refused([&] { x.as<float>(); });
  }
}

TEST_F(ClientTest, AnEmptyArraySaysSo) {
  const Array empty;
  EXPECT_THAT(error_of([&] { empty.type(); }).what(), HasSubstr("array: empty"));
  EXPECT_THAT(error_of([&] { empty.ready(); }).what(), HasSubstr("array: empty"));
  EXPECT_THAT(error_of([&] { empty.to_host(); }).what(), HasSubstr("array: empty"));
}

TEST_F(ClientTest, AnArgumentThatFoundNoRoomInTheSegmentIsPutAgainWithTheNextRun) {
  Executable step = slice_.compile(accumulate(mesh_));
  Array x = slice_.from_host(HostTensor::of<float>({16, 8}, ones(128)));
  internal::SegmentHeap& heap = x.impl()->session->bulk.heap();
  auto all = heap.take(internal::kSegmentBytes - heap.used());
  EXPECT_EQ(error_of([&] { step.run({{"x", x}, {"scale", 1.0f}}); }).kind(),
            ErrorKind::kOverloaded);
  all.reset();
  EXPECT_EQ(step.run({{"x", x}, {"scale", 1.0f}})["sum"].item<float>(), 128.0f);
}

TEST(ConnectTest, ABadAddressIsExplained) {
  EXPECT_THAT(error_of([] { connect("local:2"); }).what(), HasSubstr("expected \"local:2x2\""));
}

TEST(ConnectTest, AnUnreachableControllerIsNamedWithinTheTimeLimit) {
  const Error error = error_of([] { connect("127.0.0.1:1", {.timeout_ms = 50}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1"));
}

TEST(ClientCreditsTest, PutsAndGetsWaitUntilTheClientHasCreditsForThem) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    SimNetwork network(*reactor, {.delay = std::chrono::microseconds(50)});
    const ControllerService controller(
        *reactor, network.endpoint("controller"),
        {.address = "sim:controller", .controller = {.transfer_credits = 2}});
    const ExecutorService executor(
        *reactor, network.endpoint("host-0"),
        {.controller = "sim:controller",
         .host = {.name = "host-0", .kind = DeviceKind::kSim, .devices = 2}});
    const Client client =
        internal::connect_on(*reactor, network.endpoint("client"), "sim:controller");
    const Slice slice = client.allocate({.devices = 2});
    const Executable step = slice.compile(accumulate(slice.mesh({{"data", 2}})));
    std::vector<Fiber> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(reactor->spawn("client", [&] {
        const Array x = slice.from_host(HostTensor::of<float>({16, 8}, ones(128)));
        const gangway::Run run = step.run({{"x", x}, {"scale", 1.0f}});
        EXPECT_THAT(run["twice"].to_host().as<float>(), testing::Each(2.0f));
        slice.read_state("w");
      }));
    }
    for (Fiber& fiber : clients) fiber.join();
    EXPECT_THAT(slice.read_state("w").as<float>(), testing::Each(5 * 16.0f));
    client.close();
  });
}

}  // namespace
}  // namespace gangway
