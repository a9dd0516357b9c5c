// A group as a product of matrices: which axes of its domain are M, N, K and the batch, what its
// operands are, and how elements that lie side by side are had of each.
//
//   y[b, m, n] = epilogue(sum of k: A[b, m, k] * B[b, n, k])
//
// Two sums of products of one A may be made together (a gate and what it gates): a pair, whose end
// has both. Then N is that of either, and the second's B is operand 2.
//
// An operand is any expression of the axes it depends on: an element in memory, perhaps under a
// condition, or what maps before it make of several. N has the innermost axis of the first root
// that is not the batch's.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/group/analysis.h"
#include "worker/codegen/skeleton/contract/windows.h"

namespace warpsmith::codegen {

enum class Lane { kNone, kM, kN, kK };  // along which lanes lie

// Of 16 bits, as tensor cores take them.
// How a thread reads an operand: so many neighbours, along its rows (M of A, N of B) or along K.
struct Reading {
  bool along_rows = false;
  int width = 1;
};

// An operand of 16 bits or fp32, or of an eight-bit float's bits, in memory: strides in elements,
// lines along K or along its rows. Of the part of an operand from some k on, `offset` is of that
// part's first element.
struct Strided {
  int tensor = -1;
  graph::DType type = graph::DType::kF32;
  int64_t offset = 0, batch = 0, row = 0, k = 0;
  bool along_rows = false;  // neighbours in memory are rows
  bool even = false;        // lines begin at multiples of 16 bytes, as the copy engine wants it
};

// An operand that is two tensors one behind the other along K, as the copy engine brings them.
struct Joined {
  int64_t cut = 0;  // the first k of the second; a multiple of a step
  std::array<Strided, 2> parts;
};

// A sum, over M or over N, of what the end makes (sums.h).
struct EndSum {
  int sum = -1;            // the reduce's tensor, of fp32
  std::vector<int> roots;  // that the group writes, each made of the sum's element at its place
  bool over_rows = false;  // M; else N
};

struct ContractForm {
  absl::Status status;                                  // why it is none
  std::vector<int> m_axes, n_axes, k_axes, batch_axes;  // of the domain, outermost first
  int64_t m = 1, n = 1, k = 1, batch = 1;
  // Whether B is windows of an image, and brought as such: K's axes are taps, then channels.
  std::optional<Windows> windows;
  int64_t depth() const { return windows ? windows->depth() : k; }  // of K, as it is multiplied
  int64_t parts = 1;  // of m_axes together, one behind the other: the batch's last coordinate
  graph::DType sums = graph::DType::kF32;  // in which products are made and added
  bool unrounded = false;  // operands are what was rounded to 16 bits, with all its digits
  // All that it writes has 16 bits, and no digits of a sum are seen in it or in what is made of it
  // because they were rounded to fewer.
  bool coarse = false;
  bool tolerant = false;  // results are held to the problem's tolerance alone
  // Of A and of B: the type of 16 bits that its elements have without loss, else that of the sums;
  // and where it lies, if the copy engine can bring it as it is (even).
  std::array<graph::DType, 2> elements{graph::DType::kF32, graph::DType::kF32};
  std::array<std::optional<Strided>, 2> strided;
  std::array<double, 2> steps{};  // simple operations that an element of A, of B takes
  std::array<double, 2>
      bytes{};  // and that memory brings for it, whole sectors where they are scattered
  // Of tensors that lie along K or along rows in steps of elements, bytes that make one of A, of B.
  std::array<int64_t, 2> beside_bytes{};
  // Tensors that A, that B is made of, and whether all are constants.
  std::array<std::vector<int>, 2> reads;
  std::array<bool, 2> constant{};
  double scattered = 0;       // bytes moved for a sum beyond those that are written of it
  bool fills_sectors = true;  // whether neighbours along N that are written fill sectors together
  bool row_pairs = false;     // or else rows 2i and 2i + 1 are written side by side
  int64_t own_bytes = 0;      // that its end reads of a sum's own, or of its row's
  int64_t row_words = 0;  // loads among them, of 4 bytes at the most, that all of a row has alike
  double end_steps = 0;   // simple operations that are made of a sum

  // What is summed of what the end makes, at most once over rows and once over columns; and whether
  // that is written, too.
  int summed = -1;
  bool writes_summed = false;
  std::vector<EndSum> end_sums;

  // Whether there are two products of A; where the other's B lies, which is likewise.
  bool pair = false;
  std::optional<Strided> second;
  int of() const { return pair ? 2 : 1; }

  // Operands as tensor cores take them in one pass: narrow elements times scales (apart.h).
  enum class Part { kNarrow, kRows, kRuns };  // a scale of rows alone, or of rows and runs of K
  struct Apart {
    graph::DType type = graph::DType::kF32;  // of 16 bits, of both operands; kF32: there is none
    std::array<std::vector<Part>, 2> parts;  // what each operand's factors are
    std::array<std::optional<Strided>, 2> strided;  // where narrow elements lie, as above
    std::array<std::optional<Strided>, 2> uneven;   // or where else, to be copied first
    std::array<std::optional<Joined>, 2> joined;    // or, of one operand, as two parts
    // Whether narrow elements are numbers of float8_e4m3fn, had along K; and where they lie as such
    // a number's bits, if the copy engine can bring them.
    bool eights = false;
    std::array<std::optional<Strided>, 2> bits;
    int64_t run = 0;                      // of K for which scales of runs are one; 0: none
    std::array<int64_t, 2> beside{1, 1};  // rows side by side of which they are one
    bool possible() const { return type != graph::DType::kF32; }
    bool Has(int operand, Part part) const {
      return std::find(parts[operand].begin(), parts[operand].end(), part) != parts[operand].end();
    }
  };
  Apart apart;
  // Whether elements of 16 bits are the operands themselves.
  bool halves() const {
    return apart.possible() && elements[0] == apart.type && elements[1] == apart.type;
  }

  // Whether both operands are fp32 that lie as matrices.
  bool wide() const {
    const auto lies = [&](int operand) {
      return strided[operand] && strided[operand]->type == graph::DType::kF32;
    };
    return sums == graph::DType::kF32 && lies(0) && lies(1);
  }

  // Bytes that memory brings for all elements of an operand, each once; of a pair's B for both.
  double operand_bytes(int operand) const {
    if (operand == 1 && windows) return static_cast<double>(windows->elements()) * bytes[1];
    return static_cast<double>(batch * (operand == 0 ? m : n * of())) * static_cast<double>(k) *
           bytes[operand];
  }
  double products() const {
    return static_cast<double>(m) * static_cast<double>(n * of()) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
};

// Of the domain's axes: elements of all, and of each.
int64_t ExtentOf(const Domain& domain, const std::vector<int>& axes);
std::vector<int64_t> ExtentsOf(const Domain& domain, const std::vector<int>& axes);

// Of windows, too, why it has none.
ContractForm FormContract(const Analysis& group, const Domain& domain, bool unrounded,
                          OfB of_b = OfB::kRows);

// What a kernel of it computes: the frame's outer is b, its row m, its column n and its k k, with a
// lane j along one of them.
absl::StatusOr<Kernel> BuildContract(const Analysis& group, const Domain& domain,
                                     const ContractForm& form, Lane lane, int width);
// The operand (0: A, 1: B, 2: a pair's other B) in such a kernel; nullptr: it is no product there.
ValuePtr OperandOf(const ContractForm& form, const Kernel& kernel, int operand);
// Where elements of an operand lie; nullopt: they are none of 16 bits or fp32 in lines of memory.
std::optional<Strided> StridedOf(const ContractForm& form, const Kernel& kernel, int operand,
                                 ValuePtr element);
// Where the bits of float8_e4m3fn lie of which the element is made; nullopt likewise.
std::optional<Strided> BitsOf(const ContractForm& form, const Kernel& kernel, int operand,
                              ValuePtr element);
// Where they lie as two parts, of which the second begins at a multiple of `step`; nullopt
// likewise.
std::optional<Joined> JoinedOf(const ContractForm& form, const Kernel& kernel, int operand,
                               ValuePtr element, int64_t step);
// The widest accesses of up to `bytes` that bring an operand; `only_along_k`: only neighbours along
// K.
Reading ReadingOf(const Analysis& group, const Domain& domain, const ContractForm& form,
                  int operand, int bytes, bool only_along_k = false);
// Neighbours along N that a thread finishes together, at the most.
inline constexpr int kMostTogether = 4;
// Neighbours along N, at most `most`, that are finished together: as wide as the roots are written,
// or, where `apart` says so, evenly apart, so that their places are made out together.
int FinishWidth(const Analysis& group, const Domain& domain, const ContractForm& form, int most,
                bool apart = false);

// Bytes of the accesses by which lanes of the kernel's width would be had of the operand; 0: one by
// one.
int AccessBytes(const Kernel& kernel, ValuePtr operand);

// Whether lanes are neighbours in memory from a place on that so wide an access may begin at.
bool IsVector(const Index& index, const Frame& frame);

}  // namespace warpsmith::codegen
