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
  for (const MappedFile &file : files_)
    models_.push_back(std::make_unique<ModelFile>(file.file(), forget));
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
  filler_ = std::make_unique<ChunkFiller>(*packed_);
  return Status::ok();
}

Status LoadedWeights::fill(const NodePlaces &places, bool forget,
                           const PiecesOptions &options) {
  if (forget)
    MOE_RETURN_IF_ERROR(addSources(*plan_, forget));
  if (!places.parts.empty())
    memory_.useSmallPages();
  return fillPieces(hostExtents_, places, kPackedChunk, options, [&] {
    auto filler = std::make_shared<ChunkFiller>(*packed_);
    return [this, filler](uint64_t begin, uint64_t end) {
      return filler->fill(begin, end, memory_.bytes().data() + begin);
    };
  });
}

Status LoadedWeights::make(uint64_t begin, std::span<uint8_t> out) const {
  return filler_->fill(begin, begin + out.size(), out.data());
}

} // namespace moert
