package calibrate

import (
	"strings"
	"testing"
	"time"

	"ceiling/record"
)

func TestWanted(t *testing.T) {
	env := record.ReadEnvironment("v1")
	engine := chosen()
	if engine == "" {
		t.Skip("neither io_uring nor epoll here")
	}
	fits := record.Calibration{Host: env.Host, Kernel: env.Kernel, CPUModel: env.CPUModel, CPUs: env.CPUsAllowed, Version: "v1",
		Engine: engine}
	stale := fits
	stale.Version = "v0"
	for _, k := range []struct {
		name     string
		all      []record.Calibration
		engine   string
		measures time.Duration
		want     string // "" not wanted
	}{
		{"the first", nil, "auto", worth, "was not calibrated"},
		{"a short one", nil, "auto", worth - 1, ""},
		{"a number of requests", nil, "auto", 0, ""},
		{"calibrated", []record.Calibration{fits}, "auto", time.Hour, ""},
		{"of an older binary", []record.Calibration{stale}, "", time.Hour, "another version of ceiling (v0, now v1)"},
		{"of another engine", []record.Calibration{fits}, "other", time.Hour, "another engine"},
	} {
		if why := Wanted(k.all, "v1", k.engine, k.measures); (why == "") != (k.want == "") || !strings.Contains(why, k.want) {
			t.Errorf("%s: %q, want %q", k.name, why, k.want)
		}
	}
}
