// Package terminal is the live view in a terminal: a few lines below the printed output,
// repainted five times a second and removed when the run ends.
package terminal

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"

	"ceiling/show/layout"
	"ceiling/show/live"
)

const (
	// paintEvery is the frame interval: as fast as a person can follow.
	paintEvery = 200 * time.Millisecond
	// endWithin is how long Close waits for a terminal that does not read.
	endWithin = 2 * time.Second
)

// View paints a Board into a terminal until closed. It never blocks the board: a terminal that
// does not read gets fewer frames.
//
// View does not touch the keyboard, keeps the cursor visible in the frame's last line, and
// queries nothing, so that a killed process leaves nothing to restore.
type View struct {
	w       *os.File
	board   *live.Board
	colours *strings.Replacer
	release func()
	end     chan struct{}
	done    chan struct{}
	err     error // valid once done

	mu    sync.Mutex
	lines []string // to print above the frame
}

// Show starts painting.
func Show(w *os.File, environ []string, board *live.Board) *View {
	v := &View{w: w, board: board, colours: Colours(environ), release: board.Look(),
		end: make(chan struct{}), done: make(chan struct{})}
	go v.paint()
	return v
}

// Print prints a line above the view, where it stays.
func (v *View) Print(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, line)
}

// left returns the lines that the terminal has not accepted.
func (v *View) left() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.lines)
}

// Close removes the view. If the terminal does not read, Close gives up after two seconds and
// returns the lines that were not printed.
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

// painter is the last frame painted.
type painter struct {
	trail      History
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

// next returns the next frame, nil if the terminal does not report its size.
func (p *painter) next(v *View) []string {
	snapshot := v.board.Snapshot()
	p.follow(v.board)
	width, height, err := term.GetSize(v.w.Fd())
	if err != nil || width <= 0 {
		return nil
	}
	return Frame(&snapshot, p.trail, width, height-1) // leave one row for printed lines
}

// follow fetches the new points.
func (p *painter) follow(b *live.Board) {
	points, generation := b.Points(p.generation, len(p.trail.AtS))
	if generation != p.generation {
		p.trail, p.generation = History{}, generation
	}
	for i := range points {
		p.trail.AtS = append(p.trail.AtS, float64(points[i].TNs)/1e9)
		p.trail.PerS = append(p.trail.PerS, points[i].PerS())
	}
}

// write replaces the last frame with the lines to print and the next frame, in one write.
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
	for _, line := range lines {
		fmt.Fprintf(&out, "%s\x1b[K\r\n", clean(line))
	}
	for i, line := range frame {
		if i > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "%s\x1b[K", v.colours.Replace(line))
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

// rows returns how many rows a frame takes now: a narrower window wraps its lines.
func rows(frame []string, w *os.File) int {
	width, n := layout.Columns(w), 0
	for _, line := range frame {
		n += max((layout.TextWidth(line)+width-1)/width, 1)
	}
	return n
}

// RowsMost exceeds the rows of any frame.
const RowsMost = 1000
