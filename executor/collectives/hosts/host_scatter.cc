#include "executor/collectives/hosts/host_scatter.h"

#include <algorithm>

#include "executor/collectives/hosts/rank_tree.h"

namespace gangway {

HostScatter::HostScatter(LaneView view, StreamEdges& edges, int64_t piece_bytes)
    : view_(std::move(view)),
      edges_(edges),
      piece_bytes_(piece_bytes),
      own_(static_cast<size_t>(piece_bytes)),
      out_(edges.size()) {}

void HostScatter::begin(const HostMembers& members) {
  members_ = &members;
  dtype_ = members.calls[view_.index]->tensors[0].dtype;
  for (size_t peer = 0; peer < edges_.size(); ++peer)
    walk_parts_of(edges_[peer].host(), out_[peer]);
  walk_parts_of(view_.self, here_);
  walk_parts_of(view_.self, in_);
  own_ready_ = false;
}

void HostScatter::walk_parts_of(uint32_t host, SegmentWalk& walk) const {
  walk.clear();
  const CollectiveCall* call = members_->calls[view_.index];
  for (uint32_t m = 0; m < view_.ranks[host].size(); ++m) {
    const Block block = block_of(call, call, view_.size, 0, view_.ranks[host][m]);
    walk.add({block, range_of_lane(block.bytes(), view_.lane, view_.lanes), m});
  }
}

int64_t HostScatter::stored_bytes_max() const {
  return piece_bytes_ / partial_bytes_of(dtype_) * static_cast<int64_t>(size_of(dtype_));
}

Progress HostScatter::advance() {
  bool done = false, moved = true;
  while (moved && !done) {
    moved = combine();
    done = in_.done();
    for (size_t peer = 0; peer < edges_.size(); ++peer) {
      moved |= send(peer);
      done &= out_[peer].done();
    }
  }
  return done ? Progress::kDone : Progress::kPending;
}

int64_t HostScatter::reduce_here(SegmentWalk& walk, std::byte* partial) {
  const std::byte* const first = partial;
  const Reduction reduction = members_->calls[view_.index]->reduction;
  const auto size = static_cast<int64_t>(size_of(dtype_));
  sources_.resize(members_->in.size());
  const int64_t stored =
      walk.next(stored_bytes_max(), [&](const Segment& segment, int64_t begin, int64_t end) {
        for_each_run(segment.block, begin, end, [&](int64_t in, int64_t, int64_t n) {
          for (size_t m = 0; m < sources_.size(); ++m) sources_[m] = members_->in[m] + in;
          reduce_to_partial(dtype_, reduction, sources_, partial, n / size);
          partial += n / size * partial_bytes_of(dtype_);
        });
      });
  if (view_.meter != nullptr)
    view_.meter->add(LinkClass::kHost, stored * static_cast<int64_t>(sources_.size() - 1));
  return partial - first;
}

bool HostScatter::send(size_t peer) {
  StreamEdge& edge = edges_[peer];
  bool sent = false;
  for (; !out_[peer].done() && edge.has_room(); sent = true) {
    const int64_t bytes = reduce_here(out_[peer], edge.room());
    edge.send(bytes);
    if (view_.meter != nullptr) view_.meter->add(edge.link(), bytes);
  }
  return sent;
}

// One message of every other host, with what this one has for it.
bool HostScatter::combine() {
  if (in_.done()) return false;
  if (!own_ready_) reduce_here(here_, own_.data());
  own_ready_ = true;
  partials_.assign(view_.hosts(), own_.data());
  for (const StreamEdge& edge : edges_) {
    partials_[edge.host()] = edge.message();
    if (partials_[edge.host()] == nullptr) return false;
  }
  const Reduction reduction = members_->calls[view_.index]->reduction;
  const auto size = static_cast<int64_t>(size_of(dtype_));
  int64_t others = 0;
  in_.next(stored_bytes_max(), [&](const Segment& segment, int64_t begin, int64_t end) {
    auto* const out = static_cast<std::byte*>(members_->calls[segment.member]->tensors[0].out);
    for_each_run(segment.block, begin, end, [&](int64_t, int64_t to, int64_t n) {
      reduce_partials(dtype_, reduction, partials_, out + to, n / size);
      for (const std::byte*& partial : partials_) partial += n / size * partial_bytes_of(dtype_);
    });
    if (segment.member != view_.index) others += end - begin;
  });
  if (view_.meter != nullptr) view_.meter->add(LinkClass::kHost, others);
  for (StreamEdge& edge : edges_) edge.release();
  own_ready_ = false;
  return true;
}

}  // namespace gangway
