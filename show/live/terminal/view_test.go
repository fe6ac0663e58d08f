package terminal

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/screen"
	"ceiling/record"
	"ceiling/show/live"
)

// patience is how long something may take that takes milliseconds: a busy
// machine runs these tests too.
const patience = time.Minute

// terminalOf opens a terminal of its own. What is painted gets to the screen as
// long as read is true.
func terminalOf(t *testing.T, width, height int, read bool) (tty *os.File, shown *screen.Screen, master *os.File) {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		t.Fatal(err)
	}
	shown = screen.New(width, height)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if read {
			io.Copy(shown, master) // ends with an error when the other end is closed
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		<-done
		master.Close()
	})
	return tty, shown, master
}

func environ() []string { return []string{"TERM=xterm-256color"} }

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func plain(b *live.Board, width, height int) string {
	s := b.Snapshot()
	lines := Frame(&s, trailOf(b), width, height-1)
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// What is on the screen is the frame; a printed line stays above it; in the end
// there is only the line, the cursor is there, and nothing was asked.
func TestPaintsAndLeavesNothing(t *testing.T) {
	needs.Time(t)
	for _, size := range [][2]int{{80, 24}, {40, 24}} {
		width, height := size[0], size[1]
		tty, shown, _ := terminalOf(t, width, height, true)
		before, err := term.GetState(tty.Fd())
		if err != nil {
			t.Fatal(err)
		}
		b, r := boardAt(t, 2e9)
		v := Show(tty, environ(), b)
		eventually(t, "the frame", func() bool { return shown.Text() == plain(b, width, height) })
		v.Print("  1  a run that is over")
		eventually(t, "the line above the frame", func() bool {
			return shown.Text() == "  1  a run that is over\n"+plain(b, width, height)
		})
		b.RunEnded(r)
		eventually(t, "the last frame", func() bool { return strings.HasSuffix(shown.Text(), plain(b, width, height)) })
		v.Print("  2  another")
		unprinted, err := v.Close()
		if err != nil || len(unprinted) > 0 {
			t.Errorf("close: %v, not printed %q", err, unprinted)
		}
		eventually(t, "an empty screen below the lines", func() bool { return shown.Text() == "  1  a run that is over\n  2  another" })
		if err := quietEnd(tty, b); err != nil {
			t.Error(err)
		}
		eventually(t, "nothing more", func() bool { return shown.Text() == "  1  a run that is over\n  2  another" })
		if shown.CursorHidden() || len(shown.Asked()) > 0 {
			t.Errorf("the cursor is hidden: %v; the terminal was asked %q", shown.CursorHidden(), shown.Asked())
		}
		if u := shown.Unknown(); len(u) > 0 {
			t.Errorf("sequences that this test does not know: %q", u)
		}
		after, err := term.GetState(tty.Fd())
		if err != nil || *before != *after {
			t.Errorf("the terminal's settings changed (%v)", err)
		}
		if b.Lookers() != 0 {
			t.Error("somebody still looks")
		}
		if b.CostNs() <= 0 {
			t.Error("the view cost nothing")
		}
	}
}

// quietEnd shows a board and closes it with nothing to be printed.
func quietEnd(tty *os.File, b *live.Board) error {
	v := Show(tty, environ(), b)
	time.Sleep(3 * paintEvery) // a frame or two; none is fine too
	_, err := v.Close()
	return err
}

// A window that grows is painted anew.
func TestResize(t *testing.T) {
	tty, shown, _ := terminalOf(t, 80, 24, true)
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 40, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	b, _ := boardAt(t, 2e9)
	v := Show(tty, environ(), b)
	eventually(t, "the narrow frame", func() bool { return shown.Text() == plain(b, 40, 24) })
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the wide frame", func() bool { return strings.HasSuffix(shown.Text(), plain(b, 80, 24)) })
	if _, err := v.Close(); err != nil {
		t.Error(err)
	}
}

// Without colours there is none: NO_COLOR and a terminal that has none.
func TestNoColor(t *testing.T) {
	for _, env := range [][]string{{"TERM=xterm-256color", "NO_COLOR=1"}, {"TERM=xterm-256color"}} {
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := pty.Setsize(tty, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
			t.Fatal(err)
		}
		shown, raw := screen.New(80, 24), &recorder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(io.MultiWriter(shown, raw), master)
		}()
		b, _ := boardAt(t, 2e9)
		v := Show(tty, env, b)
		eventually(t, "the frame", func() bool { return shown.Text() == plain(b, 80, 24) })
		if _, err := v.Close(); err != nil {
			t.Error(err)
		}
		tty.Close()
		<-done
		master.Close()
		colored := strings.Contains(raw.String(), "\x1b[3") || strings.Contains(raw.String(), ";3")
		if want := len(env) == 1; colored != want {
			t.Errorf("%v: colours %v", env, colored)
		}
	}
}

// recorder keeps what is written; it is read after the writer has ended.
type recorder struct{ strings.Builder }

// fill writes into a terminal until its kernel takes no more, and goes on
// taking none: what it has it moves to the reader's side by and by.
func fill(t *testing.T, tty *os.File) {
	t.Helper()
	fd, err := syscall.Open(tty.Name(), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	for refused := 0; refused < 40; {
		switch _, err := syscall.Write(fd, []byte(".")); err {
		case nil:
			refused = 0
		case syscall.EAGAIN:
			refused++
			time.Sleep(5 * time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
}

// A terminal that nobody reads holds nobody up, and the end waits for it only
// so long.
func TestTerminalThatDoesNotRead(t *testing.T) {
	needs.Time(t)
	tty, shown, master := terminalOf(t, 80, 24, false)
	fill(t, tty)
	b, r := boardAt(t, 2e9)
	v := Show(tty, environ(), b)
	head := record.ObservedHead{Kind: record.KindCPU, Host: "vm", WidthNs: 1e8}
	last := b.Snapshot().Last.TNs
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for range 20000 {
			last += 1e6
			b.Interval(record.LoadRow{TNs: last, WidthNs: 1e6, Completed: 5}, nil, 0)
			head.TNs = last
			b.Observed(&record.CPURow{ObservedHead: head, Cores: []record.CoreTicks{{User: 5, Idle: 5}}})
		}
		v.Print("a run that is over")
		b.Form()
		b.RunEnded(r)
	}()
	select {
	case <-fed:
	case <-time.After(patience):
		t.Fatal("a run waits for a terminal that nobody reads")
	}
	closed := make(chan []string)
	go func() {
		unprinted, _ := v.Close()
		closed <- unprinted
	}()
	select {
	case unprinted := <-closed:
		if len(unprinted) != 1 {
			t.Errorf("lines that were not printed: %q", unprinted)
		}
	case <-time.After(patience):
		t.Fatal("the end waits for a terminal that nobody reads")
	}
	select {
	case <-v.done:
		t.Error("the painter was never held up: this test proves nothing")
	default:
	}
	// Reading lets the painter go.
	go io.Copy(shown, master)
	<-v.done
}

func TestMain(m *testing.M) { leak.Main(m) }
