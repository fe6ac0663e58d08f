package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ceiling/check/race"
	"ceiling/internal/sys"
	"ceiling/record"
)

// ledgerSchema is the version of Entry.
const ledgerSchema = "ceiling.bench/1"

// Entry is one run of bench: one line of the ledger. Units are in the names:
// _ns nanoseconds, _us microseconds, _ms milliseconds, _s seconds, _per_s per
// second, _bytes bytes.
type Entry struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	// Commit that was checked out; Dirty: with changes, or untracked files.
	Commit   string            `json:"commit"`
	Dirty    bool              `json:"dirty"`
	Host     Host              `json:"host"`
	Tools    map[string]string `json:"tools"` // version by name
	Settings Settings          `json:"settings"`
	TookS    float64           `json:"took_s"`

	Speed   []Row       `json:"speed,omitempty"`
	User    []UserShare `json:"user_space,omitempty"`
	Startup *Spread     `json:"startup_ms,omitempty"` // from exec to exit with nothing to do
	// StartupCPU is the CPU time of startup: packages that a run does not use (NATS, parsers,
	// templates) still cost their initialisation.
	StartupCPU *Spread  `json:"startup_cpu_ms,omitempty"`
	Targets    []Target `json:"targets"`

	Race *race.Result `json:"race,omitempty"`

	Caveats  []string `json:"caveats,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

// Settings are the settings of a run.
type Settings struct {
	Rounds      int     `json:"rounds"`
	DurationS   float64 `json:"duration_s"`
	Connections int     `json:"connections"`
	Seed        uint64  `json:"seed"`
	Server      string  `json:"server"`
}

// Row is one tool on one work, over the rounds.
type Row struct {
	Work string `json:"work"`
	Tool string `json:"tool"`
	// CPU per completed request: of the generator's process, of the server's, and of the whole
	// host, including kernel threads that belong to neither.
	GeneratorNsPerRequest Spread `json:"generator_ns_per_request"`
	ServerNsPerRequest    Spread `json:"server_ns_per_request"`
	// WindowNsPerRequest is our CPU in the measured window, and OutsideMs the rest of a whole
	// run: startup, verdict and writing.
	WindowNsPerRequest *Spread `json:"window_ns_per_request,omitempty"`
	OutsideMs          *Spread `json:"outside_window_ms,omitempty"`
	HostNsPerRequest   Spread  `json:"host_ns_per_request"`
	PerS               Spread  `json:"completed_per_s"`
	// SeenByServer is the server's request count divided by the tool's. Requests in flight at the
	// end make it slightly more than 1.
	SeenByServer *Spread `json:"seen_by_server_ratio,omitempty"`
	// OursToThis is our generator CPU per request divided by this tool's, round by round.
	OursToThis *Spread `json:"ours_to_this_ratio,omitempty"`
	// WindowToThis is our window divided by this tool's whole run: the ratio that a long run
	// approaches.
	WindowToThis *Spread `json:"our_window_to_this_ratio,omitempty"`
	// ServerToThis is the server's CPU per request under our load divided by that under this tool's,
	// PerSToThis the same for the rate.
	ServerToThis *Spread `json:"server_under_ours_to_this_ratio,omitempty"`
	PerSToThis   *Spread `json:"completed_per_s_ours_to_this_ratio,omitempty"`
}

// UserShare is the engine's user-space CPU, nanoseconds per request.
type UserShare struct {
	Work string `json:"work"`
	// ByTickNs is the process's user time according to getrusage(2).
	ByTickNs Spread `json:"by_tick_ns_per_request"`
	// SampledNs covers the engine's threads only: their CPU time times the share of perf's
	// samples in user space. Absent without perf.
	SampledNs *float64 `json:"sampled_ns_per_request,omitempty"`
	// Samples are perf's samples of those threads, UserSamples those in user space.
	Samples     int `json:"samples,omitempty"`
	UserSamples int `json:"user_samples,omitempty"`
}

// Target is a figure and its target maximum.
type Target struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	Met   bool    `json:"met"`
}

// appendLine appends a line of JSON to a ledger in a single write, so that a line is complete or
// absent.
func appendLine(path string, what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// Host is the machine of a run.
type Host struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"` // that this process may use
	Go     string `json:"go"`    // that built this command
}

func readHost() Host {
	env := record.ReadEnvironment("")
	return Host{Kernel: env.Kernel, CPU: cmp.Or(env.CPUModel, runtime.GOARCH), Cores: runtime.NumCPU(), Go: env.Go}
}

// commit returns the checked-out commit, and whether anything but the ledger differs from it.
func commit(ctx context.Context) (id string, dirty bool, err error) {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown", true, fmt.Errorf("git rev-parse: %w", err)
	}
	status, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/", ":(exclude,top)docs/journal/bench.ndjson").Output()
	if err != nil {
		return "unknown", true, fmt.Errorf("git status: %w", err)
	}
	return strings.TrimSpace(string(head)), len(bytes.TrimSpace(status)) > 0, nil
}

// bytesRead returns the bytes that the process has read by read(2) and related calls, sockets
// included: rchar of /proc/PID/io. A kernel without CONFIG_TASK_IO_ACCOUNTING lacks this file.
func bytesRead(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return sys.FieldCount(text, "rchar")
}
