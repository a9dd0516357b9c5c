#include "worker/device/ptx_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "worker/device/elf.h"

namespace warpsmith::device {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%'; }

// PTX with a blank in place of each comment, and nothing in its strings: inline PTX writes what it
// likes into both.
std::string WithoutComments(const std::string& ptx) {
  std::string text;
  for (size_t i = 0; i < ptx.size();) {
    size_t end = std::string::npos;
    if (ptx.compare(i, 2, "//") == 0) {
      end = ptx.find('\n', i);
    } else if (ptx.compare(i, 2, "/*") == 0) {
      end = ptx.find("*/", i + 2);
      if (end != std::string::npos) end += 2;
    } else if (ptx[i] == '"') {
      end = ptx.find('"', i + 1);
      text += "\"\"";
      i = end == std::string::npos ? ptx.size() : end + 1;
      continue;
    } else {
      text += ptx[i++];
      continue;
    }
    text += ' ';
    i = std::min(end, ptx.size());
  }
  return text;
}

// Where `name` stands as a whole word.
std::vector<size_t> Mentions(const std::string& ptx, const std::string& name) {
  std::vector<size_t> mentions;
  for (size_t at = ptx.find(name); at != std::string::npos; at = ptx.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool whole = (at == 0 || !IsNameCharacter(ptx[at - 1])) &&
                       (end == ptx.size() || !IsNameCharacter(ptx[end]));
    if (whole) mentions.push_back(at);
  }
  return mentions;
}

// Whether the PTX declares the variable and does nothing else with it. A variable of inline PTX has
// another name in the cubin than in the PTX, so it is mentioned nowhere, or by a decoy.
bool IsOnlyDeclared(const std::string& ptx, const std::string& name) {
  const std::vector<size_t> mentions = Mentions(ptx, name);
  if (mentions.size() != 1) return false;
  const size_t before = ptx.find_last_of(";{}", mentions[0]);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return absl::StrContains(absl::string_view(ptx).substr(begin, mentions[0] - begin), ".global ");
}

// Tables of the compiler's own mathematics (argument reduction of sine and cosine), which lie in
// global memory too. A source that could name one, in assembly or by pasting tokens, is not trusted
// with it.
bool IsMathTable(const std::string& source, const std::string& name) {
  if (name != "__cudart_i2opi_f" && name != "__cudart_i2opi_d" &&
      name != "__cudart_sin_cos_coeffs") {
    return false;
  }
  const std::string joined = absl::StrReplaceAll(source, {{"\\\r\n", ""}, {"\\\n", ""}});
  const char* const ways[] = {"__cudart", "asm", "##", "%:%:"};
  return std::none_of(std::begin(ways), std::end(ways),
                      [&](const char* way) { return absl::StrContains(joined, way); });
}

constexpr const char* kClocks[] = {"%clock",       "%clock_hi",       "%clock64",
                                   "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};

// The kernel or function that holds the place: from its own name to the next one's.
std::string FunctionAround(const std::string& ptx, size_t at) {
  size_t begin = 0, end = ptx.size();
  for (const char* kind : {".entry", ".func"}) {
    const size_t before = ptx.rfind(kind, at);
    if (before != std::string::npos) begin = std::max(begin, before);
    end = std::min(end, ptx.find(kind, at));
  }
  return ptx.substr(begin, end - begin);
}

std::string WithoutSpace(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), absl::ascii_isspace), text.end());
  return text;
}

// Whether the statement, behind labels and a predicate, has the copy engine take `name` as the
// address of its tensor map and says no more of it: "cp.async.bulk.tensor.3d... [to], [name, {x, y,
// z}], [barrier]" or "prefetch.tensormap [name]".
bool TakesAsMap(const std::string& statement, const std::string& name) {
  if (Mentions(statement, name).size() != 1) return false;
  const std::string dense = WithoutSpace(statement);
  const size_t instruction =
      dense.find_first_of('.');  // it has a dot in it; labels and predicates none
  if (instruction == std::string::npos) return false;
  const auto is = [&](absl::string_view what, absl::string_view how) {
    const size_t word = what.find('.');
    return instruction >= word &&
           absl::StartsWith(absl::string_view(dense).substr(instruction - word), what) &&
           absl::StrContains(dense, how);
  };
  return is("prefetch.tensormap[", absl::StrCat("[", name, "]")) ||
         is("cp.async.bulk.tensor.", absl::StrCat("[", name, ",{"));
}

// The first use of a parameter's generic address that is not the copy engine's; empty: none.
std::string UseOfParameterAddress(const std::string& ptx) {
  constexpr char kConvert[] = "cvta.param.u64";
  const std::vector<size_t> conversions = Mentions(ptx, kConvert);
  const std::string dense = WithoutSpace(ptx);
  size_t found = 0;  // also where space lies between the instruction's parts
  for (size_t at = dense.find("cvta.param"); at != std::string::npos;
       at = dense.find("cvta.param", at + 1)) {
    ++found;
  }
  if (found != conversions.size()) return "cvta.param";
  for (const size_t at : conversions) {
    const size_t from = at + sizeof(kConvert) - 1, comma = ptx.find(',', from);
    const std::string name(absl::StripAsciiWhitespace(
        absl::string_view(ptx).substr(from, comma == std::string::npos ? 0 : comma - from)));
    if (name.empty() || !std::all_of(name.begin(), name.end(), IsNameCharacter)) return kConvert;
    const std::string body = FunctionAround(ptx, at);
    for (const size_t use : Mentions(body, name)) {
      const size_t before = body.find_last_of(";{}", use);  // a box's braces come behind the map
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      const std::string statement = body.substr(begin, body.find(';', use) - begin);
      const bool declares = absl::StrContains(statement, ".reg ") ||
                            (absl::StrContains(statement, kConvert) &&
                             Mentions(statement.substr(0, statement.find(',')), name).size() == 1);
      if (!declares && !TakesAsMap(statement, name)) {
        return std::string(absl::StripAsciiWhitespace(statement));
      }
    }
  }
  return "";
}

absl::Status Refused(absl::string_view what, const std::vector<std::string>& names) {
  return absl::FailedPreconditionError(absl::StrCat(what, absl::StrJoin(names, ", ")));
}

}  // namespace

absl::Status CheckCompiled(const std::string& source, const std::string& cubin,
                           const std::string& ptx) {
  auto globals = WritableGlobals(cubin);
  if (!globals.ok()) return globals.status();
  auto functions = UndefinedFunctions(cubin);
  if (!functions.ok()) return functions.status();
  if (!functions->empty()) {
    return Refused("functions of the driver are refused (its heap and buffers outlive a run): ",
                   *functions);
  }
  const std::string text = WithoutComments(ptx);
  if (absl::StrContains(ptx, '\\')) {  // it might be part of a string's end, or not
    return Refused("inline assembly has no use for backslashes: ", {"'\\'"});
  }
  // NVRTC turns every constant at namespace scope into a variable of global memory, also where all
  // its uses were folded; what matters is what the code still reaches.
  std::vector<std::string> reached;
  for (const std::string& name : *globals) {
    const bool unique = std::count(globals->begin(), globals->end(), name) == 1;
    if (unique && (IsOnlyDeclared(text, name) || IsMathTable(source, name))) continue;
    reached.push_back(name);
  }
  if (!reached.empty()) {
    return Refused(
        "variables in global memory at module scope are refused (a table of constants is "
        "__constant__; sine and cosine bring tables of their own, which do not go with inline "
        "assembly in the same source): ",
        reached);
  }
  for (const char* clock : kClocks) {
    if (!Mentions(text, clock).empty()) {
      return Refused("clocks are refused (what is right does not depend on the time): ", {clock});
    }
  }
  const std::string dense = WithoutSpace(text);
  constexpr char kPointers[] =
      "pointers to constants or parameters are refused, since these could be written through "
      "them (index the array itself): ";
  for (const char* way : {"cvta.const", "generic("}) {
    if (absl::StrContains(dense, way)) return Refused(kPointers, {way});
  }
  const std::string use = UseOfParameterAddress(text);
  if (!use.empty()) return Refused(kPointers, {absl::StrCat("cvta.param: ", use)});
  for (const char* way : {"tensormap.replace", "tensormap.cp_fenceproxy"}) {
    if (absl::StrContains(dense, way)) {
      return Refused("a tensor map is written by the host alone: ", {way});
    }
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::device
