//go:build linux

package observe

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ceiling/record"
)

// peersOf is the sampler over this process, which is the subject.
func peersOf(t *testing.T, target netip.AddrPort) *peerSampler {
	t.Helper()
	tools, err := newTools("/proc", "/sys")
	if err != nil {
		t.Fatal(err)
	}
	s := newSubject(tools, "here")
	if err := s.watch(record.RoleSubject, os.Getpid(), "given"); err != nil {
		t.Fatal(err)
	}
	p, err := newPeerSampler(tools, s, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close(); s.close(); tools.close() })
	return p
}

// look samples once and answers the row.
func (p *peerSampler) look(t *testing.T) *record.PeersRow {
	t.Helper()
	out := &collect{t: t}
	if err := p.sample(tick{tNs: 5}, out.emit); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf[record.PeersRow](out)
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows[0]
}

// sameButLater reports whether a peer has not changed but for the time in which nothing came in.
func sameButLater(now, before record.Peer) bool {
	now.Quiet = before.Quiet
	return now == before
}

func peerAt(row *record.PeersRow, addr string) record.Peer {
	for _, p := range row.Peers {
		if p.Addr == addr {
			return p
		}
	}
	return record.Peer{}
}

// What the subject keeps to others is counted with what waits on it; what
// others keep to the subject, and the run's own connections, are not.
func TestPeers(t *testing.T) {
	checkDescriptors(t)
	own, target := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, own, 3) // the run's: both ends are this process's
	back, downstream := listen(t, "tcp4", "127.0.0.1:0")
	pool := connect(t, back, 5)
	for _, p := range pool[:4] { // the fifth was never used
		write(t, p.client, 10)
		arrived(t, p.server, 10)
	}
	for _, p := range pool[:2] {
		time.Sleep(12 * time.Millisecond) // a tick of the kernel's, so that the answer is later than the question
		write(t, p.server, 5)
		arrived(t, p.client, 5)
	}
	path := filepath.Join(t.TempDir(), "db")
	files, _ := listen(t, "unix", path)
	behind := connect(t, files, 2)
	write(t, behind[0].server, 3)
	arrived(t, behind[0].client, 3)

	p := peersOf(t, target)
	row := p.look(t)
	want := record.Peer{Addr: downstream.String(), Sockets: 5, Unread: 2, Awaiting: 2}
	if got := peerAt(row, want.Addr); got != want {
		t.Errorf("downstream %+v, want %+v", got, want)
	}
	want = record.Peer{Addr: path, Sockets: 2, Unread: 1, Awaiting: -1, Quiet: -1}
	if got := peerAt(row, path); got != want {
		t.Errorf("unix %+v, want %+v", got, want)
	}
	if got := peerAt(row, target.String()); got.Sockets != 0 {
		t.Errorf("the run's own connections are counted: %+v", got)
	}
	if row.Cut || !slices.IsSortedFunc(row.Peers, func(a, b record.Peer) int { return b.Sockets - a.Sockets }) {
		t.Errorf("%+v", row)
	}
	p.tcp.questions, p.files = peerListing(target.Port()).byFamily(), -1
	if again := p.look(t); !slices.Equal(again.Peers, row.Peers) {
		t.Errorf("asked by family: %+v, want %+v", again, row)
	}
	// Nothing new: nobody's files are looked through again. What other processes have connected
	// since is new, and has them looked through.
	p.files = -1
	for quiet := false; !quiet; {
		known := maps.Clone(p.mine)
		p.fds = nil
		if again := p.look(t); !slices.EqualFunc(again.Peers, row.Peers, sameButLater) {
			t.Errorf("again: %+v, want %+v", again, row)
		}
		quiet = true
		for inode := range p.mine { // the subject's, and others
			_, was := known[inode]
			quiet = quiet && was
		}
		if quiet && p.fds != nil {
			t.Error("files were looked through although every socket was known")
		}
	}
	// A connection that has gone, and two that have come.
	pool[3].client.Close()
	pool[3].server.Close()
	connect(t, back, 2)
	if got := peerAt(p.look(t), downstream.String()); got.Sockets != 6 {
		t.Errorf("after two came and one went: %+v", got)
	}
}

// As long as nothing has changed the known sockets are asked for one by one,
// and show what became of them; what has changed is seen all the same.
func TestPeersRefresh(t *testing.T) {
	for _, c := range []struct{ name, network, addr string }{
		{"tcp4", "tcp4", "127.0.0.1:0"}, {"tcp6", "tcp6", "[::1]:0"}, {"dual stack", "tcp", ":0"},
		{"unix", "unix", filepath.Join(t.TempDir(), "s")},
	} {
		t.Run(c.name, func(t *testing.T) {
			back, _ := listen(t, c.network, c.addr)
			pool := connect(t, back, 3)
			addr := pool[0].client.RemoteAddr().String()
			p := peersOf(t, netip.AddrPort{})
			at := tick{tNs: 1}
			look := func() record.Peer {
				t.Helper()
				out := &collect{t: t}
				at.tNs, at.widthNs = at.tNs+1e9, 1e9
				if err := p.sample(at, out.emit); err != nil {
					t.Fatal(err)
				}
				if rows := rowsOf[record.PeersRow](out); len(rows) == 1 {
					return peerAt(rows[0], addr)
				}
				return record.Peer{}
			}
			if got := look(); got.Sockets != 3 || got.Unread != 0 || p.lists != 1 {
				t.Fatalf("first %+v after %d lists", got, p.lists)
			}
			write(t, pool[1].server, 7)
			arrived(t, pool[1].client, 7)
			if got := look(); got.Sockets != 3 || got.Unread != 1 || p.lists != 1 {
				t.Errorf("with an answer unread %+v, %d lists", got, p.lists)
			}
			pool[2].client.Close() // one goes and another comes: as many files as before
			pool[2].server.Close()
			connect(t, back, 1)
			if got := look(); got.Sockets != 3 || p.lists != 2 {
				t.Errorf("with another in its place %+v, %d lists", got, p.lists)
			}
			connect(t, back, 2)
			if got := look(); got.Sockets != 5 || p.lists != 3 {
				t.Errorf("with two more %+v, %d lists", got, p.lists)
			}
			// A list too dear for its share has to wait, and there is no row meanwhile.
			p.listCost = 30e6
			connect(t, back, 1)
			if got := look(); got.Sockets != 0 || p.lists != 3 {
				t.Errorf("before its time %+v, %d lists", got, p.lists)
			}
			at.tNs += 200e9
			if got := look(); got.Sockets != 6 || p.lists != 4 {
				t.Errorf("in its time %+v, %d lists", got, p.lists)
			}
			// A list during which a file went is not one to come back to.
			files := p.countFiles()
			for _, c := range []struct{ before, kept int }{{files + 1, -1}, {files, files}} {
				if seen, err := p.list(at, c.before); !seen || err != nil || p.files != c.kept {
					t.Errorf("of %d files, then %d: %d are kept (%v)", c.before, files, p.files, err)
				}
			}
		})
	}
}

// The kernel's filter leaves out the subject's own port, whose sockets may be
// many, and nothing else.
func TestPeerQuestions(t *testing.T) {
	own, target := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, own, 2)
	for name, ask := range map[string]func(listing) []question{"one walk": listing.inOne, "by family": listing.byFamily} {
		for port, wantOwn := range map[uint16]int{target.Port(): 0, target.Port() - 1: 3, target.Port() + 1: 3, 0: 3} {
			d, err := newDumper(netlinkSockDiag)
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := 0, 0
			for _, q := range ask(peerListing(port)) {
				if err := d.ask(q.request, q.kind, syscall.NLM_F_DUMP); err != nil {
					t.Fatal(err)
				}
				for {
					body, more, err := d.next()
					if err != nil {
						t.Fatal(name, port, err)
					}
					if !more {
						break
					}
					var s inetSocket
					if err := parseInetSocket(body, &s); err != nil {
						t.Fatal(err)
					}
					if s.sport == target.Port() {
						ours++
					}
					if s.dport == target.Port() {
						theirs++
					}
				}
			}
			d.close()
			if ours != wantOwn || theirs != 2 {
				t.Errorf("%s, port %d of %d: %d own sockets of %d, %d of others' of 2", name, port, target.Port(), ours, wantOwn, theirs)
			}
		}
	}
}

// A table of open files that is too long for one look is gone through in
// several, and the rows say so.
func TestPeersOfManyFiles(t *testing.T) {
	back, downstream := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, back, 20)
	p := peersOf(t, netip.AddrPort{})
	p.filesMost = 8
	row := p.look(t)
	if got := peerAt(row, downstream.String()); !row.Cut || got.Sockets > 8 {
		t.Errorf("a look at 8 files found %+v, cut %v", got, row.Cut)
	}
	for range 40 {
		row = p.look(t)
	}
	if got := peerAt(row, downstream.String()); got.Sockets != 20 {
		t.Errorf("40 looks found %+v", got)
	}
}

// More addresses than a row holds.
func TestPeersMost(t *testing.T) {
	for range peersMost + 3 {
		l, _ := listen(t, "tcp4", "127.0.0.1:0")
		connect(t, l, 2)
	}
	row := peersOf(t, netip.AddrPort{}).look(t)
	if len(row.Peers) != peersMost || row.More < 6 {
		t.Errorf("%d peers and %d sockets more", len(row.Peers), row.More)
	}
}

// A process whose files may not be seen gives no row, and is named.
func TestPeersDenied(t *testing.T) {
	back, _ := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, back, 1)
	p := peersOf(t, netip.AddrPort{})
	var missed []string
	p.subject.missing = func(what, why string) { missed = append(missed, what+": "+why) }
	dir := p.subject.processes[0].dir
	p.subject.processes[0].dir = -1 // EBADF, as any error but "gone"
	out := &collect{t: t}
	for range 2 {
		if err := p.sample(tick{}, out.emit); err != nil {
			t.Fatal(err)
		}
	}
	p.subject.processes[0].dir = dir
	if len(out.rows) != 0 || len(missed) != 1 {
		t.Errorf("%d rows, missed %q", len(out.rows), missed)
	}
}

// FuzzPeerSocket: whatever the kernel says of a socket, it is counted once or
// left out.
func FuzzPeerSocket(f *testing.F) {
	body := make([]byte, inetDiagMsgBytes)
	body[0], body[1] = syscall.AF_INET, tcpEstablished
	binary.NativeEndian.PutUint32(body[68:], 7)
	f.Add(body)
	attr := binary.NativeEndian.AppendUint16(slices.Clone(body), attrHeadBytes+infoBytesAcked+8)
	attr = binary.NativeEndian.AppendUint16(attr, inetDiagInfo)
	f.Add(append(attr, make([]byte, infoBytesAcked+8)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := peerSampler{owners: newOwners(nil, nil, nil), peerList: peerList{listening: map[uint16]struct{}{}},
			peerOwners: peerOwners{mine: map[uint32]bool{}},
			index:      map[netip.AddrPort]int{}, names: map[netip.AddrPort]string{}}
		var s inetSocket
		if parseInetSocket(body, &s) != nil {
			return
		}
		p.takeTCP(&s)
		for _, one := range p.all {
			p.mine[one.inode] = true
		}
		n := 0
		for _, one := range p.sum(tick{}).Peers {
			n += one.Sockets + one.Connecting
			if one.Unread > one.Sockets || one.Unacked > one.Sockets || one.Awaiting > one.Sockets || one.Quiet > one.Sockets {
				t.Errorf("%+v", one)
			}
		}
		if n+len(p.listening) > 1 {
			t.Errorf("one socket counts %d times", n+len(p.listening))
		}
	})
}

// TestListsAreKeptForTheWindow: of the three lists that a run makes at any cost, one comes before
// the window, whose rows no verdict uses, and two within it.
func TestListsAreKeptForTheWindow(t *testing.T) {
	back, _ := listen(t, "tcp", "127.0.0.1:0")
	p := peersOf(t, netip.AddrPort{})
	lists := 0
	for _, step := range []struct {
		tNs  int64
		want int
	}{{-300e6, 1}, {-150e6, 1}, {100e6, 2}, {250e6, 3}, {400e6, 3}} {
		connect(t, back, 1) // what was listed is stale
		p.listCost = 30e6   // a quarter of a minute's share
		if err := p.sample(tick{tNs: step.tNs, widthNs: 150e6}, (&collect{t: t}).emit); err != nil {
			t.Fatal(err)
		}
		if lists = p.lists; lists != step.want {
			t.Errorf("%d lists at %v ms, want %d", lists, step.tNs/1e6, step.want)
		}
	}
}
