// Files of KTransformers' rules: what is placed, what is said about the rest,
// and that no text of a file can do more than fail.

#include "compiler/Driver/ModuleRules.h"

#include "test/support/TempDir.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <map>
#include <random>

using moetest::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

using Names = std::vector<std::string>;

/// Tensors of a model of `layers` layers with experts.
Names tensorsOf(int layers, bool isTied = false) {
  Names names = {"token_embd.weight", "output_norm.weight"};
  if (!isTied)
    names.emplace_back("output.weight");
  for (int layer = 0; layer < layers; ++layer)
    for (const char *part :
         {"attn_norm", "attn_q", "attn_k", "attn_output", "ffn_norm",
          "ffn_gate_inp", "ffn_up_exps", "ffn_down_exps", "ffn_up_shexp"})
      names.push_back(fmt::format("blk.{}.{}.weight", layer, part));
  return names;
}

struct Setting {
  std::string architecture = "qwen2moe";
  Names tensors = tensorsOf(3);
  bool allowUnmatched = false, streams = false;
};

moert::StatusOr<moec::ModuleRules> read(const std::string &text,
                                        const Setting &setting = {}) {
  static const moec::TargetDesc target = *moec::resolveTarget("2x4090+xeon");
  TempDir folder;
  moert::InputTexts texts;
  auto rules =
      moec::readModuleRules(texts, folder.write("r.yaml", text),
                            {.architecture = setting.architecture,
                             .tensors = setting.tensors,
                             .target = target,
                             .ubatch = 512,
                             .context = 4096,
                             .streams = setting.streams,
                             .allowUnmatched = setting.allowUnmatched});
  const std::string folderName = folder.path() + "/";
  auto withoutFolder = [&](std::string text) {
    for (size_t at; (at = text.find(folderName)) != text.npos;)
      text.erase(at, folderName.size());
    return text;
  };
  if (!rules)
    return moert::Status(rules.status().code(),
                         withoutFolder(rules.status().message()));
  std::ranges::transform(rules->notes, rules->notes.begin(), withoutFolder);
  return rules;
}

std::string errorOf(const std::string &text, const Setting &setting = {}) {
  auto rules = read(text, setting);
  return rules ? "" : rules.status().message();
}
Names notesOf(const std::string &text, const Setting &setting = {}) {
  auto rules = read(text, setting);
  return rules ? rules->notes : Names{"error: " + rules.status().message()};
}

/// Returns the devices of tensors whose names contain `part`, by what they
/// follow: "gpu0" of "^blk\.0\.attn_q\.weight$=gpu0".
Names devicesOf(const std::string &text, const std::string &part,
                const Setting &setting = {}) {
  auto rules = read(text, setting);
  if (!rules)
    return {rules.status().message()};
  Names devices;
  for (const std::string &rule : rules->tensorRules)
    if (rule.find(part) != rule.npos)
      devices.push_back(rule.substr(rule.rfind('=') + 1));
  return devices;
}

/// Returns a rule with lines as people write it.
std::string rule(const std::string &match, const std::string &kwargs,
                 const std::string &end = "") {
  return fmt::format("- match: {{{}}}\n  replace:\n    class: default\n"
                     "    kwargs: {{{}}}\n{}",
                     match, kwargs, end);
}

const std::string kCpu = "generate_device: cpu",
                  kGpu = "generate_device: \"cuda:0\"";
constexpr char kAttentionMark[] = "\x1e";

TEST(ModuleRules, AttentionIsPlacedByItsOwnModule) {
  EXPECT_THAT(devicesOf(rule("name: 'self_attn$'", kGpu), kAttentionMark),
              ElementsAre("gpu0", "gpu0", "gpu0"));
  EXPECT_THAT(devicesOf(rule("name: 'self_attn$'", kGpu), "attn_q"), IsEmpty());
  EXPECT_THAT(devicesOf(rule("name: '1.self_attn'", kGpu), kAttentionMark),
              ElementsAre("gpu0"));
  EXPECT_THAT(devicesOf(rule("class: torch.nn.Linear", kGpu), kAttentionMark),
              IsEmpty());
}

TEST(ModuleRules, DeltaNetIsNoAttention) {
  const Setting both{
      .architecture = "qwen3next",
      .tensors = {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight",
                  "blk.1.attn_q.weight", "blk.0.ssm_out.weight"}};
  const std::string text = rule("class: x.Qwen3NextGatedDeltaNet", kCpu) +
                           rule("class: x.Qwen3NextAttention", kGpu);
  EXPECT_THAT(devicesOf(text, kAttentionMark, both),
              ElementsAre("cpu0", "gpu0"));
  EXPECT_THAT(notesOf(text, both), IsEmpty());
  EXPECT_THAT(
      devicesOf(rule("name: 'linear_attn.in_proj_z$'", kGpu), "=", both),
      ElementsAre("gpu0"));
}

TEST(ModuleRules, NamesAreOfEachArchitecture) {
  const Names gate = {"blk.0.ffn_gate_inp.weight"};
  const std::pair<const char *, const char *> routers[] = {
      {"llama4", "^model.layers.0.feed_forward.router$"},
      {"smallthinker", "^model.layers.0.block_sparse_moe.primary_router$"},
      {"hunyuan-moe", "^model.layers.0.mlp.gate.wg$"},
      {"llama", "^model.layers.0.block_sparse_moe.gate$"},
      {"deepseek2", "^model.layers.0.mlp.gate$"}};
  for (auto [architecture, name] : routers)
    EXPECT_THAT(devicesOf(rule(fmt::format("name: '{}'", name), kGpu), "=",
                          {.architecture = architecture, .tensors = gate}),
                ElementsAre("gpu0"))
        << architecture;
  const std::pair<const char *, const char *> experts[] = {
      {"llama4", "feed_forward.experts"},
      {"smallthinker", "block_sparse_moe.experts"},
      {"llama4", "feed_forward.shared_expert"},
      {"hunyuan-moe", "mlp.shared_mlp"}};
  for (auto [architecture, name] : experts)
    EXPECT_EQ(errorOf(rule(fmt::format("name: '.{}'", name), kGpu),
                      {.architecture = architecture}),
              "")
        << architecture;
  for (const char *name :
       {"x.Llama4TextMoe", "x.SmallthinkerMoeBlock", "x.Qwen2MoeSparseMoeBlock",
        "x.SmallthinkerDenseMlpBlock", "x.HunYuanMoE"})
    EXPECT_THAT(notesOf(rule(fmt::format("class: {}", name), "")), IsEmpty())
        << name;
}

TEST(ModuleRules, RoutersAreLinearWhereTheyAreInHuggingFace) {
  const std::string text =
      rule("name: 'mlp.gate$', class: torch.nn.Linear", kGpu);
  EXPECT_THAT(devicesOf(text, "=", {.architecture = "qwen3moe"}),
              ElementsAre("gpu0", "gpu0", "gpu0"));
  for (const char *architecture : {"deepseek2", "glm4moe", "kimi-linear"}) {
    EXPECT_THAT(errorOf(text, {.architecture = architecture}),
                HasSubstr("model.layers.0.mlp.gate matches by name, but is no "
                          "torch.nn.Linear"));
    EXPECT_THAT(devicesOf(rule("class: x.MoEGate", kGpu), "=",
                          {.architecture = architecture}),
                ElementsAre("gpu0", "gpu0", "gpu0"));
  }
}

TEST(ModuleRules, ContainersThatPlaceNothingAreNotes) {
  EXPECT_THAT(notesOf(rule("name: 'mlp$'", kCpu)),
              ElementsAre("r.yaml:1: this rule places nothing: "
                          "model.layers.0.mlp has no weights of its own, rules "
                          "for its parts place them, as does recursive: "
                          "False"));
  EXPECT_THAT(notesOf(rule("name: 'mlp$'", kCpu, "  recursive: False\n")),
              IsEmpty());
  EXPECT_THAT(
      notesOf(rule("name: 'mlp$'", kCpu) + rule("name: 'mlp.experts$'", kCpu)),
      IsEmpty());
  EXPECT_THAT(notesOf(rule("name: '^model$'", "")), IsEmpty());
}

TEST(ModuleRules, UnusedRulesAreOneError) {
  const std::string text =
      rule("name: 'experts$'", kCpu) + rule("name: 'mlp.experts$'", kCpu) +
      rule("name: 'layers.*exprts$'", kCpu) + rule("class: x.Qwen2MoeGate", "");
  EXPECT_EQ(errorOf(text),
            "r.yaml:5: this rule matches only modules that the rule of line 1 "
            "before it matches; leave it out or put it first\n"
            "r.yaml:9: this rule matches no module, the nearest is "
            "\"model.layers.0.mlp.experts\"\n"
            "with --allow-unmatched-rules these are notes");
  EXPECT_THAT(notesOf(text, {.allowUnmatched = true}),
              ElementsAre(HasSubstr("r.yaml:5: "), HasSubstr("r.yaml:9: ")));
  EXPECT_THAT(errorOf(rule("name: 'exprts$'", kCpu)),
              EndsWith("; with --allow-unmatched-rules this is a note"));
}

TEST(ModuleRules, UnusedRulesSayWhy) {
  auto why = [](const std::string &match, const Setting &setting = {}) {
    return errorOf(rule(match, kGpu), setting);
  };
  EXPECT_THAT(why("name: '^model\\.layers\\.([012])$', class: torch.nn.Linear"),
              HasSubstr("model.layers.0 matches by name, but is no "
                        "torch.nn.Linear"));
  EXPECT_THAT(why("name: '^model\\.layers\\.([345][0-9])\\.mlp\\.experts$'"),
              HasSubstr("the model has 3 layers, from model.layers.0 to "
                        "model.layers.2"));
  EXPECT_THAT(why("name: '^lm_head$'", {.tensors = tensorsOf(2, true)}),
              HasSubstr("the head is tied to model.embed_tokens"));
  EXPECT_THAT(why("name: '^model\\\\.layers\\\\..*experts$'"),
              HasSubstr("a backslash is not doubled"));
  EXPECT_THAT(why("name: 'blk\\.1\\.ffn_up_zzzz'"),
              HasSubstr("names are Hugging Face's, as in \"model.layers.0."));
  EXPECT_THAT(why("class: torch.nn.Conv2d"),
              AllOf(HasSubstr("class \"torch.nn.Conv2d\" is not known"),
                    HasSubstr("...GatedDeltaNet"), HasSubstr("...Router")));
  // A class that other models of the family have is no mistake.
  EXPECT_THAT(notesOf(rule("class: x.Qwen3NextGatedDeltaNet", kGpu)),
              ElementsAre("r.yaml:1: this model has no x.Qwen3NextGatedDeltaNet"
                          ": the rule has no effect"));
  // A rule that says the same again has no effect either.
  const std::string again = rule("name: 'self_attn$'", kGpu);
  EXPECT_THAT(notesOf(again + rule("class: x.Attention", kGpu)),
              ElementsAre(HasSubstr("that the rule of line 1 before")));
  EXPECT_THAT(errorOf(again + rule("class: x.Attention", kCpu)),
              HasSubstr("r.yaml:5: "));
}

TEST(ModuleRules, MisspeltArgumentsAreErrors) {
  auto error = [](const std::string &kwargs) {
    return errorOf(rule("name: 'experts$'", kwargs));
  };
  EXPECT_THAT(error("genarate_device: cpu"),
              HasSubstr("r.yaml:4: unknown key \"genarate_device\" of kwargs, "
                        "did you mean \"generate_device\"?"));
  EXPECT_THAT(error("per_layer_prefill_input_threshold: 1"),
              HasSubstr("did you mean \"per_layer_prefill_intput_threshold\""));
  EXPECT_THAT(error("generate_op: KExpertsCPU, generate_mlp_type: KExpertsCPU"),
              HasSubstr("generate_op is there twice"));
  EXPECT_THAT(error("backend: a, backend: b"),
              HasSubstr("kwargs: backend is there twice"));
  EXPECT_THAT(error("generate_device: cuda, generate_mlp_type: MLPCPUExperts"),
              HasSubstr("MLPCPUExperts does not run on a GPU"));
}

TEST(ModuleRules, IgnoredArgumentsNameWhatDoesTheSame) {
  auto note = [](const std::string &kwargs) {
    Names notes = notesOf(rule("name: 'experts$'", kwargs));
    return notes.size() == 1 ? notes[0] : fmt::format("{}", notes.size());
  };
  EXPECT_THAT(note("n_deferred_experts: [6]"),
              HasSubstr("\"n_deferred_experts\" has no effect here: "
                        "--defer-experts 6 defers experts"));
  EXPECT_THAT(note("n_deferred_experts_per_token: 2"),
              HasSubstr("--defer-experts 2 "));
  EXPECT_THAT(note("n_deferred_experts: [6, 8]"),
              HasSubstr("--defer-experts N "));
  EXPECT_THAT(note("absorb_for_prefill: False"), HasSubstr("--mla"));
  EXPECT_THAT(note("backend: AMXInt4"), HasSubstr("the model file's format"));
  EXPECT_THAT(note("chunck_size: 10"), EndsWith("has no effect here"));
}

TEST(ModuleRules, UnknownOperatorsAreNotes) {
  for (const char *none : {"None", "null", "~", ""})
    EXPECT_THAT(notesOf(rule("name: 'experts$'",
                             fmt::format("generate_op: {}, {}", none, kCpu))),
                IsEmpty())
        << none;
  EXPECT_THAT(
      notesOf(rule("name: 'experts$'", kCpu + ", generate_op: KSFTExpertsCPU")),
      ElementsAre("r.yaml:4: operator \"KSFTExpertsCPU\" is not known, the "
                  "nearest is KExpertsCPU; only devices are used"));
}

TEST(ModuleRules, TwoDevicesAreOneNote) {
  auto two = [](const char *prefill, const char *generate) {
    return fmt::format("prefill_device: '{}', generate_device: '{}'", prefill,
                       generate);
  };
  const std::string experts =
      rule("name: '0.mlp.experts$'", two("cuda:0", "cpu")) +
      rule("name: 'experts$'", two("cuda:1", "cpu"));
  EXPECT_THAT(
      notesOf(experts),
      ElementsAre("r.yaml:1: prefill_device is cuda:0, cuda:1 and "
                  "generate_device cpu: both phases run on cpu, where the "
                  "weights are; --stream-experts says when long prompts copy "
                  "experts to a GPU (as in line 5)"));
  EXPECT_THAT(notesOf(experts, {.streams = true}),
              ElementsAre(Not(HasSubstr("--stream-experts"))));
  EXPECT_THAT(notesOf(rule("name: 'lm_head'", two("cuda", "cpu"))),
              ElementsAre(Not(HasSubstr("--stream-experts"))));
  EXPECT_THAT(notesOf(rule("name: 'experts$'", two("cpu", "cuda"))),
              ElementsAre(AllOf(HasSubstr("both phases run on cuda,"),
                                Not(HasSubstr("--stream-experts")))));
}

TEST(ModuleRules, TransfersAndThresholdsFitTheModel) {
  auto model = [](const std::string &kwargs) {
    return rule("name: '^model$'", kwargs);
  };
  EXPECT_THAT(notesOf(model("transfer_map: {1: 'cuda:1', 990: 'cuda:0'}")),
              ElementsAre("r.yaml:4: transfer_map: layer 990 is beyond the "
                          "model's, which are 0 to 2"));
  EXPECT_THAT(errorOf(model("transfer_map: {1: 'cuda:1', 01: 'cuda:0'}")),
              HasSubstr("layer 1 is there twice"));
  EXPECT_THAT(errorOf(model("transfer_map: {1: 'cuda:1', 1: 'cuda:0'}")),
              HasSubstr("transfer_map: 1 is there twice"));
  EXPECT_THAT(devicesOf(model("transfer_map: {1: 'cuda:1'}"), "attn_q"),
              ElementsAre("gpu0", "gpu1", "gpu1"));
  const std::string key = "per_layer_prefill_intput_threshold: ";
  EXPECT_THAT(notesOf(model(key + "2000")),
              ElementsAre("r.yaml:4: per_layer_prefill_intput_threshold is "
                          "2000, but steps have at most 512 tokens, so nothing "
                          "is streamed; --ubatch 2000 streams"));
  EXPECT_THAT(notesOf(model(key + "5000")),
              ElementsAre(EndsWith("--ctx 5000 --ubatch 5000 streams")));
  auto rules = read(model(key + "500"));
  ASSERT_TRUE(rules.isOk());
  EXPECT_EQ(rules->streamFrom, 500);
  EXPECT_EQ(read(model(key + "500"), {.streams = true})->streamFrom, 0);
}

TEST(ModuleRules, CopiedTextIsExplained) {
  const std::string fine = "- match:\n    name: \"experts$\"\n  replace:\n"
                           "    class: default\n    kwargs:\n"
                           "      generate_device: cpu\n";
  auto changed = [&](const std::string &from, const std::string &to) {
    std::string text = fine;
    return errorOf(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(errorOf(fine), "");
  EXPECT_EQ(changed("      gen", "\tgen"),
            "r.yaml:6: begins with a tab: YAML is indented by spaces");
  EXPECT_THAT(changed("\"experts$", "\"\\.experts$"),
              HasSubstr("r.yaml:2: is not YAML: found unknown escape character"
                        "; within double quotes a backslash is doubled"));
  EXPECT_THAT(errorOf("```yaml\n" + fine + "```\n"),
              HasSubstr("r.yaml:1: begins with ```, which is Markdown"));
  EXPECT_THAT(changed("    name", "  \xc2\xa0 name"),
              HasSubstr("r.yaml:2: begins with a no-break space"));
  EXPECT_THAT(changed("\"experts$\"", "\xe2\x80\x9c"
                                      "experts$\xe2\x80\x9d"),
              HasSubstr("r.yaml:2: has typographic quotes"));
  EXPECT_THAT(changed("      gen", "    gen"),
              HasSubstr("r.yaml:6: unknown key \"generate_device\" of replace; "
                        "indent it below kwargs"));
  EXPECT_THAT(changed("    kwargs", "  kwargs"),
              HasSubstr("r.yaml:5: unknown key \"kwargs\" of a rule; indent it "
                        "below replace"));
  EXPECT_THAT(changed("    class: default", "    recursive: False"),
              HasSubstr("it belongs to the rule"));
  for (const char *empty : {"", "[]\n", "# nothing\n"})
    EXPECT_THAT(errorOf(empty), HasSubstr("r.yaml:1: has no rules"));
  for (const char *name : {"", "~", "null", "''", "None"})
    EXPECT_THAT(errorOf(rule(fmt::format("name: {}", name), kCpu)),
                HasSubstr("r.yaml:1: name is empty"))
        << name;
  EXPECT_THAT(errorOf(rule("name: ['a', 'b']", kCpu)),
              HasSubstr("r.yaml:1: name is not a regular expression"));
}

/// Keys with values, of which two are devices.
using Arguments = std::map<std::string, std::string>;

Arguments someArguments(std::mt19937 &engine) {
  Arguments arguments;
  for (const char *key : {"generate_device", "device", "out_device"})
    if (engine() % 2)
      arguments[key] = engine() % 2 ? "cpu" : "cuda:1";
  return arguments;
}

std::string textOf(const Arguments &arguments) {
  std::string text;
  for (const auto &[key, value] : arguments)
    text += fmt::format("{}{}: '{}'", text.empty() ? "" : ", ", key, value);
  return text;
}

TEST(ModuleRules, MergedKeysArePyYamls) {
  std::mt19937 engine(7);
  for (int i = 0; i < 300; ++i) {
    // Two mappings with anchors, the second of which may merge the first.
    const Arguments a = someArguments(engine), own = someArguments(engine);
    Arguments b = someArguments(engine), expected = own;
    const bool isNested = engine() % 2, isList = engine() % 2;
    std::string text = "- match: {name: 'lm_head'}\n  replace: {kwargs: &a {" +
                       textOf(a) + "}}\n";
    std::string inner = textOf(b);
    if (isNested) {
      inner = "<<: *a" + (inner.empty() ? "" : ", " + inner);
      b.insert(a.begin(), a.end());
    }
    text += "- match: {name: 'embed_tokens'}\n  replace: {kwargs: &b {" +
            inner + "}}\n";
    std::string merged = isList ? "<<: [*b, *a]" : "<<: *b";
    expected.insert(b.begin(), b.end());
    if (isList)
      expected.insert(a.begin(), a.end());
    if (!own.empty())
      merged += ", " + textOf(own);
    text += rule("name: 'experts$'", merged);
    Names wanted;
    for (const char *key : {"device", "generate_device"})
      if (expected.contains(key))
        wanted = Names(6, expected[key] == "cpu" ? "cpu0" : "gpu1");
    EXPECT_EQ(devicesOf(text, "_exps"), wanted) << text;
  }
}

TEST(ModuleRules, MergesAreBounded) {
  EXPECT_THAT(errorOf(rule("name: 'experts$'", "<<: 3")),
              HasSubstr("r.yaml:4: \"<<\" merges a mapping"));
  EXPECT_THAT(errorOf("- match: &m {name: 'experts$', <<: *m}\n"
                      "  replace: {class: default}\n"),
              HasSubstr("r.yaml:1: merges mappings of mappings more than"));
  // Each level merges the one before it ten times.
  std::string text = "- match: {name: a}\n  replace: {kwargs: &k0 {device: "
                     "cpu}}\n";
  for (int level = 1; level < 20; ++level) {
    Names ten(10, fmt::format("*k{}", level - 1));
    text += fmt::format("- match: {{name: a}}\n  replace: {{kwargs: &k{} {{<<: "
                        "[{}]}}}}\n",
                        level, fmt::join(ten, ", "));
  }
  EXPECT_THAT(errorOf(text), HasSubstr("merges more than"));
}

TEST(ModuleRules, DamagedFilesFailWithALine) {
  const std::string whole =
      rule("name: \"^model\\\\.layers\\\\..*\\\\.self_attn$\"", kGpu) +
      rule("name: '.*experts$', class: torch.nn.ModuleList",
           "prefill_device: cuda, generate_device: cpu, generate_op: "
           "KExpertsCPU, backend: AMX",
           "  recursive: False\n") +
      rule("name: '^model$'", "transfer_map: {1: 'cuda:1'}, "
                              "per_layer_prefill_intput_threshold: 9");
  ASSERT_EQ(errorOf(whole), "");
  std::mt19937 engine(1);
  constexpr char kBytes[] = "\t\n -:{}[]\"'\\&*<#|>%@`.$^()?+\xc2\xa0\xff a0";
  unsigned failed = 0;
  for (int i = 0; i < 500; ++i) {
    std::string text = whole;
    for (unsigned change = 0; change <= engine() % 3; ++change) {
      size_t at = engine() % text.size();
      switch (engine() % 3) {
      case 0:
        text[at] = kBytes[engine() % (sizeof(kBytes) - 1)];
        break;
      case 1:
        text.erase(at, 1 + engine() % 12);
        break;
      default:
        text.insert(at, 1, kBytes[engine() % (sizeof(kBytes) - 1)]);
      }
    }
    auto rules = read(text, {.allowUnmatched = engine() % 2 == 0});
    if (rules)
      continue;
    ++failed;
    EXPECT_EQ(rules.status().code(), moert::StatusCode::InvalidFile) << text;
    EXPECT_THAT(rules.status().message(),
                testing::ContainsRegex("^r.yaml:[1-9][0-9]?: [^ ]"))
        << text;
  }
  EXPECT_GT(failed, 150u);
}

} // namespace
