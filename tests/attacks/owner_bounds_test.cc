// Bounds on one owner's part of shared resources: eve takes as much as she can get, again and
// again, while bob's program runs.
//
// protocol/README.md has a table of all bounds, with the test that reaches each bound. A test here
// fails if a resource that is counted by owner (OwnerResource) has no row in the table, or if a
// row's test does not exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gangway.h"
#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/net/server.h"
#include "sim/sim_cluster.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"

namespace gangway::owner_bounds_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr char kEve[] = "eve";
constexpr OwnerBounds kSmall = {512 << 10, 64, 8, 1 << 20};

Program chain(const std::string& name, int nodes, int64_t width, int64_t microseconds) {
  ProgramBuilder b(name, Mesh{{{"data", 1}}});
  const Value x = b.input("x", f32({width}));
  Value y = microseconds > 0 ? timed(x, microseconds) : x;
  for (int i = 0; i < nodes; ++i) y = sin(y);
  b.output("y", sum(y, {0}));
  return b.build();
}

HostTensor filled(int64_t width) {
  return HostTensor::of<float>({width}, std::vector<float>(static_cast<size_t>(width), 1.0f));
}

class OwnerBoundsTest : public testing::Test {
 protected:
  // Number of steps that bob's program does in a fifth of a second.
  static int steps_of(Reactor& reactor, const Executable& program) {
    const int64_t end_ns = reactor.clock().now_ns() + 200 * kMs;
    int steps = 0;
    for (; reactor.clock().now_ns() < end_ns; ++steps) program.run({{"x", filled(4)}}).wait();
    return steps;
  }

  // eve calls take() until it returns a refusal, and then again and again. The last argument of
  // take() holds what she has taken, and releases it at its end.
  using Taken = std::vector<std::shared_ptr<void>>;
  using Take = std::function<std::optional<Error>(SimCluster&, const Client& eve, Taken& taken)>;
  void expect_bounded(OwnerResource resource, const Take& take, const std::string& says) {
    const auto reactor = Reactor::make_simulated({.seed = 5});
    reactor->run([&] {
      SimCluster cluster(*reactor,
                         {.lease_ms = 100, .time = ProcessTime::kModelled, .owner_bounds = kSmall});
      cluster.network.set_user("bob", "bob");
      cluster.network.set_user(kEve, kEve);
      OwnerUse& use = cluster.controller.controller().owner_use();
      const Client bob = cluster.connect("bob"), eve = cluster.connect(kEve);
      {
        const Slice bobs = bob.allocate({.devices = 1});
        const Executable program = bobs.compile(chain("bobs", 2, 4, 50));
        const int alone = steps_of(*reactor, program);
        const size_t fibers = reactor->live_fibers();
        const uint64_t before = use.used(kEve, resource);
        Taken taken;
        std::optional<Error> refused;
        for (int i = 0; !refused && i < 5000; ++i) refused = take(cluster, eve, taken);
        ASSERT_TRUE(refused) << "she is given all that she asks for";
        EXPECT_EQ(refused->kind(), ErrorKind::kOverloaded) << refused->what();
        EXPECT_THAT(refused->what(), HasSubstr(says));
        EXPECT_LE(use.used(kEve, resource), kSmall[static_cast<size_t>(resource)]);
        EXPECT_LT(reactor->live_fibers(), fibers + 500);
        bool is_over = false;
        Fiber again = reactor->spawn("eve", [&] {
          while (!is_over) {
            take(cluster, eve, taken);
            WaitQueue().wait_until_ns("a little", reactor->clock().now_ns() + kMs / 10);
          }
        });
        EXPECT_GE(steps_of(*reactor, program), alone * 95 / 100);
        is_over = true;
        again.join();
        taken.clear();
        WaitQueue().wait_until_ns("for it to be given back", reactor->clock().now_ns() + 500 * kMs);
        EXPECT_EQ(use.used(kEve, resource), before);
      }
      eve.close();
      bob.close();
    });
  }
};

template <class T>
std::shared_ptr<T> kept(std::vector<std::shared_ptr<void>>& taken, std::shared_ptr<T> thing) {
  taken.push_back(thing);
  return thing;
}

// The error that a call throws; none if it succeeded.
std::optional<Error> refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST_F(OwnerBoundsTest, ProgramsAndPlansTakeNoMoreOfTheControllersMemoryThanOneOwnerMay) {
  int number = 0;
  std::weak_ptr<Slice> slice;
  expect_bounded(
      OwnerResource::kMemory,
      [&](SimCluster&, const Client& eve, Taken& taken) {
        return refusal_of([&] {
          if (slice.expired())
            slice = kept(taken, std::make_shared<Slice>(eve.allocate({.devices = 1})));
          const std::string name = cat("p", number++);
          taken.push_back(std::make_shared<Executable>(
              slice.lock()->compile(chain(name, 100, 4, 0), {.name = name})));
        });
      },
      "owner \"eve\" has");
}

TEST_F(OwnerBoundsTest, RunsThatWaitTakeNoMoreOfTheControllersMemoryThanOneOwnerMay) {
  std::weak_ptr<Executable> slow;
  expect_bounded(
      OwnerResource::kMemory,
      [&](SimCluster&, const Client& eve, Taken& taken) {
        return refusal_of([&] {
          // Each brings 12 KiB along, and takes a tenth of a second of device time.
          if (slow.expired()) {
            const Slice own = eve.allocate({.devices = 1});
            slow = kept(taken,
                        std::make_shared<Executable>(own.compile(chain("slow", 0, 3000, 100'000))));
          }
          auto run = std::make_shared<gangway::Run>(slow.lock()->run({{"x", filled(3000)}}));
          WaitQueue().wait_until_ns("for a refusal", Reactor::current().clock().now_ns() + kMs);
          if (run->done()) run->wait();
          // The run is cancelled when the test ends, and nobody waits for it.
          taken.push_back(std::shared_ptr<void>(nullptr, [run](void*) { run->cancel(); }));
        });
      },
      "its inputs lie in the controller until it has ended, where owner \"eve\" may have no more");
}

TEST_F(OwnerBoundsTest, CallsThatWaitAreAsManyAsOneOwnerMayHaveWhateverItsConnections) {
  using Results = capnp::Response<wire::Session::AllocateResults>;
  struct Waiting {
    Connection connection;
    capnp::Response<wire::Controller::ConnectResults> joined;
    uint64_t calls = 0;
  };
  std::vector<std::weak_ptr<Waiting>> connections;
  expect_bounded(
      OwnerResource::kCalls,
      [&](SimCluster& cluster, const Client&, Taken& taken) {
        return refusal_of([&] {
          if (connections.size() < 4) {
            auto connection = Connection::connect(Reactor::current(),
                                                  cluster.network.endpoint(kEve), "sim:controller");
            auto request = connection.bootstrap<wire::Controller>().connectRequest();
            write(request.initVersion(), Version{});
            write(request.initMachine(), this_machine());
            request.setName("flood");
            request.setNumberName(true);
            auto joined = await<capnp::Response<wire::Controller::ConnectResults>>(request.send());
            connections.push_back(kept(
                taken, std::make_shared<Waiting>(Waiting{std::move(connection), kj::mv(joined)})));
          }
          Waiting& over = *connections[taken.size() % connections.size()].lock();
          auto request = over.joined.getSession().allocateRequest();
          request.setDevices(1);
          request.setCall(++over.calls);
          request.setReleases(1);  // No release comes, so it waits for ever.
          auto answered = std::make_shared<std::optional<Error>>();
          auto promise = std::make_shared<kj::Promise<void>>(
              request.send()
                  .then([](Results&&) {},
                        [answered](kj::Exception&& why) { *answered = to_error(why); })
                  .eagerlyEvaluate(nullptr));
          WaitQueue().wait_until_ns("for a refusal", Reactor::current().clock().now_ns() + kMs);
          if (*answered) throw Error(**answered);
          taken.push_back(promise);
        });
      },
      "owner \"eve\" has 64 calls under way: expected at most 64");
}

TEST_F(OwnerBoundsTest, ConnectionsAreAsManyAsOneOwnerMayHave) {
  expect_bounded(
      OwnerResource::kConnections,
      [&](SimCluster& cluster, const Client&, Taken& taken) {
        return refusal_of([&] {
          taken.push_back(std::make_shared<Connection>(Connection::connect(
              Reactor::current(), cluster.network.endpoint(kEve), "sim:controller")));
        });
      },
      "has as many connections of this user as one user may have");
}

TEST_F(OwnerBoundsTest, MessagesThatNeverEndTakeNoMoreThanOneOwnerMay) {
  constexpr size_t kHelloBytes = 48, kSentBytes = 300 << 10;
  // Magic, version and kind; then the beginning of a message of one segment of 64 MiB.
  std::vector<unsigned char> bytes(kHelloBytes + 8 + kSentBytes, 0);
  const unsigned char hello[] = {'G', 'W', 'A', 'Y', kConnectionVersion};
  std::copy(std::begin(hello), std::end(hello), bytes.begin());
  const uint32_t header[] = {0, 8 << 20};
  std::memcpy(&bytes[kHelloBytes], header, sizeof header);
  expect_bounded(
      OwnerResource::kMessages,
      [&](SimCluster& cluster, const Client&, Taken& taken) -> std::optional<Error> {
        Reactor& reactor = Reactor::current();
        struct Sent {
          Stream stream;
          bool is_closed = false;
          std::array<unsigned char, 16> answer{};
          kj::Promise<void> written = kj::READY_NOW, read = kj::READY_NOW;
        };
        const auto sent = std::make_shared<Sent>();
        sent->stream = cluster.network.endpoint(kEve).connect("sim:controller");
        sent->written = kj::evalNow([&] {
                          return sent->stream->write(bytes.data(), bytes.size());
                        }).eagerlyEvaluate([](const kj::Exception&) {});
        // Reads more than the controller answers, and so waits until it closes the connection.
        sent->read = sent->stream->tryRead(sent->answer.data(), 16, 16)
                         .then([at = sent.get()](size_t) { at->is_closed = true; },
                               [at = sent.get()](const kj::Exception&) { at->is_closed = true; })
                         .eagerlyEvaluate(nullptr);
        WaitQueue().wait_until_ns("for a refusal", reactor.clock().now_ns() + kMs);
        if (sent->is_closed) return Error(ErrorKind::kOverloaded, "the connection has ended");
        taken.push_back(sent);
        return std::nullopt;
      },
      "the connection has ended");
}

// A row of the table: the resource, its bound by owner, and the test, as "file: name".
struct Row {
  std::string what, bound, file, test;
};

std::vector<Row> rows_of_the_readme() {
  std::ifstream in(cat(tests::source_folder(), "/protocol/README.md"));
  std::vector<Row> rows;
  bool is_in_it = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| what a valid token can take |")) is_in_it = true;
    if (!line.starts_with("|")) is_in_it = false;
    if (!is_in_it) continue;
    std::vector<std::string> cells;
    std::stringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) {
      const size_t first = cell.find_first_not_of(' ');
      if (first != std::string::npos)
        cells.push_back(cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    if (cells.size() != 3 || cells[2].find(": ") == std::string::npos) continue;
    const size_t colon = cells[2].find(": ");
    rows.push_back({cells[0], cells[1], cells[2].substr(0, colon), cells[2].substr(colon + 2)});
  }
  return rows;
}

TEST(OwnerBoundsTable, EveryResourceThatIsCountedByOwnerHasARow) {
  std::set<std::string> words;
  // The compiler requires a word for each named value; other values have none.
  for (int i = 0; i < 256; ++i) {
    const std::string word = to_string(static_cast<OwnerResource>(i));
    if (word.empty()) continue;
    EXPECT_TRUE(words.insert(word).second) << "two have the word \"" << word << "\"";
    size_t rows = 0;
    for (const Row& row : rows_of_the_readme()) rows += row.what.find(word) != std::string::npos;
    EXPECT_GE(rows, 1u) << "protocol/README.md has no row that says \"" << word << "\"";
  }
  EXPECT_EQ(words.size(), kOwnerResources);
}

TEST(OwnerBoundsTable, EveryRowHasABoundAndATestThatIsThere) {
  const std::vector<Row> rows = rows_of_the_readme();
  EXPECT_GE(rows.size(), 12u);
  for (const Row& row : rows) {
    EXPECT_NE(row.bound, "") << row.what;
    std::ifstream in(cat(tests::source_folder(), "/", row.file));
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr(cat(", ", row.test, ")"))) << row.what << ": " << row.file;
  }
}

}  // namespace
}  // namespace gangway::owner_bounds_test
