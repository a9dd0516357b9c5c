#include "worker/codegen/skeleton/attend/attend.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/codegen/ir/combine.h"
#include "worker/codegen/skeleton/attend/form.h"
#include "worker/codegen/skeleton/contract/glue.h"
#include "worker/codegen/skeleton/glue.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

constexpr int kSwizzle = 128;       // bytes of a box's row
constexpr int kBox = kSwizzle / 2;  // elements
constexpr int64_t kEvenBytes = 16;  // of an access of the copy engine
constexpr int kGroupQueries = 64;   // of a group of four warps
constexpr int64_t kProduct = 16;    // elements of a query that a product takes
// Keys of a step for which there are products (ws::hopper::Product).
constexpr int kSteps[] = {16, 32, 64, 96, 128, 192, 256};
// Registers of a thread beside sums, scores and weights, those where scores are made of more, and
// those that it has, by groups.
constexpr int kBeside = 30, kBesideMade = 42, kRegisters[] = {0, 255, 240, 160};
// Blocks that share a tile, and those of them that may meet in a cluster.
constexpr int kMostSplit = 32, kMostMeeting = 8;
constexpr int64_t kFewQueries = 16;
constexpr int64_t kBarrier = 8, kAlignment = 1024;  // bytes
constexpr int kCombineThreads = 128;
// Keys and values of the heads that are worked on side by side, of the second-level cache: the more
// heads, the more tiles of one length there are. Causal, 4 x 16 x 4,096 x 128 on an H200: 485 us
// with 16 of them, 545 with 8.
constexpr double kSectionPart = 2.0 / 3;
// What a kernel takes, fitted to some thirty configurations on an H200, second-level cache flushed
// (docs/results, "attention", short rows and decoding). Of the tensor cores' rate, what products
// reach that nothing waits for, and a group's turn to multiply, of a step; weights of a
// multiprocessor a second; and simple operations of scores, in parts of what all threads have.
constexpr double kReached = 1.08, kTurnSeconds = 9e-8, kWeights = 1.85e10, kMadeReached = 1.25;
// A group's softmax of a step, beside which lies nothing of its own: at all, and of a key.
constexpr double kSoftenSeconds = 1.9e-7, kSoftenKeySeconds = 4.4e-9;
// Until the first keys are there; of a tile, by its rows, where its first scores and its last
// values have nothing beside them, and where some of its scores are masked.
constexpr double kFirstSeconds = 4e-6, kRowSeconds = 1.1e-8, kMaskedRowSeconds = 3e-9;
// Of the memory's rate, what a multiprocessor reaches where others have nothing to do, in parts of
// what it has where all do; and what blocks that share keys take to meet, in a cluster or, beside
// a kernel's launch, through memory (as the cost of groups has it).
constexpr double kReach = 1.68, kMeetSeconds = 2e-6, kLeaveSeconds = 3e-6;
// Simple operations that a score takes that is no plain one, beside what is made of it.
constexpr double kScoreSteps = 6;

// Columns of a row in whole boxes; a product for three is none of two and one.
int64_t Columns(int64_t elements) { return CeilDiv(elements, kBox) * kBox; }

const AttendForm& FormOf(const Analysis& group, bool unrounded) {
  return *group.Derived<std::unique_ptr<AttendForm>>(
      unrounded ? "attend unrounded" : "attend",
      std::function<std::unique_ptr<AttendForm>()>([&] { return FormAttend(group, unrounded); }));
}

int64_t StepBytes(const AttendForm& form, int64_t keys) {
  return keys * 2 * (Columns(form.head) + Columns(form.head_v));
}

int64_t RowsOf(const v1::AttendKnobs& knobs) { return int64_t{kGroupQueries} * knobs.groups(); }

int64_t TilesOf(const AttendForm& form, const v1::AttendKnobs& knobs) {
  return form.batch * CeilDiv(form.queries, RowsOf(knobs));
}

// Whether blocks that share a tile's keys are a cluster. Where the card does not run all of them at
// once that would be a second wave, twice the time: what they have then goes through memory.
bool Meets(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  const int split = knobs.split();
  return split > 1 && split <= kMostMeeting && (split & (split - 1)) == 0 &&
         TilesOf(form, knobs) * split <= target.clustered_blocks[split > 4 ? 1 : 0];
}

// Of what blocks that share keys leave in memory (ws::Attend::kLeftBytes).
int64_t LeftBytes(const AttendForm& form, const v1::AttendKnobs& knobs) {
  const int64_t rows = std::min(form.queries, RowsOf(knobs));
  const int64_t each = rows * (4 * Columns(form.head_v) + 8);
  return TilesOf(form, knobs) * knobs.split() * CeilDiv(each, kEvenBytes) * kEvenBytes;
}

// As ws::Attend has it.
int64_t SharedBytes(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  const int64_t queries = RowsOf(knobs) * 2 * Columns(form.head);
  const int64_t results = RowsOf(knobs) * 2 * Columns(form.head_v);
  const int64_t rest = kAlignment + knobs.stages() * StepBytes(form, knobs.keys()) +
                       (4 * knobs.stages() + 4) * kBarrier;
  const int64_t all = rest + queries + results;
  if (Columns(form.head_v) <= Columns(form.head) && all > target.shared_per_block)
    return rest + queries;
  return knobs.split() > 1 || all + queries > target.shared_per_block ? all : all + queries;
}

int64_t Registers(const AttendForm& form, const v1::AttendKnobs& knobs) {
  return Columns(form.head_v) / 2 + knobs.keys() / 2 + knobs.keys() / 4 +
         (form.plain ? kBeside : kBesideMade);
}

std::string Wrong(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  if (std::find(std::begin(kSteps), std::end(kSteps), knobs.keys()) == std::end(kSteps))
    return StrCat("attend.keys is ", knobs.keys(),
                  "; there are products of 16, 32, 64, 96, 128, 192 and 256");
  if (Registers(form, knobs) > kRegisters[knobs.groups()])
    return StrCat("attend.keys ", knobs.keys(), " and attend.groups ", knobs.groups(), ": ",
                  Registers(form, knobs), " registers a thread where there are ",
                  kRegisters[knobs.groups()], "; lower either");
  if (knobs.split() > CeilDiv(form.keys, int64_t{knobs.keys()}))
    return StrCat("attend.split is ", knobs.split(), "; there are ",
                  CeilDiv(form.keys, int64_t{knobs.keys()}), " steps of keys to share");
  if (knobs.split() > 1 && !Meets(form, knobs, target) && TilesOf(form, knobs) >= target.sm_count)
    return StrCat("attend.split is ", knobs.split(), ": there are ", TilesOf(form, knobs),
                  " tiles for ", target.sm_count,
                  " multiprocessors, and what blocks leave for each other would go through memory");
  const int64_t left = RowsOf(knobs) * (4 * (Columns(form.head_v) + 4) + 8);
  if (Meets(form, knobs, target) && left > knobs.stages() * StepBytes(form, knobs.keys()))
    return StrCat("attend.split is ", knobs.split(), ": what blocks leave for each other takes ",
                  left, " bytes where steps of keys are; raise attend.keys or attend.stages");
  const int64_t bytes = SharedBytes(form, knobs, target);
  if (bytes > target.shared_per_block)
    return StrCat("needs ", bytes, " bytes of shared memory a block, the card has ",
                  target.shared_per_block, "; lower attend.keys, attend.stages or attend.groups");
  return "";
}

// Blocks take tiles one after the other; those that share one have one.
int64_t BlocksOf(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  const int64_t tiles = TilesOf(form, knobs);
  return knobs.split() > 1 ? tiles * knobs.split() : std::min<int64_t>(tiles, target.sm_count);
}

// Steps of keys, and tiles, of the block that has most to do.
struct Most {
  double steps = 0, tiles = 0;
};
Most MostOf(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  constexpr int64_t kMostAsked = 64, kMostRounds = 64;  // of tiles of one, and of those of a block
  const int64_t rows = RowsOf(knobs), of_one = CeilDiv(form.queries, rows);
  const int64_t tiles = TilesOf(form, knobs), asked = std::min(of_one, kMostAsked);
  std::vector<double> steps(asked);
  double mean = 0;
  for (int64_t i = 0; i < asked; ++i) {
    const int64_t q = i * of_one / asked * rows;
    steps[i] = static_cast<double>(form.StepsOfTile(q, rows, knobs.keys(), knobs.split()));
    mean += steps[i] / static_cast<double>(asked);
  }
  const auto [shortest, longest] = std::minmax_element(steps.begin(), steps.end());
  const int64_t blocks = std::min<int64_t>(tiles, target.sm_count);
  const int64_t rounds = CeilDiv(tiles * knobs.split(), int64_t{target.sm_count});
  const int64_t of_section = of_one * knobs.section();
  // As the kernel takes them (ws::Attend::tile_at, by_section, tile_of).
  const bool later = form.later_longer();
  const bool by_section =
      later && CeilDiv(of_section, blocks) * blocks - of_section <= of_section / 16;
  if (knobs.split() > 1 || (*shortest == *longest && !by_section))
    return {*longest * static_cast<double>(rounds), static_cast<double>(rounds)};
  const double each = static_cast<double>(tiles) / static_cast<double>(blocks);
  if (rounds > kMostRounds) return {mean * each + *longest / 2, each + 0.5};
  std::vector<Most> of(blocks);
  for (int64_t at = 0, round = 0; at < tiles; ++round) {
    const int64_t end =
        std::min({at + blocks, by_section ? (at / of_section + 1) * of_section : tiles, tiles});
    for (int64_t first = at; at < end; ++at) {
      const int64_t section = at / of_section * of_section;
      const int64_t width = CeilDiv(std::min(of_section, tiles - section), of_one);
      const int64_t tile = (at - section) / width;
      const int64_t turn = at - first;
      Most& block = of[by_section && round % 2 != 0 ? blocks - 1 - turn : turn];
      block.steps += steps[(later ? of_one - 1 - tile : tile) * asked / of_one];
      block.tiles += 1;
    }
  }
  return *std::max_element(of.begin(), of.end(),
                           [](const Most& a, const Most& b) { return a.steps < b.steps; });
}

// Of the block that has most to do. Steps of keys that nobody sees are left out.
double SecondsOf(const AttendForm& form, const v1::AttendKnobs& knobs, const Target& target) {
  const auto sms = static_cast<double>(target.sm_count), keys = static_cast<double>(knobs.keys());
  const double blocks = static_cast<double>(TilesOf(form, knobs)) * knobs.split();
  const auto rows = static_cast<double>(RowsOf(knobs));
  const auto columns =
      static_cast<double>(CeilDiv(form.head, kProduct) * kProduct + Columns(form.head_v));
  const double products =
      rows * keys * columns * sms / (kReached * target.tensor_products_per_second);
  const double steps = form.plain ? 0 : form.score_steps + kScoreSteps;
  const double made = rows * keys * steps * sms / (kMadeReached * target.operations_per_second);
  // A group's softmax lies beside others' products, and its own one after the other.
  const double alone =
      (products + made) / knobs.groups() + kSoftenSeconds + keys * kSoftenKeySeconds;
  double step =
      std::max({products + knobs.groups() * kTurnSeconds, rows * keys / kWeights + made, alone});
  // Where there are few blocks each brings its keys and values alone.
  const double memory = keys * static_cast<double>(StepBytes(form, 1)) * sms /
                        (std::min(kReach, std::max(1.0, sms / blocks)) * target.bytes_per_second);
  if (knobs.split() > 1 || blocks < sms) step = std::max(step, memory);
  const Most most = MostOf(form, knobs, target);
  const double tile = rows * (kRowSeconds + (form.seen.empty() ? 0 : kMaskedRowSeconds));
  return kFirstSeconds + most.steps * step + most.tiles * tile +
         (Meets(form, knobs, target) ? kMeetSeconds : 0);
}

class Resolver {
 public:
  Resolver(const AttendForm& form, const Target& target) : form_(form), target_(target) {}

  // The quickest of those that go with what is set.
  v1::AttendKnobs Best(const v1::AttendKnobs& set) const {
    v1::AttendKnobs best;
    double least = -1;
    for (int groups = 1; groups <= 3; ++groups) {
      if (set.groups() != 0 && groups != set.groups()) continue;
      for (int keys : kSteps) {
        if (set.keys() != 0 && keys != set.keys()) continue;
        // Steps that are longer than they need to be are padding.
        if (set.keys() == 0 && keys > 128) continue;
        v1::AttendKnobs knobs = set;
        knobs.set_groups(groups);
        knobs.set_keys(keys);
        if (set.section() == 0) knobs.set_section(Section());
        for (int split = 1; split <= kMostSplit; split *= 2) {
          // Where each multiprocessor has a tile, blocks that go on to the next lose less.
          const bool few = TilesOf(form_, knobs) < target_.sm_count;
          if (set.split() != 0 ? split != set.split() : split > 1 && !few) continue;
          knobs.set_split(split);
          knobs.set_stages(set.stages());
          if (knobs.stages() == 0) SetStages(knobs);
          if (!Wrong(form_, knobs, target_).empty()) continue;
          // Each step has its barriers.
          double seconds = SecondsOf(form_, knobs, target_) * (1 + 8.0 / keys);
          if (split > 1 && !Meets(form_, knobs, target_))
            seconds += target_.launch_seconds + kLeaveSeconds;
          if (least >= 0 && seconds >= least) continue;
          least = seconds;
          best = knobs;
        }
      }
    }
    if (least < 0) {  // what is set does not do: others as if it did, so that the reason is told
      best = set;
      if (best.groups() == 0) best.set_groups(1);
      if (best.keys() == 0) best.set_keys(kSteps[0]);
      if (best.stages() == 0) best.set_stages(1);
      if (best.split() == 0) best.set_split(1);
    }
    if (best.section() == 0) best.set_section(Section());
    return best;
  }

 private:
  // Two steps hide a softmax beside products; where there is little to multiply more of them keep
  // the memory busy.
  void SetStages(v1::AttendKnobs& knobs) const {
    int stages = 2;
    const auto fits = [&] {
      knobs.set_stages(stages + 1);
      return Wrong(form_, knobs, target_).empty();
    };
    while (form_.queries <= kFewQueries && stages < 4 && fits()) ++stages;
    knobs.set_stages(stages);
  }

  int Section() const {
    const int64_t bytes = 2 * form_.keys * (form_.head + form_.head_v);
    int section = 1;
    while (section < 1024 && section < form_.batch &&
           2.0 * section * static_cast<double>(bytes) <=
               kSectionPart * static_cast<double>(target_.l2_bytes))
      section *= 2;
    return section;
  }

  const AttendForm& form_;
  const Target& target_;
};

v1::TensorMap MapOf(const AttendPlaces& at, graph::DType type, int64_t box_rows,
                    const KernelWriter& writer) {
  constexpr int64_t kBytes = 2;
  v1::TensorMap map;
  map.set_buffer(writer.BufferOf(at.tensor));
  map.set_offset(at.offset * kBytes);
  map.set_dtype(graph::NameOf(type));
  for (int64_t size : {at.width, at.rows, at.outers}) map.add_sizes(size);
  for (int64_t stride : {at.row, at.outer}) map.add_strides(stride * kBytes);
  for (int64_t extent : {int64_t{kBox}, box_rows, int64_t{1}})
    map.add_box(static_cast<int>(extent));
  map.set_swizzle(kSwizzle);
  return map;
}

// ---- glue

// by * what + rest, without what is nothing of it.
std::string LinearText(int64_t by, const char* what, const std::string& rest) {
  std::string text = by == 0 ? "" : by == 1 ? what : StrCat(by, " * ", what);
  if (rest != "0" || text.empty()) absl::StrAppend(&text, text.empty() ? "" : " + ", rest);
  return text;
}

// Keys that queries q to end - 1 see: `any` of them, or all of them.
std::string KeysBody(const AttendForm& form, const Kernel& kernel, const Dialect& dialect,
                     bool any) {
  const Frame& frame = kernel.frame;
  const uint64_t places = BitOf(frame.row) | BitOf(frame.column);
  Emitter emit(dialect, BitOf(frame.outer));
  emit.Line(StrCat("int from = 0, to = ", form.keys, ";"));
  for (const Index& index : form.seen) {
    const int64_t by_q = index.CoefficientOf(frame.row), by_k = index.CoefficientOf(frame.column);
    const Index rest = index.Without(frame.row).Without(frame.column);
    const bool of_one = form.folded > 1 && (rest.variables() & BitOf(frame.outer)) != 0;
    if (of_one || (rest.variables() & places) != 0) {  // or divided: nothing is known of it
      if (!any) emit.Line("to = 0;");
      continue;
    }
    // 0 <= by_q q + by_k k + rest, of the query for which it is most, or least.
    const char* query = (by_q > 0) == any ? "(end - 1)" : "q";
    const std::string edge = emit.NewName("edge");
    emit.Line(StrCat("const int ", edge, " = ", LinearText(by_q, query, emit.Use(rest)), ";"));
    const std::string over = std::abs(by_k) == 1 ? "" : StrCat(" / ", std::abs(by_k));
    if (by_k < 0) {
      const std::string last = StrCat(edge, over, " + 1");
      emit.Line(StrCat("if (", edge, " < 0) to = 0; else if (", last, " < to) to = ", last, ";"));
    } else if (by_k > 0) {
      const std::string first = StrCat("(", by_k - 1, " - ", edge, ")", over);
      emit.Line(StrCat("if (", edge, " < 0 && ", first, " > from) from = ", first, ";"));
    } else {
      emit.Line(StrCat("if (", edge, " < 0) to = 0;"));
    }
  }
  emit.Line("return {from < to ? from : to, to};");
  return emit.Finish();
}

std::string SeenBody(const AttendForm& form, const Kernel& kernel, const Dialect& dialect) {
  const Frame& frame = kernel.frame;
  Emitter emit(dialect, BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column));
  std::string all;
  for (const Index& index : form.seen)
    absl::StrAppend(&all, all.empty() ? "" : " && ", "0 <= ", emit.Use(index));
  emit.Line(StrCat("return ", all.empty() ? "true" : all, ";"));
  return emit.Finish();
}

// s[j] = the score of the product s[j], of neighbours along keys.
std::string ScoreBody(const AttendForm& form, const Kernel& kernel, const Dialect& dialect) {
  const Frame& frame = kernel.frame;
  Emitter emit(dialect, BitOf(frame.outer) | BitOf(frame.row) | BitOf(frame.column));
  const ValuePtr score = kernel.roots[0].value;
  const std::string lane = StrCat("s[", LaneName(frame), "]");
  const std::string product =
      form.scale == 1 ? lane
                      : StrCat("(", lane, " * ", Literal(graph::DType::kF32, form.scale, 0), ")");
  for (ValuePtr value : kernel.values->Closure({score})) {
    if (value->kind == Value::Kind::kResult) emit.Bind(value, product);
  }
  emit.Expect({score});
  LoadContiguous(emit, kernel, {score}, [](ValuePtr, const Index& base, int width) {
    return base.multiple() % width == 0;
  });
  OpenLanes(emit, frame);
  emit.Line(StrCat(lane, " = ", emit.Use(score), ";"));
  CloseLanes(emit, frame);
  return emit.Finish();
}

std::string AtBody(const Index& at, const Kernel& kernel, const Dialect& dialect) {
  Emitter emit(dialect, BitOf(kernel.frame.outer));
  emit.Line(StrCat("return ", emit.Use(at), ";"));
  return emit.Finish();
}

// The place in the graph's batch of a query that was folded into one of the kernel's.
std::string Unfolded(const AttendForm& form, const std::string& body) {
  if (form.folded == 1) return body;
  return StrCat("const Index b = Index(batch) * ", form.folded, " + query, m = 0;\n", body);
}

// A function of the struct.
void Add(Text& text, const std::string& head, const std::string& body) {
  text.Open(StrCat("WS_DEVICE ", head, " const {"));
  text.Append(body);
  text.Close();
}

const char* Bool(bool b) { return b ? "true" : "false"; }

absl::Status Write(const Analysis& group, const AttendForm& form, const v1::Group& resolved,
                   const Target& target, KernelWriter& writer) {
  const int together = form.plain || form.keys % 2 != 0 ? 1 : 2;
  const auto scores = BuildScores(form), pairs = BuildScores(form, together);
  const auto values = BuildContract(*form.values, DomainOf(form), form.of_values, Lane::kNone, 1);
  for (const auto* kernel : {&scores, &pairs, &values}) {
    if (!kernel->ok()) return kernel->status();
  }
  // Of what scores are made of, and the result.
  const GroupContext context = ContextOf(group, DomainOf(form), StyleOf(resolved), writer.glue());
  const std::vector<Parameter> parameters = ParametersOf(context, {&*scores});
  const bool fits = FitsInt(group.graph(), *scores);
  const Dialect dialect = MakeDialect(context, *scores, parameters, fits ? "int" : "long long");
  const Dialect of_pairs = MakeDialect(context, *pairs, parameters, fits ? "int" : "long long");
  const Dialect second = MakeDialect(context, *values, parameters, "int");

  Text text;
  text.Open(StrCat("struct ", context.name, " {"));
  text.Line(StrCat("using Index = ", fits ? "int" : "long long", ";"));
  text.Line(StrCat("static constexpr bool kPlain = ", Bool(form.plain), ";"));
  text.Line(StrCat("static constexpr bool kOrZero = ", Bool(form.or_zero), ";"));
  text.Line(StrCat("static constexpr bool kNoNan = ", Bool(form.no_nan), ";"));
  text.Line(StrCat("static constexpr int kTogether = ", together, ";"));
  text.Line(StrCat("static constexpr float kScale = ",
                   Literal(graph::DType::kF32, form.plain ? form.scale * M_LOG2E : 1, 0), ";"));
  for (const Parameter& p : parameters) text.Line(StrCat(p.type, " ", p.name, ";"));
  Add(text, "int at_q(int b)", AtBody(form.q.at, *scores, dialect));
  Add(text, "int at_k(int b)", AtBody(form.k.at, *scores, dialect));
  Add(text, "int at_v(int b)", AtBody(form.v.at, *values, second));
  Add(text, "int at_out(int b)", AtBody(form.out.at, *values, second));
  Add(text, "constexpr ws::AttendKeys keys(int b, int q, int end)",
      KeysBody(form, *scores, dialect, true));
  Add(text, "constexpr ws::AttendKeys clear(int b, int q, int end)",
      KeysBody(form, *scores, dialect, false));
  const std::string place = form.folded > 1 ? "Index batch, Index query" : "Index b, Index m";
  Add(text, StrCat("constexpr bool seen(", place, ", Index n)"),
      Unfolded(form, SeenBody(form, *scores, dialect)));
  Add(text, StrCat("void score(", place, ", Index n, float (&s)[kTogether])"),
      form.plain ? "" : Unfolded(form, ScoreBody(form, *pairs, of_pairs)));
  text.Close("};");

  const v1::AttendKnobs& knobs = resolved.attend();
  const int64_t rows = RowsOf(knobs);
  const bool meets = Meets(form, knobs, target), leaves = knobs.split() > 1 && !meets;
  const bool bf16 = form.type == graph::DType::kBF16;
  const std::string config = StrCat(writer.glue(), "_tiles");
  // Each tile has keys of its own, and no other has them. Where they are many times the cache it is
  // not worth it.
  const double bytes = 2.0 * static_cast<double>(form.batch * form.keys) *
                       static_cast<double>(form.head + form.head_v);
  const bool once = TilesOf(form, knobs) == form.batch && form.k.outers == form.batch &&
                    form.v.outers == form.batch &&
                    bytes <= kOnceOfCache * static_cast<double>(target.l2_bytes);
  // Beside the struct, for each kernel is compiled by itself.
  const std::string tiles =
      StrCat("struct ", config, " {\n  using Glue = ", writer.glue(),
             ";\n  using Type = ws::hopper::", bf16 ? "Bf16" : "Fp16",
             ";\n  using Element = ", StorageType(form.type),
             ";\n  static constexpr int kBatch = ", form.batch, ", kQueries = ", form.queries,
             ", kKeys = ", form.keys, ", kHead = ", form.head, ", kHeadV = ", form.head_v,
             ";\n  static constexpr int kTileQ = ", rows, ", kTileK = ", knobs.keys(),
             ", kStages = ", knobs.stages(), ", kSection = ", knobs.section(),
             ", kSplit = ", knobs.split(), ";\n  static constexpr bool kMeet = ", Bool(meets),
             ", kLaterLonger = ", Bool(form.later_longer()), ", kOnce = ", Bool(once), ";\n};\n");
  writer.Struct(StrCat(text.str(), tiles), parameters);
  const auto map = [&](const char* name, const AttendPlaces& at, int64_t box_rows) {
    return KernelArgument{StrCat("const __grid_constant__ ws::hopper::Map map_", name), -1,
                          MapOf(at, form.type, box_rows, writer),
                          /*only_read=*/&at != &form.out};
  };
  const KernelArgument out = map("out", form.out, kGroupQueries);
  std::vector<KernelArgument> arguments = {map("q", form.q, rows), map("k", form.k, knobs.keys()),
                                           map("v", form.v, knobs.keys()), out};
  const int left = leaves ? writer.Workspace("_left", LeftBytes(form, knobs)) : -1;
  if (leaves) arguments.push_back({"float* left", left});
  KernelShape shape;
  shape.threads = 128 * (knobs.groups() + 1);
  shape.blocks_per_sm = 1;
  shape.grid = BlocksOf(form, knobs, target);
  shape.cluster = meets ? knobs.split() : 1;
  shape.shared_bytes = SharedBytes(form, knobs, target);
  const auto launch =
      writer.Kernel(leaves ? "_shared" : "", shape, arguments,
                    StrCat("ws::attend<", config, ">(g, map_q, map_k, map_v, map_out, ",
                           leaves ? "left" : "nullptr", ")"));
  if (!launch.ok() || !leaves) return launch.status();
  KernelShape combine;
  combine.threads = kCombineThreads;
  combine.grid = TilesOf(form, knobs) * knobs.groups() * (Columns(form.head_v) / kBox);
  combine.shared_bytes = kAlignment + int64_t{kGroupQueries} * kSwizzle;
  return writer
      .Kernel("_combine", combine, {out, {"const float* left", left}},
              StrCat("ws::attend_combine<", config, ">(g, map_out, left)"))
      .status();
}

class Attend : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kAttend; }
  const char* header(const v1::Group&, const Target&) const override { return "attend"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    const AttendForm& form = FormOf(group, false);
    if (!form.status.ok()) return form.status;
    return &DomainOf(form);
  }

  double Suits(const Analysis&, const Target& target) const override {
    return target.arch == "sm_90a" ? 1 : 0;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    if (target.arch != "sm_90a")
      return absl::InvalidArgumentError(
          "attention in one kernel is there for tensor cores of sm_90a alone");
    const AttendForm& form = FormOf(group, knobs.precision().unrounded());
    v1::Group resolved = knobs;
    *resolved.mutable_attend() = Resolver(form, target).Best(knobs.attend());
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO)
      resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    if (std::string wrong = Wrong(form, resolved.attend(), target); !wrong.empty())
      return absl::InvalidArgumentError(wrong);
    if (resolved.precision().accumulator() != v1::ACCUMULATOR_F32)
      return absl::InvalidArgumentError(
          "precision.accumulator: tensor cores add up in fp32; it is ACCUMULATOR_F32");
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target& target) const override {
    const AttendForm& form = FormOf(group, resolved.precision().unrounded());
    const v1::AttendKnobs& knobs = resolved.attend();
    Usage use;
    use.threads = 128 * (knobs.groups() + 1);
    use.shared_bytes = SharedBytes(form, knobs, target);
    use.registers = Registers(form, knobs);
    use.blocks = BlocksOf(form, knobs, target);
    use.blocks_per_sm = 1;
    use.products = use.tensor_products = form.products();
    use.product_seconds = SecondsOf(form, knobs, target);
    if (knobs.split() > 1 && !Meets(form, knobs, target)) {
      ++use.launches;
      use.left_bytes = LeftBytes(form, knobs);
      use.workspace_bytes = use.left_bytes;
    }
    use.streams = 3;
    use.width = static_cast<int>(kEvenBytes / 2);
    return use;
  }

  std::vector<Layout> Layouts(const Analysis& group, const v1::Group& resolved,
                              const Target& target) const override {
    const AttendForm& form = FormOf(group, resolved.precision().unrounded());
    std::vector<Layout> layouts;
    for (int groups = 1; groups <= 3; ++groups) {
      for (int keys : kSteps) {
        for (int stages = 2; stages <= 4; ++stages) {
          v1::AttendKnobs knobs = resolved.attend();
          knobs.set_groups(groups);
          knobs.set_keys(keys);
          knobs.set_stages(stages);
          if (keys < 32 || keys > 192 || !Wrong(form, knobs, target).empty()) continue;
          Layout layout;
          layout.owner = v1::OCCUPANCY;
          layout.kind = "layout";
          layout.name =
              StrCat(groups * kGroupQueries, " queries, ", keys, " keys, ", stages, " stages");
          layout.knobs = {{"groups", groups}, {"keys", keys}, {"stages", stages}};
          layout.prior = 0.03;
          layouts.push_back(layout);
        }
      }
    }
    return layouts;
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target& target,
                    KernelWriter& writer) const override {
    return Write(group, FormOf(group, resolved.precision().unrounded()), resolved, target, writer);
  }
};

}  // namespace

bool RoundsScores(const Analysis& group) {
  return !FormOf(group, false).plain && FormOf(group, true).plain;
}

const Skeleton* AttendSkeleton() {
  static const Attend skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
