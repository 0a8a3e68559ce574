//===- Chain.h - The fastest variants of a chain of layers ------*- C++ -*-===//
//
// A model is a chain of layers. Each layer runs in one of a few ways: some of
// its parts are on a GPU, the others on the host. Every way has a price in
// seconds and takes bytes of that GPU. GPUs have runs of consecutive layers, in
// the GPUs' order; within a run, the attention of all layers is on the GPU or
// that of none.
//
// Because prices add up and GPUs have memories of their own, a dynamic
// programme over runs finds the fastest path. A run alone is a knapsack from
// which each layer takes one variant. It is filled in the order of seconds
// saved per byte, and the layer whose experts no longer fit is divided. This
// is optimal if experts are small: only what is left of the memory when a part
// does not fit that cannot be divided may be used worse than it could be.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_CHAIN_H
#define MOE_PASSES_MOE_PLACEMENT_CHAIN_H

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace mlir::moe {

/// What may be on a GPU and has a price.
struct ChainItem {
  double seconds = 0;
  int64_t bytes = 0;
  bool isAllowed = false;

  bool operator==(const ChainItem &) const = default;
};

/// Layers, GPUs and prices. Seconds are those of a whole request.
struct Chain {
  /// Parts of a layer. A variant is the set of those on the GPU.
  enum Part : unsigned { Attention = 1, Dense = 2, Experts = 4 };
  static constexpr unsigned kVariants = 8;
  using Layer = std::array<ChainItem, kVariants>;

  struct Gpu {
    std::vector<Layer> layers;
    /// The embedding, for a run that begins with the first layer, and the head,
    /// for any one run: `seconds` is what they take less than on the host.
    ChainItem embedding, head;
    /// Bytes for weights and caches, without and with experts on the GPU.
    std::array<int64_t, 2> room = {0, 0};

    bool operator==(const Gpu &) const = default;
  };
  std::vector<Gpu> gpus;
  /// By layer: the seconds on the host, and whether some of its experts can be
  /// on a GPU and the others on the host.
  std::vector<double> onHost;
  std::vector<bool> isDivisible;
  /// Seconds to hand a layer's result from one device to another, and seconds
  /// outside of layers if the last layer's attention is on a device. The host
  /// is the last device.
  std::vector<std::vector<double>> handOver;
  std::vector<double> outside;
};

/// A variant for every layer.
struct ChainPath {
  /// Seconds, with the prices of bytes and with divided layers.
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<int> gpus; ///< By layer; -1: all on the host.
  std::vector<unsigned> parts;
  int embedding = -1, head = -1; ///< GPUs, or -1.
};

/// What paths may use.
struct ChainLimits {
  /// Parts of layers that may be on GPUs.
  unsigned parts = Chain::Attention | Chain::Dense | Chain::Experts;
  /// Price of a byte that is on the host, in seconds.
  double perHostByte = 0;
};

/// The fastest paths through a chain, which must outlive it.
class ChainPaths {
public:
  explicit ChainPaths(const Chain &chain, ChainLimits limits = {});
  ~ChainPaths();

  /// Returns the fastest path that uses some of these GPUs. Its seconds are
  /// infinite if the limits leave none.
  ChainPath fastest(const std::vector<bool> &gpus);

private:
  struct Tables;
  const Chain &chain;
  const ChainLimits limits;
  std::unique_ptr<Tables> tables;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_CHAIN_H
