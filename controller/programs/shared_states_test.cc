// Tests the sequence point at which a version of a program's states is read, and who may read it.
#include "controller/programs/shared_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Program counting() {
  ProgramBuilder b("counting", Mesh{{{"data", 4}}});
  for (const char* const state : {"v", "w"}) {
    const Value s = b.state(state, zeros(f32()));
    b.update(s, s + 1.0);
  }
  return b.build();
}

// The result of a call of read().
struct Ended {
  std::optional<uint64_t> version, past;
  std::optional<Error> error;
  bool is_settled = false;
};

// ada's program "tester" counts; bob is a reader.
class SharedStatesTest : public ControllerTest {
 protected:
  SharedStatesTest() {
    bob_ = controller_.programs().add("evaluator", "bob", reader_);
    plan_ = reactor_->run([&] {
      slice_ = controller_.allocate(session_, {4}).id;
      return compile_counting(session_, slice_);
    });
    states().allow_read(session_, slice_, "bob");
  }
  ~SharedStatesTest() override {
    for (SessionId id : {session_, bob_}) controller_.session_closed(id);
    end_transfers();
    reactor_->run_ready();
  }

  PlanId compile_counting(SessionId session, SliceId slice, uint32_t runs_in_flight_max = 16) {
    return controller_.compile(session, counting(), {slice}, {runs_in_flight_max}).id;
  }
  SharedStateTable& states() { return controller_.tables().shared_states; }

  // Submits the next run of the chain, to commit behind `after`; none: behind the run before it.
  uint64_t run(std::optional<RunId> after = {}) {
    const RunId run((session_.value << 40) + ++names_);
    controller_.on_message(session_,
                           RunFrame{.plan = plan_, .run = run, .after = after.value_or(last_)});
    last_ = run;
    return ++runs_;
  }
  void fail(uint64_t run) {
    for (size_t host : {0, 1}) finish(host, RunId(run), Error(ErrorKind::kInvalid, "not finite"));
  }

  SharedStateTable::Request request(std::optional<uint64_t> version) const {
    SharedStateTable::Request request{
        .slice = slice_, .segment = {.bytes = 64}, .parts = {{"v", 0, 4}, {"w", 4, 4}}};
    if (version) request.version = StateVersion(*version);
    return request;
  }
  std::shared_ptr<Ended> read(std::optional<uint64_t> version, SessionId reader = {}) {
    return read(request(version), reader);
  }
  std::shared_ptr<Ended> read(SharedStateTable::Request request, SessionId reader = {}) {
    auto ended = std::make_shared<Ended>();
    if (reader == SessionId()) reader = bob_;
    reactor_
        ->spawn("read",
                [this, ended, reader, request = std::move(request)] {
                  const StatesRead read = controller_.tables().shared_states.read(reader, request);
                  ended->error = read.error;
                  ended->is_settled = read.is_settled;
                  if (read.how == StatesRead::How::kHere) ended->version = read.version.value;
                  if (read.how == StatesRead::How::kPast) ended->past = read.version.value;
                })
        .detach();
    reactor_->run_ready();
    return ended;
  }

  std::vector<HostTransferFrame> transfers() const { return executor_[0].all<HostTransferFrame>(); }
  // The hosts report the end of all copies that they have not answered.
  void end_transfers(const std::optional<Error>& error = {}) {
    for (size_t host : {0, 1}) {
      const std::vector<HostTransferFrame> all = executor_[host].all<HostTransferFrame>();
      for (; answered_[host] < all.size(); ++answered_[host])
        controller_.on_message(hosts_[host],
                               HostTransferDoneFrame{all[answered_[host]].request, error});
    }
    reactor_->run_ready();
  }
  // One letter for each ticket that a host got, of a run ("r") or of a copy ("c").
  std::string order(size_t host = 0) const {
    std::string order;
    uint64_t last = 0;
    for (const Message& message : executor_[host].received) {
      if (const auto* transfer = std::get_if<HostTransferFrame>(&message)) {
        EXPECT_GT(transfer->ticket.value, last);
        last = transfer->ticket.value;
        order += 'c';
      }
      const auto* grant = std::get_if<GrantFrame>(&message);
      if (grant == nullptr) continue;
      for (const GrantRange& range : grant->ranges) {
        EXPECT_GT(range.ticket.value, last);
        last = range.ticket.value;
        order += 'r';
      }
    }
    return order;
  }

  FakeClient reader_;
  SessionId bob_;
  PlanId plan_;
  RunId last_;
  uint64_t runs_ = 0;
  size_t answered_[2] = {0, 0};
};

TEST_F(SharedStatesTest, AVersionIsReadBehindItsRunOnAllHostsAndBeforeTheNext) {
  run();
  const auto ended = read(3);
  run();
  EXPECT_THAT(transfers(), IsEmpty());
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(order(0), "rrrccrr");
  EXPECT_EQ(order(1), "rrrccrr");
  EXPECT_EQ(transfers()[0].name + transfers()[1].name, "vw");
  end_transfers();
  for (uint64_t i = 1; i <= 2; ++i) finish_everywhere(i);
  reactor_->run_ready();
  EXPECT_FALSE(ended->version) << "whether the third commits is not known";
  finish_everywhere(3);
  reactor_->run_ready();
  EXPECT_EQ(ended->version, 3u);
  EXPECT_EQ(states().under_way(), 0u);
}

TEST_F(SharedStatesTest, TheCurrentVersionIsReadAtOnce) {
  const auto none_yet = read(0);
  end_transfers();
  EXPECT_EQ(none_yet->version, 0u);
  finish_everywhere(run());
  const auto named = read(1), latest = read(std::nullopt);
  end_transfers();
  EXPECT_EQ(named->version, 1u);
  EXPECT_EQ(latest->version, 1u);
}

TEST_F(SharedStatesTest, TheLatestIsTheVersionBehindTheRunsThatHaveBegun) {
  run();
  run();
  const auto ended = read(std::nullopt);
  run();
  EXPECT_EQ(order(), "rrccr");
  end_transfers();
  finish_everywhere(1);
  finish_everywhere(2);
  reactor_->run_ready();
  EXPECT_EQ(ended->version, 2u);
}

TEST_F(SharedStatesTest, ARunThatUpdatesNothingIsNoVersionThoughItGuardsAnOutput) {
  ProgramBuilder b("guarded", Mesh{{{"data", 4}}});
  b.output("twice", b.state("v", zeros(f32())) * 2.0);
  b.require_finite("twice");
  const PlanId guarded =
      reactor_->run([&] { return controller_.compile(session_, b.build(), {slice_}, {16}).id; });
  const uint64_t first = session_.value << 40;
  controller_.on_message(
      session_,
      RunFrame{.plan = guarded, .run = RunId(first + 1), .outputs = {ArrayId(first + 2)}});
  finish_everywhere(1);
  const auto ended = read(std::nullopt);
  end_transfers();
  EXPECT_EQ(ended->version, 0u);
}

TEST_F(SharedStatesTest, AVersionThatIsPastIsRefusedWithTheVersionOfTheProgram) {
  for (int i = 0; i < 4; ++i) finish_everywhere(run());
  const auto ended = read(2);
  EXPECT_EQ(ended->past, 4u);
  EXPECT_FALSE(ended->version || ended->error);
  EXPECT_THAT(transfers(), IsEmpty());
}

// Runs behind a run that fails do not commit either.
TEST_F(SharedStatesTest, AVersionIsWaitedForAgainWhereARunBeforeItsPlaceFails) {
  run();
  run();
  const auto ended = read(3);
  run();
  EXPECT_EQ(order(), "rrrcc");
  finish_everywhere(1);
  fail(2);
  fail(3);
  end_transfers();
  EXPECT_FALSE(ended->version || ended->error);
  run(RunId());  // A new chain.
  EXPECT_EQ(order(), "rrrccr");
  run();
  EXPECT_EQ(order(), "rrrccrrcc");
  run();
  finish_everywhere(4);
  finish_everywhere(5);
  reactor_->run_ready();
  EXPECT_FALSE(ended->version) << "its copies have not ended";
  end_transfers();
  EXPECT_EQ(ended->version, 3u);
}

// The second program's runs do not depend on the run that failed.
TEST_F(SharedStatesTest, AVersionMissedForAnotherProgramOfTheSliceIsReportedAsPast) {
  const PlanId first = plan_;
  const PlanId second = reactor_->run([&] { return compile_counting(session_, slice_); });
  const auto ended = read(2);
  run();  // A run of the first program, which fails.
  plan_ = second;
  run(RunId());
  EXPECT_EQ(order(), "rrcc");
  run();
  run();
  fail(1);
  end_transfers();
  EXPECT_EQ(ended->past, 3u);
  EXPECT_FALSE(ended->version || ended->error);
  plan_ = first;
}

TEST_F(SharedStatesTest, ARunWaitsForOneCopyOfTheLatestAtMost) {
  plan_ = reactor_->run([&] { return compile_counting(session_, slice_, 1); });
  run();
  run();  // It waits: there is room for one run in flight.
  const auto first = read(std::nullopt), second = read(std::nullopt);
  EXPECT_EQ(order(), "rcc");
  finish_everywhere(1);
  EXPECT_EQ(order(), "rccrcc");
  end_transfers();
  EXPECT_EQ(first->version, 1u);
  finish_everywhere(2);
  reactor_->run_ready();
  EXPECT_EQ(second->version, 2u);
}

TEST_F(SharedStatesTest, AReaderWithoutPermissionGetsTheErrorOfAnUnknownProgram) {
  FakeClient evil;
  const SessionId eve = controller_.programs().add("evil", "eve", evil);
  const auto text = [&](const std::string& program) {
    const Error error = error_of([&] { states().open(eve, program); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    std::string reported = error.what();
    reported.replace(reported.find(program), program.size(), "PROGRAM");
    return reported;
  };
  EXPECT_EQ(text("ada/tester"), text("ada/nothing"));
  EXPECT_EQ(text("ada/tester"), text("nobody/tester"));
  EXPECT_EQ(text("ada/tester"), text("tester"));

  const auto denied = read(request(0), eve);
  SharedStateTable::Request none = request(0);
  none.slice = SliceId(4711);
  const auto nothing = read(none, eve);
  ASSERT_TRUE(denied->error && nothing->error);
  EXPECT_EQ(denied->error->kind(), ErrorKind::kUnavailable);
  EXPECT_STREQ(denied->error->what(), nothing->error->what());
  EXPECT_THAT(transfers(), IsEmpty());

  EXPECT_EQ(error_of([&] { states().allow_read(eve, slice_, "eve"); }).kind(), ErrorKind::kInvalid);
  states().allow_read(session_, slice_, "*");
  EXPECT_EQ(states().open(eve, "ada/tester").states.size(), 2u);
  controller_.session_closed(eve);
}

TEST_F(SharedStatesTest, AProgramThatIsBroughtBackIsThereForThoseAloneWhoMayReadIt) {
  FakeClient evil, waits;
  const SessionId eve = controller_.programs().add("evil", "eve", evil);
  const SessionId later = controller_.programs().add("later", "ada", waits);
  states().begin_resuming(later, {"bob"});
  for (const SessionId reader : {bob_, session_}) {
    const Error early = error_of([&] { states().open(reader, "ada/later"); });
    EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(early.what(), HasSubstr("\"ada/later\" is brought back behind a restart"));
    // Only its owner is shown what it waits for.
    EXPECT_EQ(early.hint(), reader == bob_
                                ? "try again later"
                                : "try again later; \"gangway ps\" may show what it waits for");
  }
  EXPECT_THAT(error_text_of([&] { states().open(eve, "ada/later"); }),
              HasSubstr("there is no program \"ada/later\""));
  controller_.session_closed(later);
  EXPECT_THAT(error_text_of([&] { states().open(bob_, "ada/later"); }),
              HasSubstr("there is no program \"ada/later\""));
  controller_.session_closed(eve);
}

TEST_F(SharedStatesTest, AnOwnerReadsItsOwnProgramsByTheirNamesAlone) {
  FakeClient other;
  const SessionId again = controller_.programs().add("again", "ada", other);
  const SliceId own = reactor_->run([&] {
    const SliceId slice = controller_.allocate(again, {4}).id;
    compile_counting(again, slice);
    return slice;
  });
  EXPECT_EQ(states().open(session_, "again").slice, own);
  EXPECT_EQ(states().open(session_, "ada/again").slice, own);
  EXPECT_THAT(error_text_of([&] { states().open(bob_, "ada/again"); }),
              HasSubstr("there is no program \"ada/again\""));
  reactor_->run([&] { compile_counting(again, controller_.allocate(again, {4}).id); });
  EXPECT_THAT(error_text_of([&] { states().open(session_, "again"); }),
              HasSubstr("has states in 2 slices"));
  states().allow_read(again, own, "bob");
  EXPECT_EQ(states().open(session_, "again").slice, own);
  controller_.session_closed(again);
}

TEST_F(SharedStatesTest, InvalidReadPermissionsAreRefused) {
  EXPECT_THAT(error_text_of([&] { states().allow_read(session_, slice_, "no such owner"); }),
              HasSubstr("\"no such owner\" is no owner"));
  const SliceId second = reactor_->run([&] { return controller_.allocate(session_, {4}).id; });
  EXPECT_THAT(error_text_of([&] { states().allow_read(session_, second, "bob"); }),
              HasSubstr("another slice of this program already"));
  for (size_t i = 1; i < SharedStateTable::kReadersMax; ++i)
    states().allow_read(session_, slice_, cat("reader-", i));
  states().allow_read(session_, slice_, "bob");
  EXPECT_THAT(error_text_of([&] { states().allow_read(session_, slice_, "one-more"); }),
              HasSubstr("expected at most 64 owners"));
}

TEST_F(SharedStatesTest, ReadsOfUnknownOrMismatchedStatesAreRefused) {
  SharedStateTable::Request wrong = request(0);
  wrong.parts[1].bytes = 8;
  EXPECT_THAT(read(wrong)->error->what(), HasSubstr("state \"w\": expected 4 bytes for f32[]"));
  wrong.parts = {{"v", 0, 4}, {"v", 4, 4}};
  EXPECT_THAT(read(wrong)->error->what(), HasSubstr("asked for twice"));
  wrong.parts = {{"u", 0, 4}};
  EXPECT_THAT(read(wrong)->error->what(), HasSubstr("none of this name"));
  std::vector<std::shared_ptr<Ended>> waiting;
  for (size_t i = 0; i < SharedStateTable::kReadsMax; ++i) waiting.push_back(read(5));
  EXPECT_EQ(read(5)->error->kind(), ErrorKind::kOverloaded);
  for (const auto& one : waiting) EXPECT_FALSE(one->error);
}

TEST_F(SharedStatesTest, AReaderThatGoesLeavesNothingAndTheProgramGoesOn) {
  const auto waits = read(7), copied = read(1);
  run();
  EXPECT_EQ(order(), "rcc");
  controller_.session_closed(bob_);
  reactor_->run_ready();
  EXPECT_EQ(waits->error->kind(), ErrorKind::kUnavailable);
  EXPECT_FALSE(copied->error) << "hosts may still write into its memory";
  end_transfers();
  EXPECT_EQ(copied->error->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(controller_.counts().transfers, 0u);
  finish_everywhere(1);
  run();
  EXPECT_EQ(order(), "rccr");
}

TEST_F(SharedStatesTest, AReadThatWaitsForAVersionFailsWhenTheProgramEnds) {
  const auto waits = read(7);
  run();
  const auto copied = read(1);
  controller_.session_closed(session_);
  reactor_->run_ready();
  EXPECT_FALSE(waits->error) << "its last run has not ended";
  finish_everywhere(1);
  reactor_->run_ready();
  EXPECT_EQ(waits->error->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(waits->error->what(), HasSubstr("their program has ended"));
  end_transfers();
  EXPECT_EQ(copied->version, 1u) << "its copies came before the states were freed";
  EXPECT_EQ(read(8)->error->kind(), ErrorKind::kUnavailable);
}

TEST_F(SharedStatesTest, AnErrorSaysThatNoHostWritesAnyMoreWhereThatIsKnown) {
  SharedStateTable::Request wrong = request(0);
  wrong.parts[1].bytes = 8;
  const auto refused = read(wrong);
  EXPECT_TRUE(refused->error && refused->is_settled) << "no host was asked";
  const auto failed = read(0);
  end_transfers(Error(ErrorKind::kUnavailable, "no room to map it"));
  EXPECT_TRUE(failed->error && failed->is_settled) << "each host has said that it is done";
  const auto lost = read(0);
  lose(1);
  end_transfers();
  EXPECT_TRUE(lost->error);
  EXPECT_FALSE(lost->is_settled) << "the lost host may go on";
}

TEST_F(SharedStatesTest, AReadFailsWhenAHostIsLostAndNoHostWritesAnyMore) {
  const auto ended = read(0);
  EXPECT_EQ(order(), "cc");
  lose(1);
  reactor_->run_ready();
  EXPECT_FALSE(ended->error) << "the other host still writes";
  end_transfers();
  EXPECT_EQ(ended->error->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(read(std::nullopt)->error->kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace gangway
