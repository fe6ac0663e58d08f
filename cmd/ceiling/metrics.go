package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/measure/run"
	"ceiling/show/export"
)

// metrics are served to Prometheus during a run; nil serves none.
type metrics struct {
	host   string
	live   *export.Live
	server *export.Server
}

// closeMetrics limits the duration of a scrape in progress at the end.
const closeMetrics = 2 * time.Second

// serveMetrics serves metrics at the address of --prometheus, if there is one.
func serveMetrics(sh *shell, addr string) (*metrics, error) {
	if addr == "" {
		return nil, nil
	}
	host, _ := os.Hostname() // "" if the host has none
	m := &metrics{host: host, live: export.NewLive(export.Identity{Version: command.Version(), Host: host})}
	var err error
	if m.server, err = export.Serve(addr, m.live); err != nil {
		return nil, command.Usage(fmt.Errorf("--prometheus: %w", err))
	}
	fmt.Fprintf(sh.Stderr, "metrics at http://%s/metrics\n", m.server.Addr)
	return m, nil
}

// listen adds the metrics to the run's listeners.
func (m *metrics) listen(o *run.Options) {
	if m == nil {
		return
	}
	o.Listen(func(e run.Event) {
		switch {
		case e.Progress != nil:
			m.live.Feed(e.Progress.Row)
		case e.Began != nil:
			s := e.Began
			id := export.Identity{Run: s.ID, Target: s.Spec.Targets[0].URL, Mode: "closed", Counts: s.Spec.Kind.Many(),
				Version: command.Version(), Host: m.host}
			if s.Spec.Open() {
				id.Mode = "open"
			}
			m.live.Begin(id)
		}
	})
}

// close stops serving.
func (m *metrics) close(sh *shell) {
	if m == nil {
		return
	}
	m.live.Finish()
	ctx, stop := context.WithTimeout(context.Background(), closeMetrics)
	defer stop()
	if err := m.server.Close(ctx); err != nil {
		fmt.Fprintf(sh.Stderr, "ceiling: close --prometheus: %s\n", command.OneLine(err))
	}
}
