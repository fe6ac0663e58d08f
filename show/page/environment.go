package page

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
)

// environmentSection lists everything needed to repeat the run: its definition, its command and
// its host.
func environmentSection(run *chart.Run) Section {
	s := of(run, "environment", "Command and environment")
	if len(run.Command) > 0 {
		s.Blocks = append(s.Blocks, Code{commandLine(run.Command)})
	} else {
		s.Blocks = append(s.Blocks, Paragraph{Text: "The command line is not recorded."})
	}
	s.Blocks = append(s.Blocks, Paragraph{Text: host(&run.Environment)})
	spec, err := asked(&run.Spec)
	if err != nil {
		return s.failed(err)
	}
	left := []Block{fieldTable("Test definition", spec)}
	load, err := flat("load", run.Load)
	if err != nil {
		return s.failed(err)
	}
	left = append(left, fieldTable("Load settings", load))
	if run.Subject != nil {
		subject, err := flat("subject", run.Subject)
		if err != nil {
			return s.failed(err)
		}
		left = append(left, fieldTable("The server", subject))
	}
	if run.Database != nil {
		left = append(left, fieldTable("The database", databaseEntries(run.Database)))
	}
	if run.Downstream != nil {
		service, err := flat("downstream", run.Downstream)
		if err != nil {
			return s.failed(err)
		}
		left = append(left, fieldTable("The service that it calls", service))
	}
	env, err := flat("environment", run.Environment)
	if err != nil {
		return s.failed(err)
	}
	of := "Load generator host"
	if len(run.Agents) > 0 {
		of = "Host that started the run"
	}
	s.Blocks = append(s.Blocks, Columns{[][]Block{left, {folded(fieldTable(of, env))}}})
	return s
}

// folded collapses a long table under its caption: host settings are looked up, not read.
func folded(t Table) Table {
	t.Fold = true
	return t
}

// databaseEntries are the database's settings by their own names, and how the server uses it.
func databaseEntries(d *record.Database) []entry {
	list := []entry{{"product", d.Product}}
	if d.Address != "" {
		list = append(list, entry{"asked at", d.Address})
	}
	for _, s := range d.Settings {
		list = append(list, entry{s.Name, s.Value})
	}
	if u := d.Use; u != nil {
		list = append(list, entry{"pool", fmt.Sprint(u.Pool)}, entry{"prepared", fmt.Sprint(u.Prepared)}, entry{"cached", fmt.Sprint(u.Cached)},
			entry{"group commit", fmt.Sprintf("%d writes or %s", u.GroupSize, unit.FormatNs(u.GroupWaitNs))})
	}
	return list
}

// failed adds a note that a part of the page could not be rendered.
func (s Section) failed(err error) Section {
	s.Blocks = append(s.Blocks, Notice{"This part could not be made: " + err.Error()})
	return s
}

// host describes a machine in one sentence.
func host(e *record.Environment) string {
	parts := []string{e.Host}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(e.CPUModel)
	if e.CoresOnline > 0 {
		add(fmt.Sprintf("%d of %d cores allowed", e.CoresAllowed, e.CoresOnline))
	}
	if e.MemoryBytes > 0 {
		add(unit.FormatBytesSI(int64(min(e.MemoryBytes, 1<<62))))
	}
	if e.Virtual != "" {
		add("a virtual machine (" + e.Virtual + ")")
	}
	if e.Kernel != "" {
		add("Linux " + e.Kernel)
	}
	add(e.Arch)
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")
}

// fieldTable lists entries under their names in the record.
func fieldTable(caption string, list []entry) Table {
	t := Table{Caption: caption, Columns: []Column{{Name: "field"}, {Name: "value"}}, Fields: true}
	for _, e := range list {
		_, name, _ := strings.Cut(e.path, ".")
		value := open(e.path, e.value)
		if value == "" {
			value = "–"
		}
		t.Rows = append(t.Rows, []Cell{{Text: name, Code: true}, {Text: value}})
	}
	return t
}

// differences lists what differs between several runs besides the result.
func differences(runs []chart.Run) Section {
	s := Section{ID: "differences", Title: "What differed"}
	lists := make([][]entry, len(runs))
	for i := range runs {
		list, err := conditions(&runs[i])
		if err != nil {
			return s.failed(err)
		}
		lists[i] = list
	}
	t := Table{Caption: "Differences in test definition, hosts and servers", Columns: []Column{{Name: "field"}}}
	for i := range runs {
		t.Columns = append(t.Columns, Column{Name: runs[i].Label})
	}
	maps := make([]map[string]string, len(lists))
	for i := range lists {
		maps[i] = byPath(lists[i])
	}
	for _, path := range paths(lists) {
		if row, differ := differing(path, maps); differ {
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		s.Blocks = []Block{Paragraph{Text: "Nothing: same test, same server, same host. Seeds are not compared."}}
		return s
	}
	s.Blocks = []Block{Notice{fmt.Sprintf("These runs differ in %s. Any of them may explain a difference in the figures below.",
		unit.Plural(len(t.Rows), "condition", "conditions"))}, t}
	return s
}

// differing returns a row of the table, and whether its values differ.
func differing(path string, runs []map[string]string) ([]Cell, bool) {
	row := []Cell{{Text: path, Code: true}}
	differ := false
	for _, m := range runs {
		value, there := m[path]
		first, firstThere := runs[0][path]
		same := value == first && there == firstThere
		differ = differ || !same
		switch {
		case !there || value == "":
			value = "–"
		default:
			shown := open(path, value)
			// Two redacted values without a digest need a note.
			if !same && shown == open(path, first) {
				shown += ", another"
			}
			value = shown
		}
		row = append(row, Cell{Text: value})
	}
	return row, differ
}

// conditions are the fields in which two runs should not differ: the spec without its seed, the
// effective load settings, the host, and the server.
func conditions(run *chart.Run) ([]entry, error) {
	list, err := asked(&run.Spec)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e entry) bool { return e.path == "spec.seed" })
	load, err := flat("load", struct {
		Established int    `json:"established"`
		Threads     int    `json:"threads"`
		Engine      string `json:"engine"`
	}{run.Load.Established, run.Load.Threads, run.Load.Engine})
	if err != nil {
		return nil, err
	}
	env, err := flat("environment", run.Environment)
	if err != nil {
		return nil, err
	}
	// A reboot of the same machine does not matter.
	env = slices.DeleteFunc(env, func(e entry) bool { return e.path == "environment.boot_id" })
	list = append(append(list, load...), env...)
	agents, err := agentConditions(run)
	if err != nil {
		return nil, err
	}
	list = append(list, agents...)
	if d := run.Database; d != nil {
		for _, e := range databaseEntries(d) {
			if e.path != "asked at" { // a throw-away server has another directory each time
				list = append(list, entry{"database." + e.path, e.value})
			}
		}
	}
	if run.Subject == nil {
		return append(list, entry{"subject", "not found"}), nil
	}
	list = append(list, entry{"subject.host", run.Subject.Host}, entry{"subject.processes", fmt.Sprint(len(run.Subject.Processes))})
	if len(run.Subject.Processes) == 0 {
		return list, nil
	}
	// The first stands for its children, which run the same program.
	one := run.Subject.Processes[0]
	one.PID, one.CPUNs, one.Threads = 0, 0, 0 // these differ in any two runs
	program, err := flat("subject.processes[0]", one)
	if err != nil {
		return nil, err
	}
	return append(list, program...), nil
}

// Missing lists the data not collected, and the monitoring overhead.
func Missing(runs []chart.Run) Section {
	s := Section{ID: "missing", Title: "Not measured"}
	for i := range runs {
		run := &runs[i]
		caption := "Data not collected"
		if run.Label != "" {
			caption += ": " + run.Label
		}
		t := Table{Caption: caption, Columns: []Column{{Name: "what"}, {Name: "why"}, {Name: "where"}, {Name: "since"}}}
		for _, n := range run.NotMeasured {
			since := "the start"
			if n.TNs != 0 {
				since = unit.FormatNs(n.TNs)
			}
			what := n.What
			if n.Part {
				what += " (in part)"
			}
			t.Rows = append(t.Rows, []Cell{{Text: what}, {Text: n.Why}, {Text: n.Host}, {Text: since}})
		}
		if len(t.Rows) > 0 {
			s.Blocks = append(s.Blocks, t)
		} else {
			s.Blocks = append(s.Blocks, Paragraph{Text: strings.TrimSpace(run.Label + " All supported sources were collected.")})
		}
		if cost, ok := chart.ObserverCost(run); ok {
			s.Blocks = append(s.Blocks, Paragraph{Text: strings.TrimSpace(run.Label + fmt.Sprintf(" Observing cost %s of one core.",
				unit.Percent(cost))), Quiet: true})
		}
	}
	return s
}
