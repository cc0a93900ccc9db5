#include "executor/transfers/transfer_channel.h"

#include <gtest/gtest.h>

#include <cstring>

#include "executor/links/sim_link.h"

namespace gangway {
namespace {

// The two ends of one transfer, on two hosts.
struct Pair {
  Pair(int64_t payload_bytes, uint32_t count) : slots(payload_bytes, count) {
    AreaList of_receiver, of_sender;
    of_receiver.add("inbox", slots.bytes());
    of_sender.add("released", 8);
    SimLink here(fabric, bells(rung_sender)), there(fabric, bells(rung_receiver));
    sender_memory = here.offer(of_sender);
    receiver_memory = there.offer(of_receiver);
    to_receiver = here.open(receiver_memory->offer());
    to_sender = there.open(sender_memory->offer());
    const uint64_t inbox = to_receiver->place("inbox", slots.bytes());
    const uint64_t released = to_sender->place("released", 8);
    sender = TransferSender(slots, sender_memory->word(released), {to_receiver.get(), inbox, 0});
    receiver = TransferReceiver(slots, receiver_memory->at(inbox), {to_sender.get(), released, 0});
  }

  static std::vector<Bell> bells(int& count) {
    return {{nullptr, std::make_shared<const std::function<void()>>([&count] { ++count; })}};
  }
  void send(uint64_t run, int value) {
    std::memset(sender.payload(run), value, static_cast<size_t>(slots.payload_bytes()));
    sender.send(run, false);
  }
  bool arrived(uint64_t run) const {
    return receiver.arrival(run).load() >= TransferSlots::stamped(run, false);
  }
  bool holds(uint64_t run, int value) const {
    for (int64_t i = 0; i < slots.payload_bytes(); ++i) {
      if (receiver.payload(run)[i] != static_cast<std::byte>(value)) return false;
    }
    return arrived(run);
  }

  std::shared_ptr<SimFabric> fabric = std::make_shared<SimFabric>();
  int rung_sender = 0, rung_receiver = 0;
  TransferSlots slots;
  std::shared_ptr<OwnMemory> sender_memory, receiver_memory;
  std::shared_ptr<PeerMemory> to_receiver, to_sender;
  TransferSender sender;
  TransferReceiver receiver;
};

TEST(TransferChannelTest, RunsGoThroughTheSlotsInTurnAndWaitForOneThatIsReleased) {
  for (const int64_t bytes : {1, 56, 57, 1000}) {
    Pair pair(bytes, 2);
    EXPECT_FALSE(pair.arrived(0));
    for (uint64_t run = 0; run < 9; ++run) {
      ASSERT_TRUE(pair.sender.may_send(run)) << bytes << " bytes, run " << run;
      pair.send(run, static_cast<int>(run));
      EXPECT_TRUE(pair.holds(run, static_cast<int>(run)));
      EXPECT_FALSE(pair.receiver.poisoned(run));
      EXPECT_FALSE(pair.arrived(run + 2)) << "its slot still holds what came before";
      if (run == 0) continue;
      EXPECT_TRUE(pair.holds(run - 1, static_cast<int>(run - 1)));
      EXPECT_FALSE(pair.sender.may_send(run + 1)) << "both slots are taken";
      pair.receiver.release(run - 1);
      EXPECT_TRUE(pair.sender.may_send(run + 1));
    }
    EXPECT_EQ(pair.rung_receiver, 9);
  }
}

TEST(TransferChannelTest, APoisonedSendArrivesWithoutAPayload) {
  Pair pair(100, 1);
  pair.send(0, 5);
  pair.receiver.release(0);
  pair.sender.send(1, true);
  EXPECT_TRUE(pair.arrived(1));
  EXPECT_TRUE(pair.receiver.poisoned(1));
  pair.receiver.release(1);
  pair.send(2, 6);
  EXPECT_TRUE(pair.holds(2, 6));
  EXPECT_FALSE(pair.receiver.poisoned(2));
}

TEST(TransferChannelTest, AReleaseIsWrittenToTheSendersMemoryWithoutRinging) {
  Pair pair(8, 1);
  pair.send(0, 1);
  pair.receiver.release(0);
  EXPECT_EQ(pair.sender_memory->word(pair.sender_memory->place("released", 8)).load(), 1u);
  EXPECT_EQ(pair.rung_sender, 0);
  pair.receiver.sender().ring();
  EXPECT_EQ(pair.rung_sender, 1);
}

}  // namespace
}  // namespace gangway
