// Bystander: bob's program on a simulated cluster in modelled virtual time. Tests count its steps
// with and without attacks of eve, another owner.
//
// The model gives frames, kernels, links and compiling their time (sim/sim_process.h). Calls of
// RPC, disks and background threads take none, so bob loses steps only to work that he waits for,
// not to work that keeps a processor busy.
//
// Threads: the reactor's; steps_of() and pass() suspend.
// Errors: refusal_of() returns the error of its call; other functions throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gangway.h"
#include "runtime/fibers/reactor.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway::owner_bounds_test {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr char kEve[] = "eve";

inline void pass(int64_t ns) {
  WaitQueue().wait_until_ns("for time to pass", Reactor::current().clock().now_ns() + ns);
}

// The sum of f32[width], after `nodes` nodes and a node of `microseconds` on its device.
inline Program chain(const std::string& name, int nodes, int64_t width, int64_t microseconds) {
  ProgramBuilder b(name, Mesh{{{"data", 1}}});
  const Value x = b.input("x", f32({width}));
  Value y = microseconds > 0 ? timed(x, microseconds) : x;
  for (int i = 0; i < nodes; ++i) y = sin(y);
  b.output("y", sum(y, {0}));
  return b.build();
}

inline HostTensor filled(int64_t width) {
  return HostTensor::of<float>({width}, std::vector<float>(static_cast<size_t>(width), 1.0f));
}

inline Program bobs_program() { return chain("bobs", 2, 4, 50); }

// The number of steps of bob's program that end in a fifth of a second.
inline int steps_of(const Executable& program) {
  const Clock& clock = Reactor::current().clock();
  const int64_t end_ns = clock.now_ns() + 200 * kMs;
  int steps = 0;
  for (; clock.now_ns() < end_ns; ++steps) program.run({{"x", filled(4)}}).wait();
  return steps;
}

// Like steps_of(), while another fiber calls attack() every tenth of a millisecond.
inline int steps_under(const std::function<void()>& attack, const Executable& program) {
  bool is_over = false;
  Fiber again = Reactor::current().spawn("eve", [&] {
    while (!is_over) {
      attack();
      pass(kMs / 10);
    }
  });
  const int steps = steps_of(program);
  is_over = true;
  again.join();
  return steps;
}

// An attack may cost less than 5 % of the `alone` steps that end without one.
inline int fewest_steps(int alone) { return alone * 95 / 100; }

// The error that the call throws, if any.
inline std::optional<Error> refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace gangway::owner_bounds_test
