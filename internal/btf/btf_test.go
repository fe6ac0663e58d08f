//go:build linux

package btf

import (
	"encoding/binary"
	"errors"
	"testing"

	cilium "github.com/cilium/ebpf/btf"
)

// TestAgainstAnotherReader compares offsets and type numbers with github.com/cilium/ebpf/btf.
func TestAgainstAnotherReader(t *testing.T) {
	types, err := Read()
	if errors.Is(err, ErrNone) {
		return // this kernel shows none, and Read says so
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := types.Close(); err != nil {
			t.Error(err)
		}
	}()
	spec, err := cilium.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sched_switch", "sk_data_ready", "tcp_rcv_space_adjust"} {
		var probe *cilium.Typedef
		if err := spec.TypeByName(tracepointPrefix+name, &probe); err != nil {
			continue // older kernels lack some
		}
		want, err := spec.TypeID(probe)
		if err != nil {
			t.Fatal(err)
		}
		params := len(probe.Type.(*cilium.Pointer).Target.(*cilium.FuncProto).Params)
		if id, n, err := types.Tracepoint(name); err != nil || cilium.TypeID(id) != want || n != params-1 {
			t.Errorf("%s: type %d, %d arguments, %v; want %d, %d", name, id, n, err, want, params-1)
		}
	}
	for _, name := range []string{"task_struct", "tcp_sock", "pt_regs", "msghdr", "sock_common"} {
		var s *cilium.Struct
		if err := spec.TypeByName(name, &s); err != nil {
			t.Fatal(err)
		}
		for _, m := range s.Members {
			if m.Name == "" || m.Offset.Bytes() > 1<<15-1 {
				continue
			}
			if at, err := types.Offset(name, m.Name); err != nil || uint32(at) != m.Offset.Bytes() {
				t.Errorf("%s.%s: %d, %v; want %d", name, m.Name, at, err, m.Offset.Bytes())
			}
		}
	}
	if at, err := types.Offset("sock", "__sk_common", "skc_num"); err != nil || at <= 0 {
		t.Errorf("sock.__sk_common.skc_num: %d, %v", at, err)
	}
	if _, err := types.Offset("sock", "nothing"); err == nil {
		t.Error("a field that is not there has an offset")
	}
	if _, _, err := types.Tracepoint("nothing"); err == nil {
		t.Error("a tracepoint that is not there has a type")
	}
}

// FuzzParse: damaged types are an error, or are read without harm.
func FuzzParse(f *testing.F) {
	header := make([]byte, 24)
	binary.NativeEndian.PutUint16(header, 0xeb9f)
	header[2] = 1
	binary.NativeEndian.PutUint32(header[4:], 24)
	binary.NativeEndian.PutUint32(header[12:], 24) // types
	binary.NativeEndian.PutUint32(header[16:], 24)
	binary.NativeEndian.PutUint32(header[20:], 6)
	own := append(header, make([]byte, 24)...) // a struct "sock" of one anonymous member, itself
	binary.NativeEndian.PutUint32(own[24:], 1)
	binary.NativeEndian.PutUint32(own[28:], kindStruct<<24|1)
	binary.NativeEndian.PutUint32(own[40:], 1)
	f.Add(append(own, "\x00sock\x00"...))
	f.Add(header)
	f.Fuzz(func(_ *testing.T, b []byte) {
		t, err := parse(b)
		if err != nil {
			return
		}
		_, _ = t.Offset("sock", "x", "y") // the error is not the point
		_, _, _ = t.Tracepoint("sock")
	})
}
