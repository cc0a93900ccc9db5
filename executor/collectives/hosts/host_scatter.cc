#include "executor/collectives/hosts/host_scatter.h"

#include <algorithm>
#include <utility>

#include "executor/collectives/hosts/rank_tree.h"

namespace gangway {

HostScatter::HostScatter(ChannelView view, StreamEdges& edges, int64_t piece_bytes)
    : view_(std::move(view)),
      edges_(edges),
      piece_bytes_(piece_bytes),
      own_(static_cast<size_t>(piece_bytes)),
      out_(edges.size()) {}

void HostScatter::begin(const HostMembers& members, bool poisoned) {
  members_ = &members;
  poisoned_ = poisoned;
  const BlockShape shape = BlockShape::of(*members.calls[view_.index]);
  if (shape == shape_) {
    for (Out& out : out_) out.walk.restart();
    here_.restart();
    in_.restart();
  } else {
    shape_ = shape;
    dtype_ = shape.dtype;
    size_ = static_cast<int64_t>(size_of(dtype_));
    widening_ = partial_bytes_of(dtype_) / size_;
    stored_max_ = piece_bytes_ / (size_ * widening_) * size_;
    for (size_t peer = 0; peer < edges_.size(); ++peer)
      walk_parts_of(edges_[peer].host(), out_[peer].walk);
    walk_parts_of(view_.self, here_);
    walk_parts_of(view_.self, in_);
  }
  for (Out& out : out_) out.done = false;
  in_done_ = own_ready_ = false;
}

// The tensor of a host's only member is its partial, if partials are held as they are stored.
bool HostScatter::reads_own_in_place() const { return members_->in.size() == 1 && widening_ == 1; }

void HostScatter::walk_parts_of(uint32_t host, SegmentWalk& walk) const {
  walk.clear();
  const CollectiveCall* call = members_->calls[view_.index];
  for (uint32_t m = 0; m < view_.ranks[host].size(); ++m) {
    const Block block = block_of(call, call, view_.size, 0, view_.ranks[host][m]);
    walk.add({block, range_of_channel(block.bytes(), view_.channel, view_.channels), m});
  }
}

Progress HostScatter::advance() {
  bool done = false, combined = true;
  while (combined && !done) {
    done = true;
    for (size_t peer = 0; peer < edges_.size(); ++peer) {
      send(peer);
      done &= out_[peer].done;
    }
    combined = combine();
    done &= in_done_;
  }
  return done ? Progress::kDone : Progress::kPending;
}

void HostScatter::reduce_here(SegmentWalk& walk, int64_t stored, std::byte* partial) {
  const Reduction reduction = members_->calls[view_.index]->reduction;
  sources_.resize(members_->in.size());
  walk.next(stored, [&](const Segment& segment, int64_t begin, int64_t end) {
    for_each_run(segment.block, begin, end, [&](int64_t in, int64_t, int64_t n) {
      for (size_t m = 0; m < sources_.size(); ++m) sources_[m] = members_->in[m] + in;
      reduce_to_partial(dtype_, reduction, sources_, partial, n / size_);
      partial += partial_bytes(n);
    });
  });
  if (view_.meter != nullptr && sources_.size() > 1)
    view_.meter->add(LinkClass::kHost, stored * static_cast<int64_t>(sources_.size() - 1));
}

void HostScatter::send(size_t peer) {
  StreamEdge& edge = edges_[peer];
  Out& out = out_[peer];
  while (!out.done && edge.has_room()) {
    const int64_t stored = std::min(out.walk.left(), stored_max_);
    const int64_t bytes = partial_bytes(stored);
    reduce_here(out.walk, stored, edge.room(bytes));
    out.done = out.walk.done();
    edge.send(bytes, poisoned_);
    if (view_.meter != nullptr) view_.meter->add(edge.link(), bytes);
  }
}

// Finds the partials by host: this host's, and the message of each other. False: one has not come.
bool HostScatter::find_partials(int64_t bytes) {
  partials_.assign(view_.hosts(), own_.data());
  for (const StreamEdge& edge : edges_) {
    const Arrived message = edge.message();
    if (!message.here) return false;
    poisoned_ |= message.poisoned;
    partials_[edge.host()] = edge.payload(bytes);
  }
  return true;
}

// Combines one message of every other host with this host's partial for it.
bool HostScatter::combine() {
  if (in_done_) return false;
  const bool in_place = reads_own_in_place();
  const int64_t stored = std::min(in_.left(), stored_max_);
  if (!in_place && !std::exchange(own_ready_, true)) reduce_here(here_, stored, own_.data());
  if (!find_partials(partial_bytes(stored))) return false;
  const Reduction reduction = members_->calls[view_.index]->reduction;
  int64_t others = 0;
  in_.next(stored, [&](const Segment& segment, int64_t begin, int64_t end) {
    auto* const out = static_cast<std::byte*>(members_->calls[segment.member]->tensors[0].out);
    for_each_run(segment.block, begin, end, [&](int64_t in, int64_t to, int64_t n) {
      if (in_place) partials_[view_.self] = members_->in[0] + in;
      reduce_partials(dtype_, reduction, partials_, out + to, n / size_);
      for (const std::byte*& partial : partials_) partial += partial_bytes(n);
    });
    if (segment.member != view_.index) others += end - begin;
  });
  if (view_.meter != nullptr && others > 0) view_.meter->add(LinkClass::kHost, others);
  in_done_ = in_.done();
  for (StreamEdge& edge : edges_) edge.release(in_done_);
  own_ready_ = false;
  return true;
}

}  // namespace gangway
