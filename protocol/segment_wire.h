// Shared segments' descriptors on the wire (frames.capnp's Segment).
//
// Threads: pure functions. Opening a descriptor checks it (runtime/os/shared_segment.h).
#pragma once

#include "protocol/frames.capnp.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

inline void write_segment(wire::Segment::Builder to, const SegmentDescriptor& segment) {
  to.setPid(segment.pid);
  to.setFd(segment.fd);
  to.setBytes(segment.bytes);
  to.setToken(segment.token);
}

inline SegmentDescriptor read_segment(wire::Segment::Reader from) {
  return {
      .pid = from.getPid(), .fd = from.getFd(), .bytes = from.getBytes(), .token = from.getToken()};
}

}  // namespace gangway
