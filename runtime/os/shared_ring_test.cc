#include "runtime/os/shared_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "runtime/os/shared_segment.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr size_t kCapacity = 4096;
constexpr int kRecords = 20'000;

uint64_t test_seed() {
  const char* text = std::getenv("GW_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  return seed;
}

// Record number i of a seed: its size and bytes are drawn, so that both sides know them.
std::vector<std::byte> make_record(Rng& rng) {
  std::vector<std::byte> record(rng.below(rng.chance(0.1) ? ring_record_max(kCapacity) + 1 : 80));
  for (std::byte& b : record) b = static_cast<std::byte>(rng.next_u32());
  return record;
}

void write_all(std::byte* memory, uint64_t seed) {
  RingWriter writer(memory, kCapacity);
  Rng rng(seed);
  for (int i = 0; i < kRecords; ++i) {
    const std::vector<std::byte> record = make_record(rng);
    while (true) {
      const uint32_t ticket = writer.drained().ticket();
      if (writer.try_push(record.data(), record.size()) == RingStatus::kOk) break;
      writer.drained().wait(ticket, SpinPolicy::park());
    }
  }
}

// How many of the records arrived as they were made.
int read_all(std::byte* memory, uint64_t seed) {
  RingReader reader(memory, kCapacity);
  Rng rng(seed);
  for (int i = 0; i < kRecords; ++i) {
    const std::vector<std::byte> expected = make_record(rng);
    RingRecord record;
    while (true) {
      const uint32_t ticket = reader.filled().ticket();
      const RingStatus status = reader.front(record);
      if (status == RingStatus::kOk) break;
      if (status == RingStatus::kCorrupt) return i;
      reader.filled().wait(ticket, SpinPolicy::park());
    }
    if (!std::equal(record.begin(), record.end(), expected.begin(), expected.end())) return i;
    reader.pop();
  }
  return kRecords;
}

TEST(SharedRing, KeepsRandomRecordsInOrderBetweenThreads) {
  const uint64_t seed = test_seed();
  SharedSegment segment = SharedSegment::create(ring_bytes(kCapacity));
  Thread writer("writer", [&] { write_all(segment.data(), seed); });
  EXPECT_EQ(read_all(segment.data(), seed), kRecords);
}

TEST(SharedRing, KeepsRandomRecordsInOrderBetweenProcesses) {
  const uint64_t seed = test_seed();
  SharedSegment segment = SharedSegment::create(ring_bytes(kCapacity));
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      SharedSegment opened = SharedSegment::open(segment.descriptor());
      write_all(opened.data(), seed);
      status = 0;
    } catch (const Error& error) {
      report(error);
    }
    _exit(status);
  }
  EXPECT_EQ(read_all(segment.data(), seed), kRecords);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SharedRing, SaysFullEmptyAndTooLarge) {
  SharedSegment segment = SharedSegment::create(ring_bytes(256));
  RingWriter writer(segment.data(), 256);
  RingReader reader(segment.data(), 256);
  RingRecord record;
  EXPECT_EQ(reader.front(record), RingStatus::kEmpty);
  std::byte payload[200] = {};
  EXPECT_EQ(writer.try_push(payload, ring_record_max(256) + 1), RingStatus::kTooLarge);
  EXPECT_EQ(writer.try_push(payload, ring_record_max(256)), RingStatus::kOk);
  EXPECT_EQ(writer.try_push(payload, ring_record_max(256)), RingStatus::kOk);
  EXPECT_EQ(writer.try_push(payload, 100), RingStatus::kFull);
  ASSERT_EQ(reader.front(record), RingStatus::kOk);
  reader.pop();
  EXPECT_EQ(writer.try_push(payload, 100), RingStatus::kOk);
}

TEST(SharedRing, ReaderNeverLeavesTheRingWhateverThePeerWrites) {
  Rng rng(test_seed());
  for (int round = 0; round < 20'000; ++round) {
    alignas(kCacheLine) std::byte memory[ring_bytes(256)] = {};
    auto* header = reinterpret_cast<RingHeader*>(memory);
    for (size_t i = sizeof(RingHeader); i < sizeof memory; i += 4) {
      const uint32_t word = rng.chance(0.3) ? 0xffffffff : static_cast<uint32_t>(rng.below(300));
      std::memcpy(memory + i, &word, 4);
    }
    const auto start = static_cast<uint32_t>(rng.below(64) * 8);
    header->tail = start;
    RingReader reader(memory, 256);
    header->head =
        start + static_cast<uint32_t>(rng.chance(0.5) ? rng.below(40) * 8 : rng.next_u32());
    RingRecord record;
    for (int i = 0; i < 100 && reader.front(record) == RingStatus::kOk; ++i) {
      ASSERT_GE(record.data(), memory + sizeof(RingHeader));
      ASSERT_LE(record.data() + record.size(), memory + sizeof memory);
      reader.pop();
    }
  }
}

TEST(SharedRing, WriterNoticesACorruptTail) {
  alignas(kCacheLine) std::byte memory[ring_bytes(64)] = {};
  RingWriter writer(memory, 64);
  EXPECT_EQ(writer.try_push("0123456789abcdef", 16), RingStatus::kOk);
  EXPECT_EQ(writer.try_push("0123456789abcdef", 16), RingStatus::kOk);
  reinterpret_cast<RingHeader*>(memory)->tail = 4096;
  EXPECT_EQ(writer.try_push("0123456789abcdef", 16), RingStatus::kCorrupt);
  EXPECT_EQ(writer.try_push("", 0), RingStatus::kCorrupt);
}

std::string open_error(const SegmentDescriptor& descriptor) {
  try {
    (void)SharedSegment::open(descriptor);
  } catch (const Error& error) {
    return cat(to_string(error.kind()), ": ", error.what());
  }
  return "no error";
}

TEST(SharedSegment, IsOneMemoryUnderTwoMappings) {
  SharedSegment one = SharedSegment::create(100);
  SharedSegment two = SharedSegment::open(one.descriptor());
  EXPECT_NE(one.data(), two.data());
  one.data()[99] = std::byte{7};
  EXPECT_EQ(two.data()[99], std::byte{7});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(two.data()) % 64, 0u);
}

TEST(SharedSegment, RefusesDescriptorsThatDoNotFit) {
  SharedSegment segment = SharedSegment::create(100);
  SegmentDescriptor d = segment.descriptor();
  d.token ^= 1;
  EXPECT_THAT(open_error(d), HasSubstr("invalid: shared memory: /proc/"));
  d = segment.descriptor();
  d.bytes = 1000;
  EXPECT_THAT(open_error(d), HasSubstr("has 164 bytes, expected 1064"));
  d = segment.descriptor();
  d.fd = 0;
  EXPECT_THAT(open_error(d),
              testing::AnyOf(HasSubstr("not a sealed segment"), HasSubstr("none with")));
  d.pid = -1;
  EXPECT_THAT(open_error(d), HasSubstr("not a descriptor"));
}

TEST(SharedSegment, OfAProcessThatEndedIsUnavailable) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(open_error({.pid = child, .fd = 3, .bytes = 100, .token = 1}),
              HasSubstr("unavailable: shared memory: none with process"));
}

}  // namespace
}  // namespace gangway
