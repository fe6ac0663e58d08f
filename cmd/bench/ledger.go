package main

import (
	"time"

	"ceiling/check/race"
	"ceiling/check/selftest"
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

	Speed        []Row          `json:"speed,omitempty"`
	User         []UserShare    `json:"user_space,omitempty"`
	Frozen       []Frozen       `json:"frozen,omitempty"`
	Pacing       []Pacing       `json:"pacing,omitempty"`
	LeastLatency []LeastLatency `json:"floor,omitempty"`
	Hold         *Hold          `json:"hold,omitempty"`
	// Places compares two methods of locating requests, Observed is the cost of observing.
	Places   []PlaceShares `json:"places,omitempty"`
	Observed []Observed    `json:"observed,omitempty"`
	Startup  *Spread       `json:"startup_ms,omitempty"` // from exec to exit with nothing to do
	// StartupCPU is the CPU time of startup: packages that a run does not use (NATS, parsers,
	// templates) still cost their initialisation.
	StartupCPU *Spread  `json:"startup_cpu_ms,omitempty"`
	Targets    []Target `json:"targets"`

	Race     *race.Result           `json:"race,omitempty"`
	Found    []SearchTrial          `json:"found,omitempty"`
	Proofs   []selftest.ProofResult `json:"proofs,omitempty"`
	Compared []Compared             `json:"compared,omitempty"`

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

// Frozen is a tool's result for a server that froze.
type Frozen struct {
	Tool    string  `json:"tool"`
	P99Ms   float64 `json:"p99_ms"`
	TruthMs float64 `json:"truth_ms"`
	FrozeMs float64 `json:"froze_ms"`
	// Error is (P99 - Truth) / Truth.
	Error float64 `json:"error_share"`
}

// Pacing is how evenly a tool's requests arrive.
type Pacing struct {
	Tool      string `json:"tool"`
	AskedPerS int    `json:"target_per_s"`
	SeenPerS  Spread `json:"seen_per_s"`
	// Dispersion is the variance divided by the mean of the requests that arrive per 10 ms.
	Dispersion Spread `json:"variance_over_mean"`
	// LagP99Us is sent - due, which only our tool reports.
	LagP99Us *Spread `json:"lag_p99_us,omitempty"`
}

// LeastLatency is the lowest latency that a tool can measure.
type LeastLatency struct {
	Tool         string  `json:"tool"`
	P50Us        Spread  `json:"p50_us"`
	P99Us        Spread  `json:"p99_us"`
	ResolutionUs float64 `json:"resolution_us"` // of the tool's output
}

// Hold is the memory cost of connections in our process: the peak resident set with few and with
// many, all established and each used occasionally.
type Hold struct {
	Few                int     `json:"few_connections"`
	Many               int     `json:"many_connections"`
	FewBytes           uint64  `json:"few_resident_bytes"`
	ManyBytes          uint64  `json:"many_resident_bytes"`
	BytesPerConnection float64 `json:"bytes_per_connection"` // averaged over the difference
}

// Target is a figure and its target maximum.
type Target struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	Met   bool    `json:"met"`
}

// appendEntry appends a line to the ledger.
func appendEntry(path string, e *Entry) error { return appendLine(path, e) }
