//go:build linux

package observe

import (
	"bytes"
	"errors"
	"fmt"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/net/netstat and /proc/net/snmp (net/ipv4/proc.c): pairs of lines, one
// of names and one of values, both beginning with the table's name:
//
//	TcpExt: SyncookiesSent SyncookiesRecv ...
//	TcpExt: 0 0 ...
//
// Kernels add names in the middle, so columns are found by name; the line of
// names of a running kernel does not change, so they are found once.

// The counters read, in the order of tcpCounterNames.
const (
	cntListenOverflows = iota
	cntListenDrops
	cntSyncookiesSent
	cntReqQFullDrop
	cntTimeouts
	cntBacklogDrop
	cntRcvQDrop
	cntAbortOnMemory
	cntAbortOnTimeout
	cntSynRetrans
	cntRetransSegs // from here on in /proc/net/snmp
	cntAttemptFails
	cntEstabResets
	cntOutRsts
	cntInErrs
	cntActiveOpens
	cntPassiveOpens
	cntInSegs
	cntOutSegs
	cntCurrEstab
	tcpCounters

	firstSNMP = cntRetransSegs
)

func tcpCounterNames() []string {
	return []string{
		"ListenOverflows", "ListenDrops", "SyncookiesSent", "TCPReqQFullDrop", "TCPTimeouts", "TCPBacklogDrop", "TCPRcvQDrop",
		"TCPAbortOnMemory", "TCPAbortOnTimeout", "TCPSynRetrans",
		"RetransSegs", "AttemptFails", "EstabResets", "OutRsts", "InErrs", "ActiveOpens", "PassiveOpens", "InSegs", "OutSegs",
		"CurrEstab",
	}
}

// counterTable reads some columns of one table.
type counterTable struct {
	prefix string   // "TcpExt: "
	names  []string // wanted
	values []int64  // last reading; -1 if this kernel lacks the name

	header []byte // the line of names from which columns was built
	column []int  // column[i] is the index in names of the i-th value, -1: not wanted
}

func newCounterTable(prefix string, names []string) *counterTable {
	return &counterTable{prefix: prefix, names: names, values: make([]int64, len(names))}
}

var errCounterTable = errors.New("no line of names with a line of as many numbers behind it")

// parse extracts the wanted counters from the file's text.
func (t *counterTable) parse(text []byte) error {
	c := sys.Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return fmt.Errorf("table %q: %w", t.prefix, errCounterTable)
		}
		if !hasPrefix(line, t.prefix) {
			continue
		}
		if !bytes.Equal(line, t.header) {
			t.learn(line)
		}
		values, _ := c.Line()
		if !hasPrefix(values, t.prefix) || !t.read(values) {
			t.header = t.header[:0]
			return fmt.Errorf("table %q: %w", t.prefix, errCounterTable)
		}
		return nil
	}
}

// learn finds the wanted names in a header line.
func (t *counterTable) learn(line []byte) {
	t.header = append(t.header[:0], line...)
	t.column = t.column[:0]
	l := sys.Cursor{Text: line, At: len(t.prefix)}
	for {
		w := l.Word()
		if len(w) == 0 {
			return
		}
		at := -1
		for i, name := range t.names {
			if string(w) == name {
				at = i
			}
		}
		t.column = append(t.column, at)
	}
}

func (t *counterTable) read(line []byte) bool {
	for i := range t.values {
		t.values[i] = -1
	}
	l := sys.Cursor{Text: line, At: len(t.prefix)}
	for _, at := range t.column {
		v, ok := l.Int() // MaxConn is -1
		if !ok {
			return false
		}
		if at >= 0 {
			t.values[at] = v
		}
	}
	return len(l.Word()) == 0
}

// netstatSampler samples both files.
type netstatSampler struct {
	r             *reader
	side          string // for the rows
	netstat, snmp int
	ext, tcp      *counterTable
	prev, cur     [tcpCounters]int64
}

func newNetstatSampler(r *reader, of *side) (*netstatSampler, error) {
	names := tcpCounterNames()
	s := &netstatSampler{
		r: r, side: of.name, netstat: -1, snmp: -1,
		ext: newCounterTable("TcpExt: ", names[:firstSNMP]),
		tcp: newCounterTable("Tcp: ", names[firstSNMP:]),
	}
	var err error
	if s.netstat, err = openFile(of.netDir + "/netstat"); err != nil {
		return nil, err
	}
	if s.snmp, err = openFile(of.netDir + "/snmp"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *netstatSampler) sample(at tick, emit Emit) error {
	s.prev = s.cur
	if err := s.table(s.netstat, s.ext); err != nil {
		return fmt.Errorf("/proc/net/netstat: %w", err)
	}
	if err := s.table(s.snmp, s.tcp); err != nil {
		return fmt.Errorf("/proc/net/snmp: %w", err)
	}
	copy(s.cur[:firstSNMP], s.ext.values)
	copy(s.cur[firstSNMP:], s.tcp.values)
	if at.first() {
		return nil
	}
	emit(s.row(at))
	return nil
}

func (s *netstatSampler) table(fd int, t *counterTable) error {
	text, err := s.r.single(fd)
	if err == nil {
		err = t.parse(text)
	}
	return err
}

func (s *netstatSampler) row(at tick) *record.TCPRow {
	d := func(i int) int64 {
		if s.prev[i] < 0 || s.cur[i] < 0 {
			return -1
		}
		return s.cur[i] - s.prev[i]
	}
	return &record.TCPRow{
		ObservedHead:    at.head(record.KindTCP),
		Side:            s.side,
		ListenOverflows: d(cntListenOverflows), ListenDrops: d(cntListenDrops), SyncookiesSent: d(cntSyncookiesSent),
		ReqQFullDrop: d(cntReqQFullDrop), Timeouts: d(cntTimeouts), BacklogDrop: d(cntBacklogDrop), RcvQDrop: d(cntRcvQDrop),
		AbortOnMemory: d(cntAbortOnMemory), AbortOnTimeout: d(cntAbortOnTimeout), SynRetrans: d(cntSynRetrans),
		RetransSegs: d(cntRetransSegs), AttemptFails: d(cntAttemptFails), EstabResets: d(cntEstabResets), OutRsts: d(cntOutRsts),
		InErrs: d(cntInErrs), ActiveOpens: d(cntActiveOpens), PassiveOpens: d(cntPassiveOpens), InSegs: d(cntInSegs),
		OutSegs: d(cntOutSegs), CurrEstab: s.cur[cntCurrEstab],
	}
}

func (s *netstatSampler) close() {
	closeFile(&s.netstat)
	closeFile(&s.snmp)
}
