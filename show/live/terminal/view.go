// Package terminal is the live view in a terminal: a few lines that are painted
// anew five times a second below what has been printed, and are gone when the
// run is over.
package terminal

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"ceiling/show/live"
)

const (
	// paintEvery is how often a frame is made: what a person can follow.
	paintEvery = 200 * time.Millisecond
	// endWithin is how long the end waits for a terminal that does not read.
	endWithin = 2 * time.Second
)

// View paints a Board into a terminal until it is closed. Nothing that feeds
// the board waits for it: a terminal that does not read gets fewer frames.
//
// The keyboard is left alone, the cursor stays visible in the last line of the frame,
// and the terminal is asked nothing: after a kill there is nothing to put back.
type View struct {
	w       *os.File
	board   *live.Board
	profile colorprofile.Profile
	release func()
	end     chan struct{}
	done    chan struct{}
	err     error // valid once done

	mu    sync.Mutex
	lines []string // to be printed above
}

// Show begins to paint.
func Show(w *os.File, environ []string, board *live.Board) *View {
	v := &View{w: w, board: board, profile: colorprofile.Detect(w, environ), release: board.Look(),
		end: make(chan struct{}), done: make(chan struct{})}
	go v.paint()
	return v
}

// Print puts a line above the view, where it stays.
func (v *View) Print(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, line)
}

// left are the lines that the terminal has not taken.
func (v *View) left() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.lines)
}

// Close takes the view away. A terminal that does not read is left as it is
// after two seconds; what was to be printed is returned then.
func (v *View) Close() (unprinted []string, err error) {
	defer v.release()
	close(v.end)
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-v.done:
		return v.left(), v.err
	case <-timer.C:
		return v.left(), nil
	}
}

// painter is what was painted last.
type painter struct {
	trail      Trail
	generation int
	frame      []string
}

// paint paints until the end.
func (v *View) paint() {
	defer close(v.done)
	var p painter
	ticks := time.NewTicker(paintEvery)
	defer ticks.Stop()
	for ended := false; !ended && v.err == nil; {
		select {
		case <-v.end:
			ended = true
			v.err = v.write(&p, nil)
		case <-ticks.C:
			var frame []string
			v.board.Spent(live.CPUTime(func() { frame = p.next(v) }))
			v.err = v.write(&p, frame)
		}
	}
}

// next is the next frame, nothing in a terminal that does not tell its size.
func (p *painter) next(v *View) []string {
	snapshot := v.board.Snapshot()
	p.follow(v.board)
	width, height, err := term.GetSize(v.w.Fd())
	if err != nil || width <= 0 {
		return nil
	}
	return Frame(&snapshot, p.trail, width, height-1) // one row stays free for lines that are printed
}

// follow takes the points that are new.
func (p *painter) follow(b *live.Board) {
	points, generation := b.Points(p.generation, len(p.trail.AtS))
	if generation != p.generation {
		p.trail, p.generation = Trail{}, generation
	}
	for i := range points {
		p.trail.AtS = append(p.trail.AtS, float64(points[i].TNs)/1e9)
		p.trail.PerS = append(p.trail.PerS, points[i].PerS())
	}
}

// write replaces the last frame by what is to be printed above and the next one, in
// one write.
func (v *View) write(p *painter, frame []string) error {
	lines := v.left()
	if len(lines) == 0 && slices.Equal(frame, p.frame) {
		return nil
	}
	var out bytes.Buffer
	out.WriteByte('\r')
	if up := rows(p.frame, v.w); up > 1 {
		fmt.Fprintf(&out, "\x1b[%dA", up-1)
	}
	text := colorprofile.Writer{Forward: &out, Profile: v.profile}
	for _, line := range lines {
		fmt.Fprintf(&text, "%s\x1b[K\r\n", clean(line))
	}
	for i, line := range frame {
		if i > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "%s\x1b[K", line)
	}
	out.WriteString("\x1b[J")
	if _, err := v.w.Write(out.Bytes()); err != nil {
		return err
	}
	p.frame = frame
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = v.lines[len(lines):]
	return nil
}

// rows is how many rows a frame takes now: in a window that became narrower its lines
// are wrapped.
func rows(frame []string, w *os.File) int {
	width, n := Columns(w), 0
	for _, line := range frame {
		n += max((ansi.StringWidth(line)+width-1)/width, 1)
	}
	return n
}

// RowsMost is more rows than a frame has.
const RowsMost = 1000

// Columns is the width of a terminal, 80 where it does not tell.
func Columns(w *os.File) int {
	width, _, err := term.GetSize(w.Fd())
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
