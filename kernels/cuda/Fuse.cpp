//===- Fuse.cpp - Several instructions in one launch ----------------------===//

#include "kernels/cuda/Fuse.h"

#include "kernels/cuda/LaunchGemm.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace moek::cuda {

namespace {
/// What messages call the sources that are written here.
constexpr std::string_view kFused = "kernels/cuda/Fused.cu";
/// Of a step for which launches are put together: those of more rows take long
/// enough.
constexpr int32_t kMaxTokens = 8;
/// What one block may be left with when all others have ended, in rounds of all
/// its threads or warps: about what a launch costs.
constexpr uint32_t kMaxRounds = 8;
/// Of a block with pieces none of which is a product or attention: with all
/// that there may be one block copies a row of 7168 floats, adds it to another
/// and makes the sum's norm.
constexpr uint32_t kMaxThreads = 1024;

/// How a kernel may be a piece.
struct Traits {
  std::string_view file;
  bool isWide;  ///< Needs many blocks: only begins.
  bool isWarps; ///< Blocks are cut into warps, as its threads never meet.
  bool anyThreads;
  bool sharedByWarp = false; ///< Its dynamic shared memory; else by block.
  int columns = 0;           ///< Of a product's result that a block makes.
};
constexpr Traits kTraits[] = {
    {"Gemv.cu", true, false, true, false, 16},
    {"GemvMma.cu", true, false, false, false, 32},
    {"FloatGemm.cu", true, false, false, false, 8},
    {"AbsorbQuery.cu", true, false, false},
    {"LatentMma.cu", true, false, false},
    {"LatentAttention.cu", true, false, false},
    {"LatentCombine.cu", true, false, false},
    {"Attention.cu", true, false, false},
    {"RmsNorm.cu", false, false, true},
    {"MlaLatent.cu", false, false, true},
    {"KvStore.cu", false, false, true},
    {"RowStore.cu", false, false, true},
    {"EntryStore.cu", false, false, true},
    {"LayerNorm.cu", false, false, true},
    {"HyperWeights.cu", false, false, false},
    {"Embed.cu", false, false, true},
    {"RopeTable.cu", false, false, true},
    {"Router.cu", false, false, false},
    {"SplitChoices.cu", false, false, true},
    {"ExpertGroup.cu", false, false, true, true},
    {"Quantize.cu", false, true, true},
    {"Rope.cu", false, true, true},
    {"ExpertsCombine.cu", false, true, true},
    {"Pair.cu", false, true, true},
    {"Scale.cu", false, true, true},
    {"Copy.cu", false, true, true},
    {"Regroup.cu", false, true, true},
    {"ShortConv.cu", false, true, true},
    {"DeltaGates.cu", false, true, true},
    {"HyperStreams.cu", false, true, true},
    {"ClampedMul.cu", false, true, true},
};

std::string_view nameOf(const Launch &launch) {
  return std::string_view(launch.kernel.file)
      .substr(sizeof("kernels/cuda/") - 1);
}
const Traits *traitsOf(const Launch &launch) {
  const auto *it = std::ranges::find(kTraits, nameOf(launch), &Traits::file);
  return it == std::end(kTraits) ? nullptr : it;
}

template <class Args> Args argsOf(const Launch &launch) {
  Args args;
  std::memcpy(&args, launch.args.data(), sizeof(args));
  return args;
}

/// How a piece follows tiles of a product.
struct Follow {
  int64_t columns = 0; ///< Of a tile; 0: it does not.
  int axis = 0;        ///< Of its grid, along which tiles are numbered.
};

/// Of pieces that are one warp's blocks; `cols` that the product makes.
Follow followOf(const Launch &piece, int64_t cols, int32_t maxTokens) {
  std::string_view name = nameOf(piece);
  if (name == "Quantize.cu") {
    auto a = argsOf<QuantizeArgs>(piece);
    return {a.cols == cols ? 128 : 0, 0};
  }
  if (name == "ExpertsCombine.cu")
    return {argsOf<ExpertsCombineArgs>(piece).cols == cols ? 32 : 0, 0};
  if (name == "Pair.cu" && maxTokens == 1)
    return {argsOf<PairArgs>(piece).perToken == cols ? 32 : 0, 0};
  if (name == "Rope.cu") {
    auto a = argsOf<RopeArgs>(piece);
    bool isHead = a.dim == 64 && int64_t(a.heads) * a.headStride == cols;
    return {isHead ? a.headStride : 0, 1};
  }
  return {};
}

bool overlap(const Use &a, const Use &b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}
bool isConflict(const Use &a, const Use &b) {
  return (a.writes || b.writes) && overlap(a, b);
}

enum class Role { Begins, Tiles, All };

struct Piece {
  Piece(const Launch &launch, const Traits *traits)
      : launch(launch), traits(traits) {}
  Launch launch;
  const Traits *traits;
  Role role = Role::Begins;
  size_t product = 0; ///< Whose tiles it follows.
  Follow follow;
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
      const Traits *traits = traitsOf(part.launch);
      if (!traits)
        return {};
      pieces_.emplace_back(part.launch, traits);
      if (traits->isWarps)
        cutIntoWarps(pieces_.back().launch);
    }
    for (size_t i = 1; i < pieces_.size(); ++i)
      if (!assignRole(i))
        return {};
    if (!chooseThreads() || !isAllShort())
      return {};
    return launch();
  }

private:
  /// Blocks of one warp, as many as do the same.
  static void cutIntoWarps(Launch &launch) {
    launch.grid[nameOf(launch) == "Rope.cu" ? 1 : 0] *= launch.threads / 32;
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
    if (piece.traits->isWide || overwritesChoices(i))
      return false;
    piece.role = Role::All;
    if (before.size() == 1 && followsTiles(i, before[0])) {
      piece.role = Role::Tiles;
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

  /// Whether `i` writes where a router left its choices, which who watches it
  /// (runtime/engine/RouterWatch.h) finds behind all.
  bool overwritesChoices(size_t i) const {
    for (size_t j = 0; j < i; ++j)
      for (const Use &a : parts_[i].uses)
        for (const Use &b : parts_[j].uses)
          if (nameOf(parts_[j].launch) == "Router.cu" && a.writes && b.writes &&
              overlap(a, b))
            return true;
    return false;
  }

  /// Whether `i` needs of `product` but its result, column by column.
  bool followsTiles(size_t i, size_t product) {
    Piece &piece = pieces_[i];
    const Piece &from = pieces_[product];
    if (!piece.traits->isWarps || from.role != Role::Begins ||
        !from.traits->columns)
      return false;
    auto gemm = argsOf<GemmArgs>(from.launch);
    int64_t side = from.traits->columns, heads = from.launch.grid[2];
    if (heads > 1 && (gemm.tail || gemm.w.rows % side))
      return false;
    Follow follow =
        followOf(piece.launch, gemm.w.rows * heads, context_.maxTokens);
    if (!follow.columns || follow.columns % side)
      return false;
    for (const Use &a : parts_[i].uses)
      for (const Use &b : parts_[product].uses)
        if (isConflict(a, b) &&
            !(b.writes && a.begin == b.begin && a.end == b.end &&
              (!a.writes || nameOf(piece.launch) == "Rope.cu")))
          return false;
    piece.follow = follow;
    return true;
  }

  /// Those that all pieces run with.
  bool chooseThreads() {
    bool isWide = false;
    uint32_t fixed = 0;
    for (const Piece &piece : pieces_) {
      uint32_t own = piece.launch.threads;
      if (piece.traits->isWide && !isWide)
        threads_ = own;
      isWide |= piece.traits->isWide;
      if (piece.traits->isWide || !isWide)
        threads_ = std::max(threads_, piece.traits->isWarps ? 256 : own);
      if (!piece.traits->isWide || piece.traits->anyThreads)
        continue;
      if (fixed && fixed != own)
        return false;
      fixed = own;
    }
    if (!isWide) {
      bool isFollowed = std::ranges::any_of(
          pieces_, [](const Piece &piece) { return piece.role == Role::All; });
      threads_ = isFollowed ? kMaxThreads : std::min(threads_, kMaxThreads);
    }
    if (fixed)
      threads_ = fixed;
    for (Piece &piece : pieces_) {
      Launch &one = piece.launch;
      if (!piece.traits->anyThreads && one.threads > threads_)
        return false;
      if (!piece.traits->anyThreads || piece.traits->isWarps)
        continue;
      if (piece.traits->sharedByWarp)
        one.sharedBytes = one.sharedBytes * threads_ / one.threads;
      one.threads = threads_;
    }
    return true;
  }

  /// Whether what one block does behind all others is little.
  bool isAllShort() const {
    uint32_t rounds = 0;
    for (const Piece &piece : pieces_)
      if (piece.role == Role::All) {
        uint32_t each = piece.traits->isWarps ? threads_ / 32 : 1;
        rounds = blocksFor(countOf(piece.launch.grid), each);
        if (rounds > kMaxRounds)
          return false;
      }
    return true;
  }

  std::optional<Launch> launch() {
    Launch all;
    all.kernel.file = kFused;
    all.kernel.entry = "fused";
    all.threads = threads_;
    FusedArgs head{};
    head.step = const_cast<Step *>(context_.step);
    uint32_t blocks = 0, tickets = 1; // The first is for all blocks.
    size_t end = sizeof(head);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece &piece = pieces_[i];
      const Launch &one = piece.launch;
      PieceShape &shape = head.shape[i];
      std::copy(std::begin(one.grid), std::end(one.grid), shape.grid);
      shape.threads = one.threads;
      if (piece.role == Role::Begins) {
        shape.blocks = blocksFor(countOf(one.grid),
                                 piece.traits->isWarps ? threads_ / 32 : 1);
        blocks += shape.blocks;
      } else if (piece.role == Role::Tiles) {
        const Piece &product = pieces_[piece.product];
        shape.ticket = tickets;
        shape.tileBlocks =
            uint32_t(piece.follow.columns / product.traits->columns);
        tickets += blocksFor(product.launch.grid[0] * product.launch.grid[2],
                             shape.tileBlocks);
      }
      all.sharedBytes = std::max(all.sharedBytes, one.sharedBytes);
      end = (end + 7) / 8 * 8;
      if (end + one.argBytes > kMaxArgBytes || tickets > kTickets)
        return {};
      std::memcpy(all.args.data() + end, one.args.data(), one.argBytes);
      end += one.argBytes;
      addTo(all.kernel, i);
    }
    std::memcpy(all.args.data(), &head, sizeof(head));
    all.argBytes = uint32_t((end + 7) / 8 * 8);
    all.grid[0] = blocks;
    return all;
  }

  /// Name and definition of piece `i`: what it does, file, its own definitions.
  void addTo(KernelSpec &spec, size_t i) const {
    const Piece &piece = pieces_[i];
    const KernelSpec &own = piece.launch.kernel;
    std::string role = piece.role == Role::Begins ? "begins"
                       : piece.role == Role::All  ? "all"
                                                  : "tiles";
    if (piece.role == Role::Tiles)
      role += std::to_string(piece.product);
    spec.entry += "__" + (role == "begins" ? "" : role + "_") + own.entry;
    if (piece.role == Role::Tiles)
      role += piece.follow.axis ? "y" : "x";
    std::string define = role + (piece.traits->isWide    ? " wide "
                                 : piece.traits->isWarps ? " warps "
                                                         : " blocks ");
    define += own.file;
    for (const std::string &one : own.defines)
      define += ' ' + one;
    spec.defines.push_back(std::move(define));
  }

  std::span<const Fusible> parts_;
  const LaunchContext &context_;
  std::vector<Piece> pieces_;
  uint32_t threads_ = 32;
};

//===----------------------------------------------------------------------===//
// The source
//===----------------------------------------------------------------------===//

std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// Every macro that a source defines, so that another may define it.
std::set<std::string> macros() {
  std::set<std::string> names;
  for (const Source &source : sources())
    for (size_t at = source.text.find("#define "); at != std::string_view::npos;
         at = source.text.find("#define ", at)) {
      at += sizeof("#define ") - 1;
      size_t end = source.text.find_first_of(" (\n", at);
      names.emplace(source.text.substr(at, end - at));
    }
  // What the pieces are put together with.
  std::erase_if(names, [](const std::string &name) {
    return name.starts_with("MOE_AS_") || name.starts_with("MOE_FUSED") ||
           name.starts_with("MOE_KERNELS_CUDA_FUSED") ||
           name == "MOE_KERNELS_CUDA_ABI_H"; // All share its structs.
  });
  return names;
}

/// A piece as its definition says it.
struct Text {
  std::string number, role, kind, space;
  bool begins() const { return role == "begins"; }
  bool isWarps() const { return kind == "warps"; }
  /// "x" or "y" of tiles of product `p`, else "".
  std::string axisFor(const std::string &p) const {
    return role == "tiles" + p + "x"   ? "0"
           : role == "tiles" + p + "y" ? "1"
                                       : "";
  }
  std::string as(const std::string &index) const {
    return std::string(isWarps() ? "MOE_AS_WARP(" : "MOE_AS_BLOCK(") + number +
           ", " + space + ", " + index + ")\n";
  }
  std::string shape() const { return "f.shape.shape[" + number + "]"; }
};

class Writer {
public:
  explicit Writer(const KernelSpec &spec) {
    out_ = "#define MOE_PIECE\n#include \"kernels/cuda/Fused.cuh\"\n";
    std::set<std::string> undefined = macros();
    std::vector<std::string> known;
    for (const std::string &define : spec.defines) {
      std::vector<std::string> words = wordsOf(define);
      std::string code = define.substr(words[0].size() + words[1].size() + 2);
      auto it = std::ranges::find(known, code);
      std::string space = "piece" + std::to_string(it - known.begin());
      if (it == known.end()) {
        known.push_back(code);
        addFile(space, words, undefined);
      }
      pieces_.push_back(
          {std::to_string(pieces_.size()), words[0], words[1], space});
    }
    addKernel();
  }
  std::string take() { return std::move(out_); }

private:
  void addFile(const std::string &space, const std::vector<std::string> &words,
               const std::set<std::string> &undefined) {
    std::vector<std::string> own;
    for (size_t i = 3; i < words.size(); ++i) {
      size_t equal = words[i].find('=');
      own.push_back(words[i].substr(0, equal));
      out_ += "#define " + own.back() + " " +
              (equal == std::string::npos ? "1" : words[i].substr(equal + 1)) +
              "\n";
    }
    out_ += "namespace " + space + " {\n#include \"" + words[2] + "\"\n}\n";
    for (const std::string &name : own)
      out_ += "#undef " + name + "\n";
    for (const std::string &name : undefined)
      out_ += "#undef " + name + "\n";
  }

  void addKernel() {
    out_ += "struct Args {\n  moek::cuda::FusedArgs shape;\n";
    for (const Text &piece : pieces_)
      out_ += "  " + piece.space + "::PieceArgs a" + piece.number + ";\n";
    out_ += "};\n";
    // As many blocks on a multiprocessor as each that begins asks for.
    std::string threads, perSm;
    for (const Text &piece : pieces_)
      if (piece.kind == "wide") {
        bool isFirst = threads.empty();
        std::string t = piece.space + "::kPieceThreads";
        std::string n = piece.space + "::kPiecesPerSm";
        out_ +=
            "constexpr int kThreads" + piece.number + " = " +
            (isFirst ? t : threads + " > " + t + " ? " + threads + " : " + t) +
            ", kPerSm" + piece.number + " = " +
            (isFirst ? n : perSm + " < " + n + " ? " + perSm + " : " + n) +
            ";\n";
        threads = "kThreads" + piece.number;
        perSm = "kPerSm" + piece.number;
      }
    if (threads.empty()) {
      threads = std::to_string(kMaxThreads);
      perSm = "1";
    }
    out_ += "extern \"C\" __global__ void __launch_bounds__(" + threads + ", " +
            perSm +
            ")\n    MOE_ENTRY(const __grid_constant__ Args f) {\n"
            "  fused::await(f.shape);\n  unsigned block = blockIdx.x;\n";
    addFirst();
    addAll();
    out_ += "}\n";
  }

  void addFirst() {
    for (const Text &piece : pieces_) {
      if (!piece.begins())
        continue;
      out_ += "if (block < " + piece.shape() + ".blocks) {\n";
      if (piece.isWarps())
        out_ += "  unsigned v = block * fused::warps() + fused::warp();\n"
                "  if (v < fused::countOf(" +
                piece.shape() + "))\n    " +
                piece.as("fused::at(" + piece.shape() + ", v)");
      else
        out_ += "  " + piece.as("fused::at(" + piece.shape() + ", block)");
      for (const Text &other : pieces_)
        if (std::string axis = other.axisFor(piece.number); !axis.empty())
          addTiles(piece, other, axis);
      out_ += "} else {\n  block -= " + piece.shape() + ".blocks;\n";
    }
    for (const Text &piece : pieces_)
      out_ += piece.begins() ? "}" : "";
    out_ += "\n";
  }

  void addTiles(const Text &product, const Text &piece,
                const std::string &axis) {
    std::string shape = piece.shape();
    out_ += "  fused::Tile tile" + piece.number + " = fused::tileOf(" +
            product.shape() + ", " + shape + ".tileBlocks, block);\n" +
            "  if (fused::isLast(f.shape.step->tickets + " + shape +
            ".ticket + tile" + piece.number + ".number, tile" + piece.number +
            ".blocks))\n" +
            "    for (unsigned i = fused::warp(); i < fused::countOf(" + shape +
            ", tile" + piece.number + ", " + axis +
            "); i += fused::warps())\n      " +
            piece.as("fused::at(" + shape + ", tile" + piece.number + ", " +
                     axis + ", i)");
  }

  void addAll() {
    bool isFirst = true;
    for (const Text &piece : pieces_) {
      if (piece.role != "all")
        continue;
      out_ += isFirst
                  ? "if (!fused::isLast(f.shape.step->tickets, gridDim.x))\n"
                    "  return;\n"
                  : "";
      isFirst = false;
      std::string count = "fused::countOf(" + piece.shape() + ")";
      std::string index = "fused::at(" + piece.shape() + ", i)";
      if (piece.isWarps())
        out_ += "for (unsigned i = fused::warp(); i < " + count +
                "; i += fused::warps())\n  " + piece.as(index) +
                "__syncthreads();\n";
      else
        out_ += "for (unsigned i = 0; i < " + count + "; ++i) {\n  " +
                piece.as(index) + "  __syncthreads();\n}\n";
    }
    out_ += isFirst ? "" : "fused::tell(f.shape);\n";
  }

  std::vector<Text> pieces_;
  std::string out_;
};
} // namespace

std::optional<Launch> fuse(std::span<const Fusible> parts,
                           const LaunchContext &context) {
  return Fuser(parts, context).run();
}

bool isFused(const KernelSpec &spec) { return spec.file == kFused; }

bool canAwait(const Launch &launch) {
  return isFused(launch.kernel) && countOf(launch.grid) == 1;
}

bool canSignal(const Launch &launch) {
  return isFused(launch.kernel) &&
         std::ranges::any_of(launch.kernel.defines,
                             [](const std::string &piece) {
                               return piece.starts_with("all ");
                             });
}

void meet(std::span<std::byte> args, const Meeting &meeting) {
  std::memcpy(args.data() + offsetof(FusedArgs, meeting), &meeting,
              sizeof(meeting));
}

std::string fusedSource(const KernelSpec &spec) { return Writer(spec).take(); }

} // namespace moek::cuda
