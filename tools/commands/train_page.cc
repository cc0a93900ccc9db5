#include "tools/commands/train_page.h"

#include <cerrno>
#include <fstream>
#include <iterator>

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
  std::ifstream file(pictures.trace, std::ios::binary);
  const std::string trace((std::istreambuf_iterator<char>(file)), {});
  if (!file) fail_file("read", pictures.trace, errno);
  fields.emplace_back("timeline", timeline_document(trace, lowered.plan,
                                                    {.until_us = pictures.last_step_at_s * 1e6}));
  replace_whole(page, page_html(document_of(fields)));
}

}  // namespace gangway::tool
