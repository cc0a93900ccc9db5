#include "tools/commands/train_page.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gangway.h"
#include "runtime/base/durable_file.h"
#include "tools/commands/lowered_program.h"
#include "tools/page/page.h"
#include "tools/page/timeline_document.h"

namespace gangway::tool {

void write_training_page(const std::filesystem::path& page, const TrainingPictures& pictures) {
  const LoweredProgram lowered =
      lower_for_nobody(Program::load(pictures.program.string()), pictures.hosts);
  std::vector<std::pair<std::string, std::string>> fields = page_fields(lowered);
  fields.emplace_back("curves", curves_document(pictures.name, pictures.points));
  // This process wrote the trace, however long it is.
  const std::string trace = read_whole(pictures.trace, UINT64_MAX);
  fields.emplace_back("timeline", timeline_document(trace, lowered.plan,
                                                    {.until_us = pictures.last_step_at_s * 1e6}));
  replace_whole(page, page_html(document_of(fields)));
}

}  // namespace gangway::tool
