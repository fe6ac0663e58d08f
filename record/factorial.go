package record

// Factorial is the answer of a factorial experiment: the effect of each factor, and which factors
// interact.
type Factorial struct {
	Factors []FactorLevels  `json:"factors"`
	Cells   []FactorialCell `json:"cells"`
	// Effects of every factor, then of every pair of factors, metric by metric.
	Effects []Effect `json:"effects"`
	// Blocks in which every cell ran, whatever the outcome.
	Blocks int `json:"blocks"`
	// Comparisons is the number of effects for which the joint confidence of all intervals is
	// corrected.
	Confidence  float64 `json:"confidence"`
	Comparisons int     `json:"comparisons"`
	// Answer has a statement for every effect worth mentioning.
	Answer  []Statement `json:"answer"`
	Caveats []Statement `json:"caveats,omitempty"`
}

// FactorLevels is one factor with the names of its levels.
type FactorLevels struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"` // names; the others are compared with the first
}

// FactorialCell is one combination of levels with all its runs.
type FactorialCell struct {
	// Levels are indices into each factor's.
	Levels []int `json:"levels"`
	Runs   int   `json:"runs"` // in whole blocks
	// Invalid runs are not used; Because gives the reason of one of them. A LeftOut cell has too
	// few valid runs: effects are estimated without it.
	Invalid int         `json:"invalid"`
	Because []Statement `json:"because,omitempty"`
	LeftOut bool        `json:"left_out,omitempty"`
	// Medians of the runs used, each with a 95 % interval.
	PerS        Estimate   `json:"per_s"`
	ServerCPUNs Estimate   `json:"server_cpu_ns"` // per request
	P99Ns       Estimate   `json:"p99_ns"`        // of the runs' p99
	Bottleneck  Bottleneck `json:"bottleneck"`    // that most of its runs have
}

// Decisions of an Effect, in addition to NoChange and CannotTell.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Effect is what one level of a factor does to a metric relative to the factor's first level, or
// how one level of a second factor changes that.
type Effect struct {
	// Metric is "rps", "p99" or "server_cpu".
	Metric string `json:"metric"`
	// Factor, and the index of the level compared with level 0.
	Factor string `json:"factor"`
	Level  int    `json:"level"`
	// With is the second factor of an interaction, "" for a main effect; WithLevel is its level
	// that is compared with its level 0.
	With      string `json:"with,omitempty"`
	WithLevel int    `json:"with_level,omitempty"`
	// Pairs of cells that differ only in this, and blocks that had them all.
	Pairs  int `json:"pairs"`
	Blocks int `json:"blocks"` // that have all these cells
	// Relative is the ratio of the two levels − 1; for an interaction, the ratio of the effects
	// with and without it − 1. It is the geometric mean over all pairs.
	Relative Estimate `json:"relative"`
	// Given are the effects of Factor with With at its level 0 and at WithLevel.
	Given []Estimate `json:"given,omitempty"`
	// Decision is Higher, Lower, NoChange or CannotTell.
	Decision string `json:"decision"`
	// Within is the ± share within which "no change" was shown, or is required if it was not
	// shown.
	Within float64 `json:"within"`
	// MoreBlocks is roughly how many more would settle it; 0 if unknown.
	MoreBlocks int `json:"more_blocks,omitempty"`
	// Says is the effect as a statement.
	Says Statement `json:"says"`
	// PerBlock has ln(1 + Relative) of every block.
	PerBlock []float64 `json:"per_block"`
}
