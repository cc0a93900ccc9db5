#include "runtime/net/direct_sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/net/frame_link.h"

namespace gangway {
namespace {

using internal::FramePrefix;

// Frames of one send(): a run, and the releases before it.
constexpr size_t kTogetherMax = 4;

size_t bytes_of(const Frame& frame) { return sizeof(FramePrefix) + frame->asBytes().size(); }

}  // namespace

bool DirectSender::is_lent() {
  const std::lock_guard lock(mutex_);
  return loan_.socket >= 0;
}

bool DirectSender::send(std::span<const Frame> frames) {
  size_t bytes = 0;
  for (const Frame& frame : frames) bytes += bytes_of(frame);
  const std::lock_guard lock(mutex_);
  if (loan_.socket < 0 || !sent_.unwritten.empty() || frames.size() > kTogetherMax ||
      sent_.frames.size() + frames.size() > kFramesMax || sent_.bytes + bytes > kBytesMax)
    return false;
  write(frames);
  sent_.frames.insert(sent_.frames.end(), frames.begin(), frames.end());
  sent_.bytes += bytes;
  ++sent_.writes;
  return true;
}

void DirectSender::write(std::span<const Frame> frames) {
  std::array<FramePrefix, kTogetherMax> prefixes;
  std::array<iovec, 2 * kTogetherMax> parts;
  size_t count = 0, bytes = 0;
  const auto add = [&](const void* data, size_t size) {
    parts[count++] = {const_cast<void*>(data), size};
    bytes += size;
  };
  for (size_t i = 0; i < frames.size(); ++i) {
    prefixes[i] = {.words = static_cast<uint32_t>(frames[i]->size()),
                   .epoch = loan_.epoch,
                   .sequence = ++loan_.sequence,
                   .acknowledgement = loan_.acknowledgement};
    add(&prefixes[i], sizeof(FramePrefix));
    add(frames[i]->begin(), frames[i]->asBytes().size());
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t n = ::sendmsg(loan_.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  auto written = static_cast<size_t>(std::max<ssize_t>(n, 0));
  if (written == bytes) return;
  for (size_t i = 0; i < count; ++i) {
    const auto* data = static_cast<const std::byte*>(parts[i].iov_base);
    const size_t skipped = std::min(written, parts[i].iov_len);
    written -= skipped;
    sent_.unwritten.insert(sent_.unwritten.end(), data + skipped, data + parts[i].iov_len);
  }
  mailbox_.post([self = shared_from_this()] {
    if (self->on_unwritten) self->on_unwritten();
  });
}

void DirectSender::lend(const Loan& loan) {
  const std::lock_guard lock(mutex_);
  loan_ = loan;
}

DirectSender::Returned DirectSender::take_back() {
  const std::lock_guard lock(mutex_);
  loan_ = {};
  return std::exchange(sent_, {});
}

}  // namespace gangway
