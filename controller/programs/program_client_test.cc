#include "controller/programs/program_client.h"

#include <gtest/gtest.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

RunFrame run_named(uint64_t name) {
  RunFrame run;
  run.run = RunId(name);
  run.outputs = {ArrayId(name + 1), ArrayId(name + 2)};
  return run;
}

HostTransferFrame copy_named(uint64_t request, uint64_t array) {
  HostTransferFrame transfer;
  transfer.request = request;
  transfer.array = ArrayId(array);
  return transfer;
}

TEST(ProgramClientTest, RunsAndTransfersCountUntilTheyEnd) {
  FakeClient peer;
  ProgramClient client(peer);
  client.note_names(run_named(10));
  client.begin_run();
  client.begin_transfer(copy_named(1, 20));
  client.begin_transfer(copy_named(2, 5));
  EXPECT_EQ(client.runs(), 1u);
  EXPECT_EQ(client.transfers(), 2u);
  EXPECT_EQ(client.last_name(), 20u);
  EXPECT_EQ(client.last_request(), 2u);
  EXPECT_TRUE(client.end_run(RunId(10)));
  EXPECT_TRUE(client.end_transfer(2));
  EXPECT_EQ(client.runs(), 0u);
  EXPECT_EQ(client.transfers(), 1u);
}

TEST(ProgramClientTest, NamesOfOutputsAreCounted) {
  FakeClient peer;
  ProgramClient client(peer);
  client.note_names(run_named(10));
  EXPECT_EQ(client.last_name(), 12u);
  client.note_names(run_named(3));
  EXPECT_EQ(client.last_name(), 12u);
}

TEST(ProgramClientTest, WorkOfAnEarlierClientTakesNoCreditsOfTheNextOne) {
  FakeClient first, second;
  ProgramClient client(first);
  client.note_names(run_named(10));
  client.begin_run();
  client.begin_transfer(copy_named(1, 12));
  client.detach();
  EXPECT_FALSE(client.is_there());
  client.send(WarningFrame{"nobody reads this"});
  client.attach(second);
  EXPECT_TRUE(client.is_there());
  EXPECT_EQ(client.runs() + client.transfers(), 0u);
  client.note_names(run_named(13));
  client.begin_run();
  client.begin_transfer(copy_named(2, 16));
  EXPECT_FALSE(client.end_run(RunId(10)));
  EXPECT_FALSE(client.end_transfer(1));
  EXPECT_EQ(client.runs(), 1u);
  EXPECT_EQ(client.transfers(), 1u);
  EXPECT_TRUE(client.end_run(RunId(13)));
  EXPECT_TRUE(client.end_transfer(2));
  EXPECT_EQ(client.runs() + client.transfers(), 0u);
  client.send(WarningFrame{"the second client reads this"});
  EXPECT_TRUE(first.received.empty());
  EXPECT_EQ(second.received.size(), 1u);
}

}  // namespace
}  // namespace gangway
