//===- ModelErrorsTest.cpp - What an importer refuses, and how ------------===//

#include "mlir/IR/MLIRContext.h"
#include "models/Model.h"
#include "test/support/TempDir.h"
#include "test/support/TinyDeepseek.h"

#include <fstream>
#include <gmock/gmock.h>
#include <random>

using moert::StatusCode;
using moetest::TinyDeepseek;
using testing::HasSubstr;

namespace {
struct ModelErrors : testing::Test {
  /// Returns the error of importing the model after `change`.
  moert::Status failure(const std::function<void(TinyDeepseek &)> &change) {
    TinyDeepseek tiny;
    change(tiny);
    std::string path = tiny.build().write(dir.file("tiny.gguf"));
    auto model = moec::GgufModel::open(path);
    if (!model)
      return model.status();
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    return moec::importModel(context, *model).status();
  }

  /// Expects an error with this code that ends with `message` after the file
  /// name.
  void expectFailure(const std::function<void(TinyDeepseek &)> &change,
                     StatusCode code, const std::string &message) {
    moert::Status status = failure(change);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(dir.file("tiny.gguf")));
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  moetest::TempDir dir;
};

uint32_t u32(int value) { return uint32_t(value); }
} // namespace

TEST_F(ModelErrors, TheUnchangedModelImports) {
  moert::Status status = failure([](TinyDeepseek &) {});
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST_F(ModelErrors, ArchitectureListsTheSupported) {
  expectFailure([](TinyDeepseek &m) { m.architecture = "mamba"; },
                StatusCode::Unsupported,
                "architecture \"mamba\" is not supported; supported: "
                "deepseek2");
}

// The message names what no importer reads, one example of each kind.
TEST_F(ModelErrors, ArchitectureNamesWhatIsNew) {
  expectFailure(
      [](TinyDeepseek &m) {
        m.architecture = "mamba";
        for (const char *name :
             {"blk.0.time_mix_decay", "blk.0.time_mix_w1.weight",
              "blk.1.time_mix_decay", "blk.1.nextn.eh_proj.weight",
              "blk.1.ffn_up.7.weight"})
          m.tensors[name] = {{64}};
        m.keys["wkv.lora_rank"] = u32(16);
        m.keys["wkv.head_size"] = u32(16);
      },
      StatusCode::Unsupported,
      "; not known from any of these: tensor \"blk.0.time_mix_decay\", tensor "
      "\"blk.0.time_mix_w1.weight\", key \"mamba.wkv.head_size\", ...");
}

TEST_F(ModelErrors, ArchitectureOfKnownParts) {
  moert::Status status =
      failure([](TinyDeepseek &m) { m.architecture = "deepseek9"; });
  EXPECT_THAT(status.message(), testing::Not(HasSubstr("not known from")));
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

TEST_F(ModelErrors, MissingKey) {
  for (const char *key :
       {"block_count", "context_length", "embedding_length",
        "feed_forward_length", "attention.head_count", "attention.kv_lora_rank",
        "attention.key_length", "attention.value_length",
        "rope.dimension_count", "expert_count", "expert_used_count",
        "expert_feed_forward_length", "attention.layer_norm_rms_epsilon"})
    expectFailure([&](TinyDeepseek &m) { m.keys.erase(key); },
                  StatusCode::InvalidFile,
                  "key \"deepseek2." + std::string(key) + "\" is missing");
}

TEST_F(ModelErrors, KeyOutOfRange) {
  struct Case {
    const char *key;
    int value;
    const char *expected;
  };
  for (Case c : {Case{"block_count", 0, "1 to 256"},
                 Case{"block_count", 257, "1 to 256"},
                 Case{"embedding_length", 0, "1 to 1048576"},
                 Case{"attention.head_count", 0, "1 to 16384"},
                 Case{"attention.key_length", 16, "17 to 1048576"},
                 Case{"attention.value_length", 0, "1 to 1048576"},
                 Case{"expert_count", 0, "1 to 1048576"},
                 Case{"expert_used_count", 0, "1 to 8"},
                 Case{"expert_used_count", 9, "1 to 8"},
                 Case{"nextn_predict_layers", 2, "0 to 1"},
                 Case{"leading_dense_block_count", 3, "0 to 2"},
                 Case{"vocab_size", 0, "1 to 16777216"},
                 Case{"expert_group_count", 9, "0 to 8"}})
    expectFailure([&](TinyDeepseek &m) { m.keys[c.key] = u32(c.value); },
                  StatusCode::InvalidFile,
                  "key \"deepseek2." + std::string(c.key) + "\" is " +
                      std::to_string(c.value) + ", expected " + c.expected);
}

TEST_F(ModelErrors, OutOfRangeNamesTheByte) {
  TinyDeepseek tiny;
  tiny.keys["expert_used_count"] = u32(9);
  moetest::GgufBuilder gguf = tiny.build();
  expectFailure([&](TinyDeepseek &m) { m = tiny; }, StatusCode::InvalidFile,
                "byte " +
                    std::to_string(gguf.keyAt("deepseek2.expert_used_count")) +
                    ": key \"deepseek2.expert_used_count\" is 9");
}

TEST_F(ModelErrors, KeyOfAnotherType) {
  expectFailure([](TinyDeepseek &m) { m.keys["block_count"] = "two"; },
                StatusCode::InvalidFile,
                "key \"deepseek2.block_count\": expected");
}

TEST_F(ModelErrors, NumbersThatAreNotFiniteOrPositive) {
  for (float value : {NAN, INFINITY, -1.0f, 0.0f})
    expectFailure(
        [&](TinyDeepseek &m) {
          m.keys["attention.layer_norm_rms_epsilon"] = value;
        },
        StatusCode::InvalidFile, "expected a finite number above 0");
  // Kernels take floats.
  for (double value : {1e300, 1e-300})
    expectFailure(
        [&](TinyDeepseek &m) {
          m.keys["attention.layer_norm_rms_epsilon"] = value;
        },
        StatusCode::InvalidFile, "expected a finite number above 0 (in 32");
}

TEST_F(ModelErrors, OddRope) {
  expectFailure(
      [](TinyDeepseek &m) { m.keys["rope.dimension_count"] = u32(15); },
      StatusCode::InvalidFile, "is 15, expected an even number");
}

TEST_F(ModelErrors, RopeBaseWithoutALogarithm) {
  expectFailure([](TinyDeepseek &m) { m.keys["rope.freq_base"] = 1.0f; },
                StatusCode::InvalidFile, "is 1, expected more than 1");
}

TEST_F(ModelErrors, RopeScaling) {
  expectFailure([](TinyDeepseek &m) { m.keys["rope.scaling.type"] = "su"; },
                StatusCode::Unsupported,
                "is \"su\"; supported: none, linear, yarn, longrope");
  expectFailure([](TinyDeepseek &m) { m.keys["rope.scaling.type"] = "yarn"; },
                StatusCode::InvalidFile,
                "key \"deepseek2.rope.scaling.factor\" is missing");
  expectFailure(
      [](TinyDeepseek &m) {
        m.keys["rope.scaling.type"] = "yarn";
        m.keys["rope.scaling.factor"] = 40.0f;
      },
      StatusCode::InvalidFile,
      "key \"deepseek2.rope.scaling.original_context_length\" is missing");
  expectFailure(
      [](TinyDeepseek &m) {
        m.keys["rope.scaling.type"] = "yarn";
        m.keys["rope.scaling.factor"] = 40.0f;
        m.keys["rope.scaling.original_context_length"] = u32(4096);
        m.keys["rope.scaling.yarn_attn_factor"] = 2.0f;
      },
      StatusCode::Unsupported,
      "key \"deepseek2.rope.scaling.yarn_attn_factor\" is 2; only 1 is "
      "supported");
}

TEST_F(ModelErrors, RopeScalingOutOfRange) {
  struct Case {
    const char *type, *key;
    float value;
  };
  for (Case c : {Case{"yarn", "factor", 1e-45f}, Case{"yarn", "factor", 1e-5f},
                 Case{"linear", "factor", 1e-45f},
                 Case{"linear", "factor", NAN}, Case{"yarn", "factor", 1e30f},
                 Case{"yarn", "yarn_log_multiplier", 1e30f}})
    expectFailure(
        [&](TinyDeepseek &m) {
          m.keys["rope.scaling.type"] = c.type;
          m.keys["rope.scaling.factor"] = 40.0f;
          m.keys["rope.scaling.original_context_length"] = u32(4096);
          m.keys["rope.scaling." + std::string(c.key)] = c.value;
        },
        StatusCode::InvalidFile,
        "key \"deepseek2.rope.scaling." + std::string(c.key) + "\" is ");
}

TEST_F(ModelErrors, Gating) {
  expectFailure([](TinyDeepseek &m) { m.keys["expert_gating_func"] = u32(5); },
                StatusCode::Unsupported,
                "is 5; supported: 1 (softmax), 2 (sigmoid), 3 (softmax over "
                "the selected)");
}

TEST_F(ModelErrors, Groups) {
  auto groups = [](int count, int used) {
    return [=](TinyDeepseek &m) {
      m.keys["expert_group_count"] = u32(count);
      m.keys["expert_group_used_count"] = u32(used);
    };
  };
  expectFailure(groups(3, 1), StatusCode::InvalidFile,
                "is 3, expected a divisor of the 8 experts");
  expectFailure(groups(4, 5), StatusCode::InvalidFile,
                "\"deepseek2.expert_group_used_count\" is 5, expected 1 to 4");
  // 3 experts are requested, but one group has 2.
  expectFailure(groups(4, 1), StatusCode::InvalidFile,
                "expected top_k (of the experts in groups_used groups) from 1 "
                "to 2, got 3");
}

TEST_F(ModelErrors, NoVocabulary) {
  expectFailure([](TinyDeepseek &m) { m.keys.erase("vocab_size"); },
                StatusCode::InvalidFile, "says how many tokens there are");
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

TEST_F(ModelErrors, EveryTensorIsNeeded) {
  for (const auto &[name, tensor] : TinyDeepseek().tensors) {
    if (name == "output.weight")
      continue; // Without it, the embedding is used (tied weights).
    // Without attn_kv_b, the importer expects its parts.
    std::string wanted = name;
    if (name.ends_with("attn_kv_b.weight"))
      wanted.replace(wanted.find("kv_b"), 4, "k_b");
    expectFailure([&](TinyDeepseek &m) { m.tensors.erase(name); },
                  StatusCode::InvalidFile,
                  "tensor \"" + wanted + "\" is missing");
  }
}

TEST_F(ModelErrors, EveryShapeIsChecked) {
  for (const auto &[name, tensor] : TinyDeepseek().tensors)
    expectFailure([&](TinyDeepseek &m) { m.tensors[name].shape.back() += 32; },
                  StatusCode::InvalidFile,
                  "tensor \"" + name + "\" has the shape [");
}

TEST_F(ModelErrors, ShapeMessage) {
  expectFailure(
      [](TinyDeepseek &m) {
        m.tensors["blk.1.ffn_up_exps.weight"].shape = {64, 8, 32};
      },
      StatusCode::InvalidFile,
      "tensor \"blk.1.ffn_up_exps.weight\" has the shape [64, 8, 32], expected "
      "[64, 32, 8]");
}

TEST_F(ModelErrors, FormatWithoutKernels) {
  expectFailure(
      [](TinyDeepseek &m) {
        m.tensors["blk.0.ffn_up.weight"].format = moek::Format::I8;
      },
      StatusCode::Unsupported,
      "tensor \"blk.0.ffn_up.weight\" is I8, for which there are no kernels; "
      "supported: F32, F16, Q4_0");
}

TEST_F(ModelErrors, NormThatIsNotF32) {
  expectFailure(
      [](TinyDeepseek &m) {
        m.tensors["blk.1.attn_norm.weight"].format = moek::Format::F16;
      },
      StatusCode::Unsupported,
      "tensor \"blk.1.attn_norm.weight\" is F16, expected F32");
}

TEST_F(ModelErrors, FusedBiasesOfGateAndUp) {
  expectFailure(
      [](TinyDeepseek &m) {
        m.tensors["blk.1.ffn_gate_up_exps.weight"] = {{64, 64, 8}};
        m.tensors["blk.1.ffn_gate_up_exps.bias"] = {{64, 8}};
      },
      StatusCode::Unsupported,
      "tensor \"blk.1.ffn_gate_up_exps.bias\" fuses the biases");
}

//===----------------------------------------------------------------------===//
// Damage
//===----------------------------------------------------------------------===//

TEST_F(ModelErrors, ABitFlipIsAModelOrAnError) {
  TinyDeepseek tiny;
  tiny.keys["rope.scaling.type"] = "yarn";
  tiny.keys["rope.scaling.factor"] = 40.0f;
  tiny.keys["rope.scaling.original_context_length"] = u32(4096);
  tiny.keys["expert_group_count"] = u32(2);
  tiny.keys["expert_group_used_count"] = u32(2);
  moetest::GgufBuilder gguf = tiny.build();
  moetest::Bytes header = gguf.header();
  std::string path = gguf.write(dir.file("tiny.gguf"));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::mt19937 random(5);
  unsigned imported = 0;
  for (unsigned i = 0; i < 2000; ++i) {
    uint64_t at = random() % header.size();
    moetest::Bytes damaged = header;
    damaged[at] ^= uint8_t(1 << random() % 8);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.write(reinterpret_cast<const char *>(damaged.data()),
               std::streamsize(damaged.size()));
    file.close();
    auto model = moec::GgufModel::open(path);
    if (!model)
      continue;
    auto module = moec::importModel(context, *model);
    imported += module.isOk();
    ASSERT_NE(int(module.status().code()), int(StatusCode::Internal))
        << "byte " << at << ": " << module.status().message();
  }
  // Flips in names and in unimportant numbers leave a usable model.
  EXPECT_GT(imported, 0u);
}
