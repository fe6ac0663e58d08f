//go:build linux

package run

import (
	"os"
	"reflect"
	"testing"

	"ceiling/record"
)

// TestStackerNotesWhoIsThere: what the observer finds is noted once, by whose it is.
func TestStackerNotesWhoIsThere(t *testing.T) {
	var s stacker
	found := func(role string, pid, parent int) *record.SubjectRow {
		return &record.SubjectRow{Event: record.SubjectFound, Role: role, PID: pid, ParentPID: parent}
	}
	asked := &record.PeersRow{Peers: []record.Peer{{Addr: "127.0.0.1:5432", PID: 20}, {Addr: "10.0.0.7:80"}}}
	for i, c := range []struct {
		row   record.ObservedRow
		fresh bool
	}{
		{found(record.RoleSubject, 10, 1), true}, {found(record.RoleSubject, 10, 1), false}, {found(record.RoleGenerator, 5, 1), false},
		{found(record.RolePeer, 20, 1), true}, {found(record.RolePeer, 21, 20), true}, {asked, true}, {asked, false},
		{&record.SubjectRow{Event: record.SubjectGone, Role: record.RoleSubject, PID: 11}, false}, {&record.CPURow{}, false},
	} {
		if got := s.note(c.row); got != c.fresh {
			t.Errorf("row %d: fresh %v", i, got)
		}
	}
	if got, want := s.server(), []int{10}; !reflect.DeepEqual(got, want) {
		t.Errorf("the server is %v", got)
	}
	if want := []peerProcess{{20, 1}, {21, 20}}; !reflect.DeepEqual(s.peers, want) {
		t.Errorf("its peers are %v", s.peers)
	}
	if want := map[string]int{"127.0.0.1:5432": 20}; !reflect.DeepEqual(s.asked, want) {
		t.Errorf("it asks %v", s.asked)
	}
}

// TestStackerBeginsLate: a server that is found after the window has opened is sampled
// from then on, but not in the middle of a block.
func TestStackerBeginsLate(t *testing.T) {
	own := &record.SubjectRow{Event: record.SubjectFound, Role: record.RoleSubject, PID: os.Getpid(), ParentPID: os.Getppid()}
	for _, inBlock := range []bool{false, true} {
		var s stacker
		s.open()
		<-s.opened
		if s.begun {
			t.Fatal("it samples a server that nobody has found")
		}
		if inBlock {
			s.mark(0)
		}
		s.see(own)
		s.telling.Wait()
		if s.begun == inBlock {
			t.Errorf("in a block: %v, it samples: %v", inBlock, s.begun)
		}
		if s.mark(1); !s.begun {
			t.Errorf("in a block: %v; the next one is not sampled either", inBlock)
		}
		s.close()
	}
}
