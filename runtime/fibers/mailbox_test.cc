#include "runtime/fibers/mailbox.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/fibers/reactor.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

TEST(Mailbox, PostWakesASleepingReactor) {
  auto reactor = Reactor::make_real();
  bool arrived = false;
  Thread sender("sender", [&] { reactor->mailbox().post([&] { arrived = true; }); });
  reactor->run_until([&] { return arrived; });
  EXPECT_TRUE(arrived);
}

TEST(Mailbox, KeepsEachSendersOrderUnderContention) {
  constexpr int kSenders = 4, kMails = 20'000;
  auto reactor = Reactor::make_real();
  std::vector<int> next(kSenders, 0);
  int delivered = 0, out_of_order = 0;
  std::vector<Thread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back("sender", [&, s] {
      for (int i = 0; i < kMails; ++i) {
        reactor->mailbox().post([&, s, i] {
          out_of_order += next[static_cast<size_t>(s)]++ != i;
          ++delivered;
        });
      }
    });
  }
  reactor->run_until([&] { return delivered == kSenders * kMails; });
  EXPECT_EQ(out_of_order, 0);
}

TEST(Mailbox, IntrusiveMailIsPostedAgainAfterDeliveryWithoutAllocating) {
  struct Counter : Mail {
    Counter() : Mail([](Mail& mail) { ++static_cast<Counter&>(mail).count; }) {}
    int count = 0;
  } counter;
  auto reactor = Reactor::make_simulated();
  for (int i = 0; i < 3; ++i) {
    reactor->mailbox().post(static_cast<Mail&>(counter));
    reactor->run_ready();
  }
  EXPECT_EQ(counter.count, 3);
}

TEST(Mailbox, MailThatTheReactorPostsToItselfRunsInItsNextTurn) {
  auto reactor = Reactor::make_simulated();
  std::vector<int> order;
  reactor->run([&] {
    reactor->mailbox().post([&] { order.push_back(2); });
    order.push_back(1);
  });
  reactor->run_ready();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Mailbox, MailThatSuspendsIsABug) {
  auto reactor = Reactor::make_simulated();
  std::string text;
  reactor->mailbox().post([&] {
    try {
      WaitQueue queue;
      queue.wait("for nothing");
    } catch (const Error& error) {
      text = error.what();
    }
  });
  reactor->run_ready();
  EXPECT_NE(text.find("waits for nothing: it must spawn a fiber"), std::string::npos) << text;
}

TEST(Mailbox, TwoReactorsInTwoThreadsReachEachOther) {
  auto mine = Reactor::make_real();
  std::atomic<Mailbox*> theirs{nullptr};
  bool answered = false, asked = false;
  Thread other("other", [&] {
    auto reactor = Reactor::make_real();
    theirs = &reactor->mailbox();
    mine->mailbox().post([&] { theirs.load()->post([&] { asked = true; }); });
    reactor->run_until([&] { return asked; });
    mine->mailbox().post([&] { answered = true; });
  });
  mine->run_until([&] { return answered; });
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace gangway
