// Compares the bytes that devices move under a strategy, by class of link: executors count them in
// each rendezvous, and docs/collectives.md has a formula for each collective of the compiled step.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "ir/types/axis_list.h"
#include "runtime/fibers/wait_queue.h"
#include "tests/sim/with_client.h"
#include "tests/strategies/compiled_step.h"
#include "tests/strategies/strategy_case.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

constexpr int64_t kSmallMax = 8 << 10;

struct Moved {
  int64_t in_host = 0, between_hosts = 0;

  bool operator==(const Moved&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Moved& moved) {
  return out << moved.in_host << " in hosts, " << moved.between_hosts << " between them";
}

// The bytes of all members of one collective together. They lie on `hosts` hosts, a power of two,
// equally many on each.
Moved moved_by(const CollectiveUse& use, int64_t hosts) {
  const int64_t members = use.members, here = members / hosts;
  const int64_t others = here - 1, whole = use.bytes;
  // Bytes that one host has for other hosts, or gets from them.
  const int64_t far = whole * (hosts - 1) / hosts;
  if (use.op == Op::all_reduce) {
    if (whole > kSmallMax) return {2 * hosts * others * whole, 2 * (hosts - 1) * whole};
    if (hosts == 1) return {members * others * whole, 0};
    // Each host sends the whole log2(hosts) times.
    const int64_t times = std::bit_width(static_cast<uint64_t>(hosts - 1));
    return {2 * hosts * others * whole, hosts * times * whole};
  }
  if (use.op == Op::all_gather) {
    // Each member reads the parts of its host's other members. Parts that come from other hosts are
    // written for all members of the host.
    return {hosts * others * (whole / hosts + far), hosts * far};
  }
  if (use.op == Op::reduce_scatter) {
    if (hosts == 1) return {others * whole, 0};
    // A channel reads its range of all tensors, and writes the pieces of other members in it.
    const int64_t written = whole / hosts * others / here;
    return {hosts * (others * whole + written), hosts * far};
  }
  if (use.op == Op::permute) {
    // Members are a ring in their order. If there are several hosts, one link leaves each of them.
    if (hosts == 1) return {members * whole, 0};
    return {hosts * others * whole + hosts * whole * others / here, hosts * whole};
  }
  EXPECT_EQ(use.op, Op::all_to_all);
  const int64_t in_host = here * others * whole / members;
  return {hosts * (in_host + others * far), hosts * here * far};
}

// Every other member sends `bytes` bytes to the first one, or gets them from it, and all members
// report to one another how many rows come.
Moved moved_by_ragged(const CollectiveUse& use, int64_t hosts, int64_t bytes) {
  const int64_t here = use.members / hosts, others = here - 1;
  const int64_t far = (hosts - 1) * here * bytes;
  CollectiveUse sizes{.op = Op::all_to_all, .members = use.members, .bytes = 4 * use.members};
  Moved moved = moved_by(sizes, hosts);
  // All members of the first host write equal parts of the bytes that come from other hosts.
  moved.in_host += others * bytes + far * others / here;
  moved.between_hosts += far;
  return moved;
}

// The number of hosts on which the members of each group over `axes` lie. Devices are numbered
// along the mesh.
int64_t hosts_of_group(const Mesh& mesh, const std::string& axes, int64_t devices_per_host) {
  const std::vector<std::string_view> names = split_axes(axes);
  std::set<int64_t> hosts;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    bool is_of_first = true;  // The first group has 0 in all other coordinates.
    int64_t rest = device;
    for (size_t i = mesh.axes.size(); i-- > 0;) {
      const bool is_along = std::ranges::find(names, mesh.axes[i].name) != names.end();
      if (!is_along && rest % mesh.axes[i].size != 0) is_of_first = false;
      rest /= mesh.axes[i].size;
    }
    if (is_of_first) hosts.insert(device / devices_per_host);
  }
  return static_cast<int64_t>(hosts.size());
}

int64_t counted(const Client& client, const char* link, int hosts) {
  const std::string metrics = client.status().metrics;
  int64_t sum = 0;
  for (int host = 0; host < hosts; ++host) {
    const std::string name =
        cat("gangway_link_bytes_total{host=\"host-", host, "\",link=\"", link, "\"} ");
    const size_t at = metrics.find(name);
    EXPECT_NE(at, std::string::npos) << name;
    if (at != std::string::npos) sum += std::stoll(metrics.substr(at + name.size()));
  }
  return sum;
}

struct Cluster {
  int hosts = 1, devices_per_host = 4, islands = 1;
};

struct Moves {
  std::string strategy;
  std::vector<MeshAxis> axes;
  ModelKind model = ModelKind::kCapacity;
};

class MovedBytesTest : public FolderTest {
 protected:
  LanguageModelConfig config_of(const Moves& of) {
    LanguageModelConfig config = model_config(of.model);
    config.text = write("text.txt", readable_text(4'000)).string();
    config.model.moe.bound = static_cast<double>(Mesh{of.axes}.devices());  // Room for all rows.
    return config;
  }

  Moved in_a_step(const Cluster& on, const Moves& of, const Program& program) {
    const LanguageModelConfig config = config_of(of);
    const Mesh mesh{of.axes};
    const int64_t rows = config.batch * config.model.seq * config.model.moe.top_k;
    Moved sum;
    for (const CollectiveUse& use : collectives_of(local_function(program))) {
      const int64_t hosts = hosts_of_group(mesh, use.axes, on.devices_per_host);
      Moved by;
      if (use.op == Op::ragged_all_to_all) {
        const int64_t row = 4 * use.tensors[0].dims.back();
        by = moved_by_ragged(use, hosts, rows / mesh.devices() * row);
      } else {
        by = moved_by(use, hosts);
      }
      const int64_t times = use.times * mesh.devices() / use.members;
      sum.in_host += times * by.in_host;
      sum.between_hosts += times * by.between_hosts;
    }
    return sum;
  }

  void expect_moved(const Cluster& on, const Moves& of) {
    const LanguageModelConfig config = config_of(of);
    const Mesh mesh{of.axes};
    const Program program = train_step(config, mesh, strategy_of(of.strategy, mesh, config.model));
    const Moved expected = in_a_step(on, of, program);
    auto reactor = Reactor::make_simulated({.seed = 1});
    const SimClusterOptions options{
        .hosts = on.hosts, .devices_per_host = on.devices_per_host, .islands = on.islands};
    with_client(*reactor, options, [&](SimCluster&, const Client& client) {
      Slice slice = client.allocate({.devices = mesh.devices()});
      const Executable step = slice.compile(program);
      if (of.model == ModelKind::kDropless) choose_the_first_experts(slice);
      const bool is_far = on.islands > 1;
      const auto moved = [&] {
        WaitQueue().wait_until_ns("for heartbeats", reactor->clock().now_ns() + 2'000'000'000);
        EXPECT_EQ(counted(client, is_far ? "island" : "between", on.hosts), 0);
        return Moved{counted(client, "host", on.hosts),
                     counted(client, is_far ? "between" : "island", on.hosts)};
      };
      const Moved before = moved();
      for (int i = 1; i <= kSteps; ++i)  // The rate is 0, so that no weight changes.
        step.run({{"lr", 0.0f}, {"step", static_cast<float>(i)}}).wait();
      const Moved after = moved();
      EXPECT_EQ((Moved{after.in_host - before.in_host, after.between_hosts - before.between_hosts}),
                (Moved{kSteps * expected.in_host, kSteps * expected.between_hosts}));
    });
  }

  // Makes all experts equal for the router. Tokens then choose the first ones, which are on the
  // first device.
  static void choose_the_first_experts(const Slice& slice) {
    const std::string router = "params.layers.moe.router";
    HostTensor zeros = slice.read_state(router);
    std::ranges::fill(zeros.bytes, std::byte{});
    slice.write_state(router, zeros);
  }

  static constexpr int kSteps = 3;
};

TEST_F(MovedBytesTest, AreWhatTheFormulasOfCollectivesSay) {
  for (const Cluster& on : {Cluster{1, 4}, Cluster{2, 2}, Cluster{4, 1}, Cluster{2, 2, 2}}) {
    for (const Moves& of : std::vector<Moves>{
             {"data_parallel", {{"data", 4}}},
             {"zero1", {{"data", 4}}},
             {"zero3", {{"data", 4}}},
             {"megatron", {{"data", 2}, {"model", 2}}},
             {"megatron", {{"model", 2}, {"data", 2}}},
             {"megatron+sequence_parallel", {{"model", 4}}},
             {"zero3+megatron+sequence_parallel", {{"data", 2}, {"model", 2}}},
             {"zero1+expert_parallel", {{"data", 2}, {"expert", 2}}},
             {"expert_parallel", {{"expert", 4}}},
             {"expert_parallel", {{"expert", 4}}, ModelKind::kDropless},
             {"megatron+sequence_parallel+expert_parallel", {{"model", 4}}, ModelKind::kDropless},
             {"context_parallel", {{"context", 4}}, ModelKind::kDense},
             {"context_parallel", {{"data", 2}, {"context", 2}}, ModelKind::kDense},
             {"context_parallel", {{"context", 2}, {"data", 2}}, ModelKind::kDense}}) {
      SCOPED_TRACE(cat(of.strategy, " over ", to_string(Mesh{of.axes}), ", ", on.hosts, " hosts, ",
                       on.islands, " islands"));
      expect_moved(on, of);
    }
  }
}

}  // namespace
}  // namespace gangway::programs
