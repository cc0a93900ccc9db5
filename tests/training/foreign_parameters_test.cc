// Parameters come from a file of another program, with other names and other float types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>

#include "checkpoint/safetensors_writer.h"
#include "programs/train/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* at = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), at, at + sizeof(T));
}

// A number that bf16 holds exactly, different for each tensor and element.
float value_at(size_t tensor, int64_t element) {
  return static_cast<float>((element * 7 + static_cast<int64_t>(tensor) * 13) % 255 - 127) / 64.0f;
}

// The conversion is exact: a number has at most seven bits, none below 1/64.
uint16_t half_of(float value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

std::vector<std::byte> bytes_as(FileDType dtype, size_t tensor, int64_t elements) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < elements; ++i) {
    const float value = value_at(tensor, i);
    if (dtype == FileDType::kF64) append(bytes, static_cast<double>(value));
    if (dtype == FileDType::kF32) append(bytes, value);
    if (dtype == FileDType::kF16) append(bytes, half_of(value));
    if (dtype == FileDType::kBF16)
      append(bytes, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  return bytes;
}

std::string foreign_name(const std::string& name) { return "transformer." + name + ".weight"; }

class ForeignParameters : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    trainer_ = std::make_unique<Trainer>(tiny_model(write("text.txt", readable_text())));
    for (const StateTensor& tensor : trainer_->slice.state_tensors()) {
      if (tensor.name.starts_with("params.")) parameters_.push_back(tensor);
    }
  }

  std::string name_of(size_t parameter) const { return parameters_[parameter].name.substr(7); }

  // Every parameter under its foreign name, in one of three types each.
  std::filesystem::path write_foreign() const {
    static constexpr FileDType kTypes[] = {FileDType::kBF16, FileDType::kF64, FileDType::kF16,
                                           FileDType::kF32};
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      specs.push_back({foreign_name(name_of(i)), kTypes[i % 4], parameters_[i].type.dims});
    }
    SafetensorsWriter out(folder_ / "foreign.safetensors", specs);
    for (size_t i = 0; i < specs.size(); ++i) {
      out.append(specs[i].name, bytes_as(specs[i].dtype, i, parameters_[i].type.elements()));
    }
    out.finish();
    return folder_ / "foreign.safetensors";
  }

  // A file of the one tensor "embed".
  std::filesystem::path write_embed(FileDType dtype, std::vector<int64_t> shape) const {
    const TensorSpec spec{"embed", dtype, std::move(shape)};
    SafetensorsWriter out(folder_ / "embed.safetensors", {spec});
    out.append("embed", std::vector<std::byte>(byte_size(spec).value()));
    out.finish();
    return folder_ / "embed.safetensors";
  }

  std::string why_refused(const std::filesystem::path& path) const {
    const Error error = error_of([&] {
      load_parameters(trainer_->slice, path, [](const std::string& name) {
        return name == "embed" ? name : std::string();
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    return error.what();
  }

  std::unique_ptr<Trainer> trainer_;
  std::vector<StateTensor> parameters_;
};

TEST_F(ForeignParameters, AreLoadedByTheNameMapAndConverted) {
  const int loaded = load_parameters(trainer_->slice, write_foreign(), foreign_name);
  EXPECT_EQ(loaded, static_cast<int>(parameters_.size()));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Box part = parameters_[i].in_state(whole_box(parameters_[i].type.dims));
    const HostTensor tensor = trainer_->slice.read_state(parameters_[i].state, part);
    const auto values = tensor.as<float>();
    for (size_t at = 0; at < values.size(); ++at) {
      ASSERT_EQ(values[at], value_at(i, static_cast<int64_t>(at))) << name_of(i);
    }
  }
}

TEST_F(ForeignParameters, ParametersThatTheMapLeavesOutStayAsTheyAre) {
  const States before = states_of(trainer_->slice);
  const int loaded = load_parameters(trainer_->slice, write_foreign(), [](const std::string& name) {
    return name == "final_norm" ? foreign_name(name) : std::string();
  });
  EXPECT_EQ(loaded, 1);
  for (const auto& [name, bytes] : states_of(trainer_->slice)) {
    EXPECT_EQ(bytes != before.at(name), name == "params.final_norm") << name;
  }
}

TEST_F(ForeignParameters, AMissingTensorAWrongShapeAndATypeThatIsNotConvertedAreNamed) {
  const Dims dims = parameters_[0].type.dims;
  ASSERT_EQ(name_of(0), "embed");
  EXPECT_THAT(why_refused(write_foreign()),
              AllOf(HasSubstr("no tensor embed"), HasSubstr("foreign.safetensors")));
  EXPECT_THAT(why_refused(write_embed(FileDType::kF32, {3, 5})),
              AllOf(HasSubstr("\"embed\""), HasSubstr("f32[256, 16]"), HasSubstr("F32[3, 5]")));
  std::filesystem::remove(folder_ / "embed.safetensors");
  EXPECT_THAT(why_refused(write_embed(FileDType::kI32, dims)),
              AllOf(HasSubstr("\"embed\""), HasSubstr("I32"), HasSubstr("f32")));
  std::filesystem::remove(folder_ / "embed.safetensors");
  EXPECT_THAT(why_refused(write_embed(FileDType::kF8E4M3, dims)), HasSubstr("F8_E4M3"));
}

TEST_F(ForeignParameters, ParametersOfACheckpointWithAFlippedBitAreNotLoaded) {
  const std::filesystem::path saved =
      save_checkpoint(trainer_->slice, folder_ / "checkpoints", {.step = 1, .seed = 1});
  const auto load = [&] {
    load_parameters(trainer_->slice, saved, [](const std::string& name) { return name; });
  };
  load();
  {
    std::fstream file(saved / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const auto last = static_cast<char>(file.peek() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  const States before = states_of(trainer_->slice);
  EXPECT_THAT(error_of(load).what(), HasSubstr("model.safetensors: the file is damaged"));
  EXPECT_TRUE(states_of(trainer_->slice) == before);
}

}  // namespace
}  // namespace gangway::programs
