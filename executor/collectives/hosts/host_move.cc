#include "executor/collectives/hosts/host_move.h"

#include <bit>
#include <cstring>

#include "runtime/base/error.h"

namespace gangway {
namespace {

bool sends_to_all(CollectiveKinds kinds) {
  return kinds.has(CollectiveKind::kReduceScatter) || kinds.has(CollectiveKind::kAllToAll) ||
         kinds.has(CollectiveKind::kRaggedAllToAll) || kinds.has(CollectiveKind::kPermute);
}

bool disseminates(CollectiveKinds kinds) {
  return kinds.has(CollectiveKind::kAllGather) || kinds.has(CollectiveKind::kBroadcast);
}

}  // namespace

bool HostRoutes::has(CollectiveKinds kinds, uint32_t hosts, uint32_t from, uint32_t to) {
  if (from == to) return false;
  if (sends_to_all(kinds)) return true;
  return disseminates(kinds) && std::has_single_bit((to + hosts - from) % hosts);
}

void HostMove::begin(const HostMembers& members) {
  members_ = &members;
  outs_ = ins_ = 0;
  const CollectiveCall& call = *members.calls[view_.index];
  if (call.kind == CollectiveKind::kAllGather) {
    gather();
  } else if (call.kind == CollectiveKind::kBroadcast) {
    broadcast(call.root);
  } else {
    exchange();
  }
}

HostMove::Stream& HostMove::add(std::vector<Stream>& streams, size_t& count, uint32_t host,
                                uint32_t phase) {
  if (count == streams.size()) streams.emplace_back();
  Stream& stream = streams[count++];
  const auto edge = std::ranges::find(edges_, host, &StreamEdge::host);
  GW_ASSERT(edge != edges_.end(), "a message to a host without a way");
  stream.edge = static_cast<size_t>(edge - edges_.begin());
  stream.phase = phase;
  stream.walk.clear();
  return stream;
}

void HostMove::add_segment(Stream& stream, const Block& block, uint32_t member) {
  stream.walk.add({block, range_of_lane(block.bytes(), view_.lane, view_.lanes), member});
}

// What the members of `host` give everyone.
void HostMove::add_blocks_of(Stream& stream, uint32_t host, bool sends) {
  const CollectiveCall* call = members_->calls[view_.index];
  const std::vector<uint32_t>& ranks = view_.ranks[host];
  for (uint32_t m = 0; m < ranks.size(); ++m) {
    const bool own = sends && host == view_.self;
    add_segment(stream, block_of(call, call, view_.size, ranks[m], ranks[m]),
                own ? m : Segment::kAllMembers);
  }
}

void HostMove::gather() {
  const uint32_t hosts = view_.hosts();
  uint32_t phase = 0;
  for (uint32_t distance = 1; distance < hosts; distance *= 2, ++phase) {
    const uint32_t count = std::min(distance, hosts - distance);
    const uint32_t behind = (view_.self + distance) % hosts;
    const uint32_t before = (view_.self + hosts - distance) % hosts;
    Stream& out = add(out_, outs_, behind, phase);
    for (uint32_t k = 0; k < count; ++k) add_blocks_of(out, (view_.self + hosts - k) % hosts, true);
    Stream& in = add(in_, ins_, before, phase);
    for (uint32_t k = 0; k < count; ++k) add_blocks_of(in, (before + hosts - k) % hosts, false);
  }
}

void HostMove::broadcast(uint32_t root) {
  const uint32_t hosts = view_.hosts();
  uint32_t home = 0;
  while (std::ranges::count(view_.ranks[home], root) == 0) ++home;
  const uint32_t behind_home = (view_.self + hosts - home) % hosts;
  uint32_t phase = 0;
  for (uint32_t distance = 1; distance < hosts; distance *= 2, ++phase) {
    if (behind_home < distance && behind_home + distance < hosts) {
      add_blocks_of(add(out_, outs_, (view_.self + distance) % hosts, phase), home, true);
    } else if (behind_home >= distance && behind_home < 2 * distance) {
      add_blocks_of(add(in_, ins_, (view_.self + hosts - distance) % hosts, phase), home, false);
    }
  }
}

void HostMove::exchange() {
  const std::vector<uint32_t>& here = view_.ranks[view_.self];
  // The next hosts first, so that not all begin with the same one.
  for (uint32_t k = 1; k < view_.hosts(); ++k) {
    const uint32_t to = (view_.self + k) % view_.hosts();
    const uint32_t from = (view_.self + view_.hosts() - k) % view_.hosts();
    Stream& out = add(out_, outs_, to, 0);
    for (uint32_t m = 0; m < here.size(); ++m) {
      for (const uint32_t rank : view_.ranks[to])
        add_segment(out, block_of(members_->calls[m], nullptr, view_.size, here[m], rank), m);
    }
    Stream& in = add(in_, ins_, from, 0);
    for (const uint32_t rank : view_.ranks[from]) {
      for (uint32_t m = 0; m < here.size(); ++m)
        add_segment(in, block_of(nullptr, members_->calls[m], view_.size, rank, here[m]), m);
    }
  }
}

// Of the first that has not come in full.
uint32_t HostMove::phase() const {
  uint32_t phase = ~uint32_t{0};
  for (size_t i = 0; i < ins_; ++i) {
    if (!in_[i].walk.done()) phase = std::min(phase, in_[i].phase);
  }
  return phase;
}

Progress HostMove::advance() {
  bool done = false, moved = true;
  while (moved && !done) {
    done = true;
    moved = false;
    for (size_t i = 0; i < ins_; ++i) {
      moved |= receive(in_[i]);
      done &= in_[i].walk.done();
    }
    const uint32_t open = phase();
    for (size_t i = 0; i < outs_; ++i) {
      if (out_[i].phase <= open) moved |= send(out_[i]);
      done &= out_[i].walk.done();
    }
  }
  return done ? Progress::kDone : Progress::kPending;
}

bool HostMove::send(Stream& stream) {
  StreamEdge& edge = edges_[stream.edge];
  bool sent = false;
  for (; !stream.walk.done() && edge.has_room(); sent = true) {
    std::byte* to = edge.room();
    const int64_t bytes = stream.walk.next(
        edge.piece_bytes(), [&](const Segment& segment, int64_t begin, int64_t end) {
          const bool on = segment.member == Segment::kAllMembers;
          const std::byte* tensor =
              on ? static_cast<const std::byte*>(members_->calls[view_.index]->tensors[0].out)
                 : members_->in[segment.member];
          for_each_run(segment.block, begin, end, [&](int64_t in, int64_t out, int64_t n) {
            std::memcpy(to, tensor + (on ? out : in), static_cast<size_t>(n));
            to += n;
          });
        });
    edge.send(bytes);
    if (view_.meter != nullptr) view_.meter->add(edge.link(), bytes);
  }
  return sent;
}

bool HostMove::receive(Stream& stream) {
  StreamEdge& edge = edges_[stream.edge];
  bool received = false;
  while (!stream.walk.done()) {
    const std::byte* from = edge.message();
    if (from == nullptr) break;
    int64_t others = 0;
    stream.walk.next(edge.piece_bytes(), [&](const Segment& segment, int64_t begin, int64_t end) {
      const bool all = segment.member == Segment::kAllMembers;
      for (uint32_t m = 0; m < members_->calls.size(); ++m) {
        if (!all && segment.member != m) continue;
        scatter_into(segment.block, begin, end, from,
                     static_cast<std::byte*>(members_->calls[m]->tensors[0].out));
        if (m != view_.index) others += end - begin;
      }
      from += end - begin;
    });
    if (view_.meter != nullptr) view_.meter->add(LinkClass::kHost, others);
    edge.release();
    received = true;
  }
  return received;
}

}  // namespace gangway
