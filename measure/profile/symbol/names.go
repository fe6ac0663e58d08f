package symbol

import (
	"os"
	"syscall"
)

// Names names addresses, and keeps what it has read of programs for the next
// time. The zero value has read nothing. It belongs to one goroutine at a time.
type Names struct {
	kernel   *kernelNames
	programs map[programID]*program
	bytes    int // of their tables
}

// keptMax bounds the tables that are kept, as they are in the files; one that
// would exceed it is read each time.
const keptMax = 64 << 20

// programID is a file as it was: a program that was built again is another one.
type programID struct {
	device, inode    uint64
	size, modifiedNs int64
}

func idOf(f *os.File) (programID, error) {
	info, err := f.Stat()
	if err != nil {
		return programID{}, err
	}
	id := programID{size: info.Size(), modifiedNs: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id.device, id.inode = s.Dev, s.Ino
	}
	return id, nil
}

// program is the one of a file, which it takes over: as it was read before, or
// read now. done is called once it is not looked into any more.
func (n *Names) program(f *os.File) (p *program, done func(), err error) {
	id, err := idOf(f)
	if known := n.programs[id]; known != nil && err == nil {
		n.bytes -= known.held()
		_ = f.Close() // read only, and not read
		return known, func() { n.keep(id, known) }, nil
	}
	if err == nil {
		p, err = openProgram(f)
	}
	if err != nil {
		_ = f.Close() // what went wrong before is what matters
		return nil, nil, err
	}
	p.file = f
	return p, func() { n.keep(id, p) }, nil
}

// keep keeps a program with what was read of it, where there is room.
func (n *Names) keep(id programID, p *program) {
	if n.bytes+p.held() > keptMax {
		delete(n.programs, id)
		_ = p.file.Close() // read only
		return
	}
	if n.programs == nil {
		n.programs = map[programID]*program{}
	}
	n.programs[id] = p
	n.bytes += p.held()
}

// Close forgets what was read and closes the files.
func (n *Names) Close() {
	for _, p := range n.programs {
		_ = p.file.Close() // read only
	}
	_ = n.kernel.close() // closing fails for no reason but a wrong descriptor
	*n = Names{}
}
