//go:build linux

package observe

import (
	"encoding/binary"
	"syscall"
	"testing"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Text and messages of any shape: a parser may refuse them, and whatever it
// accepts must be safe to use.

func seed(f *testing.F, names ...string) {
	for _, name := range names {
		f.Add(fixture(f, name))
	}
}

func FuzzStat(f *testing.F) {
	seed(f, "cpus128/stat.0")
	f.Fuzz(func(t *testing.T, text []byte) {
		var s sys.Stat
		if sys.ParseStat(text, &s) != nil {
			return
		}
		row := statDelta(&s, &s, 0)
		if len(row.Cores) != len(s.CPUs) || len(row.Came)+len(row.Went) != 0 {
			t.Errorf("%d cores of %d CPUs", len(row.Cores), len(s.CPUs))
		}
		for _, c := range row.Cores {
			if c.Bad != "" || c.Accounted() != 0 {
				t.Errorf("no time has passed: %+v", c)
			}
		}
	})
}

func FuzzSoftirqs(f *testing.F) {
	seed(f, "vm2/softirqs", "cpus128/softirqs.0")
	f.Fuzz(func(t *testing.T, text []byte) {
		var s softirqSample
		if parseSoftirqs(text, &s) == nil && len(softirqDelta(&s, &s)) != 0 {
			t.Error("a difference to itself")
		}
	})
}

func FuzzSoftnet(f *testing.F) {
	seed(f, "vm2/softnet_stat")
	f.Fuzz(func(t *testing.T, text []byte) {
		if lines, err := parseSoftnet(text, nil); err == nil && len(softnetDelta(lines, lines)) > len(lines) {
			t.Error("more differences than lines")
		}
	})
}

func FuzzInterrupts(f *testing.F) {
	seed(f, "vm2/interrupts")
	f.Fuzz(func(t *testing.T, text []byte) {
		var s irqSample
		all := func(int, []byte) bool { return true }
		if parseInterrupts(text, newInterned(), all, &s) != nil {
			return
		}
		if len(s.counts) != len(s.cpus)*len(s.lines) {
			t.Fatalf("%d counts, %d CPUs, %d lines", len(s.counts), len(s.cpus), len(s.lines))
		}
		irqDelta(&s, &s)
	})
}

func FuzzCounterTable(f *testing.F) {
	seed(f, "vm2/netstat", "vm2/snmp")
	f.Fuzz(func(t *testing.T, text []byte) {
		tcp := newCounterTable("Tcp: ", tcpCounterNames()[firstSNMP:])
		first := tcp.parse(text)
		if again := tcp.parse(text); (first == nil) != (again == nil) {
			t.Errorf("%v, and with the columns known %v", first, again)
		}
	})
}

func FuzzNetDev(f *testing.F) {
	seed(f, "vm2/net_dev")
	f.Fuzz(func(t *testing.T, text []byte) {
		devs, err := parseNetDev(text, newInterned(), nil)
		for i := range devs {
			if err == nil && devs[i].name == "" {
				t.Error("an interface without a name")
			}
		}
	})
}

func FuzzPSI(f *testing.F) {
	seed(f, "vm2/pressure_cpu", "vm2/pressure_memory")
	f.Fuzz(func(t *testing.T, text []byte) {
		var p psiTotals
		if parsePSI(text, &p) == nil && p.someUs < 0 {
			t.Errorf("%+v", p)
		}
	})
}

func FuzzPIDFiles(f *testing.F) {
	seed(f, "vm2/cgroup_v1")
	f.Add([]byte("socket:[17]"))
	f.Add([]byte("max 100000\n"))
	f.Add([]byte("Max open files            1024                 524288               files     \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if parseOpenFilesLimit(text) < -1 {
			t.Errorf("a limit of %d open files", parseOpenFilesLimit(text))
		}
		parseSocketLink(text)
	})
}

func FuzzProcTCP(f *testing.F) {
	seed(f, "vm2/tcp", "vm2/tcp6")
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = parseProcTCP(text, func(l procTCP) {
			if !l.local.IsValid() {
				t.Errorf("%+v", l)
			}
		})
	})
}

// A netlink answer of any shape ends, and its sockets and attributes lie
// within it.
func FuzzNetlink(f *testing.F) {
	body := make([]byte, inetDiagMsgBytes)
	body[0] = syscall.AF_INET
	info := binary.NativeEndian.AppendUint16(nil, attrHeadBytes+infoCountersEnd)
	info = binary.NativeEndian.AppendUint16(info, inetDiagInfo)
	body = append(body, append(info, make([]byte, infoCountersEnd)...)...)
	whole := binary.NativeEndian.AppendUint32(nil, uint32(nlHeadBytes+len(body)))
	whole = append(append(whole, make([]byte, nlHeadBytes-4)...), body...)
	f.Add(whole)
	f.Add(append(whole, whole...))
	f.Add(netlinkMessage(tbfMessage(7, tcRoot, 125_000, 0)))
	f.Add(netlinkMessage(htbMessage(7, 10)))
	f.Fuzz(func(t *testing.T, p []byte) {
		for len(p) > 0 {
			m, rest, err := nextMessage(p)
			if err != nil {
				return
			}
			if len(rest) >= len(p) {
				t.Fatal("no way forward")
			}
			var s inetSocket
			var tcp tcpInfo
			if parseInetSocket(m.body, &s) == nil {
				s.unreadBytes()
				parseTCPInfo(s.info, &tcp)
			}
			var u unixSocket
			_ = parseUnixSocket(m.body, &u)
			var q qdisc
			_, _ = parseQdisc(m.body, newInterned(), &q)
			var l link
			_ = parseLink(m.body, newInterned(), &l)
			if c, err := parseHTBClass(m.body); err == nil {
				htbLimit([]htbClass{c, c}, c.id, c.id)
			}
			_, _ = errorNumber(m.body)
			p = rest
		}
	})
}

func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0417\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		out, _ := parseDirents(p, nil)
		if len(out) > len(p)/direntName {
			t.Errorf("%d names in %d bytes", len(out), len(p))
		}
	})
}

func FuzzDiskStats(f *testing.F) {
	f.Add([]byte(diskText))
	f.Fuzz(func(t *testing.T, text []byte) {
		disks, err := parseDiskStats(text, newInterned(), func(string) bool { return true }, nil)
		for i := range disks {
			var row record.DiskRow
			if diskDelta(&disks[i], &disks[i], &row); err == nil && (disks[i].name == "" || row.Bad != "") {
				t.Errorf("a difference to itself: %+v", row)
			}
		}
	})
}

func FuzzTitles(f *testing.F) {
	f.Add([]byte("postgres: app shop 127.0.0.1(53412) UPDATE waiting\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, ok := parseTitle(text); ok && got.lockWaiting && len(got.command) == 0 {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
