package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// ObservedRows is what the hosts of a run did: the rows of each kind. Read returns them in time
// order.
type ObservedRows struct {
	CPU        []*CPURow
	Subjects   []*SubjectRow
	Processes  []*ProcessRow
	Sockets    []*SocketsRow
	Listeners  []*ListenerRow
	TCPInfo    []*TCPInfoRow
	Times      []*TimesRow
	Peers      []*PeersRow
	Neighbours []*NeighboursRow
	TCP        []*TCPRow
	NetDevs    []*NetDevRow
	Softnet    []*SoftnetRow
	Softirqs   []*SoftirqRow
	IRQs       []*IRQRow
	NICs       []*NICRow
	PSI        []*PSIRow
	Disks      []*DiskRow
	Titles     []*TitlesRow
	Throttles  []*ThrottleRow
	Freqs      []*FreqRow
	Observer   []*ObserverRow
	Statuses   []*StatusRow
	Databases  []*DatabaseRow
}

// list is the rows of one kind.
type list interface {
	empty() ObservedRow
	add(ObservedRow) bool // false if it is of another kind
	len() int
	at(int) ObservedRow
	window(fromNs, toNs, zeroNs int64)
	sort()
}

// list returns where the rows of a kind are stored; nil for an unknown kind. Only this function
// maps kinds to row types.
func (o *ObservedRows) list(kind string) list {
	switch kind {
	case KindCPU:
		return rowsIn(&o.CPU)
	case KindSubject:
		return rowsIn(&o.Subjects)
	case KindProcess:
		return rowsIn(&o.Processes)
	case KindSockets:
		return rowsIn(&o.Sockets)
	case KindListener:
		return rowsIn(&o.Listeners)
	case KindTCPInfo:
		return rowsIn(&o.TCPInfo)
	case KindTimes:
		return rowsIn(&o.Times)
	case KindPeers:
		return rowsIn(&o.Peers)
	case KindNeighbours:
		return rowsIn(&o.Neighbours)
	case KindTCP:
		return rowsIn(&o.TCP)
	case KindNetDev:
		return rowsIn(&o.NetDevs)
	case KindSoftnet:
		return rowsIn(&o.Softnet)
	case KindSoftirq:
		return rowsIn(&o.Softirqs)
	case KindIRQ:
		return rowsIn(&o.IRQs)
	case KindNIC:
		return rowsIn(&o.NICs)
	case KindPSI:
		return rowsIn(&o.PSI)
	case KindDisk:
		return rowsIn(&o.Disks)
	case KindTitles:
		return rowsIn(&o.Titles)
	case KindThrottle:
		return rowsIn(&o.Throttles)
	case KindFreq:
		return rowsIn(&o.Freqs)
	case KindObserver:
		return rowsIn(&o.Observer)
	case KindStatus:
		return rowsIn(&o.Statuses)
	case KindDatabase:
		return rowsIn(&o.Databases)
	}
	return nil
}

// ObservedKinds returns all kinds of observed rows.
func ObservedKinds() []string {
	return []string{KindCPU, KindSubject, KindProcess, KindSockets, KindListener, KindTCPInfo, KindTimes, KindPeers, KindNeighbours,
		KindTCP, KindNetDev, KindSoftnet, KindSoftirq, KindIRQ, KindNIC, KindPSI, KindDisk, KindTitles, KindThrottle, KindFreq, KindObserver,
		KindStatus, KindDatabase}
}

// rowsOf is the list of one row type.
type rowsOf[R any, P interface {
	*R
	ObservedRow
}] struct{ rows *[]P }

func rowsIn[R any, P interface {
	*R
	ObservedRow
}](rows *[]P) list {
	return rowsOf[R, P]{rows}
}

func (l rowsOf[R, P]) empty() ObservedRow   { return P(new(R)) }
func (l rowsOf[R, P]) len() int             { return len(*l.rows) }
func (l rowsOf[R, P]) at(i int) ObservedRow { return (*l.rows)[i] }

func (l rowsOf[R, P]) add(row ObservedRow) bool {
	r, is := row.(P)
	if is {
		*l.rows = append(*l.rows, r)
	}
	return is
}

func (l rowsOf[R, P]) window(fromNs, toNs, zeroNs int64) {
	var kept []P // a new list, of new rows if their times change: others may be reading the old ones
	for _, row := range *l.rows {
		if at := row.Observed().TNs; at <= fromNs || at > toNs {
			continue
		}
		if zeroNs != 0 {
			moved := *row
			row = &moved
			row.Observed().TNs -= zeroNs
		}
		kept = append(kept, row)
	}
	*l.rows = kept
}

func (l rowsOf[R, P]) sort() {
	slices.SortStableFunc(*l.rows, func(a, b P) int { return cmp.Compare(a.Observed().TNs, b.Observed().TNs) })
}

// NewObservedRow returns an empty row of a kind, and false for a kind that this file does not
// define.
func NewObservedRow(kind string) (ObservedRow, bool) {
	l := new(ObservedRows).list(kind)
	if l == nil {
		return nil, false
	}
	return l.empty(), true
}

// Add appends rows, each to those of its kind. It sets a missing kind from the row's type, and
// panics on a mismatch, which would lose the row in a file.
func (o *ObservedRows) Add(rows ...ObservedRow) {
	for _, row := range rows {
		head := row.Observed()
		if head.Kind == "" {
			head.Kind = kindOfRow(row)
		}
		if l := o.list(head.Kind); l == nil || !l.add(row) {
			panic(fmt.Sprintf("a %T says that it is of kind %q", row, head.Kind))
		}
	}
}

// kindOfRow returns the kind of a row's type.
func kindOfRow(row ObservedRow) string {
	var o ObservedRows
	for _, kind := range ObservedKinds() {
		if o.list(kind).add(row) {
			return kind
		}
	}
	return ""
}

// decode reads a row of a kind; known is false for an unknown kind.
func (o *ObservedRows) decode(kind string, text []byte) (known bool, err error) {
	l := o.list(kind)
	if l == nil {
		return false, nil
	}
	row := l.empty()
	if err := json.Unmarshal(text, row); err != nil {
		return true, err
	}
	l.add(row)
	return true, nil
}

// Len counts the rows of all kinds.
func (o *ObservedRows) Len() int {
	n := 0
	for _, kind := range ObservedKinds() {
		n += o.list(kind).len()
	}
	return n
}

// All returns the rows of all kinds in time order.
func (o *ObservedRows) All() []ObservedRow {
	all := make([]ObservedRow, 0, o.Len())
	for _, kind := range ObservedKinds() {
		l := o.list(kind)
		for i := range l.len() {
			all = append(all, l.at(i))
		}
	}
	slices.SortStableFunc(all, func(a, b ObservedRow) int { return cmp.Compare(a.Observed().TNs, b.Observed().TNs) })
	return all
}

// Window keeps the rows that ended within (fromNs, toNs], their times counted from zeroNs. Copies of o
// still have all rows as they were.
func (o *ObservedRows) Window(fromNs, toNs, zeroNs int64) {
	for _, kind := range ObservedKinds() {
		o.list(kind).window(fromNs, toNs, zeroNs)
	}
}

// sort puts the rows of every kind into time order; rows of several hosts arrive interleaved.
func (o *ObservedRows) sort() {
	for _, kind := range ObservedKinds() {
		o.list(kind).sort()
	}
}
