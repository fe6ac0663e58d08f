//go:build linux

package observe

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"ceiling/internal/needs"
	"ceiling/record"
)

// What a server can do to those who watch it: stop, end, come back, multiply,
// become another program, or not let itself be read. None of it costs more
// than the one process.

// awaitZombie waits until a child has ended, and leaves it to be waited for.
func awaitZombie(pid int) {
	const pPID, wExited, wNoWait = 1, 4, 0x01000000
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// watched is a helper with its observer, sampled by steps of 10 s, far enough
// apart that no budget holds a round back.
type watched struct {
	*collect
	h   *helper
	o   *Observer
	now int64
}

func watchHelper(t *testing.T) *watched {
	h := startHelper(t)
	w := &watched{h: h, o: newObserver(t, Config{TargetAddr: h.addr, GeneratorPID: os.Getpid()}), collect: &collect{t: t}}
	w.step()
	return w
}

// step samples, and leaves only the rows of this sample.
func (w *watched) step() {
	w.rows = nil
	w.o.Sample(w.now, w.emit)
	w.now += 10e9
}

// row is a process's row of the last step, nil if it has none.
func (w *watched) row(pid int) *record.ProcessRow {
	for _, r := range rowsOf[record.ProcessRow](w.collect) {
		if r.PID == pid {
			return r
		}
	}
	return nil
}

// events are those of a process in the last step.
func (w *watched) events(pid int) (list []string) {
	for _, r := range rowsOf[record.SubjectRow](w.collect) {
		if r.PID == pid && r.Role == record.RoleSubject {
			list = append(list, r.Event)
		}
	}
	return list
}

// whole fails if a source was lost.
func (w *watched) whole() {
	w.t.Helper()
	for _, r := range w.o.rounds() {
		for _, s := range r.sources {
			if s.lost {
				w.t.Errorf("%s is lost: %+v", s.name, w.o.NotMeasured())
			}
		}
	}
	if w.row(os.Getpid()) == nil {
		w.t.Error("no row of the generator")
	}
}

// said is why something about a process was not measured, from the start of What.
func (w *watched) said(what string) []string {
	var why []string
	for _, n := range w.o.NotMeasured() {
		if strings.HasPrefix(n.What, what) {
			why = append(why, n.What+": "+n.Why)
			if !n.Part {
				w.t.Errorf("%+v is not the whole source", n)
			}
		}
	}
	return why
}

func TestFrozenSubject(t *testing.T) {
	w := watchHelper(t)
	if err := syscall.Kill(w.h.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(w.h.pid, syscall.SIGCONT)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.h.pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v %v", err, status)
	}
	w.step() // what it did before it was stopped
	for range 2 {
		w.step()
		r := w.row(w.h.pid)
		if r == nil || r.CPUNs != 0 || r.RunNs > 0 || r.States.Other != r.ThreadsRead || r.States.Other == 0 {
			t.Fatalf("stopped: %+v", r)
		}
		if len(w.events(w.h.pid)) != 0 {
			t.Errorf("events %v", w.events(w.h.pid))
		}
	}
	if err := syscall.Kill(w.h.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.h.order("spin")
	w.step()
	if r := w.row(w.h.pid); r == nil || r.CPUNs < 25e6 || r.States.Other != 0 {
		t.Errorf("let go: %+v", r)
	}
	w.whole()
}

func TestSubjectEndsAndComesBack(t *testing.T) {
	needs.Time(t)
	w := watchHelper(t)
	w.step()
	w.h.end()
	w.step()
	if e := w.events(w.h.pid); !slices.Equal(e, []string{record.SubjectGone}) {
		t.Errorf("events of the server that ended: %v", e)
	}
	w.step()
	if w.row(w.h.pid) != nil {
		t.Error("a row of a process that is gone")
	}
	for _, r := range rowsOf[record.ListenerRow](w.collect) {
		if len(r.Listeners) != 0 {
			t.Errorf("%+v", r)
		}
	}
	w.whole()
	again := startHelper(t, w.h.addr.String())
	w.step() // sees the new listener, for which the next looks
	w.step()
	if e := w.events(again.pid); !slices.Equal(e, []string{record.SubjectFound}) {
		t.Errorf("events of the server that came back: %v", e)
	}
	again.order("spin")
	w.step()
	if r := w.row(again.pid); r == nil || r.CPUNs < 25e6 {
		t.Errorf("the server that came back: %+v", r)
	}
	w.whole()
}

func TestSubjectForks(t *testing.T) {
	w := watchHelper(t)
	w.h.order("leave child")
	w.step()
	if e := w.events(w.h.child); !slices.Equal(e, []string{record.SubjectGone}) {
		t.Errorf("events of a child that ended: %v", e)
	}
	// Its parent has not waited for it: it is still listed, and still gone.
	for range 3 {
		w.step()
		if e := w.events(w.h.child); len(e) != 0 || w.row(w.h.child) != nil {
			t.Errorf("a zombie: events %v, row %+v", e, w.row(w.h.child))
		}
	}
	fmt.Fprintln(w.h.in, "start child")
	var child int
	if _, err := fmt.Fscan(w.h.out, &child); err != nil {
		t.Fatal(err)
	}
	w.h.out.ReadString('\n')
	w.step()
	if e := w.events(child); !slices.Equal(e, []string{record.SubjectFound}) {
		t.Errorf("events of a new child: %v", e)
	}
	w.step()
	if w.row(child) == nil {
		t.Error("no row of the new child")
	}
	w.whole()
}

// The process stays, with its number, its times and its listener.
func TestSubjectBecomesAnotherProgram(t *testing.T) {
	needs.Time(t)
	w := watchHelper(t)
	for range 3 {
		w.h.order("spin") // so that times that begin anew would be seen to fall
	}
	w.step()
	w.h.order("exec")
	if line, err := w.h.out.ReadString('\n'); err != nil || line != "done\n" { // it has spun by now
		t.Fatal(line, err)
	}
	w.step()
	r := w.row(w.h.pid)
	if r == nil || r.CPUNs < 25e6 || r.RunNs < -1 || r.QueueNs < -1 || len(w.events(w.h.pid)) != 0 {
		t.Fatalf("%+v, events %v", r, w.events(w.h.pid))
	}
	w.step()
	if r := w.row(w.h.pid); r == nil || r.Voluntary < 0 || r.Involuntary < 0 || r.ThreadsRead != r.Threads {
		t.Errorf("afterwards: %+v", r)
	}
	w.whole()
}

// spoil replaces a descriptor by one that cannot be read, and gives it back.
func spoil(t *testing.T, fd *int) (mend func()) {
	t.Helper()
	kept := *fd
	bad, err := syscall.Open("/proc/self", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	*fd = bad // EISDIR
	return func() { syscall.Close(bad); *fd = kept }
}

func TestOneProcessThatCannotBeRead(t *testing.T) {
	w := watchHelper(t)
	w.step()
	var strange *process
	for _, p := range w.o.subject.processes {
		if p.identity.pid == w.h.child {
			strange = p
		}
	}
	name := fmt.Sprintf("process %d (%s): ", w.h.child, strange.identity.comm)
	others := func() {
		t.Helper()
		if w.row(w.h.pid) == nil {
			t.Error("no row of the other process of the server")
		}
		w.whole()
	}

	mend := spoil(t, &strange.stat)
	w.step()
	w.step()
	if r := w.row(w.h.child); r != nil {
		t.Errorf("%+v", r)
	}
	if why := w.said(name + "CPU times"); len(why) != 1 || !strings.Contains(why[0], "is a directory") {
		t.Errorf("%q", why) // once, though it happened twice
	}
	others()
	mend()
	w.step() // begins afresh
	w.step()
	if r := w.row(w.h.child); r == nil || r.WidthNs < 9e9 || r.WidthNs > 11e9 {
		t.Errorf("readable again: %+v", r)
	}

	// One thread: the others' times are kept, and it is opened again.
	before := len(strange.usage.threads)
	kept := strange.usage.threads[0].file
	spoil(t, &strange.usage.threads[0].file) // the observer closes it
	syscall.Close(kept)
	w.step()
	if r := w.row(w.h.child); r == nil || r.ThreadsRead != before-1 {
		t.Errorf("with one of %d threads unreadable: %+v", before, r)
	}
	if why := w.said(name + "a thread"); len(why) != 1 {
		t.Errorf("%q", why)
	}
	w.step()
	if r := w.row(w.h.child); r == nil || r.ThreadsRead != r.Threads {
		t.Errorf("opened again: %+v", r)
	}
	others()

	// Everything below /proc/PID.
	mend = spoil(t, &strange.dir)
	w.step()
	w.step()
	others()
	mend()
	w.step()
	others()
}
