// Greedy fusion by estimated time, the state of one run of it (fusion.cc, which begins with what it
// does). What it begins with is in beginning.cc, what joins two products and the softmax between
// them in attention.cc, what is stored after all in again.cc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/codegen/codegen.h"
#include "worker/codegen/group/structure.h"
#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

using Roots = std::vector<int>;

// A group to be.
struct Part {
  Roots roots;
  std::set<int> reads;  // tensors in memory
  double seconds = 0;
  SkeletonCase skeleton = v1::Group::SKELETON_NOT_SET;
  bool unrounded = false;  // scores of attention are simpler without roundings on the way
  bool online = false;   // one pass does where there would be two, and nothing needs the row again
  bool places = false;   // it changes places of what stays
  bool product = false;  // of matrices, with sums that are long enough to want tiles
  bool attends = false;  // an attention
};

class Fusion {
 public:
  // `stores_more`: heavy maps that are read by sums that a thread could make alone, not only where
  // those have an element several times; and what loads many elements, each counted as often as a
  // map loads it.
  // `attention`: whether it may be one group.
  Fusion(const graph::Graph& graph, const Target& target, bool stores_more, bool attention)
      : graph_(graph), target_(target), stores_more_(stores_more), attention_(attention) {}

  std::vector<Part> Run();

 private:
  // Whether `a` is, or is computed from, a tensor of `from`.
  bool DependsOn(int a, const std::set<int>& from) const;
  // Tensors that a group of these roots finds in memory.
  std::set<int> MemoryFor(const Roots& roots);
  std::set<int> ReadsOf(const Roots& roots);
  // Seconds of a kernel with these roots; nothing where it cannot be one.
  std::optional<double> Estimate(const Roots& roots);

  // ---- what it begins with

  void Begin();
  void FindAncestors();
  // Maps that had better be in memory: what loads them at many places would compute them as often.
  void StoreRepeated(const std::vector<int>& needed);
  // Elements that an element of the node's, or of what it reduces, loads, maps that are `inlined`
  // computed where they are read.
  int64_t DistinctLoads(const graph::Node& node, const std::function<bool(int)>& inlined) const;
  // What to store for who needs `tensor`: of a view that moves all of a tensor's elements, or some
  // of them several times, that tensor, which others may view otherwise.
  int Viewed(int tensor) const;
  // For each node that is a product of matrices the tensor that its kernel writes. Operands that
  // had better be in memory are stored.
  std::map<int, int> EndProducts(const std::vector<int>& needed);
  // What a reduce makes of the results of other reduces is small and belongs to the kernel of
  // those: a loss of each row, say, and its mean.
  void StoreSmallResults(const std::vector<graph::ExprPtr>& loads);
  static bool IsHeavy(const graph::ExprPtr& e);

  // ---- attention

  struct Attention {
    int first = -1, second = -1;          // products, nodes
    int weight = -1;                      // the tensor that the second reads of the softmax
    std::vector<graph::ExprPtr> factors;  // of both
  };
  // That whose second product is the last that `end` needs.
  std::optional<Attention> AttentionBehind(const Roots& end) const;
  // Stored tensors that are not any more if it is one group, parts_[p]: what leads from the first
  // product to the second, and views that would be written for these products alone.
  std::set<int> StoredWithin(const Attention& attention, size_t p) const;
  // As one group that ends in these roots; `turned`: a view of an operand that is written for it,
  // whose elements do not lie beside each other, or -1.
  struct AsOne {
    std::optional<double> seconds;  // nothing: it is none
    int turned = -1;
  };
  AsOne AttentionTo(const Roots& end, const Attention& attention);
  // The first map that has a sum's elements in 16 bits; -1: there is none.
  int HalfOf(int node) const;
  // Makes an attention that ends in parts_[p], or behind which only maps lead there, one group
  // where that is quicker.
  void MergeAttentionInto(size_t p);
  void MergeAttention();
  // What a factor is moved from or made of, one after the other: loads, through casts and products
  // with constants.
  std::vector<graph::ExprPtr> LoadsBehind(graph::ExprPtr e) const;
  bool Moves(int tensor) const;
  std::vector<int> StoredViews(const graph::ExprPtr& factor) const;
  // The tensor of 16 bits, which maps make and nobody stores, whose elements a factor is but for
  // constants that they are multiplied by; -1: there is none. Attention brings it from memory.
  int HalfBehind(const graph::ExprPtr& factor) const;
  // The last sum of products that the tensors need where those of `in_memory` are there, a node;
  // -1: the last sum is none.
  int ProductBehind(const Roots& roots, const InMemory& in_memory) const;
  // Whether nobody but parts_[p] and those that write nothing else needs these tensors.
  bool OnlyFor(const std::set<int>& tensors, size_t p) const;

  // ---- pairs

  // Roots of the union that someone else needs.
  Roots Union(const Part& a, const Part& b);
  bool Reaches(const std::set<int>& from, const Part& to);
  // Which groups come after which, by way of others too: outputs of one group that have nothing to
  // do with each other still come together.
  void FindAfter();
  // No third group lies between the two.
  bool Convex(size_t a, size_t b) const;
  bool Related(const Part& a, const Part& b);
  bool MergeBest();
  // Of merging two groups that nothing lies between.
  double Saving(const Part& a, const Part& b);
  // Each group after those it reads.
  void Order();

  // ---- what is made again (again.cc)

  // Of the heavy maps that several groups make, or one at several points, stores the one that saves
  // most; false: none saves anything.
  bool StoreBest();
  // Groups that make `tensor` themselves, if some of it is made more than once.
  std::vector<size_t> MakersOf(int tensor, const std::vector<std::set<int>>& nodes) const;
  // What storing a tensor saves, its own group, and what its makers become.
  struct Stored {
    double saved = 0;
    Part own;
    std::vector<Part> makers;
  };
  // Of parts as they are; kept, since most stay so.
  const Stored& Storing(int tensor, const std::vector<size_t>& makers);
  // The part as it is estimated now; nothing where it is no group, or another kind of one.
  std::optional<Part> EstimatedAgain(const Part& part);

  const graph::Graph& graph_;
  const Target& target_;
  const bool stores_more_, attention_;
  std::set<int> required_, stored_;
  std::set<int> heavy_;                       // maps with exponentials and the like
  std::vector<std::vector<bool>> ancestors_;  // of each tensor
  std::vector<Part> parts_;
  std::vector<std::vector<bool>> after_;          // [p][q]: parts_[q] comes after parts_[p]
  std::map<std::vector<Roots>, double> savings_;  // of a pair: both, their union, what they read
  // By the tensor, and its makers' roots and reads.
  std::map<std::pair<int, std::vector<Roots>>, Stored> storings_;
  int trials_ = 0;
  SkeletonCase skeleton_ = v1::Group::SKELETON_NOT_SET;  // of what was estimated last
  bool online_ = false;
  bool places_ = false, product_ = false;
  bool unrounded_ = false;
  bool attends_ = false;  // what is estimated is an attention
};

}  // namespace warpsmith::codegen
