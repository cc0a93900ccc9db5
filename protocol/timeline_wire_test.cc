#include "protocol/timeline_wire.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include "protocol/text_limits.h"
#include "runtime/fibers/reactor.h"
#include "tests/support/error_of.h"
#include "tests/support/golden/trace_hash.h"

namespace gangway {
namespace {

using testing::HasSubstr;

TraceDump recorded() {
  const auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "host-0", 4);
  internal::TraceBuffer& row = tracer.add_row("host-0/0");
  tracer.add_row("host-0/0 collectives");
  row.record({.name = "begin", .run = 7, .node = 3, .mark = TraceMark::kRunBegins});
  for (int64_t i = 0; i < 5; ++i) {
    row.record({.name = i % 2 == 0 ? "dot" : "add",
                .begin_ns = 10 * i,
                .end_ns = 10 * i + 5,
                .run = 7,
                .node = 1,
                .step = static_cast<uint64_t>(i)});
  }
  return tracer.newest(100);
}

TEST(TimelineWireTest, ATimelineReadsBackAsItWasWritten) {
  const TraceDump written = recorded();
  capnp::MallocMessageBuilder message;
  const auto root = message.initRoot<wire::HostTimeline>();
  write(root, written);
  const HostTimeline got = read(root.asReader());
  EXPECT_EQ(got.trace.process, "host-0");
  EXPECT_EQ(trace_hash(got.trace), trace_hash(written));
  ASSERT_EQ(got.trace.threads.size(), 2u);
  EXPECT_EQ(got.trace.threads[0].lost, 2u);
  EXPECT_EQ(got.trace.threads[0].events.size(), 4u);
  EXPECT_EQ(got.trace.threads[1].name, "host-0/0 collectives");
}

TEST(TimelineWireTest, MalformedTimelinesAreRefused) {
  const auto refused = [](const std::function<void(wire::HostTimeline::Builder)>& change) {
    capnp::MallocMessageBuilder message;
    const auto root = message.initRoot<wire::HostTimeline>();
    write(root, recorded());
    change(root);
    return error_text_of([&] { static_cast<void>(read(root.asReader())); });
  };
  EXPECT_THAT(refused([](auto to) { to.getRows()[0].getEvents()[1].setName(2); }),
              HasSubstr("an event has name 2 of 2"));
  EXPECT_THAT(refused([](auto to) { to.getRows()[0].getEvents()[1].setMark(8); }),
              HasSubstr("mark 8"));
  EXPECT_THAT(refused([](auto to) { to.initRows(kTimelineRowsMax + 1); }),
              HasSubstr("4097 rows: expected at most 4096"));
  EXPECT_THAT(refused([](auto to) { to.initRows(1)[0].initEvents(kTimelineEventsMax + 1); }),
              HasSubstr("at most 1048576 events"));
}

TEST(TimelineWireTest, LongNamesAreCut) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::HostTimeline>();
  write(root, recorded());
  root.getNames().set(0, std::string(100'000, 'x'));
  root.getRows()[0].setName(std::string(100'000, 'y'));
  const HostTimeline got = read(root.asReader());
  EXPECT_LT((*got.names)[0].size(), kQuotedBytesMax + 40);
  EXPECT_LT(got.trace.threads[0].name.size(), kQuotedBytesMax + 40);
}

}  // namespace
}  // namespace gangway
