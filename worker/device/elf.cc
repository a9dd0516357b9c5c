#include "worker/device/elf.h"

#include <elf.h>

#include <cstring>
#include <optional>

#include "absl/status/status.h"

namespace warpsmith::device {
namespace {

// CUDA's ABI keeps __device__ variables in these; constants are in .nv.constant<N>.
bool IsCudaGlobal(const std::string& section) { return section.rfind(".nv.global", 0) == 0; }

// The host device's own context (worker/kernels/host.cuh), and what it takes for __constant__.
constexpr char kHostContext[] = "_ZN2ws4hostL7contextE";
constexpr char kHostConstants[] = ".ws_constant";

template <class T>
std::optional<T> At(const std::string& image, uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

// A string of a string table that begins at `table` and has `size` bytes.
std::string StringAt(const std::string& image, uint64_t table, uint64_t size, uint64_t index) {
  if (index >= size || table > image.size() || image.size() - table < size) return "";
  const char* begin = image.data() + table + index;
  return std::string(begin, strnlen(begin, size - index));
}

absl::Status Broken() { return absl::InvalidArgumentError("the compiler's output is not ELF"); }

}  // namespace

absl::StatusOr<std::vector<std::string>> WritableGlobals(const std::string& image) {
  const auto header = At<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return Broken();
  }
  std::vector<Elf64_Shdr> sections;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(image, header->e_shoff + uint64_t{header->e_shentsize} * i);
    if (!section) return Broken();
    sections.push_back(*section);
  }
  if (header->e_shstrndx >= sections.size()) return Broken();
  const Elf64_Shdr& names = sections[header->e_shstrndx];
  std::vector<std::string> section_names;
  std::vector<std::string> found;
  bool has_symbols = false;
  for (const Elf64_Shdr& section : sections) {
    section_names.push_back(StringAt(image, names.sh_offset, names.sh_size, section.sh_name));
    has_symbols |= section.sh_type == SHT_SYMTAB;
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = At<Elf64_Sym>(image, section.sh_offset + at);
      if (!symbol) return Broken();
      if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= sections.size()) continue;
      const int type = ELF64_ST_TYPE(symbol->st_info);
      if ((type != STT_OBJECT && type != STT_TLS) || symbol->st_size == 0) continue;
      const std::string& where = section_names[symbol->st_shndx];
      std::string name = StringAt(image, strings.sh_offset, strings.sh_size, symbol->st_name);
      const bool host_writable =
          header->e_machine != EM_CUDA && (sections[symbol->st_shndx].sh_flags & SHF_WRITE) != 0 &&
          where.rfind(".data.rel.ro", 0) != 0 && where != kHostConstants && name != kHostContext;
      if (IsCudaGlobal(where) || host_writable) found.push_back(std::move(name));
    }
  }
  // Without symbols the sections alone have to do.
  for (size_t i = 0; i < sections.size() && !has_symbols; ++i) {
    if (IsCudaGlobal(section_names[i]) && sections[i].sh_size > 0)
      found.push_back(section_names[i]);
  }
  return found;
}

}  // namespace warpsmith::device
