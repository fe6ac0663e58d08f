package main

import (
	"time"

	"ceiling/check/race"
	"ceiling/check/selftest"
)

// ledgerSchema names the version of Entry.
const ledgerSchema = "ceiling.bench/1"

// Entry is one run of bench: one line of the ledger. Units are in the names:
// _ns nanoseconds, _us microseconds, _ms milliseconds, _s seconds, _per_s per
// second, _bytes bytes.
type Entry struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	// Commit that was checked out; Dirty: with changes, or a file unknown to git.
	Commit   string            `json:"commit"`
	Dirty    bool              `json:"dirty"`
	Host     Host              `json:"host"`
	Tools    map[string]string `json:"tools"` // version by name
	Settings Settings          `json:"settings"`
	TookS    float64           `json:"took_s"`

	Speed  []Row       `json:"speed,omitempty"`
	User   []UserShare `json:"user_space,omitempty"`
	Frozen []Frozen    `json:"frozen,omitempty"`
	Pacing []Pacing    `json:"pacing,omitempty"`
	Floor  []Floor     `json:"floor,omitempty"`
	Hold   *Hold       `json:"hold,omitempty"`
	// Places is where requests were by two methods, Observed what looking costs.
	Places   []PlaceShares `json:"places,omitempty"`
	Observed []Observed    `json:"observed,omitempty"`
	Startup  *Spread       `json:"startup_ms,omitempty"` // from exec to exit with nothing to do
	// StartupCPU is what that takes of a CPU: packages that a run does not need
	// (NATS, parsers, templates) cost it their initialisation all the same.
	StartupCPU *Spread  `json:"startup_cpu_ms,omitempty"`
	Targets    []Target `json:"targets"`

	Race     *race.Result           `json:"race,omitempty"`
	Found    []Found                `json:"found,omitempty"`
	Proofs   []selftest.ProofResult `json:"proofs,omitempty"`
	Compared []Compared             `json:"compared,omitempty"`

	Caveats  []string `json:"caveats,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

// Settings are what a run was asked for.
type Settings struct {
	Rounds      int     `json:"rounds"`
	DurationS   float64 `json:"duration_s"`
	Connections int     `json:"connections"`
	Seed        uint64  `json:"seed"`
	Server      string  `json:"server"`
}

// Row is one tool at one work, over the rounds.
type Row struct {
	Work string `json:"work"`
	Tool string `json:"tool"`
	// CPU per completed request: of the generator's process, of the server's,
	// and of the whole host, where kernel threads show that are nobody's.
	GeneratorNsPerRequest Spread `json:"generator_ns_per_request"`
	ServerNsPerRequest    Spread `json:"server_ns_per_request"`
	// WindowNsPerRequest is the part of ours in the measured window, and OutsideMs the
	// rest, of a whole run: what it takes to begin, to judge and to write.
	WindowNsPerRequest *Spread `json:"window_ns_per_request,omitempty"`
	OutsideMs          *Spread `json:"outside_window_ms,omitempty"`
	HostNsPerRequest   Spread  `json:"host_ns_per_request"`
	PerS               Spread  `json:"completed_per_s"`
	// SeenByServer is the server's count of requests over the tool's. What
	// was in flight at the end makes it a little more than 1.
	SeenByServer *Spread `json:"seen_by_server_ratio,omitempty"`
	// OursToThis is the ratio of generator CPU per request, ours to this
	// tool's, round by round.
	OursToThis *Spread `json:"ours_to_this_ratio,omitempty"`
	// WindowToThis is likewise that of our window to the whole of this tool: what is
	// left of the ratio in a run that lasts long.
	WindowToThis *Spread `json:"our_window_to_this_ratio,omitempty"`
}

// UserShare is the user-space CPU of the engine, nanoseconds per request.
type UserShare struct {
	Work string `json:"work"`
	// ByTickNs is the process's user time as getrusage(2) splits it.
	ByTickNs Spread `json:"by_tick_ns_per_request"`
	// SampledNs is the engine's threads' alone: their CPU time by the share of
	// perf's samples that hit user space. Absent without perf.
	SampledNs *float64 `json:"sampled_ns_per_request,omitempty"`
	// Samples are perf's of those threads, UserSamples those in user space.
	Samples     int `json:"samples,omitempty"`
	UserSamples int `json:"user_samples,omitempty"`
}

// Frozen is what a tool says when the server stood still.
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
	// Dispersion is variance over mean of the requests that arrive per 10 ms.
	Dispersion Spread `json:"variance_over_mean"`
	// LagP99Us is sent - due, which only we say.
	LagP99Us *Spread `json:"lag_p99_us,omitempty"`
}

// Floor is the least latency that a tool can see.
type Floor struct {
	Tool         string  `json:"tool"`
	P50Us        Spread  `json:"p50_us"`
	P99Us        Spread  `json:"p99_us"`
	ResolutionUs float64 `json:"resolution_us"` // the last digit that the tool prints
}

// Hold is what connections cost our process: the greatest resident set with
// few and with many of them, all established and each used now and then.
type Hold struct {
	Few                int     `json:"few_connections"`
	Many               int     `json:"many_connections"`
	FewBytes           uint64  `json:"few_resident_bytes"`
	ManyBytes          uint64  `json:"many_resident_bytes"`
	BytesPerConnection float64 `json:"bytes_per_connection"` // of those between
}

// Target is a figure and the most that is aimed at.
type Target struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	Met   bool    `json:"met"`
}

// appendEntry adds a line to the ledger.
func appendEntry(path string, e *Entry) error { return appendLine(path, e) }
