// Bounds on one owner's part of shared resources: eve takes as much as she can get, again and
// again, while bob's program runs.
//
// protocol/README.md has a table of all bounds. Each row names the test that reaches the bound and
// the test that counts bob's steps meanwhile (some of those are in owner_steps_test.cc). A test
// here fails if a resource that is counted by owner (OwnerResource) has no row in the table, or if
// a test that a row names does not exist.
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
#include "runtime/net/server.h"
#include "sim/sim_cluster.h"
#include "tests/attacks/bystander.h"
#include "tests/support/places.h"

namespace gangway::owner_bounds_test {
namespace {

using testing::HasSubstr;

constexpr OwnerBounds kSmall = {512 << 10, 64, 8, 1 << 20};

class OwnerBoundsTest : public testing::Test {
 protected:
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
      OwnerUse& use = cluster.controller.controller().tables().owner_use;
      const Client bob = cluster.connect("bob"), eve = cluster.connect(kEve);
      {
        const Slice bobs = bob.allocate({.devices = 1});
        const Executable program = bobs.compile(bobs_program());
        const int alone = steps_of(program);
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
        EXPECT_GE(steps_under([&] { take(cluster, eve, taken); }, program), fewest_steps(alone));
        taken.clear();
        pass(500 * kMs);
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
          pass(kMs);
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
          pass(kMs);
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
        pass(kMs);
        if (sent->is_closed) return Error(ErrorKind::kOverloaded, "the connection has ended");
        taken.push_back(sent);
        return std::nullopt;
      },
      "the connection has ended");
}

// A row of the table: the resource, its bound by owner, the test that reaches the bound, and the
// test in which another owner's program goes on meanwhile. Tests are written as "file: name".
struct Row {
  std::string what, bound, reached, others;
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
    cells.resize(4);
    rows.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  if (rows.size() < 2) return {};
  rows.erase(rows.begin(), rows.begin() + 2);  // The heading, and the line below it.
  return rows;
}

bool is_test(const std::string& cell) {
  const size_t colon = cell.find(": ");
  if (colon == std::string::npos) return false;
  std::ifstream in(cat(tests::source_folder(), "/", cell.substr(0, colon)));
  std::stringstream text;
  text << in.rdbuf();
  return text.str().find(cat(", ", cell.substr(colon + 2), ")")) != std::string::npos;
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
  EXPECT_GE(rows.size(), 20u);
  for (const Row& row : rows) {
    EXPECT_NE(row.bound, "") << row.what;
    EXPECT_TRUE(is_test(row.reached)) << row.what << ": " << row.reached;
  }
}

TEST(OwnerBoundsTable, EveryRowHasATestOfAnotherOwnersStepsOrSaysWhyThereIsNone) {
  const std::string without = "none: ";
  size_t shown = 0;
  for (const Row& row : rows_of_the_readme()) {
    const bool is_shown = row.others == "the same" || is_test(row.others);
    const bool has_reason = row.others.starts_with(without) && row.others.size() > 30;
    EXPECT_TRUE(is_shown || has_reason) << row.what << ": " << row.others;
    shown += static_cast<size_t>(is_shown);
  }
  EXPECT_GE(shown, 14u);
}

}  // namespace
}  // namespace gangway::owner_bounds_test
