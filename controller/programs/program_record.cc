#include "controller/programs/program_record.h"

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "protocol/messages.h"
#include "runtime/base/cut.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr const char* kRecordHint =
    "put a copy of the file back before the controller is started again";
constexpr char kHexDigits[] = "0123456789abcdef";

std::string hex_of(const std::vector<std::byte>& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<int>(byte) >> 4];
    text += kHexDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

std::vector<std::byte> bytes_of_hex(const std::string& text) {
  GW_REQUIRE(text.size() % 2 == 0 && text.size() <= 2 * kInlineBytesMax, "a constant of ",
             text.size(), " digits");
  const auto digit = [](char c) {
    const size_t at = std::string_view(kHexDigits).find(c);
    GW_REQUIRE(at < 16, "a constant has the digit ", int{c});
    return static_cast<int>(at);
  };
  std::vector<std::byte> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  return bytes;
}

// Texts stand for values that are not finite, since JSON has no numbers for them.
RecordJson json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double double_of(const RecordJson& from) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (from == "inf") return kInf;
  if (from == "-inf") return -kInf;
  if (from == "nan") return std::numeric_limits<double>::quiet_NaN();
  GW_REQUIRE(from.is_number(), "expected a number");
  const auto value = from.get<double>();
  GW_REQUIRE(std::isfinite(value), "expected a finite number");
  return value;
}

const RecordJson& at(const RecordJson& object, const char* key) {
  const auto found = object.find(key);
  GW_REQUIRE(object.is_object() && found != object.end(), "expected \"", key, "\"");
  return *found;
}

const RecordJson& list_at(const RecordJson& object, const char* key, size_t max) {
  const RecordJson& list = at(object, key);
  GW_REQUIRE(list.is_array() && list.size() <= max, "expected \"", key,
             "\" to be a list of at most ", max);
  return list;
}

uint64_t whole(const RecordJson& value, const char* key, uint64_t max = ProgramRecord::kCountMax) {
  GW_REQUIRE(value.is_number_unsigned() && value.get<uint64_t>() <= max, "expected \"", key,
             "\" to be a whole number of at most ", max);
  return value.get<uint64_t>();
}

uint64_t whole_at(const RecordJson& object, const char* key,
                  uint64_t max = ProgramRecord::kCountMax) {
  return whole(at(object, key), key, max);
}

uint32_t word_at(const RecordJson& object, const char* key) {
  return static_cast<uint32_t>(whole_at(object, key, std::numeric_limits<uint32_t>::max()));
}

int64_t count_at(const RecordJson& object, const char* key) {
  return static_cast<int64_t>(whole_at(object, key));
}

bool flag_at(const RecordJson& object, const char* key) {
  const RecordJson& value = at(object, key);
  GW_REQUIRE(value.is_boolean(), "expected \"", key, "\" to be true or false");
  return value.get<bool>();
}

std::string text_of(const RecordJson& value, const char* key, size_t max = kTextBytesMax) {
  GW_REQUIRE(value.is_string() && value.get_ref<const std::string&>().size() <= max, "expected \"",
             key, "\" to be a text of at most ", max, " bytes");
  return value.get<std::string>();
}

RecordJson json_of(const ProgramRecord::Slice& slice) {
  const SliceShape& shape = slice.shape;
  return {{"devices", shape.devices},
          {"ranks_per_device", shape.ranks_per_device},
          {"axes", shape.axes},
          {"one_island", shape.one_island},
          {"per_host_max", shape.per_host_max},
          {"memory_bytes", shape.memory_bytes},
          {"exclusive", shape.exclusive},
          {"readers", slice.readers}};
}

ProgramRecord::Slice slice_of(const RecordJson& from) {
  ProgramRecord::Slice slice;
  SliceShape& shape = slice.shape;
  shape.devices = word_at(from, "devices");
  shape.ranks_per_device = word_at(from, "ranks_per_device");
  for (const RecordJson& axis : list_at(from, "axes", kSliceAxesMax))
    shape.axes.push_back(
        static_cast<uint32_t>(whole(axis, "axes", std::numeric_limits<uint32_t>::max())));
  shape.one_island = flag_at(from, "one_island");
  shape.per_host_max = word_at(from, "per_host_max");
  shape.memory_bytes = count_at(from, "memory_bytes");
  shape.exclusive = flag_at(from, "exclusive");
  for (const RecordJson& owner : list_at(from, "readers", ProgramRecord::kReadersMax))
    slice.readers.insert(text_of(owner, "readers"));
  return slice;
}

RecordJson json_of(const std::vector<SourceText>& texts) {
  RecordJson list = RecordJson::array();
  for (const SourceText& text : texts)
    list.push_back({{"path", text.path}, {"bytes", text.bytes}, {"hash", text.hash}});
  return list;
}

// Empty for records of earlier releases, which have no texts.
std::vector<SourceText> texts_of(const RecordJson& from) {
  std::vector<SourceText> texts;
  if (!from.contains("texts")) return texts;
  for (const RecordJson& text : list_at(from, "texts", kTextsMax))
    texts.push_back({text_of(at(text, "path"), "path", kTextPathBytesMax), whole_at(text, "bytes"),
                     text_of(at(text, "hash"), "hash")});
  return texts;
}

RecordJson json_of(const ProgramRecord::Executable& executable) {
  return {{"name", executable.name},
          {"bytes", executable.program->size()},
          {"slices", executable.slices},
          {"runs_in_flight_max", executable.runs_in_flight_max},
          {"dispatch", to_string(executable.dispatch)},
          {"position", executable.position},
          {"states_since", executable.states_since},
          {"texts", json_of(executable.texts)}};
}

// Takes the executable's bytes from the front of `bytes`.
ProgramRecord::Executable executable_of(const RecordJson& from, std::string_view& bytes) {
  ProgramRecord::Executable executable;
  executable.name = text_of(at(from, "name"), "name");
  const uint64_t size = whole_at(from, "bytes");
  GW_REQUIRE(size <= bytes.size(), "the bytes of an executable are missing");
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  executable.program = std::make_shared<const std::vector<std::byte>>(first, first + size);
  bytes.remove_prefix(size);
  for (const RecordJson& slice : list_at(from, "slices", ProgramRecord::kSlicesMax))
    executable.slices.push_back(
        static_cast<uint32_t>(whole(slice, "slices", ProgramRecord::kSlicesMax)));
  executable.runs_in_flight_max = word_at(from, "runs_in_flight_max");
  executable.dispatch = dispatch_of("\"dispatch\"", text_of(at(from, "dispatch"), "dispatch"));
  executable.position = whole_at(from, "position");
  // Records of earlier versions of Gangway lack it.
  if (from.contains("states_since")) executable.states_since = whole_at(from, "states_since");
  executable.texts = texts_of(from);
  return executable;
}

RecordJson json_of(const Schedule& schedule) {
  return {{"linear", {json_of(schedule.first), json_of(schedule.slope)}}};
}

RecordJson json_of(const EarlierSchedule& schedule) {
  if (const auto* cosine = std::get_if<WarmupCosine>(&schedule.form)) {
    return {{"warmup_cosine",
             {{"peak", json_of(cosine->peak)},
              {"warmup", cosine->warmup},
              {"steps", cosine->steps},
              {"final_share", json_of(cosine->final_share)},
              {"begin", cosine->begin}}}};
  }
  RecordJson values = RecordJson::array();
  for (const double value : std::get<EarlierSchedule::List>(schedule.form))
    values.push_back(json_of(value));
  return {{"list", std::move(values)}};
}

RecordJson json_of(const ScheduledInput& input) {
  const auto* const bytes = std::get_if<std::vector<std::byte>>(&input.value);
  RecordJson to = bytes != nullptr ? RecordJson{{"constant", hex_of(*bytes)}}
                                   : json_of(std::get<Schedule>(input.value));
  to["input"] = input.input;
  return to;
}

RecordJson json_of(const EarlierInput& input) {
  RecordJson to = json_of(*input.schedule);
  to["input"] = input.input;
  return to;
}

EarlierSchedule earlier_schedule_of(const RecordJson& from) {
  if (from.contains("warmup_cosine")) {
    const RecordJson& form = at(from, "warmup_cosine");
    return EarlierSchedule(WarmupCosine{.peak = double_of(at(form, "peak")),
                                        .warmup = count_at(form, "warmup"),
                                        .steps = count_at(form, "steps"),
                                        .final_share = double_of(at(form, "final_share")),
                                        .begin = count_at(form, "begin")});
  }
  EarlierSchedule::List values;
  for (const RecordJson& value : list_at(from, "list", kScheduleValuesMax))
    values.push_back(double_of(value));
  return EarlierSchedule(std::move(values));
}

void add_input(ProgramRecord::Repetition& repetition, const RecordJson& from) {
  const uint32_t input = word_at(from, "input");
  if (from.contains("constant")) {
    repetition.inputs.push_back(
        {input, bytes_of_hex(text_of(from["constant"], "constant", 2 * kInlineBytesMax))});
  } else if (from.contains("linear")) {
    const RecordJson& form = list_at(from, "linear", 2);
    GW_REQUIRE(form.size() == 2, "expected a \"linear\" of two numbers");
    repetition.inputs.push_back({input, Schedule::linear(double_of(form[0]), double_of(form[1]))});
  } else {
    repetition.earlier.push_back(
        {input, std::make_shared<const EarlierSchedule>(earlier_schedule_of(from))});
  }
}

RecordJson json_of(const RecoveryOptions& recovery) {
  return {{"every", recovery.every},
          {"keep", recovery.keep},
          {"first", recovery.first},
          {"elastic", recovery.elastic},
          {"metadata", RecordJson(recovery.metadata)}};
}

RecoveryOptions recovery_of(const RecordJson& from) {
  RecoveryOptions recovery;
  recovery.every = whole_at(from, "every");
  recovery.keep = static_cast<int>(whole_at(from, "keep", kCheckpointsKeptMax));
  // Files of earlier versions lack it.
  if (from.contains("first")) recovery.first = whole_at(from, "first", kFirstVersionMax);
  for (const RecordJson& axis : list_at(from, "elastic", kElasticAxesMax))
    recovery.elastic.push_back(text_of(axis, "elastic"));
  const RecordJson& metadata = at(from, "metadata");
  GW_REQUIRE(metadata.is_object(), "expected \"metadata\" to be an object");
  for (const auto& [key, text] : metadata.items())
    recovery.metadata.emplace(key, text_of(text, "metadata"));
  return recovery;
}

RecordJson json_of(const ProgramRecord::Repetition& repetition) {
  // Inputs are sorted by number, whatever their form, as earlier releases wrote them.
  std::multimap<uint32_t, RecordJson> by_number;
  for (const ScheduledInput& input : repetition.inputs)
    by_number.emplace(input.input, json_of(input));
  for (const EarlierInput& input : repetition.earlier)
    by_number.emplace(input.input, json_of(input));
  RecordJson inputs = RecordJson::array();
  for (auto& [number, input] : by_number) inputs.push_back(std::move(input));
  return {{"executable", repetition.executable},
          {"steps", repetition.steps},
          {"inputs", std::move(inputs)},
          {"position", repetition.position},
          {"first_version", repetition.first_version},
          {"restorable_from", repetition.restorable_from}};
}

ProgramRecord::Repetition repetition_of(const RecordJson& from) {
  ProgramRecord::Repetition repetition;
  repetition.executable = word_at(from, "executable");
  repetition.steps = count_at(from, "steps");
  for (const RecordJson& input : list_at(from, "inputs", ProgramRecord::kInputsMax))
    add_input(repetition, input);
  repetition.position = whole_at(from, "position");
  repetition.first_version = whole_at(from, "first_version");
  repetition.restorable_from = whole_at(from, "restorable_from");
  return repetition;
}

ProgramRecord program_of(const RecordJson& from, std::string_view bytes) {
  ProgramRecord program;
  program.name = text_of(at(from, "name"), "name");
  program.owner = text_of(at(from, "owner"), "owner");
  const RecordJson& share = at(from, "share");
  program.share.weight = double_of(at(share, "weight"));
  const RecordJson& priority = at(share, "priority");
  // nlohmann compares a large unsigned number as a negative one.
  const bool is_small = !priority.is_number_unsigned() || priority.get<uint64_t>() <= kPriorityMax;
  GW_REQUIRE(priority.is_number_integer() && is_small && priority >= -kPriorityMax &&
                 priority <= kPriorityMax,
             "expected a \"priority\"");
  program.share.priority = priority.get<int32_t>();
  for (const RecordJson& slice : list_at(from, "slices", ProgramRecord::kSlicesMax))
    program.slices.push_back(slice_of(slice));
  for (const RecordJson& executable : list_at(from, "executables", ProgramRecord::kExecutablesMax))
    program.executables.push_back(executable_of(executable, bytes));
  GW_REQUIRE(bytes.empty(), "it has other executables than its bytes are of");
  program.kept_slice = word_at(from, "kept_slice");
  program.recovery = recovery_of(at(from, "recovery"));
  // Files of earlier versions lack it.
  if (from.contains("released_states")) {
    for (const RecordJson& name :
         list_at(from, "released_states", ProgramRecord::kReleasedStatesMax))
      program.released_states.push_back(text_of(name, "released_states"));
  }
  program.is_checkpointed = flag_at(from, "is_checkpointed");
  program.repetition = repetition_of(at(from, "repetition"));
  require_record(program);
  return program;
}

// Parses the first line, or the whole head.
RecordJson parsed(std::string_view text) {
  RecordJson json =
      RecordJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  GW_REQUIRE(json.is_object(), "expected a JSON object, got ", cut(std::string(text), 64));
  return json;
}

// Returns the two parts after the first line: head and bytes.
std::pair<std::string_view, std::string_view> parts_of(std::string_view text) {
  const size_t end = text.substr(0, kTextBytesMax).find('\n');
  GW_REQUIRE(end != text.npos, "its first line has no end");
  const RecordJson header = parsed(text.substr(0, end));
  text.remove_prefix(end + 1);
  const uint64_t head = whole_at(header, "head", ProgramRecord::kBytesMax);
  const uint64_t bytes = whole_at(header, "bytes", ProgramRecord::kBytesMax);
  GW_REQUIRE(text.size() == head + bytes, "expected ", head + bytes,
             " bytes behind its first line, got ", text.size());
  GW_REQUIRE(text_of(at(header, "hash"), "hash") == content_hash(text),
             "its bytes have another hash than its first line says");
  return {text.substr(0, head), text.substr(head)};
}

void require_version(std::string_view text, const std::string& file) {
  const size_t end = text.substr(0, kTextBytesMax).find('\n');
  const RecordJson header =
      RecordJson::parse(text.begin(), text.begin() + (end == text.npos ? 0 : end), nullptr, false);
  const bool is_one = header.is_object() && header.contains("gangway") &&
                      header["gangway"] == "program" && header.contains("version") &&
                      header["version"].is_number_integer();
  GW_REQUIRE(is_one, "expected a file of a program, with its version");
  if (header["version"] == ProgramRecord::kVersion) return;
  throw Error(ErrorKind::kUnimplemented,
              cat("state folder: ", file, " is of version ", header["version"].dump(),
                  ": this controller reads and writes version ", ProgramRecord::kVersion));
}

}  // namespace

std::string frame_record(std::string_view head, std::string_view bytes) {
  const std::string rest = cat(head, bytes);
  const RecordJson header = {{"gangway", "program"},
                             {"version", ProgramRecord::kVersion},
                             {"head", head.size()},
                             {"bytes", bytes.size()},
                             {"hash", content_hash(rest)}};
  return cat(header.dump(), "\n", rest);
}

std::string print_unchecked(const ProgramRecord& program) {
  RecordJson slices = RecordJson::array(), executables = RecordJson::array();
  for (const ProgramRecord::Slice& slice : program.slices) slices.push_back(json_of(slice));
  std::string bytes;
  for (const ProgramRecord::Executable& executable : program.executables) {
    executables.push_back(json_of(executable));
    bytes.append(reinterpret_cast<const char*>(executable.program->data()),
                 executable.program->size());
  }
  const RecordJson head = {
      {"name", program.name},
      {"owner", program.owner},
      {"share", {{"weight", program.share.weight}, {"priority", program.share.priority}}},
      {"slices", std::move(slices)},
      {"executables", std::move(executables)},
      {"kept_slice", program.kept_slice},
      {"recovery", json_of(program.recovery)},
      {"released_states", program.released_states},
      {"is_checkpointed", program.is_checkpointed},
      {"repetition", json_of(program.repetition)}};
  return frame_record(head.dump() + "\n", bytes);
}

std::string print_record(const ProgramRecord& program) {
  require_record(program);
  std::string text = print_unchecked(program);
  GW_ASSERT(text.size() <= ProgramRecord::kBytesMax, "a record of ", text.size(), " bytes");
  return text;
}

ProgramRecord parse_record(std::string_view text, const std::string& file) {
  std::optional<Error> why;
  try {
    require_version(text, file);
    const auto [head, bytes] = parts_of(text);
    return program_of(parsed(head), bytes);
  } catch (const Error& error) {
    why = error;
  } catch (const nlohmann::json::exception& error) {
    why = Error(ErrorKind::kInvalid, error.what());
  }
  if (why->kind() == ErrorKind::kUnimplemented)
    throw Error(ErrorKind::kUnimplemented, why->message(), {},
                "start the Gangway that wrote it, or choose another folder with --state-dir");
  throw Error(ErrorKind::kInvalid, cat("state folder: ", file, " is corrupt: ", why->message()), {},
              kRecordHint);
}

}  // namespace gangway
