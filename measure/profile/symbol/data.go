//go:build linux

package symbol

import (
	"debug/elf"
	"strings"
)

// Data returns the variable of a program or of its libraries at an address, such as a lock's; "" if
// no table has one there.
func (s *Space) Data(addr uint64) string {
	seen := map[file]bool{}
	for i := range s.maps {
		m := &s.maps[i]
		key := file{m.Device, m.Inode, m.Path}
		if !strings.HasPrefix(m.Path, "/") || m.Inode == 0 || seen[key] {
			continue
		}
		seen[key] = true
		// Variables follow the code of their file, within 2 GB.
		if addr < m.Start || addr-m.Start > 1<<31 {
			continue
		}
		if name := s.dataIn(m, addr); name != "" {
			return name
		}
	}
	return ""
}

func (s *Space) dataIn(m *Mapping, addr uint64) string {
	f, err := s.open(m)
	if err != nil {
		return ""
	}
	defer f.Close()
	p, err := openProgram(f)
	if err != nil {
		return ""
	}
	linked, ok := p.address(m.Offset)
	if !ok {
		return ""
	}
	at := addr - m.Start + linked
	for _, segment := range p.f.Progs {
		if segment.Type == elf.PT_LOAD && segment.Flags&elf.PF_W != 0 && at >= segment.Vaddr && at-segment.Vaddr < segment.Memsz {
			return p.variable(at)
		}
	}
	return ""
}

// variable names the variable at an address.
func (p *program) variable(at uint64) string {
	n := newNearest([]uint64{at})
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		if err := p.scan(kind, elf.STT_OBJECT, n); err == nil {
			if name := n.names()[at]; name != "" {
				return name
			}
		}
	}
	return ""
}
