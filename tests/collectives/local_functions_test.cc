// Local functions with every op in which devices of a mesh meet, run by the production hosts on CPU
// devices: each device gets the reference interpreter's results.
//
// All ops of a test are nodes of one function, so that their groups, memory and steps are planned
// together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/types/axis_list.h"
#include "tests/collectives/local_call.h"

namespace gangway::local_functions_test {
namespace {

// A function of ops on parameters of its own.
class Ops {
 public:
  explicit Ops(const Mesh& mesh) : mesh_(mesh), builder_("ops", mesh) {}

  Value parameter(const Type& type) { return builder_.parameter(cat("p", parameters_++), type); }
  // Adds an op, and a result for each of its results; a scalar becomes [1], since results are cut
  // over all devices.
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
    for (int64_t root = 0; root < n; ++root)
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
    const auto arguments = random_arguments(*f, tests::test_seed() + run);
    expect_reference(*f, arguments, call.run(arguments, run));
  }
}

// Each op reads the tensor that the op before it wrote into the arena.
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
  const auto arguments = random_arguments(*f, tests::test_seed());
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
}  // namespace gangway::local_functions_test
