//===- DeltaChunks.h - The delta rule, many rows at a time ------*- C++ -*-===//
//
// The recurrence in DeltaRuleArgs passes over S twice per row (token). For a
// chunk of rows it can be computed with matrix products alone. Let g be the
// rows' decays, b their write strengths and
// D(i, j) = g(j+1) g(j+2) ... g(i). Row i writes
//   e(i) = b(i) (v(i) - D(i) S^T k(i)
//                - sum over j < i of D(i, j) k(i)k(j) e(j))
// where S is the matrix before the chunk and D(i) the product of all decays up
// to and including row i's. Its output is
//   out(i) = D(i) S^T q(i) + sum over j <= i of D(i, j) q(i)k(j) e(j)
// and S becomes D(n) S + sum over j of D(n, j) k(j) e(j)^T. Each e(i) needs
// those before it: this is the forward substitution of the UT transform (arXiv
// 2412.06464). D(i, j) is computed as D(i-1, j) g(i), so that nothing is
// divided by a product that may have underflowed.
//
// With `channels`, g, D(i) and D(i, j) are vectors with an element for each row
// of S, and multiply keys or queries before their products: k(j) is multiplied
// by the decays of the rows after j as they come, which are 16 * key products a
// row. With `sums`, e(i) = b(i) v(i), and nothing is read from S to write.
//
// One row of a head with keys and values of 128 needs 3 * 128 * 128
// multiply-adds in either form. The recurrence executes 4 operations, a store
// and as many loads for 3 of them. A chunk executes, in addition to the 3, a
// sixteenth of its rows times its rows, which is an eighth more.
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_DELTACHUNKS_H
#define MOE_KERNELS_CPU_DELTACHUNKS_H

#include "kernels/Abi.h"
#include "kernels/Scratch.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// Returns a sequence's row of the state.
MOE_INLINE float *stateOf(const KvView &state, const SequenceRows &rows) {
  return reinterpret_cast<float *>(state.data + rows.state * state.rowStride);
}

/// First columns of a head's query, key and value in a row of x.
struct DeltaHead {
  DeltaHead(const DeltaRuleArgs &a, int64_t head) : head(head) {
    int64_t of = a.tiled ? head % a.keyHeads : head / (a.heads / a.keyHeads);
    int64_t keys = a.keyHeads * a.key, values = a.heads * a.value;
    query = of * a.key + (a.sums ? values + keys : 0);
    key = of * a.key + (a.sums ? values : keys);
    value = head * a.value + (a.sums ? 0 : 2 * keys);
  }
  int64_t head, query, key, value;
};

/// A head's gates in a row.
struct DeltaRowGates {
  DeltaRowGates(const DeltaRuleArgs &a, int64_t t, int64_t head)
      : strength(a.gates[t * a.gatesStride + head]),
        decays(a.gates + t * a.gatesStride + a.heads +
               head * (a.channels ? a.key : 1)),
        step(a.channels ? 1 : 0) {}
  /// Returns the decay of row `d` of S.
  MOE_INLINE float decay(int64_t d) const { return decays[d * step]; }
  float strength;
  const float *decays;
  int64_t step;
};

/// Factors that normalise a query and a key: they divide by the root of the sum
/// of squares, not of the mean. Without normalisation they are 1.
template <class S> struct DeltaScales {
  using Num = typename S::Num;
  DeltaScales(const DeltaRuleArgs &a, const float *q, const float *k)
      : query(a.sums ? 1
                     : double(rmsScale<S>(q, a.key, a.eps / float(a.key))) /
                           double(a.key)),
        key(a.sums ? Num(1)
                   : Num(double(rmsScale<S>(k, a.key, a.eps / float(a.key))) /
                         std::sqrt(double(a.key)))) {}
  double query;
  Num key;
};

/// Processes the value columns `begin` to `end` of one head, in all rows of a
/// sequence.
template <class S> class DeltaChunks {
  using Vec = typename S::Vec;
  static constexpr int64_t kRows = kDeltaChunk;
  /// A product computes kTile rows by two vectors of columns at a time: 16 sums
  /// of AVX-512's 32 registers, 8 of AVX2's 16. Either is enough to keep two
  /// FMAs per cycle busy at a latency of four cycles.
  static constexpr int kTile = S::kWidth == 16 ? 8 : 4;
  static constexpr int64_t kCols = 2 * S::kWidth;
  static_assert(kRows % kTile == 0 && kDeltaColumns % kCols == 0);

  struct Sums {
    Vec at[kTile][2];
  };

  const DeltaRuleArgs &a;
  const SequenceRows &rows;
  const DeltaHead head;
  const int64_t begin, end;
  /// Key columns, padded to whole tiles.
  const int64_t width = scratchFloats(a.key);
  /// [kRows, width], lengths 1 and 1 / sqrt(key). With channels, row i is
  /// multiplied by D(i).
  float *keys, *queries;
  float *faded;    ///< [kRows, width], with channels only: D(n, j) k(j)
  float *passed;   ///< [width]: D(n), the decays of the chunk so far
  float *found;    ///< [kRows, kRows]: -b(i) D(i, j) k(i)k(j)
  float *answered; ///< [kRows, kRows]: D(i, j) q(i)k(j)
  float *written;  ///< [kRows, kCols]: e
  float *kept;     ///< [kRows, kCols]: e(j), decayed to the last row
  float *state;    ///< [columns / kCols, width, kCols]: S
  float strength[kRows], decay[kRows], left[kRows];

public:
  DeltaChunks(const DeltaRuleArgs &a, const SequenceRows &rows, int64_t head,
              int64_t begin, int64_t end, std::byte *scratch)
      : a(a), rows(rows), head(a, head), begin(begin), end(end) {
    auto *next = reinterpret_cast<float *>(scratch);
    auto take = [&](int64_t count) {
      float *part = next;
      next += count;
      return part;
    };
    keys = take(kRows * width), queries = take(kRows * width);
    faded = take(kRows * width), passed = take(width);
    found = take(kRows * kRows), answered = take(kRows * kRows);
    written = take(kRows * kDeltaColumns), kept = take(kRows * kDeltaColumns);
    state = next;
    std::memset(keys, 0, size_t((3 * kRows + 1) * width) * sizeof(float));
  }

  void run() {
    forColumns([&](int64_t first, float *block) { loadState(first, block); });
    for (int64_t done = 0; done < rows.count; done += kRows) {
      int64_t count = rows.count - done < kRows ? rows.count - done : kRows;
      int64_t t = rows.begin + done;
      loadRows(t, count);
      fetchRows(t + count, rows.begin + rows.count);
      if (a.channels)
        fadeRows(t, count);
      else
        multiplyRows(count);
      forColumns([&](int64_t first, float *block) {
        for (int64_t i = 0; i < count; i += kTile) {
          if (a.sums)
            writeValues(t, i, count, first);
          else
            write(t, i, count, first, block);
          answer(t, i, count, first, block);
        }
        keep(count, block);
      });
    }
    forColumns([&](int64_t first, float *block) { storeState(first, block); });
  }

private:
  template <class Body> MOE_INLINE void forColumns(Body body) {
    float *block = state;
    for (int64_t first = begin; first < end; first += kCols) {
      body(first, block);
      block += width * kCols;
    }
  }
  float *stateAt(int64_t first) const {
    return stateOf(a.state, rows) + a.begin + head.head * a.key * a.value +
           first;
  }
  size_t bytesAt(int64_t first) const {
    int64_t count = end - first < kCols ? end - first : kCols;
    return size_t(count) * sizeof(float);
  }
  void loadState(int64_t first, float *block) {
    std::memset(block, 0, size_t(width * kCols) * sizeof(float));
    if (rows.position > 0)
      for (int64_t d = 0; d < a.key; ++d)
        std::memcpy(block + d * kCols, stateAt(first) + d * a.value,
                    bytesAt(first));
  }
  void storeState(int64_t first, const float *block) {
    for (int64_t d = 0; d < a.key; ++d)
      std::memcpy(stateAt(first) + d * a.value, block + d * kCols,
                  bytesAt(first));
  }

  /// Rows are powers of two apart, a pattern that no prefetcher follows. So the
  /// columns that the next chunk needs are prefetched into L2 meanwhile.
  MOE_INLINE void fetchRows(int64_t t, int64_t last) {
    constexpr int64_t kLine = 16;
    last = last < t + kRows ? last : t + kRows;
    for (; t < last; ++t) {
      const float *row = a.x + t * a.xStride;
      for (int64_t c = 0; c < a.key; c += kLine) {
        __builtin_prefetch(row + head.query + c, 0, 2);
        __builtin_prefetch(row + head.key + c, 0, 2);
      }
      for (int64_t c = begin; c < end; c += kLine)
        __builtin_prefetch(row + head.value + c, 0, 2);
    }
  }
  void loadRows(int64_t t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const float *row = a.x + (t + i) * a.xStride;
      const float *q = row + head.query, *k = row + head.key;
      DeltaScales<S> scales(a, q, k);
      scaleRow<S>(q, typename S::Num(scales.query), nullptr, a.key,
                  queries + i * width);
      scaleRow<S>(k, scales.key, nullptr, a.key, keys + i * width);
      const DeltaRowGates gates(a, t + i, head.head);
      strength[i] = gates.strength;
      decay[i] = gates.decay(0);
    }
  }

  /// Computes the products of each row's key and query with the keys up to its
  /// own, multiplied by the decays between the two rows.
  void multiplyRows(int64_t count) {
    for (int64_t j = 0; j < kRows; ++j)
      left[j] = 1;
    float all = 1;
    for (int64_t i = 0; i < count; ++i) {
      float *ofKey = found + i * kRows, *ofQuery = answered + i * kRows;
      for (int64_t j = 0; j <= i; j += 4)
        multiplyFour(keys + i * width, queries + i * width, keys + j * width,
                     ofKey + j, ofQuery + j);
      all = flushedTiny(all * decay[i]);
      for (int64_t j = 0; j < i; ++j)
        left[j] = flushedTiny(left[j] * decay[i]);
      for (int64_t j = 0; j <= i; ++j) {
        ofKey[j] *= -strength[i] * left[j];
        ofQuery[j] *= left[j];
      }
      decay[i] = all;
    }
    std::fill_n(passed, width, all);
  }

  /// Does the work of multiplyRows() for decays of channels. Afterwards no
  /// product is left to be multiplied by a decay.
  void fadeRows(int64_t t, int64_t count) {
    std::fill_n(passed, width, 1.0f);
    std::fill_n(left, kRows, 1.0f);
    for (int64_t i = 0; i < count; ++i) {
      const float *g = DeltaRowGates(a, t + i, head.head).decays;
      float *k = keys + i * width, *q = queries + i * width;
      float *ofKey = found + i * kRows, *ofQuery = answered + i * kRows;
      for (int64_t j = 0; j < i; ++j)
        fade(faded + j * width, g);
      std::memcpy(faded + i * width, k, size_t(width) * sizeof(float));
      for (int64_t j = 0; j <= i; j += 4)
        multiplyFour(k, q, faded + j * width, ofKey + j, ofQuery + j);
      for (int64_t j = 0; j <= i; ++j)
        ofKey[j] *= -strength[i];
      fade(passed, g);
      for (int64_t d = 0; d < width; ++d)
        k[d] *= passed[d], q[d] *= passed[d];
      decay[i] = 1;
    }
  }
  /// Multiplies by a row's decays, without denormal results.
  void fade(float *x, const float *g) {
    for (int64_t d = 0; d < a.key; ++d)
      x[d] = flushedTiny(x[d] * g[d]);
  }

  /// Replaces a product that is about to become denormal by zero, because some
  /// CPUs take a hundred times as long for denormals.
  static float flushedTiny(float product) {
    constexpr float kLeast = 0x1p-100f;
    return product < kLeast && product > -kLeast ? 0 : product;
  }
  MOE_INLINE void multiplyFour(const float *k, const float *q,
                               const float *others, float *ofKey,
                               float *ofQuery) {
    Vec sumsOfKey[4], sumsOfQuery[4];
    for (int j = 0; j < 4; ++j)
      sumsOfKey[j] = sumsOfQuery[j] = S::zero();
    for (int64_t d = 0; d < width; d += S::kWidth) {
      Vec x = S::load(k + d), y = S::load(q + d);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        Vec other = S::load(others + j * width + d);
        sumsOfKey[j] = S::fma(x, other, sumsOfKey[j]);
        sumsOfQuery[j] = S::fma(y, other, sumsOfQuery[j]);
      }
    }
    S::reduceAdd4(sumsOfKey, 1, ofKey);
    S::reduceAdd4(sumsOfQuery, 1, ofQuery);
  }

  /// sums[i] += sum over n of factors[i * row + n * step] * vectors[n].
  MOE_INLINE static void addProducts(Sums &to, const float *factors,
                                     int64_t row, int64_t step,
                                     const float *vectors, int64_t count) {
    Sums sums = to; // A copy stays in registers; `to` might be aliased.
    for (int64_t n = 0; n < count; ++n) {
      Vec u = S::load(vectors + n * kCols);
      Vec v = S::load(vectors + n * kCols + S::kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < kTile; ++i) {
        Vec x = S::set(factors[i * row + n * step]);
        sums.at[i][0] = S::fma(x, u, sums.at[i][0]);
        sums.at[i][1] = S::fma(x, v, sums.at[i][1]);
      }
    }
    to = sums;
  }
  MOE_INLINE static void clear(Sums &sums) {
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i)
      sums.at[i][0] = sums.at[i][1] = S::zero();
  }
  template <class Body> MOE_INLINE void forHalves(int64_t first, Body body) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      int64_t c = half * S::kWidth, lanes = end - first - c;
      body(half, c, int(lanes < 0 ? 0 : lanes < S::kWidth ? lanes : S::kWidth));
    }
  }

  /// Computes rows `i` ... of e for a tile. The values of tile rows from
  /// `count` on do not matter.
  void write(int64_t t, int64_t i, int64_t count, int64_t first,
             const float *block) {
    Sums sums;
    clear(sums);
    addProducts(sums, keys + i * width, width, 1, block, a.key);
#pragma GCC unroll 8
    for (int r = 0; r < kTile; ++r) {
      if (i + r >= count)
        continue;
      Vec strong = S::set(strength[i + r]);
      Vec seen = S::set(-strength[i + r] * decay[i + r]);
      const float *v = a.x + (t + i + r) * a.xStride + head.value + first;
      forHalves(first, [&](int half, int64_t c, int lanes) {
        Vec value = S::loadPart(v + c, lanes);
        sums.at[r][half] =
            S::fma(seen, sums.at[r][half], S::mul(strong, value));
      });
    }
    addProducts(sums, found + i * kRows, kRows, 1, written, i);
    // Then the contributions of the tile's own rows, each as soon as it is
    // complete.
#pragma GCC unroll 8
    for (int j = 0; j < kTile; ++j) {
      Vec fades = S::set(left[i + j]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        int64_t at = (i + j) * kCols + half * S::kWidth;
        S::store(written + at, sums.at[j][half]);
        S::store(kept + at, S::mul(fades, sums.at[j][half]));
      }
#pragma GCC unroll 8
      for (int r = j + 1; r < kTile; ++r) {
        Vec x = S::set(found[(i + r) * kRows + i + j]);
        sums.at[r][0] = S::fma(x, sums.at[j][0], sums.at[r][0]);
        sums.at[r][1] = S::fma(x, sums.at[j][1], sums.at[r][1]);
      }
    }
  }

  /// Computes rows `i` ... of e for a tile whose rows do not depend on S.
  void writeValues(int64_t t, int64_t i, int64_t count, int64_t first) {
    for (int64_t r = i; r < i + kTile; ++r) {
      Vec strong = S::set(r < count ? strength[r] : 0);
      Vec fades = S::set(left[r]);
      const float *v =
          a.x + (t + (r < count ? r : 0)) * a.xStride + head.value + first;
      forHalves(first, [&](int half, int64_t c, int lanes) {
        Vec e = S::mul(strong, S::loadPart(v + c, lanes));
        S::store(written + r * kCols + half * S::kWidth, e);
        S::store(kept + r * kCols + half * S::kWidth, S::mul(fades, e));
      });
    }
  }

  void answer(int64_t t, int64_t i, int64_t count, int64_t first,
              const float *block) {
    Sums sums;
    clear(sums);
    addProducts(sums, queries + i * width, width, 1, block, a.key);
#pragma GCC unroll 8
    for (int r = 0; r < kTile; ++r) {
      Vec seen = S::set(decay[i + r]);
      sums.at[r][0] = S::mul(seen, sums.at[r][0]);
      sums.at[r][1] = S::mul(seen, sums.at[r][1]);
    }
    addProducts(sums, answered + i * kRows, kRows, 1, written, i);
#pragma GCC unroll 8
    for (int j = 0; j < kTile; ++j) {
      Vec u = S::load(written + (i + j) * kCols);
      Vec v = S::load(written + (i + j) * kCols + S::kWidth);
#pragma GCC unroll 8
      for (int r = j; r < kTile; ++r) {
        Vec x = S::set(answered[(i + r) * kRows + i + j]);
        sums.at[r][0] = S::fma(x, u, sums.at[r][0]);
        sums.at[r][1] = S::fma(x, v, sums.at[r][1]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTile; ++r) {
      if (i + r >= count)
        continue;
      float *out =
          a.out + (t + i + r) * a.outStride + head.head * a.value + first;
      const float *v = a.x + (t + i + r) * a.xStride + head.value + first;
      Vec skip = S::set(a.skip ? a.skip[head.head] : 0);
      forHalves(first, [&](int half, int64_t c, int lanes) {
        Vec y = sums.at[r][half];
        if (a.skip)
          y = S::fma(skip, S::loadPart(v + c, lanes), y);
        S::storePart(out + c, y, lanes);
      });
    }
  }

  void keep(int64_t count, float *block) {
    const float *from = a.channels ? faded : keys;
    for (int64_t d = 0; d < a.key; d += kTile) {
      Sums sums;
      float *at = block + d * kCols;
#pragma GCC unroll 8
      for (int i = 0; i < kTile; ++i) {
        Vec seen = S::set(passed[d + i]);
        sums.at[i][0] = S::mul(seen, S::load(at + i * kCols));
        sums.at[i][1] = S::mul(seen, S::load(at + i * kCols + S::kWidth));
      }
      addProducts(sums, from + d, 1, width, kept, count);
#pragma GCC unroll 8
      for (int i = 0; i < kTile; ++i) {
        S::store(at + i * kCols, sums.at[i][0]);
        S::store(at + i * kCols + S::kWidth, sums.at[i][1]);
      }
    }
  }
};

} // namespace moek

#endif // MOE_KERNELS_CPU_DELTACHUNKS_H
