// The texts that a program's sources read are those of its first installation: the size and the
// hash that a host found then hold for all its hosts, and for whichever it is installed on later.
// So steps that are done again have the inputs that they had.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/program.h"
#include "protocol/install.h"
#include "runtime/base/error.h"

namespace gangway {

// As it was when its program was installed first.
struct FixedText {
  SourceText text;
  std::string host;  // That read it; empty: of an earlier controller.
};

struct HostTexts {
  std::string host;
  std::vector<SourceText> texts;  // That it has read.
};

// The first host whose text is not the one that was fixed, by its place in `found`.
struct OtherText {
  size_t host = 0;
  Error why;  // kInvalid, with both texts.
};
std::optional<OtherText> other_text(const std::vector<FixedText>& fixed,
                                    const std::vector<HostTexts>& found);

// What is fixed by hosts that read them first. Where they differ in size the shortest counts:
// whoever writes them may add to them meanwhile, and the hosts with more are to read them again.
std::vector<FixedText> fix_texts(const std::vector<HostTexts>& found);

std::vector<SourceText> texts_of(const std::vector<FixedText>& fixed);

// Takes a client's word for the texts that the program's sources read before, one for each path;
// gives none where the client leaves a path out. Throws kInvalid for a text that no host can have
// told it.
std::vector<SourceText> texts_before(const Program& program, const std::vector<SourceText>& said);

}  // namespace gangway
