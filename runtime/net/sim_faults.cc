#include "runtime/net/sim_faults.h"

#include <cstring>

#include "runtime/net/frame_link.h"

namespace gangway::internal {
namespace {

size_t first_frame_bytes(kj::ArrayPtr<const kj::byte> bytes) {
  FramePrefix prefix;
  GW_ASSERT(bytes.size() >= sizeof prefix, "a write of frames begins with a prefix");
  std::memcpy(&prefix, bytes.begin(), sizeof prefix);
  const size_t size = sizeof prefix + size_t{prefix.words} * sizeof(capnp::word);
  GW_ASSERT(prefix.magic == kFrameMagic && size <= bytes.size(), "a write holds whole frames");
  return size;
}

}  // namespace

FaultyFrames::Outcome FaultyFrames::pass(kj::ArrayPtr<const kj::byte> bytes,
                                         const std::function<FrameFault()>& draw) {
  Outcome out;
  const auto append = [&](kj::ArrayPtr<const kj::byte> more) {
    if (out.pieces.empty()) out.pieces.emplace_back();
    std::vector<kj::byte>& to = out.pieces.back().bytes;
    to.insert(to.end(), more.begin(), more.end());
  };
  const auto append_with_held = [&](kj::ArrayPtr<const kj::byte> frame) {
    append(frame);
    append(kj::arrayPtr(held_.data(), held_.size()));
    held_.clear();
  };
  while (bytes.size() > 0) {
    const auto frame = bytes.slice(0, first_frame_bytes(bytes));
    bytes = bytes.slice(frame.size(), bytes.size());
    const FrameFault fault = draw();
    switch (fault.kind) {
      case FrameFault::Kind::kDrop: break;
      case FrameFault::Kind::kDuplicate: append(frame); [[fallthrough]];
      case FrameFault::Kind::kNothing: append_with_held(frame); break;
      case FrameFault::Kind::kSwap:
        if (held_.empty()) {
          held_.assign(frame.begin(), frame.end());
        } else {
          append_with_held(frame);
        }
        break;
      case FrameFault::Kind::kDelay:
        out.pieces.push_back({{}, fault.delay});
        append_with_held(frame);
        break;
      case FrameFault::Kind::kBreak:
        append(frame.slice(0, frame.size() / 2));
        out.broken = true;
        return out;
    }
  }
  return out;
}

}  // namespace gangway::internal
