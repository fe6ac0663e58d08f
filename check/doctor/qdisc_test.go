package doctor

import (
	"encoding/binary"
	"net"
	"slices"
	"syscall"
	"testing"
)

// message is one netlink message.
func message(kind uint16, body []byte) []byte {
	b := make([]byte, syscall.NLMSG_HDRLEN, syscall.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(b, uint32(cap(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, body...)
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func qdiscMessage(index uint32, kind string, options []byte) []byte {
	body := make([]byte, tcMsgBytes)
	binary.NativeEndian.PutUint32(body[4:], index)
	body = append(body, attribute(tcaKind, append([]byte(kind), 0))...)
	return message(syscall.RTM_NEWQDISC, append(body, attribute(tcaOptions|0x8000, options)...))
}

func tbfOptions(rate uint32, rate64 uint64) []byte {
	parms := make([]byte, 36)
	binary.NativeEndian.PutUint32(parms[8:], rate)
	b := attribute(tbfParms, parms)
	if rate64 > 0 {
		b = append(b, attribute(tbfRate64, binary.NativeEndian.AppendUint64(nil, rate64))...)
	}
	return b
}

func TestParseQdiscs(t *testing.T) {
	failure := func(code int32) []byte {
		return message(syscall.NLMSG_ERROR, binary.NativeEndian.AppendUint32(make([]byte, 0, 20), uint32(code)))
	}
	for _, k := range []struct {
		name   string
		answer []byte
		want   []Qdisc
		done   bool
		fails  bool
	}{
		{"nothing", nil, nil, false, false},
		{"done", message(syscall.NLMSG_DONE, make([]byte, 4)), nil, true, false},
		{"of the interface alone", slices.Concat(qdiscMessage(2, "fq_codel", nil), qdiscMessage(3, "tbf", tbfOptions(9, 0))),
			[]Qdisc{{Kind: "fq_codel"}}, false, false},
		{"shaped", slices.Concat(qdiscMessage(2, "tbf", tbfOptions(12_500_000, 0)), message(syscall.NLMSG_DONE, make([]byte, 4))),
			[]Qdisc{{"tbf", 12_500_000}}, true, false},
		{"beyond 32 bits", qdiscMessage(2, "tbf", tbfOptions(1<<32-1, 5e9)), []Qdisc{{"tbf", 5e9}}, false, false},
		{"other options", qdiscMessage(2, "htb", tbfOptions(7, 0)), []Qdisc{{Kind: "htb"}}, false, false},
		{"refused", failure(-int32(syscall.EPERM)), nil, false, true},
		{"no list", failure(0), nil, false, true},
		{"damaged", []byte{9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, nil, false, true},
	} {
		got, done, err := parseQdiscs(k.answer, 2)
		if !slices.Equal(got, k.want) || done != k.done || (err != nil) != k.fails {
			t.Errorf("%s: %v, %v, %v", k.name, got, done, err)
		}
	}
}

// TestQdiscsHere: loopback has noqueue, which the kernel shows, or nothing.
func TestQdiscsHere(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	list, err := dumpQdiscs(lo.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		if q.Kind == "" {
			t.Errorf("%v", list)
		}
	}
}

func FuzzParseQdiscs(f *testing.F) {
	f.Add(qdiscMessage(2, "tbf", tbfOptions(12_500_000, 5e9)))
	f.Add(message(syscall.NLMSG_ERROR, []byte{1}))
	f.Fuzz(func(t *testing.T, answer []byte) {
		list, _, err := parseQdiscs(answer, 2)
		if err != nil && list != nil {
			t.Errorf("%v with %v", list, err)
		}
	})
}
