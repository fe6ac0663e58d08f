package run

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"ceiling/record"
)

// executableMax bounds what is read of a program without a build ID: at 1 GB/s, a tenth of a
// second.
const executableMax = 100 << 20

// sightings are the server's processes from the observer's rows: start time by PID. One goroutine
// at a time uses them.
type sightings struct{ of map[int]sighting }

type sighting struct {
	startTicks uint64
	comm       string
}

// see records the processes of a row.
func (s *sightings) see(row record.ObservedRow) {
	r, ok := row.(*record.SubjectRow)
	if !ok || r.Role != record.RoleSubject || s.of[r.PID].startTicks != 0 {
		return
	}
	if s.of == nil {
		s.of = map[int]sighting{}
	}
	s.of[r.PID] = sighting{r.StartTicks, r.Comm}
}

// identify reads which program each process of the subject runs and how it was started. It runs
// after the window, so as not to disturb it, and notes what it may not read.
func (s *sightings) identify(host string) (list []Identity, missing []record.NotMeasured) {
	known := map[executable]string{}
	var first error
	missed := 0
	for _, pid := range slices.Sorted(maps.Keys(s.of)) {
		id, seen := Identity{Host: host, PID: pid}, s.of[pid]
		if err := identifyProcess(&id, seen.startTicks, known); err != nil {
			missed++
			if first == nil {
				first = fmt.Errorf("process %d (%s): %w", pid, seen.comm, err)
			}
		}
		list = append(list, id)
	}
	if first == nil {
		return list, nil
	}
	why := first.Error()
	if missed > 1 {
		why = fmt.Sprintf("%s; and %d more", why, missed-1)
	}
	return list, []record.NotMeasured{{What: "the server's program and environment", Why: why, Host: host}}
}

// identified adds what was found about the server to the record.
func identified(s *record.Subject, info *ServerInfo) {
	if s == nil {
		return
	}
	s.Observing = info.Observing
	for _, id := range info.Identities {
		for i := range s.Processes {
			if p := &s.Processes[i]; p.PID == id.PID && s.Host == id.Host {
				p.BinaryID, p.GOMAXPROCS = id.BinaryID, id.GOMAXPROCS
			}
		}
	}
}

// identifyProcess fills in what /proc says about a process, unless it has ended.
func identifyProcess(p *Identity, began uint64, known map[executable]string) error {
	dir := fmt.Sprintf("/proc/%d/", p.PID)
	if now, err := startTicks(p.PID); err != nil || now != began {
		return errors.New("it had ended when the run was over")
	}
	environ, envErr := os.ReadFile(dir + "environ")
	if envErr == nil {
		p.GOMAXPROCS = gomaxprocs(environ)
	}
	id, err := programOf(dir+"exe", known)
	p.BinaryID = id
	return errors.Join(err, envErr)
}

// gomaxprocs returns the GOMAXPROCS that the process was started with, from /proc/PID/environ; 0 if
// unset.
func gomaxprocs(environ []byte) int {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if text, ok := strings.CutPrefix(string(entry), "GOMAXPROCS="); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// executable identifies a file, whatever its name: the children of one server run the same.
type executable struct {
	size    int64
	changed int64
	name    string
}

// programOf returns the ID of the program behind /proc/PID/exe, the running file even if another
// has since taken its name.
func programOf(path string, known map[executable]string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	name, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	key := executable{info.Size(), info.ModTime().UnixNano(), name}
	if id := known[key]; id != "" {
		return id, nil
	}
	id := buildID(f)
	if id == "" {
		if info.Size() > executableMax {
			return "", fmt.Errorf("%s has no build ID and is too large to be read (%d MB)", name, info.Size()>>20)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
			return "", err
		}
		id = "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16])
	}
	known[key] = id
	return id, nil
}

// ELF notes that identify a build: a type is specific to its owner.
const (
	noteGNU = 3 // NT_GNU_BUILD_ID, ELF gABI supplement: a hash of the content
	noteGo  = 4 // cmd/internal/buildid: action IDs and content IDs in base64
)

// buildID returns the linker's ID of an ELF file; "" if it has none. Go's own comes first, because
// the GNU one of a Go program is derived from it. The ID of a Go program ends in a hash of its
// content.
func buildID(r io.ReaderAt) string {
	f, err := elf.NewFile(r)
	if err != nil {
		return ""
	}
	for _, kind := range []struct {
		section, owner string
		note           uint32
	}{{".note.go.buildid", "Go\x00\x00", noteGo}, {".note.gnu.build-id", "GNU\x00", noteGNU}} {
		s := f.Section(kind.section)
		if s == nil || s.Size > 4<<10 {
			continue
		}
		data, err := s.Data()
		if err != nil {
			continue
		}
		id := noteOf(data, f.ByteOrder.Uint32, kind.owner, kind.note)
		switch {
		case len(id) == 0:
		case kind.note == noteGNU:
			return "gnu:" + hex.EncodeToString(id)
		default:
			return "go:" + string(id)
		}
	}
	return ""
}

// noteOf returns the content of a note: sizes of name and content, type, name, content (gABI, "Note
// Section"); nil if it is another.
func noteOf(data []byte, word func([]byte) uint32, owner string, kind uint32) []byte {
	const head = 12
	if len(data) < head+4 || word(data) != 4 || word(data[8:]) != kind || string(data[head:head+4]) != owner {
		return nil
	}
	rest, size := data[head+4:], word(data[4:])
	if uint64(size) > uint64(len(rest)) {
		return nil
	}
	return rest[:size]
}

// listenersOf says how many sockets share the server's address, and how the connections are
// distributed over its processes: a copy of the record may lack the rows.
func listenersOf(s *record.Subject, series *record.Series, processes map[int]*record.SubjectProcess) {
	rows := slices.DeleteFunc(slices.Clone(series.Observed.Listeners), func(r *record.ListenerRow) bool { return r.Host != s.Host })
	s.Sharing, _ = record.SharedListeners(rows)
	held := record.ConnectionsHeld(rows)
	for pid, p := range processes {
		if held != nil {
			n := held[pid]
			p.Connections = &n
		}
	}
}

// subjectOf names the server's processes and their usage in the window; nil if none was found on an
// observed host. One host serves an address; if several agents on one machine report it, it takes
// the one that identified the processes, or else the first.
func subjectOf(r *record.Run, series *record.Series, w *RunResult) *record.Subject {
	s := &record.Subject{Address: w.Target}
	if len(w.Identities) > 0 {
		s.Host = w.Identities[0].Host
	}
	byPID := map[int]*record.SubjectProcess{}
	for _, row := range series.Observed.Subjects {
		if row.Role == record.RoleSubject && byPID[row.PID] == nil && (s.Host == "" || s.Host == row.Host) {
			s.Host = row.Host
			byPID[row.PID] = &record.SubjectProcess{PID: row.PID, Comm: row.Comm, Exe: row.Exe, CPUsAllowed: row.CPUsAllowed}
		}
	}
	if len(byPID) == 0 {
		return nil
	}
	var covered, total int64
	for _, row := range series.Observed.Processes {
		p := byPID[row.PID]
		if p == nil || row.Role != record.RoleSubject || row.Host != s.Host || row.TNs <= 0 {
			continue
		}
		// A row that began before the window counts for the part inside.
		used := row.CPUNs
		if inside := min(row.WidthNs, row.TNs); row.WidthNs > 0 {
			used = int64(float64(used) * float64(inside) / float64(row.WidthNs))
		}
		p.CPUNs += used
		p.Threads = row.Threads
		total += used
		covered = max(covered, row.TNs)
	}
	listenersOf(s, series, byPID)
	for _, p := range byPID {
		s.Processes = append(s.Processes, *p)
	}
	slices.SortFunc(s.Processes, func(a, b record.SubjectProcess) int {
		return cmp.Or(cmp.Compare(b.CPUNs, a.CPUNs), cmp.Compare(a.PID, b.PID))
	})
	// The last sample ends slightly before or after the window; the CPU time is divided by the
	// requests of the time it covers.
	if share := float64(covered) / 1e9 / r.ElapsedS; r.Requests.Completed > 0 && share > 0 {
		s.CPUNsPerRequest = float64(total) / (float64(r.Requests.Completed) * share)
	}
	return s
}
