// Local functions with every op in which devices of a mesh meet, run by the production hosts on CPU
// devices: each device gets what the reference interpreter gives.
//
// All ops of a test are nodes of one function, so that their groups, memory and steps are planned
// together; every device's results are read back as parts of one array.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/plan/rates.h"
#include "ir/transforms/sections/cut_sections.h"
#include "ir/types/axis_list.h"
#include "runtime/base/rng.h"
#include "tests/interpret/interpret.h"
#include "tests/support/seed.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

constexpr PlanId kPlan{1};

// Where the devices of a mesh lie.
struct Cluster {
  const char* name;
  uint32_t hosts, devices, ranks;  // Devices of each host, ranks on each device.
  Mesh mesh;
};
void PrintTo(const Cluster& cluster, std::ostream* out) { *out << cluster.name; }

const Mesh kTwo{{{"data", 2}}}, kThree{{{"data", 3}}}, kSquare{{{"data", 2}, {"model", 2}}};
const Cluster kClusters[] = {
    {"TwoDevices", 1, 2, 1, kTwo},       {"TwoHosts", 2, 1, 1, kTwo},
    {"ThreeDevices", 1, 3, 1, kThree},   {"FourDevices", 1, 4, 1, kSquare},
    {"TwoHostsOfTwo", 2, 2, 1, kSquare}, {"TwoRanksOnEachOfTwo", 2, 1, 2, kSquare},
};

// A function of ops on parameters of its own.
class Ops {
 public:
  explicit Ops(const Mesh& mesh) : mesh_(mesh), builder_("ops", mesh) {}

  Value parameter(const Type& type) { return builder_.parameter(cat("p", parameters_++), type); }
  // A result for each of the node's; a scalar as [1], since results are cut over all devices.
  void add(Op op, const std::vector<Value>& inputs, const Attrs& attrs) {
    for (const Value& value : builder_.emit(op, inputs, attrs, Loc::current())) result(value);
  }
  void result(const Value& value) {
    const Value whole = value.rank() == 0 ? reshape(value, {1}) : value;
    builder_.result(cat("r", results_++), whole);
  }

  void add_all(DType dtype) {
    const Value uneven = parameter({dtype, {3, 5}}), wide = parameter({dtype, {2, 3, 4}}),
                long_one = parameter({dtype, {700, 3}}), empty = parameter({dtype, {0, 3}});
    for (const std::string& axes : lists()) {
      for (const Value& x : {uneven, wide, long_one, empty}) add_on(axes, x);
      add_ragged(axes, dtype);
      add(Op::axis_index, {}, {{"axes", axes}});
    }
  }

  std::shared_ptr<const Function> build() {
    Function f = builder_.build();
    f.local = true;
    return std::make_shared<const Function>(std::move(f));
  }

 private:
  // Every list of one axis or of all in some order.
  std::vector<std::string> lists() const {
    if (mesh_.axes.size() == 1) return {"data"};
    return {"data", "model", "data,model", "model,data"};
  }

  void add_on(const std::string& axes, const Value& x) {
    const int64_t n = members_along(mesh_, axes_of(mesh_, axes));
    const int last = x.rank() - 1;
    const auto attrs = [&](Attrs more) {
      more.set("axes", axes);
      return more;
    };
    for (int64_t dim : {0, last}) {
      for (int64_t less : {0, 1}) {
        const int64_t size = std::max<int64_t>(0, n * x.dim(static_cast<int>(dim)) - less);
        add(Op::all_gather, {x}, attrs({{"dim", dim}, {"parts", n}, {"size", size}}));
        add(Op::all_to_all, {x},
            attrs({{"concat_dim", dim},
                   {"split_dim", dim == 0 ? int64_t{last} : int64_t{0}},
                   {"parts", n},
                   {"size", size}}));
      }
      for (const char* reduction : {"sum", "max", "min"}) {
        add(Op::reduce_scatter, {x},
            attrs({{"dim", dim}, {"parts", n}, {"reduction", std::string(reduction)}}));
      }
    }
    add(Op::all_reduce, {x, x}, attrs({{"reduction", std::string("sum")}}));
    for (const std::string& to : lists()) {
      if (to.size() != axes.size() || (axes.find(',') == std::string::npos && to != axes)) continue;
      for (int64_t shift : {0, 1, -1}) add(Op::permute, {x}, attrs({{"to", to}, {"shift", shift}}));
    }
    for (int64_t root : {int64_t{0}, n - 1})
      add(Op::collective_broadcast, {x}, attrs({{"root", root}}));
    add(Op::keep_first, {x}, attrs({}));
    if (axes.find(',') == std::string::npos)
      add(Op::shard_slice, {x}, {{"axis", axes}, {"dim", int64_t{0}}, {"parts", n}});
  }

  void add_ragged(const std::string& axes, DType dtype) {
    const int64_t n = members_along(mesh_, axes_of(mesh_, axes));
    const Value rows = parameter({dtype, {7, 2}}), sizes = parameter(i32({n}));
    for (int64_t bound : {int64_t{0}, int64_t{5}, 7 * n}) {
      add(Op::ragged_all_to_all, {rows, sizes}, {{"axes", axes}, {"parts", n}, {"bound", bound}});
    }
  }

  Mesh mesh_;
  Builder builder_;
  int parameters_ = 0, results_ = 0;
};

// Sizes between -1 and 5, so that some are out of range; other numbers are whole and small, so that
// sums are exact in every type and do not depend on their order.
Literal random_argument(const Type& type, Rng& rng) {
  Literal x = filled(type, 0);
  for (double& value : x.values) value = static_cast<double>(rng.below(7)) - 1;
  round_values(x);
  return x;
}

// By device.
std::vector<std::vector<Literal>> random_arguments(const Function& f, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::vector<Literal>> arguments(static_cast<size_t>(f.mesh.devices()));
  for (std::vector<Literal>& of_device : arguments) {
    for (size_t p = 0; p < f.parameters.size(); ++p)
      of_device.push_back(random_argument(f.types[p], rng));
  }
  return arguments;
}

// The type of an array whose part on each of n devices, along its first dimension, is `local`.
Type over_devices(Type local, int64_t n) {
  local.dims[0] *= n;
  return local;
}

// One call of a local function on hosts of this process.
class LocalCall {
 public:
  LocalCall(const Cluster& cluster, std::shared_ptr<const Function> function, DeviceKind kind)
      : function_(std::move(function)),
        reactor_(kind == DeviceKind::kSim ? Reactor::make_simulated() : Reactor::make_real()),
        hosts_(*reactor_, cluster.hosts, cluster.devices, kind),
        plan_("local", cluster.hosts, cluster.devices) {
    plan_.plan().slices[0].mesh = cluster.mesh;
    plan_.plan().slices[0].ranks_per_device = cluster.ranks;
    LocalFunction local{function_, static_cast<NodeId>(function_->nodes.size()), {}, kNone};
    local.sections = cut_sections(local, rates_of("cpu"), 100'000);
    plan_.plan().functions.push_back(local);
    const Sharding rows(cluster.mesh.axes.size(), shard(0));
    std::vector<uint32_t> inputs, outputs;
    for (size_t p = 0; p < function_->parameters.size(); ++p)
      inputs.push_back(plan_.input(function_->parameters[p].name, whole(p), rows));
    for (size_t r = 0; r < function_->results.size(); ++r) {
      outputs.push_back(
          plan_.output(function_->result_names[r], whole(function_->results[r]), rows));
    }
    plan_.call("local", 0, inputs, outputs);
  }

  void install() { hosts_.install(kPlan, plan_.share()); }

  std::vector<std::vector<Literal>> run(const std::vector<std::vector<Literal>>& arguments,
                                        uint64_t run = 1) {
    RunFrame frame{.plan = kPlan, .run = RunId(run)};
    for (uint32_t p = 0; p < function_->parameters.size(); ++p) {
      const ArrayId array(run * 100'000 + p);
      std::vector<Literal> parts;
      for (const auto& of_device : arguments) parts.push_back(of_device[p]);
      hosts_.put<std::byte>(array, kPlan, p, to_bytes(join(parts, 0)));
      frame.arguments.push_back({.input = p, .array = array});
    }
    for (uint32_t r = 0; r < function_->results.size(); ++r)
      frame.outputs.push_back(ArrayId(run * 100'000 + 50'000 + r));
    hosts_.start(frame);
    const Done done = hosts_.wait(RunId(run));
    if (done.error) throw *done.error;
    std::vector<std::vector<Literal>> results(arguments.size());
    for (uint32_t r = 0; r < function_->results.size(); ++r) {
      const Type type = whole(function_->results[r]);
      const Literal all = from_bytes(
          type, hosts_.get<std::byte>(frame.outputs[r], static_cast<size_t>(type.bytes())));
      for (size_t d = 0; d < results.size(); ++d)
        results[d].push_back(part_of(all, 0, devices(), static_cast<int64_t>(d)));
    }
    return results;
  }

 private:
  int64_t devices() const { return function_->mesh.devices(); }
  Type whole(ValueId value) const { return over_devices(function_->types[value], devices()); }

  std::shared_ptr<const Function> function_;
  std::unique_ptr<Reactor> reactor_;
  TestHosts hosts_;
  TestPlan plan_;
};

// What each device got, held to the reference.
void expect_reference(const Function& f, const std::vector<std::vector<Literal>>& arguments,
                      const std::vector<std::vector<Literal>>& got) {
  const std::vector<std::vector<Literal>> want = interpret_local(f, arguments);
  const std::vector<NodeId> makers = producers(f);
  for (size_t d = 0; d < want.size(); ++d) {
    for (size_t r = 0; r < want[d].size(); ++r) {
      const Node& node = f.nodes[makers[f.results[r]]];
      const Node& op = node.op == Op::reshape ? f.nodes[makers[node.inputs[0]]] : node;
      std::string attrs;
      for (const auto& [name, value] : op.attrs) {
        if (const auto* number = std::get_if<int64_t>(&value))
          attrs += cat(name, "=", *number, " ");
        if (const auto* text = std::get_if<std::string>(&value))
          attrs += cat(name, "=", *text, " ");
      }
      ASSERT_EQ(got[d][r], want[d][r])
          << "device " << d << ", result " << r << ": " << to_string(op.op) << " " << attrs;
    }
  }
}

class LocalFunctionsTest : public ::testing::TestWithParam<std::tuple<Cluster, DType, DeviceKind>> {
 protected:
  const Cluster& cluster() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  DeviceKind kind() const { return std::get<2>(GetParam()); }
};

TEST_P(LocalFunctionsTest, EveryCollectiveGivesWhatTheReferenceGives) {
  Ops ops(cluster().mesh);
  ops.add_all(dtype());
  const std::shared_ptr<const Function> f = ops.build();
  LocalCall call(cluster(), f, kind());
  call.install();
  for (uint64_t run = 1; run <= 2; ++run) {
    const auto arguments = random_arguments(*f, testing::test_seed() + run);
    expect_reference(*f, arguments, call.run(arguments, run));
  }
}

// Each op reads what the one before it wrote into the arena.
TEST_P(LocalFunctionsTest, CollectivesOfAChainReadWhatTheOnesBeforeThemWrote) {
  const Mesh& mesh = cluster().mesh;
  const std::string axes = mesh.axes.size() == 1 ? "data" : "model,data";
  const int64_t n = mesh.devices();
  Builder b("chain", mesh);
  Value x = b.parameter("x", {dtype(), {5, 3}});
  const auto meet = [&](Op op, const Value& of, Attrs attrs) {
    attrs.set("axes", axes);
    return b.emit1(op, {of}, attrs, Loc::current());
  };
  for (int round = 0; round < 3; ++round) {
    Value all = meet(Op::all_gather, x, {{"dim", int64_t{0}}, {"parts", n}, {"size", 5 * n}});
    Value sum = meet(Op::reduce_scatter, maximum(all, all * 2),
                     {{"dim", int64_t{0}}, {"parts", n}, {"reduction", std::string("max")}});
    Value moved = meet(Op::permute, sum, {{"to", axes}, {"shift", int64_t{1}}});
    Value across = meet(
        Op::all_to_all, moved,
        {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}, {"parts", n}, {"size", 5 * n}});
    Value back = meet(Op::all_to_all, across,
                      {{"split_dim", int64_t{0}},
                       {"concat_dim", int64_t{1}},
                       {"parts", n},
                       {"size", int64_t{3}}});
    x = back + meet(Op::collective_broadcast, x, {{"root", n - 1}});
  }
  b.result("y", x);
  Function made = b.build();
  made.local = true;
  const auto f = std::make_shared<const Function>(std::move(made));
  LocalCall call(cluster(), f, kind());
  call.install();
  const auto arguments = random_arguments(*f, testing::test_seed());
  expect_reference(*f, arguments, call.run(arguments));
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Cluster, DType, DeviceKind>>& i) {
  return cat(std::get<0>(i.param).name, "_", to_string(std::get<1>(i.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, LocalFunctionsTest,
                         ::testing::Combine(::testing::ValuesIn(kClusters),
                                            ::testing::Values(DType::kF32, DType::kBF16,
                                                              DType::kI32),
                                            ::testing::Values(DeviceKind::kCpu)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Simulated, LocalFunctionsTest,
                         ::testing::Combine(::testing::ValuesIn(kClusters),
                                            ::testing::Values(DType::kF32),
                                            ::testing::Values(DeviceKind::kSim)),
                         name_of);

TEST(LocalFunctionInstallTest, PartsThatAreNotTheMembersAreRefused) {
  Builder b("three", kTwo);
  const Value x = b.parameter("x", f32({2}));
  b.result("y", b.emit1(Op::all_gather, {x},
                        {{"axes", std::string("data")},
                         {"dim", int64_t{0}},
                         {"parts", int64_t{3}},
                         {"size", int64_t{6}}},
                        Loc::current()));
  Function f = b.build();
  f.local = true;
  LocalCall call(kClusters[0], std::make_shared<const Function>(std::move(f)), DeviceKind::kCpu);
  try {
    call.install();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("all_gather of 3 parts: expected 2"));
  }
}

}  // namespace
}  // namespace gangway
