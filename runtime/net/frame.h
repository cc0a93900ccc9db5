// Frame: the bytes of one message, as streams send them (frames.h). For headers that pass frames
// on: it pulls in nothing of Cap'n Proto.
//
// Threads: an immutable value, shared by all the streams that send it.
#pragma once

#include <memory>

namespace kj {
template <typename T>
class Array;
}
namespace capnp {
class word;
class MessageReader;
}  // namespace capnp

namespace gangway {

using Frame = std::shared_ptr<const kj::Array<capnp::word>>;

}  // namespace gangway
