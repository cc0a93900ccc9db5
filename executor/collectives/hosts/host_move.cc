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

HostMove::HostMove(ChannelView view, StreamEdges& edges)
    : view_(std::move(view)), edges_(edges), edge_of_(view_.hosts(), edges.size()) {
  for (size_t e = 0; e < edges.size(); ++e) edge_of_[edges[e].host()] = e;
}

void HostMove::begin(const HostMembers& members, bool poisoned) {
  members_ = &members;
  poisoned_ = poisoned;
  const CollectiveCall& call = *members.calls[view_.index];
  const BlockShape shape = BlockShape::of(call);
  if (shape.is_all() && shape == shape_) {
    for (size_t i = 0; i < outs_; ++i) out_[i].restart();
    for (size_t i = 0; i < ins_; ++i) in_[i].restart();
  } else {
    shape_ = shape;
    make_streams(call);
  }
}

void HostMove::make_streams(const CollectiveCall& call) {
  outs_ = ins_ = 0;
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
  stream.edge = edge_of_[host];
  GW_ASSERT(stream.edge < edges_.size(), "a message to a host without a way");
  stream.phase = phase;
  stream.done = false;
  stream.walk.clear();
  return stream;
}

void HostMove::add_segment(Stream& stream, const Block& block, uint32_t member) {
  stream.walk.add({block, range_of_channel(block.bytes(), view_.channel, view_.channels), member});
}

// Adds the blocks that the members of `host` give to all others.
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
    Stream& out = add(out_, outs_, (view_.self + distance) % hosts, phase);
    if (behind_home < distance && behind_home + distance < hosts) add_blocks_of(out, home, true);
    Stream& in = add(in_, ins_, (view_.self + hosts - distance) % hosts, phase);
    if (behind_home >= distance && behind_home < 2 * distance) add_blocks_of(in, home, false);
  }
}

void HostMove::exchange() {
  const std::vector<uint32_t>& here = view_.ranks[view_.self];
  const bool to_all = HostRoutes::reach_all(members_->calls[view_.index]->kind, view_.hosts());
  // The next hosts first, so that not all begin with the same one.
  for (uint32_t k = 1; k < view_.hosts(); ++k) {
    const uint32_t to = (view_.self + k) % view_.hosts();
    const uint32_t from = (view_.self + view_.hosts() - k) % view_.hosts();
    Stream& out = add(out_, outs_, to, 0);
    for (uint32_t m = 0; m < here.size(); ++m) {
      for (const uint32_t rank : view_.ranks[to])
        add_segment(out, block_of(members_->calls[m], nullptr, view_.size, here[m], rank), m);
    }
    out.done = !to_all && out.walk.done();
    Stream& in = add(in_, ins_, from, 0);
    for (const uint32_t rank : view_.ranks[from]) {
      for (uint32_t m = 0; m < here.size(); ++m)
        add_segment(in, block_of(nullptr, members_->calls[m], view_.size, rank, here[m]), m);
    }
    in.done = !to_all && in.walk.done();
  }
}

// Phase of the first stream that has not come in full.
uint32_t HostMove::phase() const {
  uint32_t phase = ~uint32_t{0};
  for (size_t i = 0; i < ins_; ++i) {
    if (!in_[i].done) phase = std::min(phase, in_[i].phase);
  }
  return phase;
}

// Data that has come may be sent on.
Progress HostMove::advance() {
  bool done = false, received = true;
  while (received && !done) {
    done = true;
    received = false;
    const uint32_t open = phase();
    for (size_t i = 0; i < outs_; ++i) {
      if (out_[i].phase <= open) send(out_[i]);
      done &= out_[i].done;
    }
    for (size_t i = 0; i < ins_; ++i) {
      received |= receive(in_[i]);
      done &= in_[i].done;
    }
  }
  return done ? Progress::kDone : Progress::kPending;
}

void HostMove::send(Stream& stream) {
  StreamEdge& edge = edges_[stream.edge];
  while (!stream.done && edge.has_room()) {
    const int64_t bytes = std::min(edge.piece_bytes(), stream.walk.left());
    std::byte* to = edge.room(bytes);
    stream.walk.next(bytes, [&](const Segment& segment, int64_t begin, int64_t end) {
      const bool on = segment.member == Segment::kAllMembers;
      const std::byte* tensor =
          on ? static_cast<const std::byte*>(members_->calls[view_.index]->tensors[0].out)
             : members_->in[segment.member];
      for_each_run(segment.block, begin, end, [&](int64_t in, int64_t out, int64_t n) {
        std::memcpy(to, tensor + (on ? out : in), static_cast<size_t>(n));
        to += n;
      });
    });
    stream.done = stream.walk.done();
    edge.send(bytes, poisoned_);
    if (view_.meter != nullptr) view_.meter->add(edge.link(), bytes);
  }
}

bool HostMove::receive(Stream& stream) {
  StreamEdge& edge = edges_[stream.edge];
  bool received = false;
  for (; !stream.done; received = true) {
    const Arrived message = edge.message();
    if (!message.here) break;
    poisoned_ |= message.poisoned;
    const int64_t bytes = std::min(edge.piece_bytes(), stream.walk.left());
    const std::byte* from = edge.payload(bytes);
    stream.walk.next(bytes, [&](const Segment& segment, int64_t begin, int64_t end) {
      receive_into(segment, begin, end, from);
      from += end - begin;
    });
    stream.done = stream.walk.done();
    edge.release(stream.done);
  }
  return received;
}

void HostMove::receive_into(const Segment& segment, int64_t begin, int64_t end,
                            const std::byte* from) {
  const bool all = segment.member == Segment::kAllMembers;
  int64_t others = 0;
  for (uint32_t m = 0; m < members_->calls.size(); ++m) {
    if (!all && segment.member != m) continue;
    scatter_into(segment.block, begin, end, from,
                 static_cast<std::byte*>(members_->calls[m]->tensors[0].out));
    if (m != view_.index) others += end - begin;
  }
  if (others > 0 && view_.meter != nullptr) view_.meter->add(LinkClass::kHost, others);
}

}  // namespace gangway
