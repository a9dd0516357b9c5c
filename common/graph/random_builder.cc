#include "common/graph/random_builder.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace warpsmith::graph {

int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

ExprPtr I(int64_t value) { return ConstInt(DType::kI64, value); }

RandomBuilder::RandomBuilder(uint64_t seed, const RandomGraphOptions& options)
    : dice_(seed), options_(options), type_(PickType()) {
  static const std::vector<int64_t> kCommon = {2, 3, 4, 7, 8, 12, 16, 32, 64};
  if (options_.equal_extents) common_extent_ = dice_.Pick(kCommon);
}

std::string RandomBuilder::NewName(const char* stem) { return absl::StrCat(stem, names_++); }

DType RandomBuilder::PickType() {
  if (options_.only_f32) return DType::kF32;
  static const std::vector<DType> kTypes = {
      DType::kF32, DType::kF32, DType::kF32,  DType::kF32, DType::kF32, DType::kF32, DType::kF32,
      DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kI8,  DType::kU8};
  return dice_.Pick(kTypes);
}

DType RandomBuilder::Computed(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

Shape RandomBuilder::RandomShape() {
  static const std::vector<int64_t> kExtents = {1,  2,  3,  4,  5,  6,  7,   8,   10,  12,  16, 17,
                                                24, 31, 32, 33, 48, 64, 100, 128, 129, 255, 512};
  if (dice_.OneIn(12)) return {dice_.Between(1, options_.max_elements)};  // one long row
  Shape shape;
  const int64_t rank = dice_.Between(1, 4);
  for (int64_t a = 0; a < rank; ++a) {
    const int64_t room = options_.max_elements / Product(shape);
    if (room == 1 && !dice_.OneIn(4)) break;  // few axes of one element
    int64_t extent = dice_.Pick(kExtents);
    while (extent > room) extent = dice_.Pick(kExtents);
    if (common_extent_ > 0 && common_extent_ <= room && !dice_.OneIn(4)) extent = common_extent_;
    shape.push_back(extent);
  }
  return shape;
}

Value RandomBuilder::NewInput(const Shape& shape, DType type) {
  Distribution distribution;
  double limit = 5;
  if (!IsFloat(type)) {
    distribution = {Distribution::Kind::kIntegers, -20, 20};
    limit = 20;
  } else if (dice_.OneIn(4)) {
    distribution = {Distribution::Kind::kUniform, 0, 1};
    limit = 1;
  }
  Role role = dice_.OneIn(5) ? Role::kParam : Role::kInput;
  if (options_.states && dice_.OneIn(4)) role = Role::kState;
  const int id = graph_.AddInput(role, NewName("x"), type, shape, distribution);
  graph_.tensors[id].inout = role == Role::kState && id % 2 == 1;
  return {id, limit, true};
}

std::vector<Axis> RandomBuilder::AxesOf(const Shape& shape, const char* stem) const {
  std::vector<Axis> axes;
  for (size_t a = 0; a < shape.size(); ++a) axes.push_back({absl::StrCat(stem, a), shape[a]});
  return axes;
}

std::vector<ExprPtr> RandomBuilder::Variables(int first, size_t count) {
  std::vector<ExprPtr> vars;
  for (size_t v = 0; v < count; ++v) vars.push_back(Index(first + static_cast<int>(v)));
  return vars;
}

Term RandomBuilder::At(const Value& v, std::vector<ExprPtr> indexes) const {
  return {Cast(Computed(TypeOf(v)), Load(graph_, v.tensor, std::move(indexes))), v.limit, v.exact};
}

Value RandomBuilder::Map(const Shape& shape, const Term& term) {
  const int id = graph_.AddMap(NewName("m"), AxesOf(shape, "i"), term.e);
  return {id, term.limit, term.exact};
}

Value RandomBuilder::Reduce(Combiner combiner, const Shape& kept, const Shape& reduced,
                            const Term& term) {
  const int id =
      graph_.AddReduce(NewName("r"), combiner, AxesOf(kept, "i"), AxesOf(reduced, "k"), term.e);
  const bool is_float = IsFloat(term.e->type);
  switch (combiner) {
    case Combiner::kSum:
      return {id, term.limit * Product(reduced), !is_float};
    case Combiner::kProd:
      return {id, term.limit, !is_float};
    default:
      return {id, term.limit, term.exact};
  }
}

Value RandomBuilder::ScanOf(Combiner combiner, const Shape& shape, const Scan& scan,
                            const Term& term) {
  const int id = graph_.AddScan(NewName("c"), combiner, AxesOf(shape, "i"), scan, term.e);
  const bool arithmetic = combiner == Combiner::kSum || combiner == Combiner::kProd;
  const double limit = combiner == Combiner::kSum ? term.limit * shape[scan.axis] : term.limit;
  return {id, limit, arithmetic ? !IsFloat(term.e->type) : term.exact};
}

Value RandomBuilder::Tamed(const Value& v) {
  const Term x = At(v, Variables(0, ShapeOf(v).size()));
  const Term tame = Tame(x);
  return tame.e == x.e ? v : Map(ShapeOf(v), tame);
}

}  // namespace warpsmith::graph
