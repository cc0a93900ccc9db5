// Generation with key/value caches gives the tokens of the full-sequence model.
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "programs/train/sample.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

// Output: "next" (i32[1, seq]): the likeliest token after each position of "tokens" (i32[1, seq]).
Program likeliest(const LanguageModelConfig& config, const Mesh& mesh) {
  ProgramBuilder b("likeliest", mesh, config.seed);
  Tree params = b.state("params", transformer_parameters(config.model));
  Value tokens = b.input("tokens", i32({1, config.model.seq}));
  TransformerConfig model = config.model;
  model.moe.groups = 1;  // One sequence is one group.
  Value logits = transformer_logits(model, params, transformer_hidden(model, params, tokens));
  b.output("next", argmax(logits, 2));
  return b.build();
}

struct Kind {
  const char* name;
  bool experts = false;
  bool gated = false;
  bool tied = true;
  bool positional = true;
};

class GenerationTest : public FolderTest, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    const std::filesystem::path text = write("text.txt", readable_text());
    config_ = GetParam().experts ? tiny_experts(text) : tiny_model(text);
    config_.model.gated = GetParam().gated;
    config_.model.tied = GetParam().tied;
    config_.model.positional = GetParam().positional;
  }

  LanguageModelConfig config_;
};

// The tokens of a whole sequence; the first ones are the prompt.
std::vector<int32_t> generate(const Executable& step, const std::vector<int32_t>& prompt,
                              int64_t length) {
  std::vector<int32_t> tokens = prompt;
  for (int32_t at = 0; at + 1 < length; ++at) {
    const auto i = static_cast<size_t>(at);
    const std::vector<int32_t> forced = {i < prompt.size() ? prompt[i] : -1};
    const gangway::Run run =
        step.run({{"forced", HostTensor::of<int32_t>({1}, forced)},
                  {"temperature", 0.0f},
                  {"key", HostTensor::of<int32_t>({2}, std::vector<int32_t>{1, at})},
                  {"position", at}});
    const int32_t token = run["token"].item<int32_t>();
    if (i + 1 >= prompt.size()) tokens.push_back(token);
  }
  return tokens;
}

TEST_P(GenerationTest, GreedyTokensAreTheLikeliestOnesOfTheFullSequence) {
  Trainer trainer(config_);
  trainer.train(60);
  Executable step = trainer.slice.compile(generate_step(config_, trainer.mesh));
  Executable full = trainer.slice.compile(likeliest(config_, trainer.mesh));
  const int64_t seq = config_.model.seq;
  const std::vector<std::vector<int32_t>> prompts = {{'t'}, {'i', 'n', ' '}, {'g', 'o', 'o', 'd'}};
  for (const std::vector<int32_t>& prompt : prompts) {  // Caches of the one before are stale.
    const std::vector<int32_t> tokens = generate(step, prompt, seq);
    ASSERT_EQ(tokens.size(), static_cast<size_t>(seq));
    const HostTensor next =
        full.run({{"tokens", HostTensor::of<int32_t>({1, seq}, tokens)}})["next"].to_host();
    for (size_t at = prompt.size(); at < tokens.size(); ++at) {
      EXPECT_EQ(tokens[at], next.as<int32_t>()[at - 1]) << "position " << at;
    }
  }
}

TEST_P(GenerationTest, TheSameSeedGivesTheSameTextAndLeavesTheParametersAlone) {
  Trainer trainer(config_);
  trainer.train(20);
  Executable step = trainer.slice.compile(generate_step(config_, trainer.mesh));
  const HostTensor before = trainer.slice.read_state("params.embed");
  const SampleOptions options{.bytes = 16, .temperature = 1.0, .seed = 3, .prompt = "in the"};
  const std::string one = sample(step, options);
  EXPECT_EQ(one.size(), 16u);
  EXPECT_TRUE(one.starts_with("in the"));
  EXPECT_EQ(one, sample(step, options));
  SampleOptions other = options;
  other.seed = 4;
  EXPECT_NE(one, sample(step, other));
  EXPECT_EQ(trainer.slice.read_state("params.embed").bytes, before.bytes);
}

INSTANTIATE_TEST_SUITE_P(Model, GenerationTest,
                         testing::Values(Kind{.name = "Dense"},
                                         Kind{.name = "GatedUntied", .gated = true, .tied = false},
                                         Kind{.name = "NoPositions", .positional = false},
                                         Kind{.name = "Experts", .experts = true}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace gangway::programs
