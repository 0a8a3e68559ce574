#include "runtime/base/NodePieces.h"

#include <algorithm>

namespace moert {

namespace {
/// Cuts extents at multiples of `most` and at the ends of parts; bytes outside
/// of parts get the node -1.
std::vector<NodeBytes> cut(std::span<const Extent> extents,
                           std::span<const NodeBytes> parts, uint64_t most) {
  std::vector<NodeBytes> pieces;
  size_t part = 0;
  for (const Extent &extent : extents)
    for (uint64_t at = extent.offset; at < extent.end();) {
      while (part < parts.size() && parts[part].end <= at)
        ++part;
      uint64_t end = std::min(extent.end(), (at / most + 1) * most);
      int node = -1;
      if (part < parts.size() && parts[part].begin < end) {
        const bool isInside = parts[part].begin <= at;
        end = std::min(end, isInside ? parts[part].end : parts[part].begin);
        node = isInside ? parts[part].node : -1;
      }
      pieces.push_back({at, end, node});
      at = end;
    }
  return pieces;
}
} // namespace

std::vector<Extent> united(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::offset);
  std::vector<Extent> result;
  for (const Extent &extent : extents)
    if (!result.empty() && result.back().end() >= extent.offset)
      result.back().bytes =
          std::max(result.back().end(), extent.end()) - result.back().offset;
    else
      result.push_back(extent);
  return result;
}

Status
fillPieces(std::span<const Extent> extents, const NodePlaces &places,
           uint64_t most, const PiecesOptions &options,
           const std::function<std::function<Status(uint64_t, uint64_t)>()>
               &makeFill) {
  const std::vector<NodeBytes> pieces = cut(extents, places.parts, most);
  uint64_t total = 0;
  for (const Extent &extent : extents)
    total += extent.bytes;
  const bool hasNodes = !places.parts.empty();
  PiecesOptions reading = options;
  reading.waits = true;
  return forEachPiece(pieces.size(), total, reading, [&]() -> PieceTask {
    return [&, fill = makeFill()](size_t index) -> StatusOr<uint64_t> {
      const NodeBytes &piece = pieces[index];
      if (hasNodes)
        places.prefer(piece.node);
      Status status = fill(piece.begin, piece.end);
      if (hasNodes)
        places.prefer(-1);
      MOE_RETURN_IF_ERROR(std::move(status));
      return piece.end - piece.begin;
    };
  });
}

} // namespace moert
