//===- Fuse.cpp - Several instructions in one launch ----------------------===//

#include "kernels/cuda/Fuse.h"

#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>
#include <cstddef>

namespace moek::cuda {

namespace {
/// The most tokens of a step whose launches are fused: with more rows, a kernel
/// takes much longer than a launch costs.
constexpr int32_t kMaxTokens = 8;
/// The most work that one block does when all others have ended, in rounds of
/// all its threads or warps: it takes about as long as a launch costs.
constexpr uint32_t kMaxRounds = 8;
/// The same for the work behind a tile, in rounds of all warps of a block: in
/// one round each warp combines the KV splits of a head, for example.
constexpr uint32_t kMaxTileRounds = 4;

template <class Args> Args argsOf(const Launch &launch) {
  Args args;
  std::memcpy(&args, launch.args.data(), sizeof(args));
  return args;
}

bool overlap(const Use &a, const Use &b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}
bool isConflict(const Use &a, const Use &b) {
  return (a.writes || b.writes) && overlap(a, b);
}

struct Piece {
  explicit Piece(const Launch &launch) : launch(launch) {}
  Launch launch;
  PieceSpec::Role role = PieceSpec::Role::Begins;
  size_t product = 0; ///< Index of the piece whose tiles this one follows.
  /// How many neighbouring blocks of the followed piece make up a tile, and how
  /// many of its own blocks a tile has.
  uint32_t tileBlocks = 0, perTile = 0;

  const Fusion &traits() const { return launch.fusion; }
  bool isWide() const { return traits().kind == PieceSpec::Kind::Wide; }
  bool isWarps() const { return traits().kind == PieceSpec::Kind::Warps; }
};

uint32_t countOf(const uint32_t (&grid)[3]) {
  return grid[0] * grid[1] * grid[2];
}

class Fuser {
public:
  Fuser(std::span<const Fusible> parts, const LaunchContext &context)
      : parts_(parts), context_(context) {}

  std::optional<Launch> run() {
    if (parts_.size() < 2 || parts_.size() > kMaxPieces ||
        context_.maxTokens > kMaxTokens)
      return {};
    for (const Fusible &part : parts_) {
      if (!part.launch.fusion.kind)
        return {};
      Piece &piece = pieces_.emplace_back(part.launch);
      if (piece.isWarps())
        cutIntoWarps(piece.launch);
    }
    for (size_t i = 1; i < pieces_.size(); ++i)
      if (!assignRole(i))
        return {};
    if (!chooseThreads() || !isAllShort())
      return {};
    return launch();
  }

private:
  /// Replaces blocks by as many blocks of one warp as do the same work.
  static void cutIntoWarps(Launch &launch) {
    launch.grid[launch.fusion.axis] *= launch.threads / 32;
    launch.threads = 32;
  }

  bool assignRole(size_t i) {
    std::vector<size_t> before;
    for (size_t j = 0; j < i; ++j)
      if (conflict(i, j))
        before.push_back(j);
    Piece &piece = pieces_[i];
    if (before.empty())
      return true;
    if (piece.isWide() || overwritesChoices(i))
      return false;
    piece.role = PieceSpec::Role::All;
    if (before.size() == 1 &&
        (followsTiles(i, before[0]) || followsHeads(i, before[0]))) {
      piece.role = PieceSpec::Role::Tiles;
      piece.product = before[0];
    }
    return true;
  }

  bool conflict(size_t i, size_t j) const {
    for (const Use &a : parts_[i].uses)
      for (const Use &b : parts_[j].uses)
        if (isConflict(a, b))
          return true;
    return false;
  }

  /// Returns whether `i` overwrites a router's choices, which
  /// runtime/engine/RouterWatch.h reads after the launch.
  bool overwritesChoices(size_t i) const {
    for (size_t j = 0; j < i; ++j)
      for (const Use &a : parts_[i].uses)
        for (const Use &b : parts_[j].uses)
          if (parts_[j].launch.fusion.choosesExperts && a.writes && b.writes &&
              overlap(a, b))
            return true;
    return false;
  }

  /// Returns whether piece `i` can follow tiles of `product`: it needs nothing
  /// of that but its result, column by column.
  bool followsTiles(size_t i, size_t product) {
    const Piece &from = pieces_[product];
    const Fusion &traits = pieces_[i].traits();
    if (!traits.tileColumns || from.role != PieceSpec::Role::Begins ||
        !from.traits().productColumns)
      return false;
    auto gemm = argsOf<GemmArgs>(from.launch);
    int64_t side = from.traits().productColumns, heads = from.launch.grid[2];
    if (heads > 1 && (gemm.tail || gemm.w.rows % side))
      return false;
    if (traits.followedColumns != gemm.w.rows * heads ||
        traits.tileColumns % side || !needsOnlyResult(i, product))
      return false;
    pieces_[i].tileBlocks = uint32_t(traits.tileColumns / side);
    pieces_[i].perTile = 1;
    return true;
  }

  /// Returns whether piece `i` can follow the heads of attention: it combines
  /// KV splits of `from`, one KV head after the other, or it follows a piece
  /// that does so, of which it needs nothing but its result, column by column.
  bool followsHeads(size_t i, size_t from) {
    const Piece &before = pieces_[from];
    const Fusion &own = pieces_[i].traits();
    if (!needsOnlyResult(i, from))
      return false;
    if (before.traits().splitHeads) {
      if (before.role != PieceSpec::Role::Begins ||
          own.combinedHeads !=
              before.traits().splitHeads * before.launch.grid[2])
        return false;
      pieces_[i].tileBlocks = before.launch.grid[0];
      pieces_[i].perTile = uint32_t(before.traits().splitHeads);
      return true;
    }
    if (!before.traits().combinedHeads ||
        before.role != PieceSpec::Role::Tiles || !own.tileColumns)
      return false;
    auto combined = argsOf<CombineSplitsArgs>(before.launch);
    int64_t columns = int64_t(before.perTile) * combined.latent;
    if (own.followedColumns != int64_t(combined.heads) * combined.latent ||
        columns % own.tileColumns)
      return false;
    pieces_[i].tileBlocks = before.tileBlocks;
    pieces_[i].perTile = uint32_t(columns / own.tileColumns);
    return true;
  }

  /// Returns whether part `i` must follow `from` only because it reads the
  /// result of `from`, and not because both use other memory.
  bool needsOnlyResult(size_t i, size_t from) const {
    for (const Use &a : parts_[i].uses)
      for (const Use &b : parts_[from].uses)
        if (isConflict(a, b) &&
            !(b.writes && a.begin == b.begin && a.end == b.end &&
              (!a.writes || pieces_[i].traits().isInPlace)))
          return false;
    return true;
  }

  /// Chooses the number of threads that all pieces run with.
  bool chooseThreads() {
    bool isWide = false;
    uint32_t fixed = 0;
    for (const Piece &piece : pieces_) {
      uint32_t own = piece.launch.threads;
      if (piece.isWide() && !isWide)
        threads_ = own;
      isWide |= piece.isWide();
      if (piece.isWide() || !isWide)
        threads_ = std::max(threads_, piece.isWarps() ? 256 : own);
      if (!piece.isWide() || piece.traits().anyThreads)
        continue;
      if (fixed && fixed != own)
        return false;
      fixed = own;
    }
    if (!isWide) {
      bool isFollowed = std::ranges::any_of(pieces_, [](const Piece &piece) {
        return piece.role == PieceSpec::Role::All;
      });
      threads_ = isFollowed ? kFusedThreads : std::min(threads_, kFusedThreads);
    }
    if (fixed)
      threads_ = fixed;
    for (Piece &piece : pieces_) {
      Launch &one = piece.launch;
      if (!piece.traits().anyThreads && one.threads > threads_)
        return false;
      if (!piece.traits().anyThreads || piece.isWarps())
        continue;
      if (piece.traits().sharedByWarp)
        one.sharedBytes = one.sharedBytes * threads_ / one.threads;
      one.threads = threads_;
    }
    return true;
  }

  /// Returns whether the pieces that one block runs after all other blocks, or
  /// after all others of its tile, take little time.
  bool isAllShort() const {
    uint32_t rounds = 0;
    for (const Piece &piece : pieces_)
      if (piece.role == PieceSpec::Role::Tiles) {
        uint32_t across =
            countOf(piece.launch.grid) / piece.launch.grid[piece.traits().axis];
        if (blocksFor(piece.perTile * across, threads_ / 32) > kMaxTileRounds)
          return false;
      } else if (piece.role == PieceSpec::Role::All) {
        uint32_t each = piece.isWarps() ? threads_ / 32 : 1;
        rounds = blocksFor(countOf(piece.launch.grid), each);
        if (rounds > kMaxRounds)
          return false;
      }
    return true;
  }

  std::optional<Launch> launch() {
    Launch all;
    all.kernel.file = kFusedFile;
    all.kernel.entry = "fused";
    all.threads = threads_;
    FusedArgs head{};
    head.step = const_cast<Step *>(context_.step);
    uint32_t blocks = 0, tickets = 1; // Counter 0 counts all blocks.
    size_t end = sizeof(head);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece &piece = pieces_[i];
      const Launch &one = piece.launch;
      PieceShape &shape = head.shape[i];
      std::copy(std::begin(one.grid), std::end(one.grid), shape.grid);
      shape.threads = one.threads;
      if (piece.role == PieceSpec::Role::Begins) {
        shape.blocks =
            blocksFor(countOf(one.grid), piece.isWarps() ? threads_ / 32 : 1);
        blocks += shape.blocks;
      } else if (piece.role == PieceSpec::Role::Tiles) {
        const Piece &product = pieces_[piece.product];
        shape.tileBlocks = piece.tileBlocks;
        shape.perTile = piece.perTile;
        // A piece that follows such a piece has the same block.
        if (product.role == PieceSpec::Role::Begins) {
          shape.ticket = tickets;
          tickets += blocksFor(product.launch.grid[0] * product.launch.grid[2],
                               shape.tileBlocks);
        }
      }
      const uint32_t divisors[] = {shape.grid[0], shape.grid[1],
                                   std::max(shape.tileBlocks, 1u),
                                   std::max(shape.perTile, 1u)};
      std::ranges::transform(divisors, shape.inverse,
                             [](uint32_t d) { return UINT32_MAX / d; });
      all.sharedBytes = std::max(all.sharedBytes, one.sharedBytes);
      end = (end + 7) / 8 * 8;
      if (end + one.argBytes > kMaxArgBytes || tickets > kTickets)
        return {};
      std::memcpy(all.args.data() + end, one.args.data(), one.argBytes);
      end += one.argBytes;
      addTo(all.kernel, piece);
    }
    std::memcpy(all.args.data(), &head, sizeof(head));
    all.argBytes = uint32_t((end + 7) / 8 * 8);
    all.grid[0] = blocks;
    return all;
  }

  /// Adds a piece and its name to the launch's kernel.
  static void addTo(KernelSpec &spec, const Piece &piece) {
    const KernelSpec &own = piece.launch.kernel;
    spec.entry += "__";
    if (piece.role == PieceSpec::Role::All)
      spec.entry += "all_";
    if (piece.role == PieceSpec::Role::Tiles)
      spec.entry += "tiles" + std::to_string(piece.product) + "_";
    spec.entry += own.entry;
    spec.pieces.push_back(
        {.role = piece.role,
         .product = piece.product,
         .axis = piece.role == PieceSpec::Role::Tiles ? piece.traits().axis : 0,
         .kind = *piece.traits().kind,
         .file = own.file,
         .defines = own.defines});
  }

  std::span<const Fusible> parts_;
  const LaunchContext &context_;
  std::vector<Piece> pieces_;
  uint32_t threads_ = 32;
};

} // namespace

std::optional<Launch> fuse(std::span<const Fusible> parts,
                           const LaunchContext &context) {
  return Fuser(parts, context).run();
}

bool canAwait(const Launch &launch) {
  return isFused(launch.kernel) && countOf(launch.grid) == 1 &&
         std::ranges::none_of(launch.kernel.pieces, [](const PieceSpec &piece) {
           return piece.kind == PieceSpec::Kind::Wide;
         });
}

bool canSignal(const Launch &launch) {
  return isFused(launch.kernel) &&
         std::ranges::any_of(launch.kernel.pieces, [](const PieceSpec &piece) {
           return piece.role == PieceSpec::Role::All;
         });
}

bool canPrefetch(const Launch &launch) {
  return canSignal(launch) && countOf(launch.grid) > 1;
}

void setPrefetch(std::span<std::byte> args, std::span<const Prefetch> ranges) {
  std::memcpy(args.data() + offsetof(FusedArgs, prefetch), ranges.data(),
              std::min<size_t>(ranges.size(), kMaxPrefetches) *
                  sizeof(Prefetch));
}

std::vector<Prefetch> prefetchesOf(std::span<const std::byte> args) {
  std::vector<Prefetch> ranges(kMaxPrefetches);
  std::memcpy(ranges.data(), args.data() + offsetof(FusedArgs, prefetch),
              sizeof(FusedArgs::prefetch));
  std::erase_if(ranges, [](const Prefetch &range) { return !range.bytes; });
  return ranges;
}

void setHostSync(std::span<std::byte> args, const HostSync &sync) {
  std::memcpy(args.data() + offsetof(FusedArgs, hostSync), &sync, sizeof(sync));
}

} // namespace moek::cuda
