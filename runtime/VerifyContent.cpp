#include "runtime/VerifyContent.h"

#include "runtime/PlanAccess.h"

namespace moert {

namespace {
/// The weights of one file that have a checksum.
struct Recorded {
  std::vector<const fb::Weight *> weights;
  std::vector<Extent> extents;

  Recorded(const fb::Plan &plan, uint32_t file) {
    for (uint32_t i = 0; i < count(plan.weights()); ++i)
      if (const fb::Weight *weight = plan.weights()->Get(i);
          weight->file() == file && weight->checksum()) {
        weights.push_back(weight);
        extents.push_back(extentOf(*weight));
      }
  }
};

StatusOr<FileContent> verifyFile(const fb::Plan &plan, uint32_t index,
                                 const InputFile &file,
                                 const Recorded &recorded,
                                 const PiecesOptions &options) {
  FileContent result;
  result.path = file.path();
  result.weights = recorded.weights.size();
  result.bytes = bytesToHash(recorded.extents);
  std::vector<Extent> all = extentsIn(plan, index);
  result.sampled = all.size() - result.weights;
  result.unchecked = bytesToHash(all) - result.bytes;
  if (const flatbuffers::String *expected =
          plan.files()->Get(index)->sample_hash();
      expected && result.sampled > 0) {
    MOE_ASSIGN_OR_RETURN(std::string hash, hashSamples(file, all));
    result.samplesDiffer = hash != text(expected);
  }
  WeightHasher hasher(recorded.extents);
  MOE_RETURN_IF_ERROR(hashWeights(file, hasher, options));
  std::vector<std::string> checksums = hasher.checksums();
  for (size_t i = 0; i < checksums.size(); ++i)
    if (checksums[i] != text(recorded.weights[i]->checksum()))
      result.damaged.push_back({std::string(text(recorded.weights[i]->name())),
                                recorded.extents[i]});
  return result;
}
} // namespace

StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options) {
  std::vector<Recorded> recorded;
  uint64_t before = 0, total = 0;
  for (uint32_t i = 0; i < files.size(); ++i)
    total += bytesToHash(recorded.emplace_back(plan.table(), i).extents);
  PiecesOptions own = options;
  if (options.progress)
    own.progress = [&](uint64_t done, uint64_t) {
      return options.progress(before + done, total);
    };
  std::vector<FileContent> result;
  for (uint32_t i = 0; i < files.size(); ++i) {
    MOE_ASSIGN_OR_RETURN(
        FileContent content,
        verifyFile(plan.table(), i, files[i], recorded[i], own));
    before += content.bytes;
    result.push_back(std::move(content));
  }
  return result;
}

} // namespace moert
