#include "runtime/os/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "runtime/os/anonymous_file.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SharedSegmentTest, TwoMappingsOfASegmentAreTheSameMemory) {
  const SharedSegment mine = SharedSegment::create(100);
  const SharedSegment theirs = SharedSegment::open(mine.descriptor());
  mine.data()[99] = std::byte{7};
  EXPECT_EQ(theirs.data()[99], std::byte{7});
  EXPECT_EQ(theirs.size(), 100u);
}

TEST(SharedSegmentTest, DroppedPagesReadAsZerosAndThoseAroundThemKeepWhatTheyHold) {
  const SharedSegment mine = SharedSegment::create(5 << 12);
  const SharedSegment theirs = SharedSegment::open(mine.descriptor());
  for (size_t i = 0; i < mine.size(); ++i) mine.data()[i] = std::byte{7};
  mine.drop_pages(4096, 2 << 12);
  EXPECT_EQ(theirs.data()[4095], std::byte{7});
  EXPECT_EQ(theirs.data()[2 << 12], std::byte{0});
  EXPECT_EQ(theirs.data()[3 << 12], std::byte{7});
  mine.drop_pages(0, static_cast<int64_t>(mine.size()));
  EXPECT_NO_THROW(SharedSegment::open(mine.descriptor()));
}

// A simulation charges messages by their length, so errors are as long in every process.
TEST(SharedSegmentTest, ErrorsContainNoProcessIdOrFileDescriptor) {
  const SharedSegment segment = SharedSegment::create(100);
  const AnonymousFile file("not sealed");
  // Numbers that no text has by chance.
  const int low = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  const int high = fcntl(low, F_DUPFD_CLOEXEC, 777);
  close(low);
  ASSERT_GE(high, 777);
  const auto refused = [&](SegmentDescriptor descriptor, const std::string& why) {
    const std::string text = error_text_of([&] { SharedSegment::open(descriptor); });
    EXPECT_THAT(text, HasSubstr(why));
    EXPECT_THAT(text, Not(HasSubstr(cat("process ", descriptor.pid))));
    EXPECT_THAT(text, Not(HasSubstr("777"))) << text;
    EXPECT_THAT(text, Not(HasSubstr("/proc")));
  };
  SegmentDescriptor descriptor = segment.descriptor();
  descriptor.fd = 777'000;
  refused(descriptor, "none with the process that offers it");
  descriptor.fd = high;
  refused(descriptor, "is not a sealed segment");
  descriptor = segment.descriptor();
  descriptor.bytes = 101;
  refused(descriptor, "expected 101 bytes");
  descriptor = segment.descriptor();
  ++descriptor.token;
  refused(descriptor, "another segment than the one described");
  descriptor = segment.descriptor();
  descriptor.bytes = 0;
  refused(descriptor, "not a descriptor");
  close(high);
}

}  // namespace
}  // namespace gangway
