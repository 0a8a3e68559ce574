//===- FusedSource.cpp - The source of a fused launch ---------------------===//

#include "kernels/cuda/Fuse.h"

#include <algorithm>
#include <set>

namespace moek::cuda {

namespace {
/// Returns the names of all macros that a source defines, which are undefined
/// behind each piece so that the next one may define them anew.
std::set<std::string> macros() {
  std::set<std::string> names;
  for (const Source &source : sources())
    for (size_t at = source.text.find("#define "); at != std::string_view::npos;
         at = source.text.find("#define ", at)) {
      at += sizeof("#define ") - 1;
      size_t end = source.text.find_first_of(" (\n", at);
      names.emplace(source.text.substr(at, end - at));
    }
  // The macros of Fused.cuh, which combines the pieces.
  std::erase_if(names, [](const std::string &name) {
    return name.starts_with("MOE_AS_") || name.starts_with("MOE_FUSED") ||
           name.starts_with("MOE_KERNELS_CUDA_FUSED") ||
           name == "MOE_KERNELS_CUDA_ABI_H"; // All pieces share the structs of
                                             // Abi.h.
  });
  return names;
}

/// One piece, and its names in the fused source.
struct Text {
  const PieceSpec &spec;
  std::string number; ///< The piece's number in the launch.
  std::string space;  ///< The namespace that its file is included in.

  bool begins() const { return spec.role == PieceSpec::Role::Begins; }
  bool isWide() const { return spec.kind == PieceSpec::Kind::Wide; }
  bool isWarps() const { return spec.kind == PieceSpec::Kind::Warps; }
  bool followsTilesOf(const Text &product) const {
    return spec.role == PieceSpec::Role::Tiles &&
           std::to_string(spec.product) == product.number;
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
    // Pieces with the same file and definitions share a namespace.
    std::vector<const PieceSpec *> known;
    for (const PieceSpec &piece : spec.pieces) {
      auto it = std::ranges::find_if(known, [&](const PieceSpec *other) {
        return other->file == piece.file && other->defines == piece.defines;
      });
      std::string space = "piece" + std::to_string(it - known.begin());
      if (it == known.end()) {
        known.push_back(&piece);
        addFile(space, piece, undefined);
      }
      pieces_.push_back({piece, std::to_string(pieces_.size()), space});
    }
    addKernel();
  }
  std::string take() { return std::move(out_); }

private:
  void addFile(const std::string &space, const PieceSpec &piece,
               const std::set<std::string> &undefined) {
    for (const Definition &own : piece.defines)
      out_ += "#define " + own.name + " " +
              std::to_string(own.value.value_or(1)) + "\n";
    out_ += "namespace " + space + " {\n#include \"" + piece.file + "\"\n}\n";
    for (const Definition &own : piece.defines)
      out_ += "#undef " + own.name + "\n";
    for (const std::string &name : undefined)
      out_ += "#undef " + name + "\n";
  }

  void addKernel() {
    out_ += "struct Args {\n  moek::cuda::FusedArgs shape;\n";
    for (const Text &piece : pieces_)
      out_ += "  " + piece.space + "::PieceArgs a" + piece.number + ";\n";
    out_ += "};\n";
    // The launch bounds are those of the initial pieces: the most threads of a
    // block, and as many of a multiprocessor as the piece that requests fewest,
    // which needs the most registers.
    std::string threads, all;
    auto join = [](std::string &to, const char *how, const std::string &own) {
      to = to.empty() ? own : how + ("(" + to + ", " + own + ")");
    };
    for (const Text &piece : pieces_)
      if (piece.isWide()) {
        std::string own = piece.space + "::kPieceThreads";
        join(threads, "fused::larger", own);
        join(all, "fused::smaller",
             own + " * " + piece.space + "::kPiecesPerSm");
      }
    const bool hasWide = !threads.empty();
    if (!hasWide)
      threads = all = std::to_string(kFusedThreads);
    out_ += "constexpr int kThreads = " + threads +
            ", kPerSm = fused::larger((" + all +
            ") / kThreads, 1);\n"
            "extern \"C\" __global__ void __launch_bounds__(kThreads, kPerSm)\n"
            "    MOE_ENTRY(const __grid_constant__ Args f) {\n"
            "  awaitLaunchBefore();\n" +
            (hasWide ? "" : "  fused::await(f.shape);\n") + // See canAwait().
            "  unsigned block = blockIdx.x;\n";
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
        if (other.followsTilesOf(piece))
          addTiles(piece, other);
      out_ += "} else {\n  block -= " + piece.shape() + ".blocks;\n";
    }
    for (const Text &piece : pieces_)
      out_ += piece.begins() ? "}" : "";
    out_ += "\n";
  }

  void addTiles(const Text &product, const Text &piece) {
    std::string shape = piece.shape(), tile = "tile" + piece.number;
    out_ += "  fused::Tile " + tile + " = fused::tileOf(" + product.shape() +
            ", " + shape + ", block);\n" +
            "  if (fused::isLastBlock(f.shape.step->tickets + " + shape +
            ".ticket + " + tile + ".number, " + tile + ".blocks)) {\n";
    addTile(piece, tile);
    out_ += "  }\n";
  }

  /// Makes the warps of a block execute the blocks of `piece` that belong to a
  /// tile, and then those of the pieces that follow `piece`.
  void addTile(const Text &piece, const std::string &tile) {
    std::string shape = piece.shape(), axis = std::to_string(piece.spec.axis);
    out_ += "    for (unsigned i = fused::warp(); i < fused::countOf(" + shape +
            ", " + tile + ", " + axis + "); i += fused::warps())\n      " +
            piece.as("fused::at(" + shape + ", " + tile + ", " + axis + ", i)");
    for (const Text &other : pieces_)
      if (other.followsTilesOf(piece)) {
        out_ += "    __syncthreads();\n";
        addTile(other, tile);
      }
  }

  void addAll() {
    bool isFirst = true;
    for (const Text &piece : pieces_) {
      if (piece.spec.role != PieceSpec::Role::All)
        continue;
      out_ +=
          isFirst
              ? "if (!fused::isLastBlock(f.shape.step->tickets, gridDim.x)) {\n"
                "  fused::prefetch(f.shape);\n"
                "  return;\n"
                "}\n"
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
    out_ += isFirst ? "" : "fused::signalHost(f.shape);\n";
  }

  std::vector<Text> pieces_;
  std::string out_;
};
} // namespace

std::string fusedSource(const KernelSpec &spec) { return Writer(spec).take(); }

} // namespace moek::cuda
