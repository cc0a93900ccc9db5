#include "tests/support/net/frame_meddler.h"

#include <capnp/common.h>
#include <kj/array.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/base/error.h"

namespace gangway {
namespace {

using internal::FramePrefix;

void append(std::vector<kj::byte>& out, const FramePrefix& prefix) {
  const auto* head = reinterpret_cast<const kj::byte*>(&prefix);
  out.insert(out.end(), head, head + sizeof prefix);
}

void append(std::vector<kj::byte>& out, FramePrefix prefix, const Frame& frame) {
  prefix.words = static_cast<uint32_t>(frame->size());
  append(out, prefix);
  const auto body = frame->asBytes();
  out.insert(out.end(), body.begin(), body.end());
}

}  // namespace

uint64_t FrameMeddler::Way::last_of(uint64_t sent) const {
  if (sent <= before || ends.empty()) return sent;
  const uint64_t index = std::min<uint64_t>(sent - before, ends.size()) - 1;
  return ends[index];
}

uint64_t FrameMeddler::Way::sent_for(uint64_t received) const {
  if (received < before) return received;
  const auto beyond = std::upper_bound(ends.begin(), ends.end(), received);
  return before + static_cast<uint64_t>(beyond - ends.begin());
}

void FrameMeddler::stand_in(SimNetwork& network) {
  network.set_meddle(
      [this](const std::string& from, const std::string& to, kj::ArrayPtr<const kj::byte> frames) {
        return pass(from, to, frames);
      });
}

FrameMeddler::Bytes FrameMeddler::pass(const std::string& from, const std::string& to,
                                       kj::ArrayPtr<const kj::byte> frames) {
  Bytes out;
  while (frames.size() > 0) {
    FramePrefix prefix;
    GW_ASSERT(frames.size() >= sizeof prefix, "a write of frames begins with a prefix");
    std::memcpy(&prefix, frames.begin(), sizeof prefix);
    frames = frames.slice(sizeof prefix, frames.size());
    auto words = kj::heapArray<capnp::word>(prefix.words);
    const size_t bytes = words.asBytes().size();
    GW_ASSERT(bytes <= frames.size(), "a write holds whole frames");
    if (bytes > 0) std::memcpy(words.asBytes().begin(), frames.begin(), bytes);
    frames = frames.slice(bytes, frames.size());

    Way& way = ways_[{from, to, prefix.epoch}];
    const Way& back = ways_[{to, from, prefix.epoch}];
    if (back.has_begun) prefix.acknowledgement = back.sent_for(prefix.acknowledgement);
    if (hides_acknowledgements_) prefix.acknowledgement = 0;
    if (internal::FrameKind{prefix.kind} == internal::FrameKind::kFrame) {
      const Frame frame = std::make_shared<const kj::Array<capnp::word>>(kj::mv(words));
      pass_frame(from, to, prefix, frame, way, out);
    } else {
      prefix.sequence = way.last_of(prefix.sequence);
      append(out, prefix);
    }
  }
  return out;
}

void FrameMeddler::pass_frame(const std::string& from, const std::string& to,
                              const FramePrefix& prefix, const Frame& frame, Way& way, Bytes& out) {
  if (!way.has_begun) {
    way.has_begun = true;
    way.before = prefix.sequence - 1;
  }
  if (prefix.sequence <= way.before) return append(out, prefix, frame);
  const uint64_t index = prefix.sequence - way.before - 1;
  const uint64_t last = way.ends.empty() ? way.before : way.ends.back();
  GW_ASSERT(index <= way.passed.size(), "frames are written in their order");
  if (index == way.passed.size()) {  // Otherwise it is sent once more, over another connection.
    way.passed.push_back(meddle_ ? meddle_(from, to, frame) : std::vector{frame});
    way.ends.push_back(last + way.passed.back().size());
  }
  FramePrefix own = prefix;
  own.sequence = way.ends[index] - way.passed[index].size();
  for (const Frame& passed : way.passed[index]) {
    ++own.sequence;
    append(out, own, passed);
  }
}

}  // namespace gangway
