//===- LoadedWeights.h - Weights laid out while they load -------*- C++ -*-===//
//
// A plan's loaded file (FileKind::Loaded) has no bytes on the disk: its weights
// are rows of model files in the layouts that kernels read. What the host reads
// is made in private memory at the start, by all threads, as the bytes come
// from the disk; what only a GPU holds is made on its way there.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_LOADEDWEIGHTS_H
#define MOE_RUNTIME_PLAN_LOADEDWEIGHTS_H

#include "runtime/base/MappedFile.h"
#include "runtime/base/ParallelPieces.h"
#include "runtime/base/PrivateMemory.h"
#include "runtime/pack/PackedFile.h"
#include "runtime/pack/RowSources.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <vector>

namespace moert {

namespace fb {
struct Weight;
} // namespace fb

class LoadedWeights {
public:
  /// `files` are the plan's other files, in its order, and must outlive this.
  /// Fails with DoesNotFit if the system has no addresses for it, and with
  /// Unsupported for rows of a format that cannot be converted.
  static StatusOr<LoadedWeights> open(const Plan &plan,
                                      std::span<const MappedFile> files);

  /// Makes all bytes that the host reads, in the memory that `places` says.
  /// With `forget`, bytes of model files leave the page cache behind the
  /// reader.
  Status fill(const NodePlaces &places, bool forget,
              const PiecesOptions &options);

  /// Makes bytes begin ... begin + out.size() - 1 of the file, with all
  /// threads.
  Status make(uint64_t begin, std::span<uint8_t> out) const;

  /// Compares what was read of weights with the plan's checksums, as far as it
  /// has them and all of a weight was read. Fails with InvalidFile, naming
  /// weight and file. Once after everything is made.
  Status checkWhatWasRead() const;

  /// All bytes; zeros where fill() has made none.
  std::span<const uint8_t> bytes() const { return memory_.bytes(); }

private:
  LoadedWeights() = default;

  Status addSources(const fb::Plan &plan, bool forget);
  /// Prepares checksums of what will be read of file `file`.
  void hashSources(uint32_t file);

  const fb::Plan *plan_ = nullptr;
  std::span<const MappedFile> files_;
  /// One for each file of the plan.
  std::vector<std::unique_ptr<ModelFile>> models_;
  /// Weights with a checksum that others are made of, and their hasher; by file
  /// of the plan.
  struct Hashed {
    std::vector<const fb::Weight *> weights;
    std::unique_ptr<ReadHasher> hasher;
  };
  std::vector<Hashed> hashed_;
  std::unique_ptr<PackedFile> packed_;
  std::vector<Extent> hostExtents_;     ///< Ascending and disjoint.
  PrivateMemory memory_;
};

} // namespace moert

#endif // MOE_RUNTIME_PLAN_LOADEDWEIGHTS_H
