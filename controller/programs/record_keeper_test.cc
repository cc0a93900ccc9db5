#include "controller/programs/record_keeper.h"

#include <gmock/gmock.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/wire/wire.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Program program_that_counts(const std::string& name) {
  ProgramBuilder b(name, Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32()));
  b.update(w, w + 1.0);
  b.output("w", w);
  return b.build();
}

class RecordKeeperTest : public ControllerTest {
 protected:
  RecordKeeperTest() {
    for (FakeExecutor& executor : executor_)
      keeping_.add_host({.name = "host", .devices = 2}, executor);
  }

  // A program with two executables on one slice, which keeps checkpoints.
  SessionId begin(TakenName taken) {
    return reactor_->run([&] {
      const SessionId id = keeping_.programs().add("trainer", "ada", user_, {}, taken);
      slice_ = keeping_.allocate(id, {4}).id;
      step_ = compile_named(id, "step");
      other_ = compile_named(id, "other");
      keeping_.keep_checkpoints(id, slice_, {.every = 1'000'000});
      return id;
    });
  }
  PlanId compile_named(SessionId id, const std::string& name) {
    const Program program = program_that_counts(name);
    const PlanId plan = keeping_.compile(id, program, {slice_}, {2}).id;
    keeping_.programs().open(id).name_executable(
        plan, {.name = name,
               .program = std::make_shared<const std::vector<std::byte>>(to_wire(program))});
    return plan;
  }
  void repeat(SessionId id, PlanId plan) {
    RepeatRequest asked{.number = ++number_, .plan = plan, .steps = 4};
    asked.first = RunId((id.value << 40) + 100'000 * number_);
    reactor_->run([&] { keeping_.repeat(id, asked); });
  }
  std::vector<WarningFrame> warnings() const { return all_of<WarningFrame>(user_.received); }

  FakeClient user_;
  Controller keeping_{*reactor_, {.checkpoint_folder = "/nowhere"}};
  PlanId step_, other_;
  uint64_t number_ = 0;
};

TEST_F(RecordKeeperTest, AProgramHasARecordWhereOnlyARepetitionChangesItsStates) {
  const SessionId id = begin(TakenName::kRefused);
  EXPECT_FALSE(keeping_.programs().record_of(id)) << "nothing is repeated";
  repeat(id, step_);
  const std::optional<ProgramRecord> record = keeping_.programs().record_of(id);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->name, "trainer");
  EXPECT_EQ(record->owner, "ada");
  EXPECT_EQ(record->repetition.steps, 4);
  EXPECT_EQ(record->repetition.first_version, 0u);
  EXPECT_THAT(record->slices, SizeIs(1));
  ASSERT_THAT(record->executables, SizeIs(2));
  EXPECT_EQ(record->executables[record->repetition.executable].name, "step");
  keeping_.session_closed(id);
  EXPECT_FALSE(keeping_.programs().record_of(id));
}

TEST_F(RecordKeeperTest, ARunThatChangesTheStatesTooEndsTheRecordAndItsUserIsWarned) {
  const SessionId id = begin(TakenName::kRefused);
  repeat(id, step_);
  ASSERT_TRUE(keeping_.programs().record_of(id));
  const uint64_t name = (id.value << 40) + 10;
  keeping_.on_message(id,
                      RunFrame{.plan = other_, .run = RunId(name), .outputs = {ArrayId(name + 1)}});
  EXPECT_FALSE(keeping_.programs().record_of(id));
  ASSERT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(warnings()[0].text, HasSubstr("its client runs a program that writes them"));
  EXPECT_THAT(keeping_.programs().log_of(id)->read(0).lines.back().text,
              HasSubstr("would not go on behind a restart of its controller"));
}

TEST_F(RecordKeeperTest, TwoRepetitionsOfOneSliceEndTheRecord) {
  const SessionId id = begin(TakenName::kRefused);
  repeat(id, step_);
  ASSERT_TRUE(keeping_.programs().record_of(id));
  repeat(id, other_);
  EXPECT_FALSE(keeping_.programs().record_of(id));
  ASSERT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(warnings()[0].text, HasSubstr("two programs are repeated on it"));
}

TEST_F(RecordKeeperTest, AProgramWithoutAChosenNameHasARecordOnceItIsDetached) {
  const SessionId id = begin(TakenName::kNumbered);
  repeat(id, step_);
  EXPECT_FALSE(keeping_.programs().record_of(id));
  keeping_.detach(id);
  EXPECT_TRUE(keeping_.programs().record_of(id));
}

TEST_F(RecordKeeperTest, EachChangeOfTheRecordIsReported) {
  const SessionId id = begin(TakenName::kRefused);
  int changes = 0;
  keeping_.programs().on_record([&](SessionId changed) { changes += changed == id ? 1 : 0; });
  repeat(id, step_);
  EXPECT_EQ(changes, 1);
  keeping_.session_closed(id);
  EXPECT_EQ(changes, 2);
}

}  // namespace
}  // namespace gangway
