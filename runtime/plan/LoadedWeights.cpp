#include "runtime/plan/LoadedWeights.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/plan/WeightFiles.h"

#include <algorithm>

namespace moert {

StatusOr<LoadedWeights> LoadedWeights::open(const Plan &plan,
                                            std::span<const MappedFile> files) {
  const fb::Plan &table = plan.table();
  LoadedWeights loaded;
  loaded.plan_ = &table;
  loaded.files_ = files;
  loaded.packed_ = std::make_unique<PackedFile>();
  const std::vector<bool> ofHost = hostWeights(plan);
  std::vector<Extent> extents;
  for (uint32_t i = 0; i < count(table.weights()); ++i) {
    const fb::Weight &w = *table.weights()->Get(i);
    if (count(w.sources()) > 0 && ofHost[i])
      extents.push_back(extentOf(w));
  }
  loaded.hostExtents_ = united(std::move(extents));
  MOE_RETURN_IF_ERROR(loaded.addSources(table, /*forget=*/false));
  const uint32_t last = count(table.files()) - 1;
  MOE_ASSIGN_OR_RETURN(loaded.memory_, PrivateMemory::reserve(
                                           table.files()->Get(last)->bytes()));
  return loaded;
}

Status LoadedWeights::addSources(const fb::Plan &plan, bool forget) {
  models_.clear();
  hashed_.clear();
  for (const MappedFile &file : files_) {
    models_.push_back(std::make_unique<ModelFile>(file.file(), forget));
    hashSources(uint32_t(models_.size() - 1));
  }
  packed_->weights.clear();
  for (const fb::Weight *w : *plan.weights()) {
    if (count(w->sources()) == 0)
      continue;
    const auto format = moek::Format(w->format());
    auto stack = std::make_unique<StackedRows>(w->rows(), w->cols(), format);
    for (uint32_t index : *w->sources()) {
      const fb::Weight &source = *plan.weights()->Get(index);
      MOE_RETURN_IF_ERROR(
          stack
              ->add(std::make_unique<ModelRows>(*models_[source.file()],
                                                source.offset(),
                                                viewOf(source, nullptr)),
                    source.outer(), source.rows(),
                    moek::Format(source.format()))
              .at(text(w->name())));
    }
    packed_->weights.push_back({std::move(stack), w->outer(), w->rows(),
                                w->cols(), format, moek::Layout(w->layout()),
                                w->offset()});
  }
  std::ranges::sort(packed_->weights, {}, &PackedWeight::offset);
  return Status::ok();
}

void LoadedWeights::hashSources(uint32_t file) {
  std::vector<bool> isSource(count(plan_->weights()));
  for (const fb::Weight *w : *plan_->weights())
    for (uint32_t i = 0; i < count(w->sources()); ++i)
      isSource[w->sources()->Get(i)] = true;
  Hashed &hashed = hashed_.emplace_back();
  std::vector<Extent> extents;
  for (uint32_t i = 0; i < isSource.size(); ++i)
    if (const fb::Weight *w = plan_->weights()->Get(i);
        isSource[i] && w->file() == file && w->checksum()) {
      hashed.weights.push_back(w);
      extents.push_back(extentOf(*w));
    }
  if (extents.empty())
    return;
  hashed.hasher = std::make_unique<ReadHasher>(std::move(extents));
  models_[file]->hashTo(*hashed.hasher);
}

Status LoadedWeights::checkWhatWasRead() const {
  for (size_t file = 0; file < hashed_.size(); ++file)
    for (size_t i = 0; i < hashed_[file].weights.size(); ++i) {
      const fb::Weight &w = *hashed_[file].weights[i];
      std::optional<std::string> found = hashed_[file].hasher->checksum(i);
      if (found && *found != text(w.checksum()))
        return Status(
            StatusCode::InvalidFile,
            fmt::format("{}: weight {} is damaged: it has the checksum {}, and "
                        "had {} when the plan was compiled; copy the file "
                        "again",
                        files_[file].path(), escaped(text(w.name())), *found,
                        text(w.checksum())));
    }
  return Status::ok();
}

Status LoadedWeights::fill(const NodePlaces &places, bool forget,
                           const PiecesOptions &options) {
  if (forget)
    MOE_RETURN_IF_ERROR(addSources(*plan_, forget));
  if (!places.parts.empty())
    memory_.useSmallPages();
  MOE_RETURN_IF_ERROR(
      fillPieces(hostExtents_, places, kPackedChunk, options, [&] {
        auto filler = std::make_shared<ChunkFiller>(*packed_);
        return [this, filler](uint64_t begin, uint64_t end) {
          return filler->fill(begin, end, memory_.bytes().data() + begin);
        };
      }));
  for (const std::unique_ptr<ModelFile> &model : models_)
    model->forget(0, 0);
  return Status::ok();
}

Status LoadedWeights::make(uint64_t begin, std::span<uint8_t> out) const {
  // A GPU is fed 8 MiB at a time, which sixteen threads share.
  constexpr uint64_t kPiece = uint64_t(512) << 10;
  PiecesOptions options;
  options.waits = true;
  return forEachPiece((out.size() + kPiece - 1) / kPiece, out.size(), options,
                      [&]() -> PieceTask {
                        auto filler = std::make_shared<ChunkFiller>(*packed_);
                        return [&, filler](size_t index) -> StatusOr<uint64_t> {
                          std::span<uint8_t> piece =
                              out.subspan(index * kPiece);
                          piece = piece.first(std::min(piece.size(), kPiece));
                          const uint64_t at = begin + index * kPiece;
                          MOE_RETURN_IF_ERROR(filler->fill(
                              at, at + piece.size(), piece.data()));
                          return piece.size();
                        };
                      });
}

} // namespace moert
