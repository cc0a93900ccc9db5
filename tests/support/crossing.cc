#include "tests/support/crossing.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "runtime/fibers/reactor.h"

namespace gangway {
namespace {

// Time that a hop of the first client computes, and by how much each next client's is longer.
constexpr int64_t kFirstMicroseconds = 20, kMoreMicroseconds = 7;

// Sums all rows of x, and mixes in the output of the hop before.
std::shared_ptr<const Function> hop(const Mesh& mesh, int64_t microseconds, bool first) {
  const int64_t devices = mesh.devices();
  Builder b(first ? "first" : "later", mesh);
  Value x = timed(b.parameter("x", f32({devices, 8}), {{"data", shard(0)}}), microseconds);
  Value mixed = mean(sum(x, {0}));
  if (!first) mixed = (mixed + b.parameter("before", f32())) * 0.5;
  b.result("mixed", mixed);
  return std::make_shared<Function>(b.build());
}

// A program whose hops alternate between two slices.
Program crossing(int64_t devices, int64_t microseconds) {
  const Mesh mesh{{{"data", devices}}};
  ProgramBuilder b("crossing", mesh);
  const uint32_t second = b.slice("second", mesh);
  const ProgramValue x[2] = {b.input_on(0, "x0", f32({devices, 8}), {{"data", shard(0)}}),
                             b.input_on(second, "x1", f32({devices, 8}), {{"data", shard(0)}})};
  const auto first = hop(mesh, microseconds, true), later = hop(mesh, microseconds, false);
  ProgramValue mixed;
  for (uint32_t h = 0; h < kCrossingHops; ++h) {
    std::vector<ProgramValue> arguments = {x[h % 2]};
    if (h > 0) arguments.push_back(b.transfer(mixed, h % 2));
    mixed = b.call(h % 2, cat("hop", h), h == 0 ? first : later, arguments)[0];
  }
  b.output_of("mixed", mixed);
  return b.build();
}

void cross_as(Client client, int number, int runs, Crossed& all) {
  const int64_t devices = number % 4 < 2 ? 4 : 2;
  const Slice one = client.allocate({.devices = devices});
  const Slice two = client.allocate({.devices = devices});
  const bool forth = number % 2 == 0;
  const Program program = crossing(devices, kFirstMicroseconds + kMoreMicroseconds * number);
  const Executable executable =
      (forth ? one : two).compile(program, {forth ? two : one}, {.runs_in_flight_max = 4});
  const HostTensor ones = HostTensor::of<float>(
      {devices, 8}, std::vector<float>(static_cast<size_t>(devices) * 8, 1.0f));
  const Array x[2] = {(forth ? one : two).from_host(ones), (forth ? two : one).from_host(ones)};
  std::deque<gangway::Run> under_way;
  const auto finish = [&] {
    try {
      EXPECT_EQ(under_way.front()["mixed"].item<float>(), devices);
      ++all.done;
    } catch (const Error& error) {
      all.errors.emplace_back(error.what());
    }
    under_way.pop_front();
  };
  for (int run = 0; run < runs && all.errors.empty(); ++run) {
    try {
      under_way.push_back(executable.run({{"x0", x[0]}, {"x1", x[1]}}));
    } catch (const Error& error) {
      all.errors.emplace_back(error.what());
    }
    if (under_way.size() == 4) finish();
  }
  while (!under_way.empty()) finish();
  client.close();
}

}  // namespace

void cross(const std::function<Client(const std::string& name)>& connect, int runs, Crossed& all) {
  std::vector<Fiber> fibers;
  for (int number = 0; number < kCrossingClients; ++number) {
    fibers.push_back(Reactor::current().spawn(cat("client ", number), [&, number] {
      cross_as(connect(cat("client-", number)), number, runs, all);
    }));
  }
  for (Fiber& fiber : fibers) fiber.join();
}

}  // namespace gangway
