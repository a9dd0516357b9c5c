// Attention is found in the forms in which graphs have it, and in no others; which keys a tile goes
// through is what its scores say; kernels compile without spills. Compiling is skipped where there
// is no NVRTC; what they compute and how fast is measured on a card.
#include <google/protobuf/text_format.h>

#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/problem/units.h"
#include "worker/codegen/hopper_testing.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/testing.h"
#include "worker/device/device.h"
#include "worker/device/plan_check.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Of kernels whose registers are nearly all in use.
constexpr int kMostSpill = 16;
constexpr absl::Duration kLimit = absl::Minutes(20);

// Attention of 6 heads, 2 of keys. Lines may be replaced: the scores' end, by s0, and what follows
// the softmax, by w.
struct Text {
  int64_t queries = 200, keys = 200, head = 64, head_v = 64;
  std::string type = "bf16", scale = "0.125";
  std::string score = "s0[h, q, k]", scores = "f32";  // and in which type they are kept
  std::string after = "w[h, q, k]";
  std::string values = "f32(v[h / 3, k, n])";
  std::string max = "m: f32[h: 6, q: QN] = max[k: KN](s[h, q, k])";
  std::string exp = "e: f32[h: 6, q: QN, k: KN] = exp(s[h, q, k] - m[h, q])";
  std::string sum = "l: f32[h: 6, q: QN] = sum[k: KN](e[h, q, k])";
  std::string weight = "w: f32[h: 6, q: QN, k: KN] = e[h, q, k] / l[h, q]";
  std::string any = "any: i32[h: 6, q: QN] = max[k: KN](i32(not (s[h, q, k] == -inf)))";
  std::string result = "TYPE(o[h, q, n])";
  std::string bias = "QN, KN";    // its shape
  std::vector<std::string> more;  // behind the others
};
Lines Attention(const Text& text) {
  const auto filled = [&](const std::string& line) {
    return absl::StrReplaceAll(line, {{"QN", absl::StrCat(text.queries)},
                                      {"KN", absl::StrCat(text.keys)},
                                      {"DN", absl::StrCat(text.head)},
                                      {"VN", absl::StrCat(text.head_v)},
                                      {"TYPE", text.type}});
  };
  Lines lines;
  for (const std::string& line :
       {std::string("input x: TYPE[6, QN, DN] ~ normal"),
        std::string("input y: TYPE[2, KN, DN] ~ normal"),
        std::string("input v: TYPE[2, KN, VN] ~ normal"),
        absl::StrCat("input bias: f32[", text.bias, "] ~ normal"),
        std::string(
            "qk: f32[h: 6, q: QN, k: KN] = sum[d: DN](f32(x[h, q, d]) * f32(y[h / 3, k, d]))"),
        absl::StrCat("s0: f32[h: 6, q: QN, k: KN] = qk[h, q, k] * ", text.scale),
        absl::StrCat("s: ", text.scores, "[h: 6, q: QN, k: KN] = ", text.score), text.max, text.exp,
        text.sum, text.weight, text.any, absl::StrCat("p: f32[h: 6, q: QN, k: KN] = ", text.after),
        absl::StrCat("o: f32[h: 6, q: QN, n: VN] = sum[k: KN](p[h, q, k] * ", text.values, ")"),
        absl::StrCat("z: TYPE[q: QN, h: 6, n: VN] = ", text.result), std::string("output z")})
    lines.push_back(filled(line));
  for (const std::string& line : text.more) lines.push_back(filled(line));
  return absl::StrSplit(absl::StrJoin(lines, "\n"), '\n');  // some have several
}

// Skeletons of the default schedule's groups, in order.
std::string SkeletonsOf(const graph::Graph& graph, const Target& target = Target()) {
  const v1::Schedule schedule = FirstSchedule(graph, target);
  const auto rewritten = Rewrite(graph, schedule.rewrites());
  REQUIRE(rewritten.ok());
  const auto infos = Describe(*rewritten, schedule, target);
  INFO(infos.status().message() << "\n" << schedule.DebugString());
  REQUIRE(infos.ok());
  std::string all;
  for (const GroupInfo& group : *infos) absl::StrAppend(&all, NameOf(group.skeleton), " ");
  return all;
}

absl::StatusOr<v1::Plan> PlanOf(const graph::Graph& graph, const std::string& knobs) {
  v1::Schedule schedule = DefaultSchedule(graph, Target());
  REQUIRE(schedule.groups_size() == 1);
  v1::Group parsed;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &parsed));
  schedule.mutable_groups(0)->MergeFrom(parsed);
  return Lower(graph, schedule, Target());
}

const char kCausal[] = "select(k <= q, s0[h, q, k], -inf)";

TEST_CASE("attention is one kernel") {
  const auto with = [](const auto& change) {
    Text text;
    change(text);
    return ParseOrDie(Attention(text));
  };
  struct Form {
    const char* what;
    std::function<void(Text&)> change;
  };
  const Form forms[] = {
      {"plain", [](Text&) {}},
      {"fp16", [](Text& t) { t.type = "f16"; }},
      {"causal", [](Text& t) { t.score = kCausal; }},
      {"a mask that is added",
       [](Text& t) { t.score = "s0[h, q, k] + select(k <= q, 0.0, -inf)"; }},
      {"a window", [](Text& t) { t.score = "select(k <= q and q - k < 64, s0[h, q, k], -inf)"; }},
      {"a bias", [](Text& t) { t.score = "s0[h, q, k] + bias[q, k]"; }},
      {"a soft cap", [](Text& t) { t.score = "tanh(s0[h, q, k] / 30.0) * 30.0"; }},
      {"scores and weights of 16 bits",
       [](Text& t) {
         t.score = "f32(bf16(s0[h, q, k]))";
         t.after = "f32(bf16(w[h, q, k]))";
       }},
      {"scores that are kept in 16 bits",
       [](Text& t) {
         t.scores = "bf16";
         t.score = "bf16(s0[h, q, k])";
         t.max = "m: f32[h: 6, q: QN] = max[k: KN](f32(s[h, q, k]))";
         t.exp = "e: f32[h: 6, q: QN, k: KN] = exp(f32(s[h, q, k]) - m[h, q])";
       }},
      {"scores that are widened twice",
       [](Text& t) {
         t.scores = "bf16";
         t.score = "bf16(s0[h, q, k])";
         t.max =
             "s1: f32[h: 6, q: QN, k: KN] = f32(s[h, q, k])\n"
             "s2: f32[h: 6, q: QN, k: KN] = f32(s[h, q, k])\n"
             "m: f32[h: 6, q: QN] = max[k: KN](s1[h, q, k])";
         t.exp = "e: f32[h: 6, q: QN, k: KN] = exp(s2[h, q, k] - m[h, q])";
       }},
      {"rows of which nothing is seen are 0",
       [](Text& t) {
         t.score = kCausal;
         t.after = "select(not bool(any[h, q]), 0.0, w[h, q, k])";
       }},
      {"weights that are NaN are 0",
       [](Text& t) { t.after = "select(isnan(w[h, q, k]), 0.0, w[h, q, k])"; }},
      {"and those that are infinite something else",
       [](Text& t) {
         t.after =
             "select(w[h, q, k] == inf, 3e38, select(w[h, q, k] == -inf, -3e38,"
             " select(isnan(w[h, q, k]), 0.0, w[h, q, k])))";
       }},
      {"heads of 256", [](Text& t) { t.head = t.head_v = 256; }},
      {"heads of 80 and 72", [](Text& t) { t.head = 80, t.head_v = 72; }},
      {"heads of 8 times an odd number", [](Text& t) { t.head = t.head_v = 120; }},
      {"one query", [](Text& t) { t.queries = 1; }},
      {"few keys", [](Text& t) { t.keys = 24; }},
  };
  for (const Form& form : forms) {
    INFO(form.what);
    CHECK(SkeletonsOf(with(form.change)) == "attend ");
  }
}

TEST_CASE("operands that maps make are written where they are beside each other") {
  // Keys that are turned and repeated for each head, as they are for a product alone.
  const graph::Graph graph = ParseOrDie(
      {"input x: bf16[8, 1024, 64] ~ normal", "input y: bf16[2, 1024, 64] ~ normal",
       "input v: bf16[2, 1024, 64] ~ normal", "input c: bf16[1024, 64] ~ normal",
       "x1: bf16[h: 8, q: 1024, d: 64] = bf16(f32(x[h, q, d]) * f32(c[q, d]))",
       "y1: bf16[h: 2, k: 1024, d: 64] = bf16(f32(y[h, k, d]) * f32(c[k, d]))",
       "x2: bf16[h: 8, q: 1024, d: 64] = x1[h, q, d]",
       "y2: bf16[h: 8, k: 1024, d: 64] = y1[h / 4, k, d]",
       "y3: bf16[h: 8, d: 64, k: 1024] = y2[h, k, d]",
       "s: f32[h: 8, q: 1024, k: 1024] = sum[d: 64](f32(x2[h, q, d]) * f32(y3[h, d, k]))",
       "m: f32[h: 8, q: 1024] = max[k: 1024](s[h, q, k])",
       "e: f32[h: 8, q: 1024, k: 1024] = exp(s[h, q, k] - m[h, q])",
       "l: f32[h: 8, q: 1024] = sum[k: 1024](e[h, q, k])",
       "p: bf16[h: 8, q: 1024, k: 1024] = bf16(e[h, q, k] / l[h, q])",
       "o: f32[h: 8, q: 1024, n: 64] = sum[k: 1024](f32(p[h, q, k]) * f32(v[h / 4, k, n]))",
       "z: bf16[h: 8, q: 1024, n: 64] = bf16(o[h, q, n])", "output z"});
  CHECK(absl::StrContains(SkeletonsOf(graph), "attend"));
}

TEST_CASE("keys that lie turned are written, and what follows attention is another kernel") {
  const auto skeletons = [](const char* keys, const char* key, const char* result) {
    return SkeletonsOf(ParseOrDie(
        {"input x: bf16[8, 1024, 64] ~ normal", StrCat("input y: bf16[8, ", keys, "] ~ normal"),
         "input v: bf16[8, 1024, 64] ~ normal", "input g: bf16[8, 1024, 64] ~ normal",
         StrCat("y1: bf16[h: 8, k: 1024, d: 64] = ", key),
         "y2: bf16[h: 8, d: 64, k: 1024] = y1[h, k, d]",
         "s: f32[h: 8, q: 1024, k: 1024] = sum[d: 64](f32(x[h, q, d]) * f32(y2[h, d, k]))",
         "m: f32[h: 8, q: 1024] = max[k: 1024](s[h, q, k])",
         "e: f32[h: 8, q: 1024, k: 1024] = exp(s[h, q, k] - m[h, q])",
         "l: f32[h: 8, q: 1024] = sum[k: 1024](e[h, q, k])",
         "p: bf16[h: 8, q: 1024, k: 1024] = bf16(e[h, q, k] / l[h, q])",
         "o: f32[h: 8, q: 1024, n: 64] = sum[k: 1024](f32(p[h, q, k]) * f32(v[h, k, n]))",
         "z: bf16[h: 8, q: 1024, n: 64] = bf16(o[h, q, n])",
         StrCat("a: bf16[h: 8, q: 1024, n: 64] = ", result), "output a"}));
  };
  const char* const gated = "bf16(f32(z[h, q, n]) * f32(g[h, q, n]))";
  CHECK(skeletons("1024, 64", "y[h, k, d]", "z[h, q, n]") == "attend ");
  CHECK(skeletons("1024, 64", "y[h, k, d]", gated) == "attend map ");
  CHECK(skeletons("64, 1024", "y[h, d, k]", "z[h, q, n]") == "tile attend ");
  CHECK(skeletons("64, 1024", "y[h, d, k]", gated) == "tile attend map ");
}

// Attention of 3 times 4 heads with one of keys each, which products and results may have in any
// order: the first product's axes, the score's place in it, the weights' in the second product's,
// and the result's.
struct Grouped {
  const char *first, *score, *second, *result;
};
std::string SkeletonsOf(const Grouped& text, const std::string& score) {
  return SkeletonsOf(
      ParseOrDie({"input x: bf16[3, 4, 1024, 64] ~ normal", "input y: bf16[3, 768, 64] ~ normal",
                  "input v: bf16[3, 768, 64] ~ normal", text.first,
                  absl::StrCat("s0: f32[g: 3, h: 4, q: 1024, k: 768] = ", text.score),
                  absl::StrCat("s: f32[g: 3, h: 4, q: 1024, k: 768] = ", score),
                  "m: f32[g: 3, h: 4, q: 1024] = max[k: 768](s[g, h, q, k])",
                  "e: f32[g: 3, h: 4, q: 1024, k: 768] = exp(s[g, h, q, k] - m[g, h, q])",
                  "l: f32[g: 3, h: 4, q: 1024] = sum[k: 768](e[g, h, q, k])",
                  "w: bf16[g: 3, h: 4, q: 1024, k: 768] = bf16(e[g, h, q, k] / l[g, h, q])",
                  text.second, text.result, "output z"}));
}

TEST_CASE("heads of the same keys are rows of a product or the batch's") {
  const char* const together =
      "qk: f32[g: 3, r: 4096, k: 768] = sum[d: 64](f32(x[g, r / 1024, r % 1024, d]) * f32(y[g, k, "
      "d]))";
  const char* const each =
      "qk: f32[b: 12, q: 1024, k: 768] = sum[d: 64](f32(x[b / 4, b % 4, q, d]) * f32(y[b / 4, k, "
      "d]))";
  const char* const of_together = "qk[g, h * 1024 + q, k]";
  const char* const of_each = "qk[g * 4 + h, q, k]";
  const char* const then_together =
      "o: f32[g: 3, r: 4096, n: 64] = sum[k: 768](f32(w[g, r / 1024, r % 1024, k]) * f32(v[g, k, "
      "n]))";
  const char* const then_each =
      "o: f32[b: 12, q: 1024, n: 64] = sum[k: 768](f32(w[b / 4, b % 4, q, k]) * f32(v[b / 4, k, "
      "n]))";
  const char* const before = "z: bf16[g: 3, h: 4, q: 1024, n: 64] = bf16(o[g, h * 1024 + q, n])";
  const char* const behind = "z: bf16[g: 3, q: 1024, h: 4, n: 64] = bf16(o[g, h * 1024 + q, n])";
  const char* const before_each = "z: bf16[g: 3, h: 4, q: 1024, n: 64] = bf16(o[g * 4 + h, q, n])";
  const char* const behind_each = "z: bf16[g: 3, q: 1024, h: 4, n: 64] = bf16(o[g * 4 + h, q, n])";
  for (const Grouped& text : {Grouped{together, of_together, then_together, before},
                              Grouped{together, of_together, then_together, behind},
                              Grouped{together, of_together, then_each, before_each},
                              Grouped{each, of_each, then_together, before},
                              Grouped{each, of_each, then_each, behind_each}}) {
    for (const char* score : {"s0[g, h, q, k]", "select(k <= q, s0[g, h, q, k], -inf)"}) {
      INFO(text.first << "\n" << text.second << "\n" << text.result << "\n" << score);
      CHECK(SkeletonsOf(text, score) == "attend ");
    }
  }
}

TEST_CASE("what is no attention in one kernel is made otherwise") {
  struct Form {
    const char* what;
    std::function<void(Text&)> change;
  };
  const Form forms[] = {
      {"weights are an answer, too", [](Text& t) { t.more = {"output w"}; }},
      {"weights are multiplied by something", [](Text& t) { t.after = "w[h, q, k] * bias[q, k]"; }},
      {"fp32", [](Text& t) { t.type = "f32"; }},
      {"heads of 512", [](Text& t) { t.head = 512; }},
      {"rows that do not begin at 16 bytes", [](Text& t) { t.head_v = 60; }},
      {"values of other keys", [](Text& t) { t.values = "f32(v[h / 3, (k + 1) % 200, n])"; }},
      {"the softmax of other scores than those of the maximum",
       [](Text& t) { t.max = "m: f32[h: 6, q: QN] = max[k: KN](f32(bf16(s[h, q, k])))"; }},
      {"weights that are 1 where they are NaN",
       [](Text& t) { t.after = "select(isnan(w[h, q, k]), 1.0, w[h, q, k])"; }},
      {"weights that are 0 where scores are NaN",
       [](Text& t) { t.after = "select(isnan(s[h, q, k]), 0.0, w[h, q, k])"; }},
      {"weights that are 0 where they are 1",
       [](Text& t) { t.after = "select(w[h, q, k] == 1.0, 0.0, w[h, q, k])"; }},
      {"weights that are integers", [](Text& t) { t.after = "f32(i32(w[h, q, k]))"; }},
      {"a result by way of other types", [](Text& t) { t.result = "bf16(f16(o[h, q, n]))"; }},
      {"the greatest weight in place of their sum",
       [](Text& t) { t.sum = "l: f32[h: 6, q: QN] = max[k: KN](e[h, q, k])"; }},
      {"rows all of which has to be seen",
       [](Text& t) {
         t.any = "any: i32[h: 6, q: QN] = min[k: KN](i32(not (s[h, q, k] == -inf)))";
         t.after = "select(not bool(any[h, q]), 0.0, w[h, q, k])";
       }},
      {"a softmax along queries",
       [](Text& t) {
         t.max = "m: f32[h: 6, k: KN] = max[q: QN](s[h, q, k])";
         t.exp = "e: f32[h: 6, q: QN, k: KN] = exp(s[h, q, k] - m[h, k])";
         t.sum = "l: f32[h: 6, k: KN] = sum[q: QN](e[h, q, k])";
         t.weight = "w: f32[h: 6, q: QN, k: KN] = e[h, q, k] / l[h, k]";
       }},
  };
  for (const Form& form : forms) {
    INFO(form.what);
    Text text;
    form.change(text);
    CHECK_FALSE(absl::StrContains(SkeletonsOf(ParseOrDie(Attention(text))), "attend"));
  }
  Target other;
  other.arch = "host";
  CHECK_FALSE(absl::StrContains(SkeletonsOf(ParseOrDie(Attention({})), other), "attend"));
}

TEST_CASE("scores that are products alone, but for masks, are plain") {
  const auto source = [](const std::string& score, const std::string& scale = "0.125") {
    Text text;
    text.score = score;
    text.scale = scale;
    const auto plan = PlanOf(ParseOrDie(Attention(text)), "");
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return plan->source();
  };
  const auto plain = [&](const std::string& score, const std::string& scale = "0.125") {
    return absl::StrContains(source(score, scale), "kPlain = true");
  };
  // Whether it is plain, and keys are seen up to their query.
  const auto masked = [&](const std::string& score) {
    const std::string text = source(score);
    return absl::StrContains(text, "kPlain = true") &&
           absl::StrContains(text, "return 0 <= m - n;");
  };
  CHECK(plain("s0[h, q, k]"));
  CHECK(masked(kCausal));
  CHECK(masked("s0[h, q, k] + select(k <= q, 0.0, -inf)"));
  CHECK(masked("select(k <= q, qk[h, q, k], -inf) * 0.125"));
  CHECK(masked("(qk[h, q, k] + select(k <= q, 0.0, -inf)) / 8.0"));
  CHECK(masked("f32(bf16(select(k <= q, qk[h, q, k], -inf) / 8.0))"));
  for (const char* seen :
       {"select(k > q, 1.0, 0.0) == 0.0", "select(k > q, 0.0, 1.0) != 0.0", "bool(f32(k <= q))",
        "not bool(select(q < k, 1.0, 0.0))", "1.0 == f32(bf16(select(k <= q, 1.0, 0.0)))"}) {
    INFO(seen);
    CHECK(masked(StrCat("select(", seen, ", s0[h, q, k], -inf)")));
  }
  CHECK_FALSE(plain("select(select(k <= q, 1.0, 2.0) == 1.0, s0[h, q, k], -inf)"));
  CHECK_FALSE(plain("select(k <= q, qk[h, q, k], -inf) * -0.125"));
  CHECK_FALSE(plain("f32(i32(s0[h, q, k]))"));
  // A condition that no int holds is the text's.
  CHECK_FALSE(plain("select(k * 100000000 <= q * 100000000, s0[h, q, k], -inf)"));
  CHECK(plain("select(not bool(i32(k <= q and q - k < 64)), -inf, s0[h, q, k])"));
  // What can be said of a condition is said, and asked of the rest.
  const std::string both = source("select(k <= q and bias[q, k] < 1.0, s0[h, q, k], -inf)");
  CHECK(absl::StrContains(both, "kPlain = false"));
  CHECK(absl::StrContains(both, "return 0 <= m - n;"));
  const std::string either = source("select(k <= q or bias[q, k] < 1.0, s0[h, q, k], -inf)");
  CHECK(absl::StrContains(either, "return true;"));
  CHECK_FALSE(plain("s0[h, q, k] + select(k <= q, 0.0, -1000.0)"));
  CHECK_FALSE(plain("s0[h, q, k] + bias[q, k]"));
  CHECK_FALSE(plain("s0[h, q, k]", "-0.125"));  // the largest product is not the largest score
  // Without roundings on the way, which are left out where scores are plain so.
  CHECK(plain("f32(bf16(s0[h, q, k]))"));
  CHECK_FALSE(plain("f32(bf16(s0[h, q, k])) + bias[q, k]"));
}

TEST_CASE("places of scores may need 64 bits") {
  const auto source = [](int64_t keys) {
    Text text;
    text.queries = text.keys = keys;
    text.bias = "6, QN, KN";
    text.score = "s0[h, q, k] + bias[h, q, k]";
    const auto plan = PlanOf(ParseOrDie(Attention(text)), "");
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return plan->source();
  };
  CHECK(absl::StrContains(source(20000), "using Index = long long;"));
  CHECK(absl::StrContains(source(20000), "void score(Index b, Index m, Index n"));
  CHECK(absl::StrContains(source(2000), "using Index = int;"));
}

// Proofs: the compiler refuses the text where a tile would leave out a key that is seen, goes
// through ones that nobody sees (but for whole conditions together), or asks nobody where one is
// not seen.
constexpr char kProof[] = R"(
__device__ constexpr bool bounds_hold() {
  GLUE g{};
  for (int q = 0; q < QN; q += 16) {
    const int end = q + 16 < QN ? q + 16 : QN;
    const ws::AttendKeys keys = g.keys(0, q, end), clear = g.clear(0, q, end);
    if (keys.from < 0 || keys.to > KN || clear.from < 0 || clear.to > KN) return false;
    int first = KN, last = -1;
    for (int k = 0; k < KN; ++k) {
      bool any = false, all = true;
      for (int one = q; one < end; ++one) {
        const bool seen = g.seen(0, one, k);
        any = any || seen;
        all = all && seen;
      }
      if (any && (k < keys.from || k >= keys.to)) return false;
      if (!all && k >= clear.from && k < clear.to) return false;
      if (any) last = k, first = first < k ? first : k;
    }
    if (last >= 0 ? keys.from != first || keys.to != last + 1 : keys.from != keys.to) return false;
  }
  return true;
}
static_assert(bounds_hold());
)";

TEST_CASE("a tile goes through the keys that its queries see") {
  device::Compiler* compiler = Hopper();
  if (compiler == nullptr) return;
  for (const char* seen :
       {"k <= q", "k <= q + 16", "q <= k", "k <= q and q - k < 24", "2 * k <= q", "k <= 2 * q - 20",
        "3 * k >= q", "k < 30", "k >= 10 and k <= q", "not (k > q)", "q < 20", "q + k >= 60"}) {
    Text text;
    text.queries = 72, text.keys = 56;
    text.score = absl::StrCat("select(", seen, ", s0[h, q, k], -inf)");
    const auto plan = PlanOf(ParseOrDie(Attention(text)), "");
    INFO(seen << ": " << plan.status().message());
    REQUIRE(plan.ok());
    const std::string& source = plan->source();
    const size_t at = source.find("using Glue = ") + 13;
    const std::string glue = source.substr(at, source.find(';', at) - at);
    const auto binary = compiler->Compile(
        absl::StrCat(source,
                     absl::StrReplaceAll(kProof, {{"GLUE", glue}, {"QN", "72"}, {"KN", "56"}})),
        kLimit);
    INFO(binary.status().message());
    CHECK(binary.ok());
  }
}

// A condition on h, q and k, as the graph's text and as the proof's.
struct Condition {
  std::string graph, proof;
};
class Conditions {
 public:
  explicit Conditions(uint64_t seed) : engine_(seed) {}

  Condition Draw(int depth) {
    const int kind = depth == 0 ? 0 : Below(4);
    if (kind == 0) return Comparison();
    const Condition a = Draw(depth - 1);
    if (kind == 3) return {StrCat("not (", a.graph, ")"), StrCat("!(", a.proof, ")")};
    const Condition b = Draw(depth - 1);
    return {StrCat("(", a.graph, kind == 1 ? ") and (" : ") or (", b.graph, ")"),
            StrCat("(", a.proof, kind == 1 ? ") && (" : ") || (", b.proof, ")")};
  }

 private:
  int Below(int n) { return static_cast<int>(engine_() % n); }
  const char* OneOf(std::initializer_list<const char*> all) {
    return *(all.begin() + Below(static_cast<int>(all.size())));
  }
  // Of two sides, each a multiple of an index and a number, or what is left of one by division.
  Condition Comparison() {
    const Condition left = Side(), right = Side();
    const char* const compared = OneOf({" <= ", " < ", " >= ", " > "});
    return {StrCat(left.graph, compared, right.graph), StrCat(left.proof, compared, right.proof)};
  }
  Condition Side() {
    const std::string index =
        OneOf({"q", "k", "q", "k", "q - k", "h * 7", "q + k", "k + h * 3", "0", "2 * k", "3 * q"});
    const std::string shifted = StrCat("(", index, " + ", Below(40), " - ", Below(20), ")");
    const int by = 2 + Below(9);
    switch (Below(6)) {
      case 0:
        return {StrCat(shifted, " / ", by), StrCat("over(", shifted, ", ", by, ")")};
      case 1:
        return {StrCat(shifted, " % ", by), StrCat("left(", shifted, ", ", by, ")")};
      default:
        return {shifted, shifted};
    }
  }

  std::mt19937_64 engine_;
};

// Proofs that what is not seen is what the graph masks, of heads in rows or in the batch: where
// scores are plain that are the same, else all that is not seen is masked. And that a tile goes
// through all keys that any of its queries sees, and asks wherever one does not.
constexpr char kMaskProof[] = R"(
__device__ constexpr int over(int a, int b) { return (a - (a % b + b) % b) / b; }
__device__ constexpr int left(int a, int b) { return (a % b + b) % b; }
)";
constexpr char kOneMaskProof[] = R"(
STRUCT
__device__ constexpr bool GLUE_masks() {
  GLUE g{};
  for (int b = 0; b < BATCH; ++b) {
    for (int tile = 0; tile < ROWS; tile += 16) {
      const int end = tile + 16 < ROWS ? tile + 16 : ROWS;
      const ws::AttendKeys keys = g.keys(b, tile, end), clear = g.clear(b, tile, end);
      if (keys.from < 0 || keys.to > KN || clear.from < 0 || clear.to > KN) return false;
      for (int row = tile; row < end; ++row) {
        for (int k = 0; k < KN; ++k) {
          const int h = HEAD, q = QUERY;
          const bool wanted = WANTED, seen = g.seen(b, row, k);
          if (GLUE::kPlain ? wanted != seen : wanted && !seen) return false;
          if (wanted && (k < keys.from || k >= keys.to)) return false;
          if (!seen && k >= clear.from && k < clear.to) return false;
        }
      }
    }
  }
  return true;
}
static_assert(GLUE_masks());
)";

TEST_CASE("what a tile leaves out is masked, and where it does not ask all is seen") {
  device::Compiler* compiler = Hopper();
  if (compiler == nullptr) return;
  constexpr int kMasks = 120;
  Conditions conditions(20261129);
  std::string proofs = StrCat("#include <warpsmith/attend.cuh>\n", kMaskProof);
  int plain = 0, folded = 0;
  for (int i = 0; i < kMasks; ++i) {
    const Condition wanted = conditions.Draw(i % 3);
    Text text;
    text.queries = i % 4 == 0 ? 1 : 37, text.keys = 29 + i % 2;
    text.score = StrCat("select(", wanted.graph, ", s0[h, q, k], -inf)");
    v1::Schedule schedule;
    schedule.add_groups()->add_roots("z");
    schedule.mutable_groups(0)->mutable_attend();
    const auto plan = Lower(ParseOrDie(Attention(text)), schedule, Target());
    INFO(wanted.graph << ": " << plan.status().message());
    // Nothing is left of products where a condition never holds.
    if (absl::StrContains(plan.status().message(), "two products and a softmax")) continue;
    REQUIRE(plan.ok());
    const std::string& source = plan->source();
    const auto after = [&](const char* what) {
      const size_t at = source.find(what) + strlen(what);
      return source.substr(at, source.find_first_of(",;", at) - at);
    };
    const std::string glue = after("using Glue = "), batch = after("kBatch = ");
    const size_t at = source.find(StrCat("struct ", glue, " {"));
    const std::string name = StrCat(glue, "_", i);
    const bool in_rows = batch == "2";
    proofs += absl::StrReplaceAll(
        kOneMaskProof,
        {{"STRUCT", absl::StrReplaceAll(source.substr(at, source.find("\n};", at) + 4 - at),
                                        {{StrCat("struct ", glue), StrCat("struct ", name)}})},
         {"GLUE", name},
         {"BATCH", batch},
         {"ROWS", after("kQueries = ")},
         {"KN", StrCat(text.keys)},
         {"HEAD", in_rows ? "b * 3 + row" : "b"},
         {"QUERY", in_rows ? "0" : "row"},
         {"WANTED", wanted.proof}});
    plain += absl::StrContains(source, "kPlain = true");
    folded += in_rows;
  }
  CHECK(plain > kMasks / 4);
  CHECK(folded > kMasks / 8);
  const auto binary = compiler->Compile(proofs, kLimit);
  INFO(binary.status().message());
  CHECK(binary.ok());
}

// Of a configuration, that its blocks take each tile once, and that a causal one's block with most
// keys has at most the mean and one part of it in MOST.
constexpr char kRoundsProof[] = R"(
struct CNUMBER {
  struct Glue { static constexpr bool kPlain = true; };
  using Type = ws::hopper::Bf16;
  using Element = ws::bf16;
  static constexpr int kBatch = BATCH, kQueries = QUERIES, kKeys = QUERIES, kHead = 64, kHeadV = 64;
  static constexpr int kTileQ = 128, kTileK = 128, kStages = 2, kSection = SECTION, kSplit = SPLIT;
  static constexpr bool kMeet = false, kLaterLonger = LATER;
};
WS_DEVICE constexpr bool FairlyNUMBER() {
  using A = ws::Attend<CNUMBER>;
  constexpr int kBlocks = SPLIT > 1 || A::kTiles < 132 ? A::kTiles : 132;
  bool taken[A::kTiles] = {};
  long long all = 0, most = 0;
  for (int block = 0; block < kBlocks; ++block) {
    long long keys = 0;
    for (int round = 0; round < A::rounds(kBlocks); ++round) {
      const int at = A::tile_of(round, block, kBlocks);
      if (at == A::kTiles) continue;
      if (at < 0 || at > A::kTiles || taken[at]) return false;
      if (SPLIT > 1 && at != block) return false;
      taken[at] = true;
      keys += OFFSET + A::tile_at(at).end;
    }
    all += keys;
    if (keys > most) most = keys;
  }
  for (bool one : taken) if (!one) return false;
  return !CNUMBER::kLaterLonger || MOST == 0 || most * kBlocks * MOST <= all * (MOST + 1);
}
static_assert(FairlyNUMBER(), "NUMBER");
)";

TEST_CASE("blocks take each tile once, and have the same to do") {
  device::Compiler* compiler = Hopper();
  if (compiler == nullptr) return;
  struct Case {
    int batch, queries, section;
    bool later;
    int most;  // 0: there are too few tiles for that
    int offset = 0, split = 1;
  };
  const Case cases[] = {
      {16, 4096, 8, true, 50},
      {16, 4096, 16, true, 50},
      {32, 2048, 32, true, 15},
      {16, 2048, 16, true, 15},
      {56, 1000, 32, true, 8},
      {56, 1000, 64, true, 8},
      {32, 4096, 4, true, 15},
      {8, 2048, 8, true, 0},
      {3, 100, 1, true, 0},
      {7, 1000, 3, true, 0},
      {30, 500, 8, false, 0},
      {300, 100, 32, false, 0},
      // Queries behind a cache: sections of fewer tiles than blocks, and of a few more.
      {64, 256, 4, true, 50, 16128},
      {64, 512, 2, true, 20, 32256},
      {64, 2048, 2, true, 20, 30720},
      {32, 1024, 4, true, 15, 15360},
      {128, 512, 8, true, 15, 7680},
      {64, 3072, 8, true, 15, 5120},
      // Blocks that share a tile have their own, whatever the section.
      {32, 128, 4, true, 0, 16256, 4},
      {16, 256, 8, true, 0, 7936, 4},
      {32, 512, 4, true, 0, 0, 8}};
  std::string proofs = "#include <warpsmith/attend.cuh>\n";
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Case& c = cases[i];
    proofs += absl::StrReplaceAll(kRoundsProof, {{"NUMBER", StrCat(i)},
                                                 {"BATCH", StrCat(c.batch)},
                                                 {"QUERIES", StrCat(c.queries)},
                                                 {"SECTION", StrCat(c.section)},
                                                 {"LATER", c.later ? "true" : "false"},
                                                 {"MOST", StrCat(c.most)},
                                                 {"OFFSET", StrCat(c.offset)},
                                                 {"SPLIT", StrCat(c.split)}});
  }
  const auto binary = compiler->Compile(proofs, kLimit);
  INFO(binary.status().message());
  CHECK(binary.ok());
}

TEST_CASE("kernels of attention have all they need in registers") {
  device::Compiler* compiler = Hopper();
  if (compiler == nullptr) return;
  struct Case {
    int64_t head;
    const char* knobs;
    int64_t keys = 1000, queries = 1000;
  };
  for (const Case& c : {Case{64, ""}, Case{64, "attend { groups: 3 keys: 96 }"},
                        Case{128, "attend { groups: 2 keys: 128 stages: 2 }"},
                        Case{128, "attend { groups: 1 keys: 64 stages: 3 }"}, Case{192, ""},
                        // In a cluster, and through memory, of one query too.
                        Case{128, "attend { groups: 1 keys: 64 split: 4 }", 1000, 4},
                        Case{128, "attend { groups: 1 keys: 64 split: 4 }"},
                        Case{64, "attend { groups: 1 keys: 32 split: 32 }", 1024, 1}, Case{256, ""},
                        Case{256, "attend { groups: 2 keys: 64 stages: 2 }"},
                        // Two steps.
                        Case{128, "attend { groups: 2 keys: 128 stages: 2 }", 256, 256}}) {
    for (const char* score : {"s0[h, q, k]", kCausal, "s0[h, q, k] + bias[q, k]"}) {
      Text text;
      text.head = text.head_v = c.head;
      text.queries = c.queries, text.keys = c.keys;
      text.score = score;
      const auto plan = PlanOf(ParseOrDie(Attention(text)), c.knobs);
      INFO(c.head << " " << c.knobs << " " << score << ": " << plan.status().message());
      REQUIRE(plan.ok());
      CHECK(device::CheckPlan(*plan, Card(), 16) == absl::OkStatus());
      // As a search compiles them: each kernel with what its unit has, and nothing else.
      for (const std::string& unit : problem::UnitsOf(plan->source())) {
        const auto binary = compiler->Compile(unit, kLimit);
        INFO(binary.status().message());
        REQUIRE(binary.ok());
        CHECK(binary->report.warnings_size() == 0);
        for (const auto& kernel : binary->report.kernels())
          CHECK(kernel.spill_bytes() <= kMostSpill);
      }
    }
  }
}

TEST_CASE("blocks share keys where there are fewer tiles than multiprocessors") {
  const auto split = [](int64_t queries, int64_t keys, const std::string& score = "s0[h, q, k]") {
    Text text;
    text.score = score;
    text.queries = queries, text.keys = keys;
    const graph::Graph graph = ParseOrDie(Attention(text));
    const auto infos = Describe(graph, DefaultSchedule(graph, Target()), Target());
    INFO(infos.status().message());
    REQUIRE(infos.ok());
    return (*infos)[0].resolved.attend().split();
  };
  CHECK(split(1, 8192) > 1);
  CHECK(split(128, 8192) > 1);
  CHECK(split(8192, 8192) == 1);
  CHECK(split(1, 64) == 1);  // a step or two are not worth a meeting
  CHECK(split(128, 8192, "select(k <= q and q - k < 64, s0[h, q, k], -inf)") == 1);
}

TEST_CASE("blocks that share keys meet in a cluster where the card runs all of them at once") {
  struct Case {
    int64_t queries;  // of six heads; one each are rows of a tile of three
    int split;
    int64_t blocks, cluster;  // 0: what they have goes through memory
  };
  for (const Case& c : {Case{1, 4, 8, 4}, Case{1, 8, 16, 8}, Case{1, 16, 32, 0},
                        Case{64 * 5, 4, 120, 4}, Case{64 * 6, 4, 144, 0}, Case{64 * 5, 1, 30, 0}}) {
    Text text;
    text.queries = c.queries, text.keys = 4096;
    const auto plan =
        PlanOf(ParseOrDie(Attention(text)), StrCat("attend { groups: 1 split: ", c.split, " }"));
    INFO(c.queries << " queries, split " << c.split << ": " << plan.status().message());
    REQUIRE(plan.ok());
    CHECK(plan->steps_size() == (c.split > 1 && c.cluster == 0 ? 2 : 1));
    const v1::Launch& launch = plan->steps(0).launch();
    CHECK((launch.cluster_size() > 0 ? launch.cluster(0) : 0) == c.cluster);
    CHECK(launch.grid(0) == c.blocks);
  }
}

TEST_CASE("what knobs of attention may not say") {
  const graph::Graph graph = ParseOrDie(Attention({}));
  Text wide;
  wide.head = wide.head_v = 256;
  const graph::Graph of_256 = ParseOrDie(Attention(wide));
  struct Wrong {
    const graph::Graph* graph;
    const char* knobs;
    const char* message;
  };
  for (const Wrong& wrong :
       {Wrong{&graph, "attend { keys: 48 }", "attend.keys is 48"},
        Wrong{&of_256, "attend { keys: 128 groups: 2 }", "registers a thread"},
        Wrong{&of_256, "attend { keys: 64 groups: 2 stages: 4 }", "bytes of shared memory"},
        Wrong{&graph, "attend { keys: 128 split: 4 }", "there are 2 steps of keys to share"},
        Wrong{&graph, "attend { keys: 16 stages: 1 split: 2 }", "where steps of keys are"},
        Wrong{&graph, "precision { accumulator: ACCUMULATOR_F64 }", "add up in fp32"}}) {
    const auto plan = PlanOf(*wrong.graph, wrong.knobs);
    INFO(wrong.knobs << ": " << plan.status().message());
    REQUIRE_FALSE(plan.ok());
    CHECK(absl::StrContains(plan.status().message(), wrong.message));
  }
}

}  // namespace
}  // namespace warpsmith::codegen
