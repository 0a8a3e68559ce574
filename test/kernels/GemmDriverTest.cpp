//===- GemmDriverTest.cpp - Op kernels that call a GemmFn -----------------===//
//
// The GemmFn is the test's own: it has F32 weights and activations, one float64
// sum per element, and counts the work that it is given.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/Routing.h"

#include <map>
#include <numeric>
#include <set>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(LinearTest, Linear);
MOE_KERNEL_SUITE(GateUpTest, GateUp);
MOE_KERNEL_SUITE(ExpertGroupTest, ExpertGroup);
MOE_KERNEL_SUITE(ExpertsLinearTest, ExpertsLinear);
MOE_KERNEL_SUITE(ExpertsGateUpTest, ExpertsGateUp);
MOE_KERNEL_SUITE(ExpertsActivationMulTest, ExpertsActivationMul);

int64_t gemmProducts;
/// If set, records the NUMA nodes that read each weight row, by its first
/// float.
int gemmNode;
std::map<const uint8_t *, std::set<int>> *gemmReaders = nullptr;

void testGemm(const uint8_t *w, int64_t wStride, int64_t rows,
              const uint8_t *const *act, int64_t tokens, int64_t cols,
              float *out, int64_t outStride) {
  gemmProducts += rows * tokens;
  if (gemmReaders)
    for (int64_t r = 0; r < rows; ++r)
      (*gemmReaders)[w + r * wStride].insert(gemmNode);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t r = 0; r < rows; ++r) {
      const auto *x = reinterpret_cast<const float *>(act[t]);
      const auto *row = reinterpret_cast<const float *>(w + r * wStride);
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c)
        sum += double(row[c]) * double(x[c]);
      out[t * outStride + r] = float(sum);
    }
}

double dot(const Weights &w, int64_t o, int64_t r, const float *x) {
  double sum = 0;
  for (int64_t c = 0; c < w.view.cols; ++c)
    sum += w.at(o, r, c) * double(x[c]);
  return sum;
}

/// Error of a kernel that computes its own sums in float: GPU kernels have no
/// GemmFn.
double sumError(const KernelInfo &kernel, const Weights &w, int64_t o,
                int64_t r, const float *x) {
  if (kernel.isa != Isa::Cuda)
    return 0;
  double magnitude = 0;
  for (int64_t c = 0; c < w.view.cols; ++c)
    magnitude += std::fabs(w.at(o, r, c) * double(x[c]));
  return sumTolerance(w.view.cols, magnitude);
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// Error of silu(gate) * up, whose slope in the gate is at most 1.1.
double gateUpError(const KernelInfo &kernel, const Weights &gate,
                   const Weights &up, int64_t o, int64_t r, const float *x) {
  double g = sumError(kernel, gate, o, r, x), u = sumError(kernel, up, o, r, x);
  return 1.1 * g * (std::fabs(dot(up, o, r, x)) + u) +
         u * std::fabs(silu(dot(gate, o, r, x)));
}

const uint8_t *bytesOf(const Matrix<float> &m) {
  return reinterpret_cast<const uint8_t *>(m.data());
}

void checkLinear(const KernelInfo &kernel, int64_t n, int32_t tokens,
                 bool withBias, bool accumulate) {
  SCOPED_TRACE(testing::Message()
               << n << " rows, " << tokens << " tokens, bias " << withBias
               << ", accumulate " << accumulate);
  Random random(21);
  int64_t k = 19;
  Weights w(Format::F32, 1, n, k, random);
  Matrix<float> act(tokens, k, 5), bias(1, n), out(tokens, n, 3);
  act.fill(random);
  bias.fill(random);
  out.fill(random);
  std::vector<float> before(out.data(), out.data() + tokens * out.stride);
  if (accumulate)
    out.keepAsInitial();
  LinearArgs args{bytesOf(act),
                  act.stride * 4,
                  w.view,
                  testGemm,
                  withBias ? bias.data() : nullptr,
                  out.data(),
                  out.stride,
                  accumulate};
  runKernel(kernel, &args, {tokens, 4}, size_t(gemmScratchBytes()), {&out});
  expectClose(out, [&](int64_t t, int64_t r) {
    double y = dot(w, 0, r, act.row(t));
    double b = withBias ? bias.at(0, r) : 0;
    double old = accumulate ? before[size_t(t * out.stride + r)] : 0;
    return Wanted{y + b + old,
                  3 * kEps * (std::fabs(y) + std::fabs(b) + std::fabs(old)) +
                      sumError(kernel, w, 0, r, act.row(t))};
  });
}

TEST_P(LinearTest, BiasAccumulateAndTails) {
  for (bool bias : {false, true})
    for (bool accumulate : {false, true}) {
      checkLinear(GetParam(), 1, 1, bias, accumulate);
      checkLinear(GetParam(), 77, 3, bias, accumulate);
      checkLinear(GetParam(), 200, 131, bias, accumulate);
    }
}

TEST_P(GateUpTest, SiluOfGateTimesUp) {
  Random random(22);
  for (int64_t f : {1, 45, 200})
    for (int32_t tokens : {1, 3, 70}) {
      int64_t k = 19;
      Weights gate(Format::F32, 1, f, k, random);
      Weights up(Format::F32, 1, f, k, random);
      Matrix<float> act(tokens, k, 5), out(tokens, f, 3);
      act.fill(random);
      GateUpArgs args{bytesOf(act), act.stride * 4, gate.view, up.view,
                      testGemm,     testGemm,       nullptr,   nullptr,
                      out.data(),   out.stride};
      runKernel(GetParam(), &args, {tokens, 0}, size_t(gateUpScratchBytes()),
                {&out});
      expectClose(out, [&](int64_t t, int64_t r) {
        double g = dot(gate, 0, r, act.row(t)), u = dot(up, 0, r, act.row(t));
        // A rounding error of |g| eps in the gate changes silu by up to |g u|
        // eps more.
        return Wanted{silu(g) * u,
                      8 * kEps * std::fabs(silu(g) * u) +
                          2 * kEps * std::fabs(g * u) +
                          gateUpError(GetParam(), gate, up, 0, r, act.row(t))};
      });
    }
}

/// The expected value of a gated unit with sums g and u, which have errors of
/// up to gError and uError.
Wanted gpt(double g, double u, double gError, double uError) {
  double gate = std::fmin(g, 7), up = std::fmax(-7, std::fmin(u, 7)) + 1;
  double value = gate / (1 + std::exp(-1.702 * gate)) * up;
  return {value, 12 * kEps * (std::fabs(value) + 8) +
                     1.2 * gError * std::fabs(up) + uError * 7};
}

TEST_P(GateUpTest, BiasesAndActivation) {
  Random random(27);
  for (int32_t tokens : {1, 70}) {
    int64_t f = 77, k = 19;
    Weights gate(Format::F32, 1, f, k, random);
    Weights up(Format::F32, 1, f, k, random);
    Matrix<float> act(tokens, k, 5), out(tokens, f, 3), bias(2, f);
    act.fill(random);
    bias.fill(random, 3);
    GateUpArgs args{bytesOf(act),
                    act.stride * 4,
                    gate.view,
                    up.view,
                    testGemm,
                    testGemm,
                    bias.row(0),
                    bias.row(1),
                    out.data(),
                    out.stride,
                    Activation::ClampedSwiglu};
    runKernel(GetParam(), &args, {tokens, 0}, size_t(gateUpScratchBytes()),
              {&out});
    expectClose(out, [&](int64_t t, int64_t r) {
      const float *x = act.row(t);
      return gpt(dot(gate, 0, r, x) + bias.at(0, r),
                 dot(up, 0, r, x) + bias.at(1, r),
                 16 * kEps + sumError(GetParam(), gate, 0, r, x),
                 16 * kEps + sumError(GetParam(), up, 0, r, x));
    });
  }
}

TEST_P(ExpertGroupTest, SlotsByExpertThenByToken) {
  Random random(23);
  for (int32_t tokens : {1, 2, 5, 9, 200}) {
    Routing want(tokens, 6, 64, random);
    Matrix<int32_t> offsets(1, 65), slots(1, tokens * 6);
    ExpertGroupArgs args{want.ids.data(), offsets.data(), slots.data(), 64, 6};
    runKernel(GetParam(), &args, {tokens, 0}, 0, {&offsets, &slots});
    for (int64_t i = 0; i < offsets.cols; ++i)
      ASSERT_EQ(offsets.at(0, i), want.offsets[size_t(i)]) << i;
    for (int64_t i = 0; i < slots.cols; ++i)
      ASSERT_EQ(slots.at(0, i), want.slots[size_t(i)]) << i;
  }
}

/// With a slice of the experts (a range or any subset), those of others are
/// left out.
TEST_P(ExpertGroupTest, SliceContainsOnlyItsExperts) {
  Random random(29);
  Matrix<float> map(1, 64);
  for (int64_t e = 0; e < 64; ++e)
    map.at(0, e) = e % 3 == 1 ? float(20 - e / 3) : -1.0f;
  for (bool byMap : {false, true})
    for (int32_t tokens : {1, 2, 5, 9, 200}) {
      Routing want(tokens, 6, 64, random);
      int32_t begin = byMap ? 0 : 17, count = 21;
      want.group(count, [&](int32_t e) {
        return byMap ? int32_t(map.at(0, e)) : e - begin;
      });
      Matrix<int32_t> offsets(1, count + 1), slots(1, tokens * 6);
      std::fill_n(slots.data(), tokens * 6, -7);
      slots.keepAsInitial();
      ExpertGroupArgs args{want.ids.data(),
                           offsets.data(),
                           slots.data(),
                           64,
                           6,
                           {byMap ? map.data() : nullptr, begin, count}};
      runKernel(GetParam(), &args, {tokens, 0}, 0, {&offsets, &slots});
      for (int64_t i = 0; i < offsets.cols; ++i)
        ASSERT_EQ(offsets.at(0, i), want.offsets[size_t(i)]) << i;
      for (int64_t i = 0; i < slots.cols; ++i)
        ASSERT_EQ(slots.at(0, i),
                  size_t(i) < want.slots.size() ? want.slots[size_t(i)] : -7)
            << i;
    }
}

/// Sets every weight of expert `e` to NaN.
void spoil(Weights &w, int64_t e) {
  std::memset(w.memory->data() + e * w.view.outerStride, 0xff,
              size_t(w.view.rows * w.view.rowStride));
}

TEST_P(ExpertsLinearTest, EachSlotMeetsItsExpert) {
  Random random(24);
  for (bool perToken : {false, true})
    for (int64_t n : {5, 45, 130})
      for (int32_t tokens : {1, 9, 150}) {
        int32_t experts = 8, topK = 3;
        int64_t k = 17;
        Weights w(Format::F32, experts, n, k, random);
        spoil(w, 2);
        Routing routing(tokens, topK, experts, random);
        Matrix<float> act(perToken ? tokens : tokens * topK, k, 2);
        Matrix<float> out(tokens * topK, n, 3);
        act.fill(random);
        ExpertsLinearArgs args{bytesOf(act),
                               act.stride * 4,
                               w.view,
                               testGemm,
                               nullptr,
                               routing.offsets.data(),
                               routing.slots.data(),
                               out.data(),
                               out.stride,
                               topK,
                               perToken};
        runKernel(GetParam(), &args, {tokens, 0}, size_t(gemmScratchBytes()),
                  {&out});
        expectClose(out, [&](int64_t s, int64_t r) {
          double y = dot(w, routing.ids[size_t(s)], r,
                         act.row(perToken ? s / topK : s));
          return Wanted{y, kEps * std::fabs(y) +
                               sumError(GetParam(), w, routing.ids[size_t(s)],
                                        r, act.row(perToken ? s / topK : s))};
        });
      }
}

/// With a slice of the experts, slots that are in no list stay as they are.
TEST_P(ExpertsLinearTest, SlotsOfOtherDevicesExpertsAreUnchanged) {
  Random random(30);
  for (int32_t tokens : {1, 9, 150}) {
    int32_t experts = 4, topK = 6, begin = 3;
    int64_t n = 45, k = 17;
    Weights w(Format::F32, experts, n, k, random);
    Routing routing(tokens, topK, 8, random);
    routing.group(experts, [&](int32_t e) { return e - begin; });
    routing.slots.resize(routing.ids.size(), INT32_MAX);
    Matrix<float> act(tokens, k, 2), out(tokens * topK, n, 3);
    act.fill(random);
    for (int64_t s = 0; s < out.rows; ++s)
      for (int64_t r = 0; r < n; ++r)
        out.at(s, r) = -7;
    out.keepAsInitial();
    ExpertsLinearArgs args{bytesOf(act),
                           act.stride * 4,
                           w.view,
                           testGemm,
                           nullptr,
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK,
                           true};
    runKernel(GetParam(), &args, {tokens, 0}, size_t(gemmScratchBytes()),
              {&out});
    expectClose(out, [&](int64_t s, int64_t r) {
      int32_t e = routing.ids[size_t(s)] - begin;
      if (e < 0 || e >= experts)
        return Wanted{-7, 0};
      double y = dot(w, e, r, act.row(s / topK));
      return Wanted{y, kEps * std::fabs(y) +
                           sumError(GetParam(), w, e, r, act.row(s / topK))};
    });
  }
}

TEST_P(ExpertsGateUpTest, EachSlotMeetsItsExpert) {
  Random random(25);
  for (int64_t f : {5, 45, 130})
    for (int32_t tokens : {1, 9, 150}) {
      int32_t experts = 8, topK = 3;
      int64_t k = 17;
      Weights gate(Format::F32, experts, f, k, random);
      Weights up(Format::F32, experts, f, k, random);
      spoil(gate, 2);
      spoil(up, 2);
      Routing routing(tokens, topK, experts, random);
      Matrix<float> act(tokens, k, 2), out(tokens * topK, f, 3);
      act.fill(random);
      ExpertsGateUpArgs args{bytesOf(act),
                             act.stride * 4,
                             gate.view,
                             up.view,
                             testGemm,
                             testGemm,
                             nullptr,
                             nullptr,
                             routing.offsets.data(),
                             routing.slots.data(),
                             out.data(),
                             out.stride,
                             topK};
      runKernel(GetParam(), &args, {tokens, 0}, size_t(gateUpScratchBytes()),
                {&out});
      expectClose(out, [&](int64_t s, int64_t r) {
        int32_t e = routing.ids[size_t(s)];
        double g = dot(gate, e, r, act.row(s / topK));
        double u = dot(up, e, r, act.row(s / topK));
        return Wanted{silu(g) * u, 8 * kEps * std::fabs(silu(g) * u) +
                                       2 * kEps * std::fabs(g * u) +
                                       gateUpError(GetParam(), gate, up, e, r,
                                                   act.row(s / topK))};
      });
    }
}

TEST_P(ExpertsLinearTest, EachExpertsBias) {
  Random random(28);
  for (int32_t tokens : {1, 150}) {
    int32_t experts = 8, topK = 3;
    int64_t n = 77, k = 17;
    Weights w(Format::F32, experts, n, k, random);
    Routing routing(tokens, topK, experts, random);
    Matrix<float> act(tokens * topK, k, 2), out(tokens * topK, n, 3);
    Matrix<float> bias(experts, n);
    act.fill(random);
    bias.fill(random);
    ExpertsLinearArgs args{bytesOf(act),
                           act.stride * 4,
                           w.view,
                           testGemm,
                           bias.data(),
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK,
                           false};
    runKernel(GetParam(), &args, {tokens, 0}, size_t(gemmScratchBytes()),
              {&out});
    expectClose(out, [&](int64_t s, int64_t r) {
      int32_t e = routing.ids[size_t(s)];
      double y = dot(w, e, r, act.row(s)), b = bias.at(e, r);
      return Wanted{y + b, 2 * kEps * (std::fabs(y) + std::fabs(b)) +
                               sumError(GetParam(), w, e, r, act.row(s))};
    });
  }
}

TEST_P(ExpertsGateUpTest, BiasesAndActivation) {
  Random random(29);
  for (int32_t tokens : {1, 150}) {
    int32_t experts = 8, topK = 3;
    int64_t f = 77, k = 17;
    Weights gate(Format::F32, experts, f, k, random);
    Weights up(Format::F32, experts, f, k, random);
    Routing routing(tokens, topK, experts, random);
    Matrix<float> act(tokens, k, 2), out(tokens * topK, f, 3);
    Matrix<float> gateBias(experts, f), upBias(experts, f);
    act.fill(random);
    gateBias.fill(random, 3);
    upBias.fill(random, 3);
    ExpertsGateUpArgs args{bytesOf(act),
                           act.stride * 4,
                           gate.view,
                           up.view,
                           testGemm,
                           testGemm,
                           gateBias.data(),
                           upBias.data(),
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK,
                           Activation::ClampedSwiglu};
    runKernel(GetParam(), &args, {tokens, 0}, size_t(gateUpScratchBytes()),
              {&out});
    expectClose(out, [&](int64_t s, int64_t r) {
      int32_t e = routing.ids[size_t(s)];
      const float *x = act.row(s / topK);
      return gpt(dot(gate, e, r, x) + gateBias.at(e, r),
                 dot(up, e, r, x) + upBias.at(e, r),
                 16 * kEps + sumError(GetParam(), gate, e, r, x),
                 16 * kEps + sumError(GetParam(), up, e, r, x));
    });
  }
}

TEST_P(ExpertsLinearTest, WorkersFinishTogether) {
  if (GetParam().isa == Isa::Cuda)
    GTEST_SKIP() << "a CUDA kernel has no workers";
  // One expert has 40 slots, seven have 4 or fewer: divided by expert, one of
  // four workers would do most of the work.
  Random random(26);
  int32_t experts = 8, tokens = 40, topK = 1, workers = 4;
  int64_t n = 1408, k = 2;
  Weights w(Format::F32, experts, n, k, random);
  std::vector<int32_t> offsets{0, 3, 30, 30, 31, 35, 36, 39, 40};
  std::vector<int32_t> slots(40);
  std::iota(slots.begin(), slots.end(), 0);
  Matrix<float> act(tokens, k), out(tokens, n);
  act.fill(random);
  ExpertsLinearArgs args{bytesOf(act), act.stride * 4, w.view,       testGemm,
                         nullptr,      offsets.data(), slots.data(), out.data(),
                         out.stride,   topK,           false};
  int64_t most = 0, all = n * tokens;
  for (int i = 0; i < workers; ++i) {
    Guarded scratch{size_t(gemmScratchBytes())};
    gemmProducts = 0;
    resolveKernel(GetParam().name)(&args, Step{tokens, 0},
                                   Worker{i, workers, scratch.data()});
    most = std::max(most, gemmProducts);
  }
  EXPECT_LE(double(most), 1.6 * double(all) / workers);
}

/// Runs routed experts, of which every step uses different ones, on a machine
/// with 2 or 4 NUMA nodes. `run` receives the groups of a step and a worker.
template <class RunStep>
void checkNodesKeepTheirRows(int64_t experts, RunStep run) {
  for (int nodes : {2, 4}) {
    std::map<const uint8_t *, std::set<int>> readers;
    gemmReaders = &readers;
    Random random(27);
    for (int stepNumber = 0; stepNumber < 20; ++stepNumber) {
      std::vector<int32_t> offsets(size_t(experts + 1), 0), slots;
      for (int64_t e = 0; e < experts; ++e) {
        int32_t chosen = random.below(3);
        offsets[size_t(e + 1)] = offsets[size_t(e)] + chosen;
        for (int32_t i = 0; i < chosen; ++i)
          slots.push_back(int32_t(slots.size()));
      }
      slots.push_back(0);
      TestWorkers team{11, nodes, true};
      for (int i = 0; i < team.workers; ++i) {
        Guarded scratch{size_t(gateUpScratchBytes())};
        Worker worker = team.worker(i, scratch.data());
        gemmNode = worker.nodeBegin;
        run(offsets.data(), slots.data(), Step{int32_t(slots.size()), 0},
            worker);
      }
    }
    gemmReaders = nullptr;
    ASSERT_FALSE(readers.empty());
    std::map<int, int> rowsOfNode;
    for (const auto &[row, readBy] : readers) {
      ASSERT_EQ(readBy.size(), 1u) << "a row read by several nodes";
      ++rowsOfNode[*readBy.begin()];
    }
    // All rows in use are read, and no node reads far less than its share.
    EXPECT_EQ(readers.size() % size_t(experts), 0u);
    ASSERT_EQ(rowsOfNode.size(), size_t(nodes));
    for (auto [node, rows] : rowsOfNode)
      EXPECT_GT(rows, int(readers.size()) / nodes / 2);
  }
}

TEST_P(ExpertsLinearTest, NodesReadTheirOwnRowsOfEveryExpert) {
  if (GetParam().isa == Isa::Cuda)
    GTEST_SKIP() << "a CUDA kernel has no workers";
  Random random(28);
  int64_t experts = 5, n = 352, k = 3;
  Weights w(Format::F32, experts, n, k, random);
  Matrix<float> act(experts * 2, k), out(experts * 2, n);
  act.fill(random);
  checkNodesKeepTheirRows(experts, [&](const int32_t *offsets,
                                       const int32_t *slots, Step step,
                                       const Worker &worker) {
    ExpertsLinearArgs args{
        bytesOf(act), act.stride * 4, w.view,     testGemm, nullptr, offsets,
        slots,        out.data(),     out.stride, 1,        false};
    resolveKernel(GetParam().name)(&args, step, worker);
  });
}

TEST_P(ExpertsGateUpTest, NodesReadTheirOwnRowsOfEveryExpert) {
  if (GetParam().isa == Isa::Cuda)
    GTEST_SKIP() << "a CUDA kernel has no workers";
  Random random(29);
  int64_t experts = 5, f = 352, k = 3;
  Weights gate(Format::F32, experts, f, k, random);
  Weights up(Format::F32, experts, f, k, random);
  Matrix<float> act(experts * 2, k), out(experts * 2, f);
  act.fill(random);
  checkNodesKeepTheirRows(experts, [&](const int32_t *offsets,
                                       const int32_t *slots, Step step,
                                       const Worker &worker) {
    ExpertsGateUpArgs args{
        bytesOf(act), act.stride * 4, gate.view, up.view, testGemm,
        testGemm,     nullptr,        nullptr,   offsets, slots,
        out.data(),   out.stride,     1};
    resolveKernel(GetParam().name)(&args, step, worker);
  });
}

// One of four workers is stopped: the others do the part of its share that is
// taken by ticket, and nothing is done twice.
TEST_P(LinearTest, TicketsOfALateWorkerAreTaken) {
  if (GetParam().isa == Isa::Cuda)
    GTEST_SKIP() << "a CUDA kernel has no workers";
  Random random(30);
  int64_t n = 4096, k = 2;
  Weights w(Format::F32, 1, n, k, random);
  Matrix<float> act(1, k), out(1, n);
  act.fill(random);
  LinearArgs args{bytesOf(act), act.stride * 4, w.view,     testGemm,
                  nullptr,      out.data(),     out.stride, false};
  TestWorkers team{4, 1, true};
  std::vector<int64_t> products;
  for (int i : {0, 1, 2, 3}) {
    Guarded scratch{size_t(gemmScratchBytes())};
    gemmProducts = 0;
    resolveKernel(GetParam().name)(&args, Step{1, 0},
                                   team.worker(i, scratch.data()));
    products.push_back(gemmProducts);
  }
  EXPECT_EQ(products[0] + products[1] + products[2] + products[3], n);
  EXPECT_EQ(products[0], n / 4 + 3 * n / 8);
  EXPECT_EQ(products[3], n / 8);
}

/// Each slot's gate and up are multiplied with the factors of its expert; slots
/// that are in no list stay as they are, and out may be one of the operands.
TEST_P(ExpertsActivationMulTest, FactorsOfTheSlotsExpert) {
  Random random(41);
  constexpr int32_t kExperts = 9, kTopK = 3;
  Matrix<float> scales(2, kExperts);
  scales.fill(random, 2);
  for (int32_t tokens : {1, 9})
    for (int64_t cols : {1, 300})
      for (unsigned given : {0u, 1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens, " << cols
                                        << " columns, scales " << given);
        Routing routing(tokens, kTopK, kExperts, random);
        // Expert 0's slots belong to another device.
        routing.slots.erase(routing.slots.begin(),
                            routing.slots.begin() + routing.offsets[1]);
        for (size_t e = kExperts + 1; e-- > 0;)
          routing.offsets[e] -= e == 0 ? 0 : routing.offsets[1];
        Matrix<float> gate(tokens * kTopK, cols), up(tokens * kTopK, cols);
        gate.fill(random);
        up.fill(random);
        gate.keepAsInitial();
        std::vector<float> before(gate.data(),
                                  gate.data() + gate.rows * gate.cols);
        ExpertsActivationMulArgs args{gate.data(),
                                      up.data(),
                                      given & 1 ? scales.row(0) : nullptr,
                                      given & 2 ? scales.row(1) : nullptr,
                                      routing.offsets.data(),
                                      routing.slots.data(),
                                      gate.data(),
                                      cols,
                                      kExperts,
                                      kTopK};
        runKernel(GetParam(), &args, {tokens, 0}, 0, {&gate});
        expectClose(gate, [&](int64_t slot, int64_t c) {
          int32_t e = routing.ids[size_t(slot)];
          double g = before[size_t(slot * cols + c)], u = up.at(slot, c);
          if (e == 0)
            return Wanted{g, 0};
          g *= given & 1 ? double(scales.at(0, e)) : 1;
          u *= given & 2 ? double(scales.at(1, e)) : 1;
          return Wanted{silu(g) * u, 10 * kEps * std::fabs(silu(g) * u) +
                                         3 * kEps * std::fabs(g * u)};
        });
      }
}

TEST_P(ExpertsActivationMulTest, EveryActivation) {
  Random random(42);
  Matrix<float> gate(2, 70), up(2, 70), out(2, 70), scales(2, 2);
  gate.fill(random, 4);
  up.fill(random, 4);
  scales.fill(random, 2);
  int32_t offsets[] = {0, 1, 2}, slots[] = {1, 0};
  ExpertsActivationMulArgs args{gate.data(),
                                up.data(),
                                scales.row(0),
                                scales.row(1),
                                offsets,
                                slots,
                                out.data(),
                                70,
                                2,
                                1,
                                Activation::ClampedSwiglu};
  runKernel(GetParam(), &args, {2, 0}, 0, {&out});
  expectClose(out, [&](int64_t slot, int64_t c) {
    int64_t e = 1 - slot;
    double g = double(gate.at(slot, c)) * double(scales.at(0, e));
    double u = double(up.at(slot, c)) * double(scales.at(1, e));
    return gpt(g, u, 4 * kEps * std::fabs(g), 4 * kEps * std::fabs(u));
  });
}

} // namespace
