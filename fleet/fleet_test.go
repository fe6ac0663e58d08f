package fleet

import (
	"testing"
)

func TestRunOfThree(t *testing.T) {
	b := newBed(t)
	b.agents(3, nil)
	b.agent("web1", func(o *AgentOptions) { o.Loads = false })
	w, _ := b.work(WorkOptions{Agents: 3, Observe: []string{"web1"}})
	var n notes
	worked, err := one(t.Context(), w, request(nobody, nil), &n)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := worked.Result.Total.Completed, uint64(16*1000); got != want {
		t.Errorf("%d completed, want %d", got, want)
	}
	if n.established != 16 || n.asked != 16 || len(n.window) != 2 || len(n.rows) != 10 || len(n.agentRows) != 3 || len(n.observed) != 1 {
		t.Errorf("told: %d of %d, windows %v, %d rows, by agent %v, %d observed", n.established, n.asked, n.window, len(n.rows), n.agentRows, len(n.observed))
	}
	if len(worked.Agents) != 4 {
		t.Errorf("agents: %+v", worked.Agents)
	}
	for _, a := range worked.Agents {
		t.Logf("%+v", a.Clock)
	}
}
