// Tables for people: columns as wide as their widest cell, numbers to the right.
//
//   Table table({{"problem"}, {"speedup", kRight}});
//   table.Add({"softmax_rows", "1.43x"});
//   std::cout << table.Text();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpsmith::cli {

enum Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as there are columns. Control characters in them become blanks.
  void Add(std::vector<std::string> cells);
  // Ends with a newline; no blanks at line ends.
  std::string Text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Code points of UTF-8 text: its width on a terminal for what we print.
int Width(const std::string& text);

// At most `width` code points of `text`; what is cut ends with '~'.
std::string Cut(const std::string& text, int width);
// As Cut, filled up with blanks to `width`.
std::string Fit(const std::string& text, int width);

// "1.23x"; "-" for 0 (unknown).
std::string Speedup(double ratio);
// "60.0 ns", "12.3 us", "1.23 ms", "1.20 s"; "-" for 0.
std::string Microseconds(double us);
// "512 B", "1.5 MiB".
std::string Bytes(double bytes);
// "1.2 M", "3.4 G": powers of 1000.
std::string Count(double n);
// "0:42", "1:02:03".
std::string Clock(double seconds);
// "1 worker", "2 workers".
std::string Counted(int64_t n, const std::string& what);
// "42 %"; "-" for 0.
std::string Percent(double share);

}  // namespace warpsmith::cli
