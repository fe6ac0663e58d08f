//go:build linux

package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits on what is read of a program: the largest ones (Chromium with its symbols) are just below.
const (
	sectionMax = 512 << 20
	symbolsMax = 4 << 20
)

// place is a name with its line, if known.
type place struct {
	name string
	file string
	line int
}

// program is an ELF file for looking up addresses: those in the file, before relocation.
type program struct {
	f    *elf.File
	file *os.File // to be closed; nil if it is not a file

	tables map[*elf.Section][]byte // those read completely
	bytes  int                     // their size
	parts  map[*elf.Section]*blocks
	lines  *goTable // Go's, once requested
}

func openProgram(r io.ReaderAt) (*program, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	return &program{f: f, tables: map[*elf.Section][]byte{}, parts: map[*elf.Section]*blocks{}}, nil
}

// held returns how much of the file is in memory.
func (p *program) held() int {
	sum := p.bytes
	for _, b := range p.parts {
		sum += b.bytes()
	}
	return sum
}

// readErr returns the first read error.
func (p *program) readErr() error {
	for _, b := range p.parts {
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// address converts an offset in the file to the address it was linked at.
func (p *program) address(offset uint64) (uint64, bool) {
	for _, s := range p.f.Progs {
		if s.Type == elf.PT_LOAD && s.Flags&elf.PF_X != 0 && offset >= s.Off && offset-s.Off < s.Filesz {
			return offset - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

// isGo reports whether Go's linker made it.
func (p *program) isGo() bool { return p.lineTable() != nil }

func (p *program) lineTable() *elf.Section {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := p.f.Section(name); s != nil {
			return s
		}
	}
	return nil
}

// lookup names ascending addresses from the program's own tables. full reports whether it has the
// complete symbol table and not only its exports.
func (p *program) lookup(addrs []uint64) (found map[uint64]place, full bool) {
	found = map[uint64]place{}
	p.lookupGo(addrs, found)
	if len(found) == len(addrs) {
		return found, true
	}
	n := newNearest(addrs)
	full = p.scan(elf.SHT_SYMTAB, elf.STT_FUNC, n) == nil
	_ = p.scan(elf.SHT_DYNSYM, elf.STT_FUNC, n) // a program without one exports nothing
	for a, name := range n.names() {
		if _, ok := found[a]; !ok {
			found[a] = place{name: name}
		}
	}
	return found, full
}

// lookupGo names addresses of a Go program.
func (p *program) lookupGo(addrs []uint64, found map[uint64]place) {
	s := p.lineTable()
	if s == nil {
		return
	}
	if p.lines == nil {
		data, err := p.part(s)
		if err != nil {
			return
		}
		lines, ok := openGoTable(data, p.f.ByteOrder, p.textStart())
		if !ok {
			return
		}
		p.lines = lines
	}
	for _, a := range addrs {
		if at, ok := p.lines.lookup(a); ok {
			found[a] = at
		}
	}
}

func (p *program) textStart() uint64 {
	if s := p.f.Section(".text"); s != nil {
		return s.Addr
	}
	return 0
}

var errNoTable = errors.New("it has no such table")

// scan offers the functions, or the variables, of a symbol table to n.
func (p *program) scan(kind elf.SectionType, of elf.SymType, n *nearest) error {
	table := p.f.SectionByType(kind)
	if table == nil || uint64(table.Link) >= uint64(len(p.f.Sections)) {
		return errNoTable
	}
	data, err := p.table(table)
	if err != nil {
		return err
	}
	names, err := p.part(p.f.Sections[table.Link])
	if err != nil {
		return err
	}
	// Elf64_Sym: name u32, info u8, other u8, section u16, value u64, size u64;
	// Elf32_Sym: name u32, value u32, size u32, info u8, other u8, section u16.
	size := elf.Sym64Size
	if p.f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	word := p.f.ByteOrder
	for i := 0; i < symbolsMax && len(data) >= size; i, data = i+1, data[size:] {
		info, section, start, length := data[4], word.Uint16(data[6:]), uint64(0), uint64(0)
		if size == elf.Sym64Size {
			start, length = word.Uint64(data[8:]), word.Uint64(data[16:])
		} else {
			start, length = uint64(word.Uint32(data[4:])), uint64(word.Uint32(data[8:]))
			info, section = data[12], word.Uint16(data[14:])
		}
		t := elf.ST_TYPE(info)
		if t != of && (of != elf.STT_FUNC || t != elf.STT_GNU_IFUNC && t != elf.STT_NOTYPE) || section == 0 || start == 0 {
			continue
		}
		if at, ok := n.wants(start, length); ok {
			if name := names.text(uint64(word.Uint32(data)), nameMax); len(name) > 0 && name[0] != '$' {
				n.keep(at, start, length, name)
			}
		}
	}
	return nil
}

// table returns a section's content, read once.
func (p *program) table(s *elf.Section) ([]byte, error) {
	if data, read := p.tables[s]; read {
		return data, nil
	}
	if err := readable(s); err != nil {
		return nil, err
	}
	data, err := s.Data()
	if err == nil {
		p.tables[s] = data
		p.bytes += len(data)
	}
	return data, err
}

// part returns a section's content, read on demand.
func (p *program) part(s *elf.Section) (*blocks, error) {
	if b := p.parts[s]; b != nil {
		return b, nil
	}
	if err := readable(s); err != nil {
		return nil, err
	}
	from, size := s.ReaderAt, s.FileSize
	if from == nil { // it is compressed
		data, err := p.table(s)
		if err != nil {
			return nil, err
		}
		from, size = bytes.NewReader(data), uint64(len(data))
	}
	p.parts[s] = newBlocks(from, size)
	return p.parts[s], nil
}

func readable(s *elf.Section) error {
	if s.Type == elf.SHT_NOBITS || s.Size > sectionMax {
		return fmt.Errorf("section %s of %d bytes is not read", s.Name, s.Size)
	}
	return nil
}

// debugFile returns the file with the symbols that a distribution has stripped, by build ID; "" if
// there is none.
func (p *program) debugFile() string {
	s := p.f.Section(".note.gnu.build-id")
	if s == nil || s.Size > 4<<10 {
		return ""
	}
	// A note: sizes of owner and content, type, "GNU\0", content.
	data, err := s.Data()
	if err != nil || len(data) < 16+3 || string(data[12:16]) != "GNU\x00" {
		return ""
	}
	id := hex.EncodeToString(data[16:min(len(data), 16+64)])
	return "/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
}
