// A program's sources read the texts of its first installation: the size and the hash that a host
// found then hold for all its hosts, and for each host on which it is installed later. Steps that
// are done again therefore have the inputs that they had.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/install.h"
#include "runtime/base/error.h"

namespace gangway {

// A text as it was when its program was installed first.
struct FixedText {
  SourceText text;
  std::string host;  // The host that read it; empty: an earlier controller fixed it.
};

struct HostTexts {
  std::string host;
  std::vector<SourceText> texts;  // Texts that the host has read.
};

// The first host whose text is not the one that was fixed, by its place in `found`.
struct OtherText {
  size_t host = 0;
  Error why;  // kInvalid, with both texts.
};
std::optional<OtherText> other_text(const std::vector<FixedText>& fixed,
                                    const std::vector<HostTexts>& found);

// The texts as fixed by hosts that read them first. Where hosts differ in size the shortest text
// counts, since a user may add to it meanwhile; the hosts with more are to read it again.
std::vector<FixedText> fix_texts(const std::vector<HostTexts>& found);

std::vector<SourceText> texts_of(const std::vector<FixedText>& fixed);

}  // namespace gangway
