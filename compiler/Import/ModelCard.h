//===- ModelCard.h - Summary of a model -------------------------*- C++ -*-===//
//
// The summary that `moec model` prints from a model's header. It does not
// require support for the architecture: keys and tensor names follow GGUF's
// conventions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_MODELCARD_H
#define MOE_COMPILER_IMPORT_MODELCARD_H

#include "compiler/Import/GgufFile.h"
#include "compiler/Import/TensorRole.h"

namespace moec {

struct ModelCard {
  /// Number of tensors, elements and bytes.
  struct Use {
    uint64_t tensors = 0;
    uint64_t parameters = 0;
    uint64_t bytes = 0;
  };
  struct FormatUse : Use {
    moek::Format format;
  };
  struct Experts {
    uint64_t count = 0;
    uint64_t used = 0; ///< Experts that the router chooses for a token.
    /// Experts that every token uses besides the chosen ones.
    uint64_t shared = 0;
    uint64_t groups = 0; ///< 0 if the router has no groups.
    uint64_t groupsUsed = 0;
    std::optional<uint64_t> width;     ///< Hidden size of one expert's FFN.
    std::optional<std::string> gating; ///< "softmax", "sigmoid", ...
  };
  struct Layers {
    uint64_t total = 0; ///< Number of all parameters, MTP layers included.
    uint64_t dense = 0;
    uint64_t moe = 0;
    uint64_t mtp = 0;
  };

  std::string architecture;
  std::optional<std::string> name;
  uint32_t version = 0; ///< The version of the file format.
  std::vector<std::string> paths;
  uint64_t fileBytes = 0; ///< The size of all files together.

  Use total;
  /// Weights that are multiplied for one token: all except the embedding table
  /// (of which one row is looked up; it counts if it is also the output
  /// matrix), the experts that the router does not select, and MTP layers.
  Use active;
  std::array<Use, modelPartCount> parts;
  /// Formats, the one with the most bytes first.
  std::vector<FormatUse> formats;

  std::optional<Experts> experts;
  Layers layers;
  std::optional<uint64_t> embeddingLength;
  /// The largest value where layers differ.
  std::optional<uint64_t> heads, headsKv, ffnLength;
  std::optional<uint64_t> contextLength;
  std::optional<uint64_t> vocabularySize;
  std::optional<std::string> tokenizer;    ///< tokenizer.ggml.model
  std::optional<std::string> preTokenizer; ///< tokenizer.ggml.pre
  bool tiedOutput = false;

  /// The result of `moec compile`, set by callers with MLIR, which importing
  /// needs.
  struct Verdict {
    std::string refusal; ///< "" if the model compiles.
    std::vector<std::string> notes;
  };
  std::optional<Verdict> verdict;

  const Use &part(ModelPart which) const { return parts[unsigned(which)]; }
  /// Average over all weights; 0 without any.
  double bitsPerWeight() const;
};

/// Summarises a model. Fails if a key does not have the expected type, or if
/// the expert counts contradict each other.
moert::StatusOr<ModelCard> makeModelCard(const GgufModel &model);

/// Returns groups of lines with aligned columns.
std::string modelCardText(const ModelCard &card);
/// Returns one JSON object. Invalid UTF-8 becomes U+FFFD.
std::string modelCardJson(const ModelCard &card);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_MODELCARD_H
