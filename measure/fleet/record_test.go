//go:build linux

package fleet

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/measure/fleet/controller"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestRecordOfSeveral: a run of three agents and an observer is kept with who
// took part, from its beginning on, and with what each of them did.
func TestRecordOfSeveral(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	b := newBed(t, controller.Options{})
	b.agents(3, func(o *AgentOptions) { o.engine = loadOnly })
	w, _ := b.work(WorkOptions{Agents: 3})
	dir := filepath.Join(t.TempDir(), "run")
	var began record.Start
	options := run.Options{Out: dir, Work: w}
	options.Listen(func(e run.Event) {
		if e.Began != nil {
			began = *e.Began
		}
	})
	done, err := run.Do(t.Context(), request(server.URL+"/", nil), options)
	if err != nil || done.KeepErr != nil {
		t.Fatal(err, done)
	}
	tail, err := record.OpenTail(record.File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	first, err := tail.Next()
	if err != nil || first.Start == nil {
		t.Fatal(err, first)
	}
	for where, start := range map[string]record.Start{"told": began, "kept": *first.Start} {
		if len(start.Agents) != 3 || start.Agents[0].Name != "a1" || !start.Agents[0].Loads || start.Agents[0].Share.Of != 3 ||
			start.Agents[0].Environment.BootID == "" {
			t.Errorf("%s: agents %+v", where, start.Agents)
		}
	}
	r, series, err := record.Open(record.File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]uint64{}
	for _, row := range series.Agents {
		if !row.Warmup {
			rows[row.Host] += row.Completed
		}
	}
	for _, a := range r.Agents {
		if rows[a.Name] != a.Requests.Completed || a.Requests.Completed == 0 {
			t.Errorf("agent %s: rows have %d, its account %d", a.Name, rows[a.Name], a.Requests.Completed)
		}
	}
	for _, text := range []string{"do not add up", "do not balance", "was lost"} {
		if strings.Contains(prose.Sentence(r.Verdict.Because), text) {
			t.Errorf("verdict: %s", r.Verdict.Because)
		}
	}
}
