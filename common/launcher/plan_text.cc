#include "common/launcher/plan_text.h"

#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/graph/graph.h"
#include "common/graph/operators.h"
#include "common/problem/lanes.h"

namespace warpsmith::launcher {
namespace {

constexpr size_t kLineCharacters = 100;

// A string of JSON and of Python.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

template <class Numbers>
std::string List(const Numbers& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

// order: none, or of an output.
absl::StatusOr<std::string> BufferText(const v1::Buffer& buffer, const std::vector<int>& order) {
  const auto tensor = [&](const char* kind, const std::string& name) {
    return absl::StrCat("[\"", kind, "\", ", Quoted(name), ", ", Quoted(buffer.dtype()), ", ",
                        List(buffer.shape()), order.empty() ? "" : ", ",
                        order.empty() ? "" : List(order), "]");
  };
  switch (buffer.kind()) {
    case v1::Buffer::INPUT:
      return tensor("input", buffer.tensor());
    case v1::Buffer::PARAM:
      return tensor("param", StateName(buffer.tensor()));
    case v1::Buffer::STATE:
      if (buffer.inout()) return tensor("inout", buffer.tensor());
      return tensor("state", StateName(buffer.tensor()));
    case v1::Buffer::OUTPUT:
      return tensor("output", buffer.tensor());
    case v1::Buffer::PREPARED:
      return tensor("prepared", buffer.tensor());
    case v1::Buffer::WORKSPACE:
      return absl::StrCat("[\"workspace\", ", Quoted(buffer.tensor()), ", ", buffer.bytes(), "]");
    default:
      return absl::InvalidArgumentError(absl::StrCat("buffer '", buffer.tensor(), "' has no kind"));
  }
}

absl::Status CheckBuffer(const v1::Plan& plan, int buffer) {
  if (buffer >= 0 && buffer < plan.buffers_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the plan has no buffer ", buffer, ", it has ", plan.buffers_size()));
}

absl::StatusOr<std::string> MapText(const v1::Plan& plan, const v1::TensorMap& map) {
  if (auto status = CheckBuffer(plan, map.buffer()); !status.ok()) return status;
  const auto type = graph::FindType(map.dtype());
  if (!type)
    return absl::InvalidArgumentError(absl::StrCat("a map of the type '", map.dtype(), "'"));
  const v1::TensorMap::Window& window = map.window();
  const std::string behind =
      map.has_window() ? absl::StrCat(", [", List(window.lower()), ", ", List(window.upper()), ", ",
                                      List(window.strides()), "]")
                       : "";
  return absl::StrCat("[\"map\", [", map.buffer(), ", ", map.offset(), ", ", graph::SizeOf(*type),
                      ", ", List(map.sizes()), ", ", List(map.strides()), ", ", List(map.box()),
                      ", ", map.swizzle(), behind, "]]");
}

absl::StatusOr<std::string> ArgumentText(const v1::Plan& plan, const v1::Argument& argument) {
  switch (argument.value_case()) {
    case v1::Argument::kBuffer:
      if (auto status = CheckBuffer(plan, argument.buffer()); !status.ok()) return status;
      return absl::StrCat("[\"buffer\", ", argument.buffer(), "]");
    case v1::Argument::kI64:
      return absl::StrCat("[\"i64\", ", argument.i64(), "]");
    case v1::Argument::kI32:
      return absl::StrCat("[\"i32\", ", argument.i32(), "]");
    case v1::Argument::kMap:
      return MapText(plan, argument.map());
    case v1::Argument::kF32: {
      const float value = argument.f32();
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return absl::StrCat("[\"f32\", ", bits, "]");
    }
    default:
      return absl::InvalidArgumentError("an argument has no value");
  }
}

absl::StatusOr<std::string> LaunchText(const v1::Plan& plan, const v1::Launch& launch) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("launch of ", launch.entry(), ": ", what));
  };
  if (launch.grid_size() != 3 || launch.block_size() != 3 ||
      (launch.cluster_size() != 0 && launch.cluster_size() != 3)) {
    return wrong("grid, block and cluster need three numbers");
  }
  std::vector<std::string> arguments;
  for (const v1::Argument& argument : launch.arguments()) {
    auto text = ArgumentText(plan, argument);
    if (!text.ok()) return wrong(text.status().message());
    arguments.push_back(*std::move(text));
  }
  return absl::StrCat("{\"launch\": ", Quoted(launch.entry()), ", \"grid\": ", List(launch.grid()),
                      ", \"block\": ", List(launch.block()),
                      ", \"cluster\": ", List(launch.cluster()),
                      ", \"shared\": ", launch.shared_bytes(),
                      ",\n         \"cooperative\": ", launch.cooperative() ? 1 : 0,
                      ", \"programmatic\": ", launch.programmatic() ? 1 : 0,
                      ",\n         \"arguments\": ", List(arguments), "}");
}

absl::StatusOr<std::string> ProductText(const v1::Plan& plan, const v1::LibraryProduct& product) {
  std::vector<std::string> matrices;
  for (const v1::Matrix* matrix : {&product.a(), &product.b(), &product.d()}) {
    if (auto status = CheckBuffer(plan, matrix->buffer()); !status.ok()) return status;
    matrices.push_back(absl::StrCat("[", matrix->buffer(), ", ", matrix->offset(), ", ",
                                    Quoted(matrix->dtype()), ", ", matrix->line(), ", ",
                                    matrix->batch(), ", ", matrix->along_rows() ? 1 : 0, "]"));
  }
  if (auto status = CheckBuffer(plan, product.workspace()); !status.ok()) return status;
  std::string bias;
  if (product.has_bias()) {
    if (auto status = CheckBuffer(plan, product.bias().buffer()); !status.ok()) return status;
    bias =
        absl::StrCat(", \"bias\": [", product.bias().buffer(), ", ", product.bias().offset(), "]");
  }
  return absl::StrCat(
      "{\"product\": ", Quoted(product.library()), ", \"algorithm\": ", product.algorithm(),
      ", \"sizes\": [", product.batches(), ", ", product.m(), ", ", product.n(), ", ", product.k(),
      "],\n         \"a\": ", matrices[0], ", \"b\": ", matrices[1], ", \"d\": ", matrices[2], bias,
      ", \"workspace\": ", product.workspace(), "}");
}

absl::StatusOr<std::string> StepText(const v1::Plan& plan, const v1::Step& step) {
  switch (step.step_case()) {
    case v1::Step::kLaunch:
      return LaunchText(plan, step.launch());
    case v1::Step::kFill: {
      const v1::Fill& fill = step.fill();
      if (auto status = CheckBuffer(plan, fill.buffer()); !status.ok()) return status;
      return absl::StrCat("{\"fill\": ", fill.buffer(), ", \"pattern\": ", fill.pattern(),
                          ", \"bytes\": ", fill.bytes(), "}");
    }
    case v1::Step::kCopy: {
      const v1::Copy& copy = step.copy();
      for (const int buffer : {copy.from(), copy.to()}) {
        if (auto status = CheckBuffer(plan, buffer); !status.ok()) return status;
      }
      return absl::StrCat("{\"copy\": ", copy.from(), ", \"to\": ", copy.to(),
                          ", \"bytes\": ", copy.bytes(), "}");
    }
    case v1::Step::kProduct:
      return ProductText(plan, step.product());
    default:
      return absl::InvalidArgumentError("the plan has an empty step");
  }
}

}  // namespace

std::string StateName(const std::string& tensor) {
  const bool hidden = tensor.size() > 1 && tensor[0] == '_' &&
                      absl::ascii_isdigit(static_cast<unsigned char>(tensor[1]));
  return hidden ? tensor.substr(1) : tensor;
}

absl::StatusOr<std::string> PlanText(const v1::Plan& plan, const Orders& orders) {
  std::vector<std::string> buffers, steps;
  for (int i = 0; i < plan.buffers_size(); ++i) {
    const auto order = orders.find(i);
    auto text =
        BufferText(plan.buffers(i), order == orders.end() ? std::vector<int>() : order->second);
    if (!text.ok()) return text.status();
    buffers.push_back(*std::move(text));
  }
  const auto lanes = problem::LanesOf(plan);
  if (!lanes.ok()) return lanes.status();
  for (const v1::Step& step : plan.steps()) {
    auto text = StepText(plan, step);
    if (!text.ok()) return text.status();
    if (lanes->count > 1) {
      text->pop_back();
      absl::StrAppend(&*text, ", \"lane\": ", step.lane(), ", \"after\": ", List(step.after()),
                      "}");
    }
    steps.push_back(*std::move(text));
  }
  std::string prepare;
  if (plan.has_prepare()) {
    v1::Plan first = plan.prepare();
    first.set_workload(plan.workload());
    auto text = PlanText(first, {});
    if (!text.ok()) return text.status();
    prepare = absl::StrCat(",\n    \"prepare\": ", *text);
  }
  return absl::StrCat("{\n    \"workload\": ", Quoted(plan.workload()),
                      ",\n    \"buffers\": [\n        ", absl::StrJoin(buffers, ",\n        "),
                      "\n    ],\n    \"steps\": [\n        ", absl::StrJoin(steps, ",\n        "),
                      "\n    ]", prepare, "\n}");
}

std::string BinaryText(const std::string& cubin) {
  if (cubin.empty()) return "";
  std::string packed;
  {
    google::protobuf::io::StringOutputStream out(&packed);
    google::protobuf::io::GzipOutputStream::Options options;
    options.format = google::protobuf::io::GzipOutputStream::ZLIB;
    options.compression_level = 9;
    google::protobuf::io::GzipOutputStream gzip(&out, options);
    void* place = nullptr;
    for (size_t at = 0, size = 0; at < cubin.size(); at += size) {
      int room = 0;
      if (!gzip.Next(&place, &room)) return "";
      size = std::min<size_t>(room, cubin.size() - at);
      std::memcpy(place, cubin.data() + at, size);
      if (size < static_cast<size_t>(room)) gzip.BackUp(room - static_cast<int>(size));
    }
    gzip.Close();
  }
  const std::string text = absl::Base64Escape(packed);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at += kLineCharacters) {
    lines.push_back(text.substr(at, kLineCharacters));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace warpsmith::launcher
