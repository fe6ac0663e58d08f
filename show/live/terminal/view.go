package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
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
type View struct {
	w       *os.File
	program *tea.Program
	model   *model
	release func()
	done    chan struct{}
	err     error

	mu      sync.Mutex
	lines   []string // to be printed above
	printed int      // of these, on their way to the terminal
}

// Show begins to paint. The keyboard is left alone: what the terminal makes of
// Ctrl-C stays as it is, and there is nothing to be put back after a kill.
func Show(w *os.File, environ []string, board *live.Board) *View {
	v := &View{w: w, release: board.Look(), done: make(chan struct{})}
	v.model = &model{board: board, view: v}
	v.program = tea.NewProgram(v.model, tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler(),
		tea.WithFPS(int(2*time.Second/paintEvery)), tea.WithColorProfile(colorprofile.Detect(w, environ)), tea.WithEnvironment(unasked(environ)))
	go func() {
		defer close(v.done)
		_, v.err = v.program.Run()
	}()
	return v
}

// unasked is an environment in which the painter asks the terminal nothing.
// Nobody would read the answers, so they would show up in the shell afterwards.
// It does not ask over SSH, but for terminals that it knows by name; these
// understand what xterm does.
func unasked(environ []string) []string {
	out := []string{"SSH_TTY=/dev/tty"}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "TERM_PROGRAM" || name == "WT_SESSION" || name == "SSH_TTY":
			continue
		case name == "TERM" && !strings.HasPrefix(value, "screen") && !strings.HasPrefix(value, "tmux") && value != "linux":
			e = "TERM=xterm-256color"
		}
		out = append(out, e)
	}
	return out
}

// Print puts a line above the view, where it stays.
func (v *View) Print(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, line)
}

// next are the lines that are not on their way yet.
func (v *View) next() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := slices.Clone(v.lines[v.printed:])
	v.printed = len(v.lines)
	return lines
}

// arrived forgets lines that the terminal has.
func (v *View) arrived(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = v.lines[n:]
	v.printed -= n
}

// left are the lines that have not arrived.
func (v *View) left() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.lines)
}

// Close takes the view away. A terminal that does not read is left as it is
// after two seconds; what was to be printed is answered then.
func (v *View) Close() (unprinted []string, err error) {
	defer v.release()
	go v.program.Send(finish{})
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-v.done:
		return v.left(), errors.Join(v.err, v.erase())
	case <-timer.C:
		return v.left(), nil
	}
}

// erase takes the last frame away: the painter leaves it, with the cursor in its
// last line. (Bubble Tea 2.0.9 does not go up to erase a frame whose successor
// has fewer lines, so it never gets one.)
func (v *View) erase() error {
	up := ""
	if n := v.model.tallest; n > 1 {
		up = fmt.Sprintf("\x1b[%dA", n-1)
	}
	_, err := io.WriteString(v.w, "\r"+up+"\x1b[J")
	return err
}

// finish ends the view, tick makes the next frame, arrived tells of lines that
// the terminal has taken.
type (
	finish  struct{}
	tick    struct{}
	arrived int
)

// model is the state of the painter.
type model struct {
	board         *live.Board
	view          *View
	width, height int
	snapshot      live.Snapshot
	trail         Trail
	generation    int
	// tallest is how many lines a frame has had: none gets fewer.
	tallest int
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return next() }

func next() tea.Cmd { return tea.Tick(paintEvery, func(time.Time) tea.Msg { return tick{} }) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		m.board.Spent(live.CPUTime(m.look))
		return m, tea.Batch(next(), m.printed())
	case arrived:
		m.view.arrived(int(msg))
	case finish:
		return m, tea.Sequence(m.printed(), tea.Quit)
	}
	return m, nil
}

// printed prints what has come meanwhile.
func (m *model) printed() tea.Cmd {
	lines := m.view.next()
	if len(lines) == 0 {
		return nil
	}
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return tea.Sequence(tea.Println(strings.Join(lines, "\n")), func() tea.Msg { return arrived(len(lines)) })
}

// look takes what is new from the board.
func (m *model) look() {
	m.snapshot = m.board.Snapshot()
	points, generation := m.board.Points(m.generation, len(m.trail.AtS))
	if generation != m.generation {
		m.trail, m.generation = Trail{}, generation
	}
	for i := range points {
		m.trail.AtS = append(m.trail.AtS, float64(points[i].TNs)/1e9)
		m.trail.PerS = append(m.trail.PerS, points[i].PerS())
	}
}

// View implements tea.Model.
func (m *model) View() tea.View {
	var lines []string
	if m.width > 0 {
		// One row stays free for the cursor.
		lines = Frame(&m.snapshot, m.trail, m.width, m.height-1)
	}
	m.tallest = max(min(m.tallest, m.height-1), len(lines), 1)
	for len(lines) < m.tallest {
		lines = append(lines, "")
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	// What is pasted is pasted as ever: nobody reads it here. The cursor is hidden
	// and comes back at the end; to show it Bubble Tea would change its shape.
	view.DisableBracketedPasteMode = true
	return view
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
