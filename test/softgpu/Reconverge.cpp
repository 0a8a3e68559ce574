//===- Reconverge.cpp - Reconvergence of diverged lanes -------------------===//
//
// GPUs let lanes wait for each other where the paths of a branch meet at the
// latest: at its immediate post-dominator. The position in the text does not
// tell where that is: compilers put blocks after, or before, their
// post-dominators.
//
// Blocks are ordered such that none comes before one that it post-dominates.
// Apart from that, strongly connected components (loops) are kept together in
// topological order, with a loop's head after its body. Then lanes meet at
// every post-dominator, and earlier where paths join before it: at a loop's
// head in every iteration, at a block that several conditions lead to, after a
// loop with several exits.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Reconverge.h"

#include <algorithm>
#include <queue>

namespace softgpu {

namespace {

class FlowGraph {
public:
  explicit FlowGraph(Kernel &kernel) : ops_(kernel.ops) {
    findBlocks(kernel);
    findEnds();
    for (int block = 0; block < exit(); ++block)
      sortWays(next_[size_t(block)]);
    walk(0);
    std::reverse(walked_.begin(), walked_.end());
    for (size_t i = 0; i < walked_.size(); ++i)
      rank_[size_t(walked_[i])] = int(i);
    place(walked_);
    findPostDominators();
    number();
  }

private:
  using Blocks = std::vector<int>;

  int exit() const { return int(begins_.size()) - 1; }
  const Op &last(int block) const {
    return ops_[begins_[size_t(block) + 1] - 1];
  }

  void findBlocks(const Kernel &kernel) {
    std::vector<bool> begins(ops_.size() + 1);
    begins[0] = begins[ops_.size()] = true;
    auto targets = [&](const Op &op) {
      std::vector<uint32_t> to;
      if (op.control == Control::Branch)
        to = {op.target};
      else if (op.control == Control::Indexed)
        to.assign(kernel.targets.begin() + op.target,
                  kernel.targets.begin() + op.target + op.imm);
      return to;
    };
    auto leaves = [](const Op &op) {
      return op.control == Control::Branch || op.control == Control::Indexed ||
             op.control == Control::Exit || op.control == Control::Trap;
    };
    for (size_t i = 0; i < ops_.size(); ++i)
      if (leaves(ops_[i])) {
        begins[i + 1] = true;
        for (uint32_t to : targets(ops_[i]))
          begins[to] = true;
      }
    std::vector<int> blockOf(ops_.size() + 1);
    for (size_t i = 0; i <= ops_.size(); ++i) {
      if (begins[i])
        begins_.push_back(uint32_t(i));
      blockOf[i] = int(begins_.size()) - 1;
    }
    size_t count = begins_.size();
    next_.resize(count);
    ends_.resize(count);
    syncs_.resize(count);
    rank_.assign(count, -1);
    for (int block = 0; block < exit(); ++block) {
      const Op &op = last(block);
      Blocks &to = next_[size_t(block)];
      if (!leaves(op) || op.guard != kNowhere)
        to.push_back(block + 1);
      for (uint32_t target : targets(op))
        to.push_back(blockOf[target]);
      std::sort(to.begin(), to.end());
      to.erase(std::unique(to.begin(), to.end()), to.end());
    }
  }

  /// Finds blocks that only end, and those from which a barrier can be reached.
  void findEnds() {
    for (int block = 0; block < exit(); ++block)
      for (uint32_t i = begins_[size_t(block)]; i < begins_[size_t(block) + 1];
           ++i)
        if (ops_[i].opClass == OpClass::Barrier)
          syncs_[size_t(block)] = true;
    for (bool changes = true; changes;) {
      changes = false;
      for (int block = exit(); block-- > 0;) {
        size_t b = size_t(block);
        const Blocks &to = next_[b];
        bool isOne = begins_[b + 1] - begins_[b] == 1;
        const Op &op = last(block);
        bool ends = isOne && op.guard == kNowhere &&
                    (op.control == Control::Exit ||
                     (op.control == Control::Branch && ends_[size_t(to[0])]));
        bool syncs = syncs_[b];
        for (int other : to)
          syncs = syncs || syncs_[size_t(other)];
        changes |= ends != ends_[b] || syncs != syncs_[b];
        ends_[b] = ends;
        syncs_[b] = syncs;
      }
    }
  }

  /// Sorts successors: those that come first in the order are last in the list.
  void sortWays(Blocks &to) const {
    // A path that ends without a barrier goes first: barriers do not wait for
    // threads that have ended.
    std::sort(to.begin(), to.end(), [&](int a, int b) {
      bool first = syncs_[size_t(a)], second = syncs_[size_t(b)];
      return first != second ? first : a > b;
    });
  }

  /// Fills walked_ with the blocks reachable from `block`, itself last.
  void walk(int block) {
    rank_[size_t(block)] = 0;
    for (int to : next_[size_t(block)])
      if (rank_[size_t(to)] < 0)
        walk(to);
    walked_.push_back(block);
  }

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  /// Finds the strongly connected components of some blocks (Tarjan), last one
  /// first.
  struct Parts {
    const FlowGraph &graph;
    /// One number for each block; -1: not included, -2: not visited.
    std::vector<int> index, low;
    Blocks stack;
    std::vector<Blocks> found;
    int count = 0;

    Parts(const FlowGraph &graph, const Blocks &blocks)
        : graph(graph), index(graph.next_.size(), -1), low(index) {
      for (int block : blocks)
        index[size_t(block)] = -2;
      for (auto it = blocks.rbegin(); it != blocks.rend(); ++it)
        if (index[size_t(*it)] == -2)
          visit(*it);
    }
    void visit(int block) {
      auto b = size_t(block);
      index[b] = low[b] = count++;
      stack.push_back(block);
      for (int to : graph.next_[b]) {
        if (index[size_t(to)] == -2)
          visit(to);
        if (index[size_t(to)] >= 0)
          low[b] = std::min(low[b], low[size_t(to)]);
      }
      if (low[b] != index[b])
        return;
      Blocks part;
      do {
        part.push_back(stack.back());
        stack.pop_back();
        index[size_t(part.back())] = -1;
      } while (part.back() != block);
      found.push_back(std::move(part));
    }
  };

  /// Appends `blocks`, which are sorted by rank, to wanted_.
  void place(const Blocks &blocks) {
    Parts parts(*this, blocks);
    for (auto part = parts.found.rbegin(); part != parts.found.rend(); ++part) {
      std::sort(part->begin(), part->end(), [&](int a, int b) {
        return rank_[size_t(a)] < rank_[size_t(b)];
      });
      // Without its head a loop falls apart, or into several inner loops.
      int head = part->front();
      part->erase(part->begin());
      if (!part->empty())
        place(*part);
      wanted_.push_back(head);
    }
  }

  //===--------------------------------------------------------------------===//
  // Post-dominators (Cooper, Harvey and Kennedy)
  //===--------------------------------------------------------------------===//

  void walkBack(int block, const std::vector<Blocks> &previous,
                std::vector<int> &number, Blocks &order) const {
    number[size_t(block)] = 0;
    for (int from : previous[size_t(block)])
      if (number[size_t(from)] < 0)
        walkBack(from, previous, number, order);
    number[size_t(block)] = int(order.size());
    order.push_back(block);
  }

  void findPostDominators() {
    size_t count = next_.size();
    std::vector<Blocks> next(count), previous(count);
    for (int block : walked_)
      next[size_t(block)] = next_[size_t(block)];
    auto end = [&](int block) {
      next[size_t(block)].push_back(exit());
      previous[size_t(exit())].push_back(block);
    };
    for (int block : walked_) {
      for (int to : next[size_t(block)])
        previous[size_t(to)].push_back(block);
      if (next[size_t(block)].empty())
        end(block);
    }
    std::vector<int> number(count, -1);
    Blocks order;
    auto walkAll = [&] {
      number.assign(count, -1);
      order.clear();
      walkBack(exit(), previous, number, order);
    };
    walkAll();
    // Treats endless loops as if their last block had an exit.
    for (auto it = wanted_.rbegin(); it != wanted_.rend(); ++it)
      if (number[size_t(*it)] < 0) {
        end(*it);
        walkAll();
      }
    above_.assign(count, -1);
    above_[size_t(exit())] = exit();
    auto meet = [&](int a, int b) {
      while (a != b)
        if (number[size_t(a)] < number[size_t(b)])
          a = above_[size_t(a)];
        else
          b = above_[size_t(b)];
      return a;
    };
    for (bool changes = true; changes;) {
      changes = false;
      for (auto it = order.rbegin() + 1; it != order.rend(); ++it) {
        int found = -1;
        for (int to : next[size_t(*it)])
          if (above_[size_t(to)] >= 0)
            found = found < 0 ? to : meet(found, to);
        changes |= found != above_[size_t(*it)];
        above_[size_t(*it)] = found;
      }
    }
  }

  /// Numbers blocks as wanted, except that a block waits for those that it
  /// post-dominates.
  void number() {
    size_t count = next_.size();
    std::vector<int> place(count), below(count);
    for (size_t i = 0; i < wanted_.size(); ++i)
      place[size_t(wanted_[i])] = int(i);
    for (int block : wanted_)
      ++below[size_t(above_[size_t(block)])];
    // Blocks that only end have turn 0, because no barrier waits for them.
    uint32_t turn = 1;
    auto isLater = [&](int a, int b) {
      return place[size_t(a)] > place[size_t(b)];
    };
    std::priority_queue<int, Blocks, decltype(isLater)> ready(isLater);
    for (int block : wanted_)
      if (!below[size_t(block)])
        ready.push(block);
    while (!ready.empty()) {
      int block = ready.top(), above = above_[size_t(block)];
      ready.pop();
      if (!ends_[size_t(block)])
        for (uint32_t i = begins_[size_t(block)];
             i < begins_[size_t(block) + 1]; ++i)
          ops_[i].turn = turn++;
      if (--below[size_t(above)] == 0 && above != exit())
        ready.push(above);
    }
  }

  std::vector<Op> &ops_;
  /// First op of each block; at the end, the number of ops.
  std::vector<uint32_t> begins_;
  std::vector<Blocks> next_;
  std::vector<bool> ends_, syncs_;
  Blocks walked_;         ///< Reachable blocks, in reverse postorder.
  std::vector<int> rank_; ///< Index in walked_; -1: the block is not reachable.
  Blocks wanted_;         ///< Order of blocks that loops require.
  std::vector<int> above_; ///< Immediate post-dominator of each block.
};

} // namespace

void orderOps(Kernel &kernel) { FlowGraph graph(kernel); }

} // namespace softgpu
