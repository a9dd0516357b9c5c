#include "worker/codegen/knob/knob.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"

namespace warpsmith::codegen {

using absl::StrCat;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

void AddRows(const Descriptor& message, bool precision, std::vector<KnobRow>& rows) {
  for (int f = 0; f < message.field_count(); ++f) {
    const FieldDescriptor* field = message.field(f);
    const v1::Knob& knob = field->options().GetExtension(v1::knob);
    KnobRow row;
    row.field = field;
    row.precision = precision;
    row.name = field->name();
    row.owner = knob.owner();
    row.scale = knob.scale();
    row.low = knob.low();
    row.high = knob.high();
    if (row.scale == v1::Knob::CHOICE) {
      row.low = 0;
      row.high = field->enum_type() != nullptr ? field->enum_type()->value_count() - 1 : 1;
    }
    rows.push_back(row);
  }
}

// The field of v1::Group that holds a skeleton's knobs.
const FieldDescriptor* FieldOf(SkeletonCase skeleton) {
  return v1::Group::descriptor()->FindFieldByNumber(static_cast<int>(skeleton));
}

const Message& MessageOf(const v1::Group& group, const KnobRow& row) {
  if (row.precision) return group.precision();
  return group.GetReflection()->GetMessage(group, FieldOf(group.skeleton_case()));
}

Message* MutableMessageOf(v1::Group& group, const KnobRow& row) {
  if (row.precision) return group.mutable_precision();
  return group.GetReflection()->MutableMessage(&group, FieldOf(group.skeleton_case()));
}

bool Holds(const KnobRow& row, int64_t value) {
  if (value < row.low || value > row.high) return false;
  switch (row.scale) {
    case v1::Knob::DOUBLING:
      return IsPowerOfTwo(value);
    case v1::Knob::HALVES:
      return IsPowerOfTwo(value) || (value % 3 == 0 && value > 3 && IsPowerOfTwo(value / 3)) ||
             value % 16 == 0;
    case v1::Knob::WARPS:
      return value % 32 == 0;
    case v1::Knob::CHOICE:
      return row.field->enum_type() == nullptr ||
             row.field->enum_type()->FindValueByNumber(static_cast<int>(value)) != nullptr;
    default:
      return true;
  }
}

std::string DomainOf(const KnobRow& row) {
  switch (row.scale) {
    case v1::Knob::DOUBLING: {
      std::string text;
      for (int64_t v = row.low; v <= row.high; v *= 2)
        absl::StrAppend(&text, v == row.low ? "" : v * 2 > row.high ? " or " : ", ", v);
      return text;
    }
    case v1::Knob::HALVES:
      return StrCat("a power of two, halfway to the next or a multiple of 16, from ", row.low,
                    " to ", row.high);
    case v1::Knob::WARPS:
      return StrCat("a multiple of 32 from ", row.low, " to ", row.high);
    default:
      return StrCat(row.low, " to ", row.high);
  }
}

}  // namespace

const std::vector<SkeletonCase>& SkeletonCases() {
  static const auto* cases = [] {
    auto* all = new std::vector<SkeletonCase>;
    const auto* oneof = v1::Group::descriptor()->FindOneofByName("skeleton");
    for (int f = 0; f < oneof->field_count(); ++f)
      all->push_back(static_cast<SkeletonCase>(oneof->field(f)->number()));
    return all;
  }();
  return *cases;
}

const std::vector<KnobRow>& KnobsOf(SkeletonCase skeleton) {
  static const auto* table = [] {
    auto* all = new std::map<SkeletonCase, std::vector<KnobRow>>;
    for (SkeletonCase one : SkeletonCases()) {
      AddRows(*FieldOf(one)->message_type(), false, (*all)[one]);
      AddRows(*v1::PrecisionKnobs::descriptor(), true, (*all)[one]);
    }
    AddRows(*v1::PrecisionKnobs::descriptor(), true, (*all)[v1::Group::SKELETON_NOT_SET]);
    return all;
  }();
  return table->at(skeleton);
}

std::string NameOf(SkeletonCase skeleton) {
  return skeleton == v1::Group::SKELETON_NOT_SET ? "auto" : FieldOf(skeleton)->name();
}

int64_t ValueOf(const v1::Group& group, const KnobRow& row) {
  const Message& message = MessageOf(group, row);
  const auto* reflection = message.GetReflection();
  switch (row.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, row.field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnumValue(message, row.field);
    default:
      return reflection->GetInt32(message, row.field);
  }
}

void SetValue(v1::Group& group, const KnobRow& row, int64_t value) {
  if (row.precision && value == 0 && !group.has_precision()) return;
  Message* message = MutableMessageOf(group, row);
  const auto* reflection = message->GetReflection();
  switch (row.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, row.field, value != 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, row.field, static_cast<int>(value));
    default:
      return reflection->SetInt32(message, row.field, static_cast<int>(value));
  }
}

void SetSkeleton(v1::Group& group, SkeletonCase skeleton) {
  if (group.skeleton_case() == skeleton) return;
  if (skeleton == v1::Group::SKELETON_NOT_SET) return group.clear_skeleton();
  group.GetReflection()->MutableMessage(&group, FieldOf(skeleton));
}

std::vector<int64_t> ValuesOf(const KnobRow& row, int64_t around) {
  std::set<int64_t> values;
  if (row.scale == v1::Knob::CHOICE) {
    for (int64_t v = row.low; v <= row.high; ++v) values.insert(v);
  } else {
    for (int64_t v = std::max<int64_t>(1, row.low); v <= row.high; v *= 2) {
      values.insert(v);
      if (row.scale == v1::Knob::HALVES) values.insert(v + v / 2);
    }
    if (row.scale == v1::Knob::LINEAR) {
      for (int64_t v = around - 2; v <= around + 2; ++v) values.insert(v);
    }
    if (row.low == 0) values.insert(0);
  }
  std::vector<int64_t> held;
  for (int64_t v : values) {
    if (Holds(row, v)) held.push_back(v);
  }
  return held;
}

std::string TextOf(const KnobRow& row, int64_t value) {
  if (row.field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return value != 0 ? "yes" : "no";
  if (row.field->enum_type() == nullptr) return StrCat(value);
  const auto* named = row.field->enum_type()->FindValueByNumber(static_cast<int>(value));
  if (named == nullptr) return StrCat(value);
  // ACCUMULATOR_F64 is "f64": what stands behind the enumeration's own word.
  const std::string& name = named->name();
  return absl::AsciiStrToLower(name.substr(name.find('_') + 1));
}

absl::Status CheckRanges(const std::string& name, const v1::Group& group) {
  for (const KnobRow& row : KnobsOf(group.skeleton_case())) {
    const int64_t value = ValueOf(group, row);
    if (value == 0 || Holds(row, value)) continue;
    return absl::InvalidArgumentError(
        StrCat("group '", name, "': ", row.precision ? "precision" : NameOf(group.skeleton_case()),
               ".", row.name, " is ", value, "; it must be ", DomainOf(row)));
  }
  return absl::OkStatus();
}

void Checker::Range(const char* knob, int64_t value, int64_t low, int64_t high) {
  That(value >= low && value <= high,
       StrCat(knob, " is ", value, "; it must be ", low, " to ", high));
}

void Checker::That(bool holds, const std::string& message) {
  if (!holds && status_.ok())
    status_ = absl::InvalidArgumentError(StrCat("group '", group_, "': ", message));
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace warpsmith::codegen
