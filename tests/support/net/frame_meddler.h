// FrameMeddler: stands between the peers of frame streams on a SimNetwork, and leaves out, repeats,
// changes and holds back their frames.
//
// Why: streams repair what a network does to single frames (runtime/net/frames.h). A test that must
// show that it would notice a faulty peer needs frames that arrive in good order and say something
// wrong. This class therefore numbers the frames that it lets through anew, in both directions:
// neither peer sees a gap, also when a connection is lost and opened again.
//
// Threads: the reactor's.
// Ownership: outlives the network, or set_meddle(nullptr) is called first.
//
// Example:
//   FrameMeddler meddler([count = 0](auto&, auto&, const Frame& frame) mutable {
//     return ++count == 7 ? std::vector<Frame>() : std::vector{frame};
//   });
//   meddler.stand_in(network);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/net/frame.h"
#include "runtime/net/frame_link.h"
#include "runtime/net/sim_network.h"

namespace gangway {

class FrameMeddler {
 public:
  // Returns the frames that arrive in place of this one.
  using Meddle = std::function<std::vector<Frame>(const std::string& from, const std::string& to,
                                                  const Frame& frame)>;

  explicit FrameMeddler(Meddle meddle = {}) : meddle_(std::move(meddle)) {}

  // No peer hears any more which frames have arrived at the other one.
  void hide_acknowledgements() { hides_acknowledgements_ = true; }

  // Meddles with what goes over the network from now on.
  void stand_in(SimNetwork& network);

 private:
  using Bytes = std::vector<kj::byte>;
  // The frames of one direction of a stream that have passed.
  struct Way {
    bool has_begun = false;
    uint64_t before = 0;  // The last frame that passed before the meddler was there.
    // Indexed by the sender's number, counted from `before` + 1: the frames in place of each, and
    // the receiver's number of the last of them.
    std::vector<std::vector<Frame>> passed;
    std::vector<uint64_t> ends;

    // The receiver's number of the last frame that it gets for the sender's frames up to this one.
    uint64_t last_of(uint64_t sent) const;
    // The sender's last frame in whose place everything up to this frame has come.
    uint64_t sent_for(uint64_t received) const;
  };

  Bytes pass(const std::string& from, const std::string& to, kj::ArrayPtr<const kj::byte> frames);
  void pass_frame(const std::string& from, const std::string& to,
                  const internal::FramePrefix& prefix, const Frame& frame, Way& way, Bytes& out);

  Meddle meddle_;
  bool hides_acknowledgements_ = false;
  std::map<std::tuple<std::string, std::string, uint64_t>, Way> ways_;  // From, to, epoch.
};

}  // namespace gangway
