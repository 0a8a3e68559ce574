//===- KernelSpec.h - What a CUDA kernel is compiled from -------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_KERNELSPEC_H
#define MOE_KERNELS_CUDA_KERNELSPEC_H

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moek::cuda {

/// A macro that specialises a kernel, such as MOE_FORMAT=12.
struct Definition {
  std::string name;
  std::optional<int64_t> value = {};
  auto operator<=>(const Definition &) const = default;
};

/// A kernel that is a piece of a fused launch (Fuse.h).
struct PieceSpec {
  /// When the piece runs: at the beginning, in its own blocks; after each tile
  /// of a product, or after a piece that does; or after all other pieces.
  enum class Role : uint8_t { Begins, Tiles, All };
  /// What executes one of the piece's blocks. Wide: a block of the launch that
  /// begins with it. Blocks: any block. Warps: a single warp.
  enum class Kind : uint8_t { Wide, Blocks, Warps };

  Role role = Role::Begins;
  size_t product = 0; ///< Index of the piece whose tiles this one follows.
  int axis = 0;       ///< The grid axis along which its tiles are numbered.
  Kind kind = Kind::Wide;
  std::string file = {};
  std::vector<Definition> defines = {};
  auto operator<=>(const PieceSpec &) const = default;
};

struct KernelSpec {
  std::string file;                ///< "kernels/cuda/Gemv.cu"
  std::string entry;               ///< "gemv_q4_k"
  std::vector<Definition> defines; ///< Empty for a kernel with pieces.
  std::vector<PieceSpec> pieces = {};
  auto operator<=>(const KernelSpec &) const = default;

  void define(std::string name, std::optional<int64_t> value = {}) {
    defines.push_back({std::move(name), value});
  }
};

/// With this definition, a kernel multiplies with wgmma where there is one:
/// Warpgroup.cuh. Elsewhere it has to do without.
inline constexpr std::string_view kWarpgroup = "MOE_WARPGROUP";
inline constexpr int kWarpgroupArch = 90;
/// Whether a kernel is compiled for this architecture only (sm_90a).
bool usesWarpgroups(const KernelSpec &spec, int arch);

/// The file of a kernel that has pieces. FusedSource.cpp writes it.
inline constexpr std::string_view kFusedFile = "kernels/cuda/Fused.cu";
inline bool isFused(const KernelSpec &spec) { return spec.file == kFusedFile; }

/// Returns the definition as a compiler takes it, such as "MOE_FORMAT=12".
std::string textOf(const Definition &definition);

// A plan's module stores definitions and pieces as text, one word for each:
// "MOE_FORMAT=12", or "all blocks kernels/cuda/RmsNorm.cu".

std::vector<std::string> wordsOf(const KernelSpec &spec);
/// Returns the spec that these `words` describe. Words of a damaged plan give a
/// spec that does not compile.
KernelSpec specOf(std::string file, std::string entry,
                  std::span<const std::string> words);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_KERNELSPEC_H
