//go:build linux

package symbol

import (
	"os"
	"syscall"
)

// Names symbolizes addresses, and caches what it has read of programs. The zero value is an empty
// cache. It belongs to one goroutine at a time.
type Names struct {
	kernel   *kernelNames
	programs map[programID]*program
	bytes    int // of their tables
}

// keptMax bounds the cached tables, by their size in the files; a larger one is read each time.
const keptMax = 64 << 20

// programID identifies a version of a file: a rebuilt program is another one.
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

// program returns the program of a file, which it takes ownership of: cached, or read now. The
// caller calls done when it is finished with it.
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
		_ = f.Close() // the earlier error is what matters
		return nil, nil, err
	}
	p.file = f
	return p, func() { n.keep(id, p) }, nil
}

// keep caches a program, if there is room.
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

// Close drops the cache and closes the files.
func (n *Names) Close() {
	for _, p := range n.programs {
		_ = p.file.Close() // read only
	}
	_ = n.kernel.close() // closing only fails for a wrong descriptor
	*n = Names{}
}
