//go:build linux

package btf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"ceiling/internal/sys"
)

// loadAttr is the beginning of union bpf_attr for BPF_PROG_LOAD (include/uapi/linux/bpf.h).
type loadAttr struct {
	programType, instructionCount uint32
	instructions, license         uint64
	logLevel, logSize             uint32
	log                           uint64
	kernelVersion, flags          uint32
	name                          [16]byte
	interfaceIndex, attachType    uint32
	btfFD, functionRecordSize     uint32
	functions                     uint64
	functionCount, lineRecordSize uint32
	lines                         uint64
	lineCount, attachBTF          uint32
	attachProgram, coreRelocs     uint32
}

// Load loads a program for a tracepoint. github.com/cilium/ebpf would decode all types of the kernel
// for the number of one.
func (t *Types) Load(name, tracepoint string, code asm.Instructions) (*ebpf.Program, error) {
	id, _, err := t.Tracepoint(tracepoint)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	var order binary.ByteOrder = binary.LittleEndian // asm takes no binary.NativeEndian
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		order = binary.BigEndian
	}
	if err := code.Marshal(&b, order); err != nil {
		return nil, err
	}
	license := []byte("Dual MIT/GPL\x00")
	a := loadAttr{
		programType: uint32(ebpf.Tracing), attachType: uint32(ebpf.AttachTraceRawTp), attachBTF: id,
		instructionCount: uint32(b.Len() / asm.InstructionSize), instructions: pointer(b.Bytes()), license: pointer(license),
	}
	copy(a.name[:len(a.name)-1], name)
	fd, err := a.load()
	if err != nil {
		log := make([]byte, 64<<10)
		a.logLevel, a.logSize, a.log = 1, uint32(len(log)), pointer(log)
		if fd, err = a.load(); err != nil {
			err = errors.Join(err, lastLine(log))
		}
		runtime.KeepAlive(log)
	}
	runtime.KeepAlive(license)
	runtime.KeepAlive(&b)
	if err != nil {
		return nil, err
	}
	return ebpf.NewProgramFromFD(fd)
}

func pointer(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func (a *loadAttr) load() (fd int, err error) {
	return sys.BPFLoad(unsafe.Pointer(a), unsafe.Sizeof(*a))
}

// lastLine is the last line of the verifier's log that says something.
func lastLine(log []byte) error {
	text, _, _ := bytes.Cut(log, []byte{0})
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line := lines[i]; line != "" && !strings.HasPrefix(line, "processed ") {
			return fmt.Errorf("the verifier says: %s", line)
		}
	}
	return nil
}
