package run

import (
	"cmp"
	"slices"

	"ceiling/record"
)

// subjectOf names the server's processes and what they used in the window; nil
// where none was found on a watched host. An address is served by one host; where
// several tell of it, agents of one machine, it is the one that identified the
// processes, or else the first.
func subjectOf(r *record.Run, series *record.Series, w *Worked) *record.Subject {
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
	for _, p := range byPID {
		s.Processes = append(s.Processes, *p)
	}
	slices.SortFunc(s.Processes, func(a, b record.SubjectProcess) int {
		return cmp.Or(cmp.Compare(b.CPUNs, a.CPUNs), cmp.Compare(a.PID, b.PID))
	})
	// The last sample ends a little before the window or after it; the CPU is
	// set against the requests of the time it covers.
	if share := float64(covered) / 1e9 / r.ElapsedS; r.Requests.Completed > 0 && share > 0 {
		s.CPUNsPerRequest = float64(total) / (float64(r.Requests.Completed) * share)
	}
	return s
}
