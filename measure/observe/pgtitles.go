//go:build linux

package observe

import (
	"bytes"
	"cmp"
	"slices"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The titles of PostgreSQL's processes (src/backend/utils/misc/ps_status.c): each backend serves
// one client and writes its activity into its command line, "postgres: USER DATABASE HOST(PORT)
// UPDATE waiting", the last word while it waits for a lock of another session. With
// update_process_title=off nothing follows the client.

const (
	// titlesMost bounds how many titles one sample reads, 1 ms.
	titlesMost = 64
	// titleCommands bounds a row.
	titleCommands = 4
)

// title is one process's activity.
type title struct {
	command                    []byte // "UPDATE"; "": idle
	inTransaction, lockWaiting bool
}

// parseTitle parses a title, the text of /proc/PID/cmdline. ok is false for a process that serves
// no client, or does not show its activity.
func parseTitle(text []byte) (t title, ok bool) {
	c := sys.Cursor{Text: bytes.TrimRight(text, "\x00 \n")}
	if at := bytes.IndexByte(c.Text, 0); at >= 0 || string(c.Word()) != "postgres:" {
		return t, false // the first process's arguments
	}
	for {
		w := c.Word()
		if len(w) == 0 || string(w) == "walsender" {
			return t, false
		}
		if string(w) == "[local]" || len(w) > 2 && w[len(w)-1] == ')' && bytes.IndexByte(w, '(') > 0 {
			break
		}
	}
	t.command = c.Word()
	switch string(t.command) {
	case "", "startup", "authentication", "initializing":
		return t, false
	case "idle":
		t.command = nil
		t.inTransaction = string(c.Word()) == "in"
		return t, true
	}
	t.lockWaiting = bytes.HasSuffix(c.Text, []byte(" waiting"))
	return t, true
}

// titleSampler reads the titles.
type titleSampler struct {
	t       *tools
	subject *subject
}

func (s *titleSampler) sample(at tick, emit Emit) error {
	row := &record.TitlesRow{ObservedHead: at.head(record.KindTitles)}
	row.WidthNs = 0 // gauges only
	left := titlesMost
	for _, p := range s.subject.processes {
		if p.gone || p.identity.role == record.RoleGenerator || p.identity.comm != "postgres" ||
			p.identity.role == record.RolePeer && s.subject.isSubject(p.identity.pid) { // the server's own child, which it is connected to
			continue
		}
		if left--; left < 0 {
			row.Cut = true
			break
		}
		text, err := s.t.r.below(p.dir, s.t.path.of("cmdline").end())
		if err != nil && !vanished(err) && err != syscall.EACCES {
			return err
		}
		if t, ok := parseTitle(text); err == nil && ok {
			s.count(&t, row)
		}
	}
	if row.Sessions == 0 {
		return nil
	}
	slices.SortFunc(row.Commands, func(a, b record.TitleCommand) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Command, b.Command))
	})
	row.Commands = row.Commands[:min(len(row.Commands), titleCommands)]
	emit(row)
	return nil
}

func (s *titleSampler) count(t *title, r *record.TitlesRow) {
	r.Sessions++
	switch {
	case t.inTransaction:
		r.IdleInTransaction++
	case t.command != nil:
		r.Active++
	}
	if !t.lockWaiting {
		return
	}
	r.Waiting++
	command := s.t.names.of(t.command)
	i := slices.IndexFunc(r.Commands, func(c record.TitleCommand) bool { return c.Command == command })
	if i < 0 {
		i = len(r.Commands)
		r.Commands = append(r.Commands, record.TitleCommand{Command: command})
	}
	r.Commands[i].Sessions++
}

func (s *titleSampler) close() {}
