//===- GemmStage.cuh - A stage of Gemm.cu in shared memory ------*- C++ -*-===//
//
// What a block of Gemm.cu keeps of 64 columns, and how lanes read it. Addresses
// are 32-bit numbers with constant offsets: a lane with 64 or 128 sums has few
// other registers.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_GEMMSTAGE_CUH
#define MOE_KERNELS_CUDA_GEMMSTAGE_CUH

#define MOE_A_SIGNED // Operand A holds codes minus their zero point.
#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/PanelStage.cuh"
#include "kernels/cuda/Products.cuh"

constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
// 64 columns: 64 bytes of activations in each row.
constexpr int kStageUnits = 2;
constexpr int kThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");
#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Groups of 32 weight rows of a warp, and how many are of the same matrix.
constexpr int kPairs = MOE_PAIRS, kMatrixPairs = kPairs / kMatrices;
static_assert(kPairs % kMatrices == 0);
/// Weight rows of a block, and panels of sixteen of them, of each matrix.
constexpr int kBlockRows = 32 * kMatrixPairs * MOE_WARP_ROWS,
              kPanels = kBlockRows / 16;
/// The scale of a row of activations for a unit and, with minima, the scale
/// times the sum of its quantised values: of the whole unit, or of each half
/// (and a gap, so that it can be loaded at once).
#if MOE_MINIMA
struct alignas(8 * MOE_MINIMA) ActScale {
  float scale, sum[2 * MOE_MINIMA - 1];
};
#else
struct ActScale {
  float scale;
};
#endif

struct Stage {
  /// Quantised activations. The sixteen bytes with number i of row t are at
  /// place i ^ (t / 2 % 4), so that ldmatrix reads those of eight rows from
  /// different banks.
  u8 acts[MOE_ROWS][32 * kStageUnits];
  /// Codes of weights, at the places that wordPlace() returns.
  uint4 weights[kMatrices][kPanels][kStageUnits][kUnitWords];
  float4 factors[kMatrices][kStageUnits][kFactors][kBlockRows / 4];
#ifdef MOE_FOLDED
  Fold folds[kMatrices][kStageUnits][kBlockRows / 4];
#endif
  ActScale scales[kStageUnits][MOE_ROWS];
#ifdef MOE_SHIFTS
  u32 shifts[kMatrices][kStageUnits][kBlockRows / 4];
#endif
};

/// Offset of a member of `Stage` or `Sources`.
#define MOE_AT(Struct, member) u32(u64(&((const Struct *)0)->member))

/// The place of sixteen bytes with number `i` of row `t` in a stage's acts.
MOE_DEVICE int actPlace(int t, int i) { return 4 * t + (i ^ t / 2 % 4); }

/// Loads 32 columns of sixteen rows of activations as operands B of two tiles:
/// b[0] and b[1] for the first eight rows, b[2] and b[3] for the others. `from`
/// + `Offset` is the address of row lane % 8 of matrix lane / 8; the four
/// matrices have eight rows of 16 bytes each, of which lane 4 g + c gets bytes
/// 4 c .. 4 c + 3 of row g.
template <int Offset> MOE_DEVICE void loadTiles(u32 (&b)[4], u32 from) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4 + %5];"
      : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
      : "r"(from), "n"(Offset)
      : "memory");
}
template <int Offset> MOE_DEVICE void loadShared(float (&v)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(from), "n"(Offset)
               : "memory");
}
template <int Offset> MOE_DEVICE void loadShared(float (&v)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
               : "=f"(v[0]), "=f"(v[1])
               : "r"(from), "n"(Offset)
               : "memory");
}
MOE_DEVICE u32 loadShared4(u32 from) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
MOE_DEVICE uint2 loadShared8(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(from)
               : "memory");
  return v;
}
MOE_DEVICE uint4 loadShared16(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

MOE_DEVICE u64 loadSharedAddress(u32 from) {
  u64 v;
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(from) : "memory");
  return v;
}
MOE_DEVICE void storeShared4(u32 to, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(to), "r"(v) : "memory");
}
MOE_DEVICE void storeShared8(u32 to, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
               :
               : "r"(to), "f"(a), "f"(b)
               : "memory");
}
MOE_DEVICE void storeShared16(u32 to, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

/// Loads the factors of two neighbouring rows of activations.
template <int Offset> MOE_DEVICE void loadScales(ActScale (&x)[2], u32 from) {
#if MOE_MINIMA == 0
  float v[2];
  loadShared<Offset>(v, from);
  x[0].scale = v[0];
  x[1].scale = v[1];
#elif MOE_MINIMA == 1
  float v[4];
  loadShared<Offset>(v, from);
  x[0].scale = v[0];
  x[0].sum[0] = v[1];
  x[1].scale = v[2];
  x[1].sum[0] = v[3];
#else
  float v[2][4];
  loadShared<Offset>(v[0], from);
  loadShared<Offset + sizeof(ActScale)>(v[1], from);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    x[t].scale = v[t][0];
    x[t].sum[0] = v[t][1];
    x[t].sum[1] = v[t][2];
  }
#endif
}

/// Lane 4 g + c; quad = g % 4 tells which four rows of a panel it has.
struct Lane {
  int g, c, quad;
};

/// A lane, and the first of its warp's rows of weights (in each matrix) and of
/// activations, in the block.
struct WarpPlace {
  Lane lane;
  int row, act;
};
MOE_DEVICE WarpPlace placeOf(int tid) {
  int warp = tid / 32, lane = tid % 32;
  return {{lane / 4, lane % 4, lane / 4 % 4},
          32 * kMatrixPairs * (warp % MOE_WARP_ROWS),
          warp / MOE_WARP_ROWS * 8 * kTiles};
}

/// Reads the thread's number again, so that what follows from it takes no
/// registers while a stage is multiplied.
MOE_DEVICE int threadAgain() {
  int tid;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
  // Divisions need no correction for signs.
  __builtin_assume(0 <= tid && tid < kThreads);
  return tid;
}

/// The shared addresses from which a lane reads unit 0 of a stage.
struct Reads {
  u32 acts, weights, factors, scales;
#ifdef MOE_FOLDED
  u32 folds;
#endif
#ifdef MOE_SHIFTS
  u32 shifts;
#endif
};
MOE_DEVICE Reads operator+(Reads r, u32 bytes) {
  r.acts += bytes;
  r.weights += bytes;
  r.factors += bytes;
  r.scales += bytes;
#ifdef MOE_FOLDED
  r.folds += bytes;
#endif
#ifdef MOE_SHIFTS
  r.shifts += bytes;
#endif
  return r;
}
/// The place of the first word that the lane reads of a unit (PanelStage.cuh).
MOE_DEVICE int firstWord(const Lane &lane) {
  return MOE_BITS >= 4 ? transposed(lane.quad, lane.c) : lane.quad;
}
/// Returns the lane's addresses in the stage at the shared address `stage`.
MOE_DEVICE Reads readsOf(u32 stage, const WarpPlace &place) {
  const Lane &lane = place.lane;
  int lane32 = threadIdx.x % 32, t = place.act + lane32 / 16 * 8 + lane32 % 8;
  int panel = place.row / 16 + lane.g / 4, quad = place.row / 4 + lane.g;
  Reads r;
  r.acts = stage + 16 * actPlace(t, lane32 / 8 % 2);
  r.weights = stage + MOE_AT(Stage, weights) +
              panel * kStageUnits * kUnitBytes + 16 * firstWord(lane);
  r.factors = stage + MOE_AT(Stage, factors) + 16 * quad;
  r.scales = stage + MOE_AT(Stage, scales) +
             (place.act + 2 * lane.c) * u32(sizeof(ActScale));
#ifdef MOE_FOLDED
  r.folds = stage + MOE_AT(Stage, folds) + quad * u32(sizeof(Fold));
#endif
#ifdef MOE_SHIFTS
  r.shifts = stage + MOE_AT(Stage, shifts) + 4 * quad;
#endif
  return r;
}

#ifdef MOE_FOLDED
MOE_DEVICE Fold loadFold(u32 from) {
  Fold fold;
#ifdef MOE_ZERO
  uint4 v = loadShared16(from);
  fold.multiple = {v.x, v.y};
  fold.start = {v.z, v.w};
#else
  fold.multiple = loadShared8(from);
#endif
  return fold;
}
MOE_DEVICE void storeFold(u32 to, const Fold &fold) {
#ifdef MOE_ZERO
  storeShared16(to, __int_as_float(int(fold.multiple.x)),
                __int_as_float(int(fold.multiple.y)),
                __int_as_float(int(fold.start.x)),
                __int_as_float(int(fold.start.y)));
#else
  storeShared8(to, __int_as_float(int(fold.multiple.x)),
               __int_as_float(int(fold.multiple.y)));
#endif
}
#endif

/// A lane's weights of a unit and a group of 32 rows (two panels): four rows,
/// as operands A, with their factors.
struct Rows {
  RowCodes codes[4];
  float f[kFactors][4], offset[4];
};
/// Group `pair` of a warp's weight rows is in matrix matrixOf(pair), behind
/// before(pair) other groups of the warp.
MOE_DEVICE constexpr int matrixOf(int pair) { return pair / kMatrixPairs; }
MOE_DEVICE constexpr int before(int pair) { return pair % kMatrixPairs; }

/// Loads factors `Factor` .. kFactors - 1 of the lane's four rows of group
/// `Pair`.
template <int Factor, int Pair>
MOE_DEVICE void loadFactors(Rows &rows, u32 from) {
  if constexpr (Factor < kFactors) {
    constexpr int kRow = kBlockRows / 4 * 16;
    loadShared<matrixOf(Pair) * kStageUnits * kFactors * kRow + Factor * kRow +
               before(Pair) * 128>(rows.f[Factor], from);
    loadFactors<Factor + 1, Pair>(rows, from);
  }
}
template <int Pair>
MOE_DEVICE void loadRows(Rows &rows, const Reads &reads, int u,
                         const Lane &lane) {
  constexpr int kPanelBytes = kStageUnits * kUnitBytes;
  Codes codes;
  u32 unit = reads.weights + u * kUnitBytes +
             (matrixOf(Pair) * kPanels + 2 * before(Pair)) * kPanelBytes;
  int first = firstWord(lane);
  loadUnit(codes, lane.quad, lane.c,
           [&](int i) { return loadShared16(unit + 16 * (i - first)); });
  [[maybe_unused]] int quad = matrixOf(Pair) * kStageUnits * (kBlockRows / 4) +
                              8 * before(Pair) + u * (kBlockRows / 4);
#ifdef MOE_SHIFTS
  codes.shifts = loadShared4(reads.shifts + 4 * quad);
#endif
#ifdef MOE_FOLDED
  Fold fold = loadFold(reads.folds + quad * u32(sizeof(Fold)));
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.codes[r] = foldedCodes(codes, fold, r, lane.c);
#else
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.codes[r] = signedCodes(codes, r, lane.c);
#endif
  loadFactors<0, Pair>(rows, reads.factors + u * kFactors * kBlockRows * 4);
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.offset[r] = -kMagic * rows.f[0][r];
}

#endif // MOE_KERNELS_CUDA_GEMMSTAGE_CUH
