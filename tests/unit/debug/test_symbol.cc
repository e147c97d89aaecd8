// SPDX-License-Identifier: MIT
// features/debug/symbol.c: the function of an address, whatever the file is by now.
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "harness.h"
#include "slub.h"

extern "C" {
#include "features/debug/symbol.h"
}

namespace {

constexpr uintptr_t BIAS = 0x100000;

struct Wish {
	const char *name;
	uint64_t value, size;
	unsigned char bind = STB_GLOBAL, type = STT_FUNC;
	uint16_t section = 1;
};

// A file of three sections behind 1 KiB: symbols of one kind, their names, and nothing.
class Made {
public:
	explicit Made(const std::vector<Wish> &wishes, uint32_t kind = SHT_SYMTAB)
	{
		std::string names(1, '\0');
		std::vector<Elf64_Sym> symbols(1);

		for (const Wish &wish : wishes) {
			Elf64_Sym symbol = {};

			symbol.st_name = static_cast<uint32_t>(names.size());
			symbol.st_info = ELF64_ST_INFO(wish.bind, wish.type);
			symbol.st_shndx = wish.section;
			symbol.st_value = wish.value;
			symbol.st_size = wish.size;
			symbols.push_back(symbol);
			names += std::string(wish.name) + '\0';
		}
		lay_out(symbols, names, kind);
		write();
	}

	~Made()
	{
		unlink(path.c_str());
		rmdir(folder.c_str());
	}

	Made(const Made &) = delete;
	Made &operator=(const Made &) = delete;

	void write() const
	{
		std::ofstream file(path, std::ios::binary | std::ios::trunc);

		file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
	}

	struct mapping mapping() const
	{
		struct mapping m = {};

		m.is_code = m.is_image = true;
		m.bias = BIAS;
		m.image = reinterpret_cast<uintptr_t>(loaded.data());
		strncpy(m.name, path.c_str(), sizeof(m.name) - 1);
		return m;
	}

	// "name+offset", or "" where there is none.
	std::string at(uint64_t address) const
	{
		struct mapping m = mapping();
		struct symbol found = {};

		symbols_begin();
		if (!symbol_find(&found, &m, BIAS + address))
			return "";
		EXPECT_NE(memchr(found.name, 0, sizeof(found.name)), nullptr);
		return found.name + ("+" + std::to_string(found.offset));
	}

	Elf64_Ehdr *head() { return reinterpret_cast<Elf64_Ehdr *>(bytes.data()); }
	Elf64_Shdr *sections()
	{
		return reinterpret_cast<Elf64_Shdr *>(bytes.data() + 1024);
	}
	// As it was when it was mapped.
	void load() { loaded = bytes; }

	std::string folder = make_folder(), path = folder + "/file";
	std::vector<char> bytes, loaded;

private:
	static std::string make_folder()
	{
		// In memory, where there is such a folder: thousands of files are written.
		std::string name = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";

		name += "/slub-symbol-XXXXXX";
		return mkdtemp(name.data()) ? name : "/nowhere";
	}

	void lay_out(const std::vector<Elf64_Sym> &symbols, const std::string &names, uint32_t kind)
	{
		size_t symbol_bytes = symbols.size() * sizeof(Elf64_Sym);
		size_t symbols_at = 1024 + 3 * sizeof(Elf64_Shdr);

		bytes.resize(symbols_at + symbol_bytes + names.size());
		memcpy(head()->e_ident, ELFMAG, SELFMAG);
		head()->e_shoff = 1024;
		head()->e_shentsize = sizeof(Elf64_Shdr);
		head()->e_shnum = 3;
		sections()[1].sh_type = kind;
		sections()[1].sh_offset = symbols_at;
		sections()[1].sh_size = symbol_bytes;
		sections()[1].sh_entsize = sizeof(Elf64_Sym);
		sections()[1].sh_link = 2;
		sections()[2].sh_type = SHT_STRTAB;
		sections()[2].sh_offset = symbols_at + symbol_bytes;
		sections()[2].sh_size = names.size();
		memcpy(bytes.data() + symbols_at, symbols.data(), symbol_bytes);
		memcpy(bytes.data() + symbols_at + symbol_bytes, names.data(), names.size());
		load();
	}
};

class Symbol : public testing::Test {
protected:
	void SetUp() override
	{
		if (harness::is_emulated())
			GTEST_SKIP() << "without process_vm_readv(2) no file is read";
	}
};

TEST_F(Symbol, the_function_that_a_call_was_made_in)
{
	for (uint32_t kind : {SHT_SYMTAB, SHT_DYNSYM}) {
		Made file({{"one", 0x100, 0x20}, {"two", 0x120, 0x10}, {"far", 0x200, 0x10}}, kind);

		EXPECT_EQ(file.at(0x101), "one+1");
		// A call at the very end returns to the next function.
		EXPECT_EQ(file.at(0x120), "one+32");
		EXPECT_EQ(file.at(0x121), "two+1");
		EXPECT_EQ(file.at(0x130), "two+16");
		EXPECT_EQ(file.at(0x131), "") << "between two";
		EXPECT_EQ(file.at(0x100), "") << "in front of all";
		EXPECT_EQ(file.at(0x211), "") << "behind all";
	}
}

TEST_F(Symbol, of_several_names_the_best)
{
	Made file({{"local", 0x100, 0x20, STB_LOCAL}, {"global@@V1", 0x100, 0x20},
		   {"weak", 0x100, 0x20, STB_WEAK}, {"data", 0x110, 8, STB_GLOBAL, STT_OBJECT},
		   {"elsewhere", 0x108, 8, STB_GLOBAL, STT_FUNC, SHN_UNDEF},
		   {"inner", 0x104, 0x4, STB_LOCAL}, {"assembly", 0x140, 0}});

	EXPECT_EQ(file.at(0x102), "global+2");
	EXPECT_EQ(file.at(0x106), "inner+2");
	EXPECT_EQ(file.at(0x112), "global+18");
	EXPECT_EQ(file.at(0x1141), "assembly+4097");
}

TEST_F(Symbol, a_name_fits_and_is_fit_for_a_line)
{
	std::string longest(SYMBOL_NAME_BYTES - 1, 'a'), longer = longest + "aa";
	Made file({{longest.c_str(), 0x100, 8}, {longer.c_str(), 0x108, 8},
		   {"ba\ndly\x1b[2J", 0x110, 8}, {"@", 0x118, 8}});

	EXPECT_EQ(file.at(0x101), longest + "+1");
	EXPECT_EQ(file.at(0x109), longest.substr(3) + "...+1");
	EXPECT_EQ(file.at(0x111), "ba?dly?[2J+1");
	EXPECT_EQ(file.at(0x119), "");
}

TEST_F(Symbol, another_file_gives_none)
{
	Made file({{"one", 0x100, 0x20}});
	struct mapping m = file.mapping();
	struct symbol found;

	ASSERT_EQ(file.at(0x101), "one+1");
	file.bytes[900] = 'x';
	file.write();
	EXPECT_EQ(file.at(0x101), "") << "another build";
	m.is_image = false;
	EXPECT_FALSE(symbol_find(&found, &m, BIAS + 0x101));
	unlink(file.path.c_str());
	EXPECT_EQ(file.at(0x101), "") << "gone";
	ASSERT_EQ(symlink("/proc/self/exe", file.path.c_str()), 0);
	EXPECT_EQ(file.at(0x101), "") << "a link";
	unlink(file.path.c_str());
	ASSERT_EQ(mkfifo(file.path.c_str(), 0600), 0);
	EXPECT_EQ(file.at(0x101), "") << "a FIFO without a writer";
}

// A name may be cut as well: the rest of the last page is zeros.
TEST_F(Symbol, a_file_that_is_cut_short_gives_no_wrong_name)
{
	Made file({{"one", 0x100, 0x20}, {"two", 0x120, 0x20}});
	std::vector<char> whole = file.bytes;

	for (size_t bytes = whole.size(); bytes-- > 0;) {
		file.bytes.resize(bytes);
		file.write();

		std::string found = file.at(0x101), name = found.substr(0, found.find('+'));
		EXPECT_EQ(name, std::string("one").substr(0, name.size())) << bytes;
	}
}

// Each field with numbers that lie at an edge.
TEST_F(Symbol, a_damaged_file_does_no_harm)
{
	static const uint64_t edges[] = {0, 1, 2, 0x7fff, 0xffff, 1ull << 20, 1ull << 31,
					 0xffffffff, 1ull << 46, 1ull << 47, 1ull << 63, ~0ull,
					 ~0ull - 23};
	Made file({{"one", 0x100, 0x20}});
	std::vector<char> whole = file.bytes;

	for (size_t at = 0; at + 8 <= whole.size(); at += at >= 64 && at < 1024 ? 64 : 2) {
		for (uint64_t edge : edges) {
			for (size_t bytes : {2, 4, 8}) {
				file.bytes = whole;
				memcpy(&file.bytes[at], &edge, bytes);
				file.load();
				file.write();
				file.at(0x101);
			}
		}
	}
}

TEST_F(Symbol, random_damage_does_no_harm)
{
	std::mt19937 random(1);
	Made file({{"one", 0x100, 0x20}, {"two", 0x120, 0}, {"three", 0x130, 8, STB_WEAK}});
	std::vector<char> whole = file.bytes;

	for (int i = 0; i < 2000; i++) {
		file.bytes = whole;
		for (unsigned int n = random() % 8; n-- > 0;)
			file.bytes[random() % 64 + random() % (whole.size() - 64)] =
				static_cast<char>(random());
		file.load();
		file.write();
		file.at(0x101 + random() % 0x50);
	}
}

// So many symbols are looked at for one report, and no more.
TEST_F(Symbol, a_huge_table_ends)
{
	Made file({{"one", 0x100, 0x20}});
	struct mapping m;
	struct symbol found;

	file.sections()[1].sh_size = 1ull << 36;
	file.load();
	file.write();
	ASSERT_EQ(truncate(file.path.c_str(), 1ll << 37), 0) << strerror(errno);
	m = file.mapping();
	symbols_begin();
	EXPECT_FALSE(symbol_find(&found, &m, BIAS + 0x101));
	EXPECT_FALSE(symbol_find(&found, &m, BIAS + 0x101)) << "at once";
}

// What is refused, by a limit here, gives no name.
TEST_F(Symbol, without_descriptors_or_addresses)
{
	Made file({{"one", 0x100, 0x20}});
	auto is_none_under = [&](auto limit) {
		return harness::in_child([&] {
			struct rlimit none = {0, 0};

			if (file.at(0x101) != "one+1" || setrlimit(limit, &none))
				_exit(8);
			_exit(file.at(0x101).empty() ? 7 : 9);
		});
	};

	EXPECT_EQ(WEXITSTATUS(is_none_under(RLIMIT_NOFILE)), 7);
	EXPECT_EQ(WEXITSTATUS(is_none_under(RLIMIT_AS)), 7);
}

// This very program, as the loader has mapped it.
TEST_F(Symbol, of_this_program)
{
	auto address = reinterpret_cast<uintptr_t>(&maps_find) + 1;
	struct mapping m;
	struct symbol found;

	ASSERT_EQ(maps_find(address, &m), 1);
	symbols_begin();
	ASSERT_TRUE(symbol_find(&found, &m, address));
	EXPECT_STREQ(found.name, "maps_find");
	EXPECT_EQ(found.offset, 1u);
}

} // namespace
