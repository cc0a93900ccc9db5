#include "controller/programs/run_path.h"

#include <gmock/gmock.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class RunPathTest : public ControllerTest {};

TEST_F(RunPathTest, AClientThatSendsMoreRunsThanItsCreditsLosesItsConnection) {
  const PlanId plan = compile(session_, 1);
  for (uint32_t i = 0; i < controller_.options().run_credits; ++i) submit(session_, plan);
  try {
    submit(session_, plan);
    FAIL() << "took it";
  } catch (const Error& error) {  // The caller ends its connection.
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("more runs than its 1024 credits"));
  }
  controller_.on_message(session_, FreeFrame{{last_output_}});  // Needs no credit.
  finish_everywhere(1);
  submit(session_, plan);
}

TEST_F(RunPathTest, AClientThatSendsMorePutsAndGetsThanItsCreditsLosesItsConnection) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  uint64_t request = 0;
  const auto get = [&] {
    controller_.on_message(session_, HostTransferFrame{.request = ++request,
                                                       .at = {.segment = {.bytes = 4}, .bytes = 4},
                                                       .array = last_output_});
  };
  const auto read = [&] {
    controller_.on_message(session_, HostTransferFrame{.request = ++request,
                                                       .kind = HostTransferKind::kReadState,
                                                       .scope = {slice_.value},
                                                       .name = "w"});
  };
  while (request < controller_.options().transfer_credits) request % 2 == 0 ? get() : read();
  try {
    get();
    FAIL() << "took it";
  } catch (const Error& error) {  // The caller ends its connection.
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("more puts and gets than its 1024 credits"));
  }
  for (const size_t host : {0, 1})
    controller_.on_message(hosts_[host], HostTransferDoneFrame{1, {}});
  read();
  EXPECT_THROW(get(), Error);
  controller_.on_message(session_, FreeFrame{{last_output_}});  // Needs no credit.
}

}  // namespace
}  // namespace gangway
