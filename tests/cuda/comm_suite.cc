#include "tests/cuda/comm_suite.h"

#include <algorithm>

#include "runtime/os/thread.h"

namespace gangway {
namespace {

using cuda::CommHandle;
using cuda::Message;
using cuda::StatusKind;

constexpr int64_t kElements = 301;

// One member: its card, its stream, its communicator.
class Rank {
 public:
  Rank(Card card, uint32_t rank, uint32_t size)
      : driver(card.driver),
        rank_(rank),
        size_(size),
        stream_(driver->make_stream("communication").take()),
        card_(std::move(card)) {}
  ~Rank() {
    if (comm) driver->destroy(comm);
    driver->destroy(stream_);
  }
  Rank(Rank&&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  cuda::At at(std::string_view label) const { return {stream_, label}; }
  std::string report() const { return card_.report(); }

  bool connect(const cuda::CommId& id) {
    const auto made = driver->create_comm(id, rank_, size_);
    if (!made.ok()) return false;
    comm = made.value();
    cuda::Status status = driver->query(comm);
    while (status.kind == StatusKind::kNotReady) status = driver->query(comm);
    return status.ok();
  }
  // A buffer whose element i is value(i).
  float* filled(int64_t n, const std::function<float(int64_t)>& value) {
    auto* const staging = pinned(n);
    driver->host_access({staging, n * 4, cuda::AccessKind::kWrite}, "fill");
    for (int64_t i = 0; i < n; ++i) staging[i] = value(i);
    float* const data = buffer(n);
    EXPECT_TRUE(driver->copy(at("fill"), data, staging, n * 4).ok());
    return data;
  }
  float* buffer(int64_t n) {
    return reinterpret_cast<float*>(driver->allocate(at("buffer"), n * 4).take());
  }
  // Answers whether every element i is value(i).
  bool holds(const float* data, int64_t n, const std::function<float(int64_t)>& value) {
    auto* const staging = pinned(n);
    if (!driver->copy(at("look"), staging, data, n * 4).ok()) return false;
    if (!driver->synchronize(stream_).ok()) return false;
    driver->host_access({staging, n * 4, cuda::AccessKind::kRead}, "look");
    for (int64_t i = 0; i < n; ++i) {
      if (staging[i] != value(i)) return false;
    }
    return true;
  }
  bool sums() {
    float* const data = filled(kElements, [](int64_t i) { return static_cast<float>(i); });
    const CollectiveTensor tensor{data, data, kElements, DType::kF32};
    return driver->all_reduce(at("sum"), comm, {&tensor, 1}, Reduction::kSum).ok() &&
           holds(data, kElements, [this](int64_t i) { return static_cast<float>(i * size_); });
  }
  cuda::StreamHandle stream() const { return stream_; }

  const std::shared_ptr<cuda::Driver> driver;
  CommHandle comm;

 private:
  float* pinned(int64_t n) {
    return reinterpret_cast<float*>(driver->allocate_pinned(n * 4).take());
  }

  const uint32_t rank_, size_;
  const cuda::StreamHandle stream_;
  const Card card_;
};

// Runs `body` for each member on a thread of its own, since a call may wait for another member's.
void for_each_rank(const CommMaker& maker, const std::function<void(Rank&)>& body) {
  std::vector<Card> cards = maker.make();
  const auto size = static_cast<uint32_t>(cards.size());
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t r = 0; r < size; ++r) ranks.push_back(std::make_unique<Rank>(cards[r], r, size));
  {
    std::vector<Thread> threads;
    for (auto& rank : ranks) threads.emplace_back("rank", [&] { body(*rank); });
  }
  ranks.clear();
  for (const Card& card : cards) EXPECT_EQ(card.report(), "");
}

// The id that all members of a test use, created before they begin.
cuda::CommId id_of(const CommMaker& maker, std::vector<Card>& cards) {
  cards = maker.make();
  return cards[0].driver->new_comm_id().take();
}

// Like for_each_rank(), but connects all members first.
void for_each_connected(const CommMaker& maker, const std::function<void(Rank&)>& body) {
  std::vector<Card> cards;
  const cuda::CommId id = id_of(maker, cards);
  for_each_rank({maker.name, maker.why_missing, [&] { return cards; }}, [&](Rank& rank) {
    ASSERT_TRUE(rank.connect(id));
    body(rank);
  });
}

TEST_P(CardComms, ReduceGatherScatterSwapAndBroadcast) {
  for_each_connected(GetParam(), [](Rank& rank) {
    const auto size = static_cast<int64_t>(rank.size());
    const auto me = static_cast<int64_t>(rank.rank());
    const auto mine = [me](int64_t i) { return static_cast<float>(1000 * me + i); };
    const auto last = [size](int64_t i) { return static_cast<float>(1000 * (size - 1) + i); };
    const auto all = [](int64_t i) {
      return static_cast<float>(1000 * (i / kElements) + i % kElements);
    };
    cuda::Driver& driver = *rank.driver;
    float* const in = rank.filled(kElements, mine);
    float* const wide = rank.filled(kElements * size, mine);
    float *out = rank.buffer(kElements), *wide_out = rank.buffer(kElements * size);
    CollectiveTensor tensor{in, out, kElements, DType::kF32};
    ASSERT_TRUE(driver.all_reduce(rank.at("max"), rank.comm, {&tensor, 1}, Reduction::kMax).ok());
    EXPECT_TRUE(rank.holds(out, kElements, last));
    ASSERT_TRUE(driver.all_reduce(rank.at("min"), rank.comm, {&tensor, 1}, Reduction::kMin).ok());
    EXPECT_TRUE(rank.holds(out, kElements, [](int64_t i) { return static_cast<float>(i); }));
    tensor.out = wide_out;
    ASSERT_TRUE(driver.all_gather(rank.at("gather"), rank.comm, {&tensor, 1}).ok());
    EXPECT_TRUE(rank.holds(wide_out, kElements * size, all));
    tensor = {in, out, kElements, DType::kF32};
    ASSERT_TRUE(
        driver.broadcast(rank.at("broadcast"), rank.comm, {&tensor, 1}, rank.size() - 1).ok());
    EXPECT_TRUE(rank.holds(out, kElements, last));
    tensor = {wide, out, kElements, DType::kF32};
    ASSERT_TRUE(
        driver.reduce_scatter(rank.at("scatter"), rank.comm, {&tensor, 1}, Reduction::kMax).ok());
    EXPECT_TRUE(rank.holds(out, kElements, [&](int64_t i) { return last(kElements * me + i); }));
  });
}

TEST_P(CardComms, SendAndReceiveAsOneOperation) {
  for_each_connected(GetParam(), [](Rank& rank) {
    const uint32_t to = (rank.rank() + 1) % rank.size();
    const uint32_t from = (rank.rank() + rank.size() - 1) % rank.size();
    float* const in =
        rank.filled(kElements, [&](int64_t i) { return static_cast<float>(rank.rank() + i); });
    float* const out = rank.buffer(kElements);
    const Message messages[] = {{Message::kSend, to, in, kElements * 4},
                                {Message::kReceive, from, out, kElements * 4}};
    ASSERT_TRUE(rank.driver->exchange(rank.at("round"), rank.comm, messages).ok());
    EXPECT_TRUE(
        rank.holds(out, kElements, [from](int64_t i) { return static_cast<float>(from + i); }));
  });
}

TEST_P(CardComms, ReduceInsideAGraphAtEachOfItsLaunches) {
  for_each_connected(GetParam(), [](Rank& rank) {
    float* const data = rank.filled(kElements, [](int64_t i) { return static_cast<float>(i); });
    const CollectiveTensor tensor{data, data, kElements, DType::kF32};
    ASSERT_TRUE(rank.driver->begin_capture(rank.stream()).ok());
    ASSERT_TRUE(
        rank.driver->all_reduce(rank.at("sum"), rank.comm, {&tensor, 1}, Reduction::kSum).ok());
    const cuda::GraphHandle graph = rank.driver->end_capture(rank.stream()).take();
    for (int launch = 0; launch < 3; ++launch)
      ASSERT_TRUE(rank.driver->launch(rank.at("step"), graph).ok());
    const auto scale = static_cast<float>(rank.size() * rank.size() * rank.size());
    EXPECT_TRUE(
        rank.holds(data, kElements, [scale](int64_t i) { return scale * static_cast<float>(i); }));
    rank.driver->destroy(graph);
  });
}

TEST_P(CardComms, AnAbortedCommunicatorIsCreatedAnew) {
  std::vector<Card> cards;
  const cuda::CommId first = id_of(GetParam(), cards);
  const cuda::CommId second = cards[0].driver->new_comm_id().take();
  const CommMaker same{GetParam().name, GetParam().why_missing, [&] { return cards; }};
  for_each_rank(same, [&](Rank& rank) {
    ASSERT_TRUE(rank.connect(first));
    EXPECT_TRUE(rank.sums());
    ASSERT_TRUE(rank.driver->abort(rank.comm).ok());
    EXPECT_EQ(rank.driver->query(rank.comm).kind, StatusKind::kAborted);
    rank.driver->destroy(rank.comm);
    ASSERT_TRUE(rank.connect(second));
    EXPECT_TRUE(rank.sums());
  });
}

TEST_P(CardComms, AMemberThatNeverComesIsWaitedForUntilAbort) {
  std::vector<Card> cards;
  const cuda::CommId id = id_of(GetParam(), cards);
  const CommMaker same{GetParam().name, GetParam().why_missing, [&] { return cards; }};
  for_each_rank(same, [&](Rank& rank) {
    rank.comm = rank.driver->create_comm(id, rank.rank(), rank.size() + 1).take();
    for (int look = 0; look < 100; ++look)
      ASSERT_EQ(rank.driver->query(rank.comm).kind, StatusKind::kNotReady);
    ASSERT_TRUE(rank.driver->abort(rank.comm).ok());
    EXPECT_EQ(rank.driver->query(rank.comm).kind, StatusKind::kAborted);
  });
}

}  // namespace
}  // namespace gangway
