#include "runtime/plan/VerifyContent.h"

#include "runtime/plan/PlanAccess.h"

namespace moert {

namespace {
/// The weights of a file that have a checksum.
struct Recorded {
  std::vector<const fb::Weight *> weights;
  std::vector<Extent> extents;
  /// Ranges of other weights, which were verified before.
  std::vector<Extent> known;

  Recorded(const fb::Plan &plan, uint32_t file, const std::string &path,
           const VerifiedWeights &before) {
    for (uint32_t i = 0; i < count(plan.weights()); ++i) {
      const fb::Weight *weight = plan.weights()->Get(i);
      if (weight->file() != file || !weight->checksum())
        continue;
      Extent extent = extentOf(*weight);
      if (before.contains({path, extent.offset, extent.bytes,
                           std::string(text(weight->checksum()))})) {
        known.push_back(extent);
        continue;
      }
      weights.push_back(weight);
      extents.push_back(extent);
    }
  }

  void addTo(VerifiedWeights &verified, const std::string &path) const {
    for (size_t i = 0; i < weights.size(); ++i)
      verified.emplace(path, extents[i].offset, extents[i].bytes,
                       text(weights[i]->checksum()));
  }
};

StatusOr<FileContent> verifyFile(const fb::Plan &plan, uint32_t index,
                                 const InputFile &file,
                                 const Recorded &recorded,
                                 const PiecesOptions &options) {
  FileContent result;
  result.path = file.path();
  result.isModel = plan.files()->Get(index)->kind() == fb::FileKind::Model;
  result.weights = recorded.weights.size();
  result.bytes = bytesToHash(recorded.extents);
  std::vector<Extent> all = extentsIn(plan, index);
  result.sampled = all.size() - result.weights - recorded.known.size();
  std::vector<Extent> checked = recorded.extents;
  checked.insert(checked.end(), recorded.known.begin(), recorded.known.end());
  result.unchecked = bytesToHash(all) - bytesToHash(checked);
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
              const PiecesOptions &options, VerifiedWeights &verified) {
  std::vector<Recorded> recorded;
  uint64_t done = 0, total = 0;
  for (uint32_t i = 0; i < files.size(); ++i)
    total += bytesToHash(
        recorded.emplace_back(plan.table(), i, files[i].path(), verified)
            .extents);
  PiecesOptions own = options;
  if (options.progress)
    own.progress = [&](uint64_t ofFile, uint64_t) {
      return options.progress(done + ofFile, total);
    };
  std::vector<FileContent> result;
  for (uint32_t i = 0; i < files.size(); ++i) {
    MOE_ASSIGN_OR_RETURN(
        FileContent content,
        verifyFile(plan.table(), i, files[i], recorded[i], own));
    done += content.bytes;
    result.push_back(std::move(content));
  }
  for (uint32_t i = 0; i < files.size(); ++i)
    recorded[i].addTo(verified, files[i].path());
  return result;
}

StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options) {
  VerifiedWeights none;
  return verifyContent(plan, files, options, none);
}

} // namespace moert
