package record

// Factorial is the answer of a factorial experiment: what each factor does, and
// which change each other's effect.
type Factorial struct {
	Factors []FactorLevels  `json:"factors"`
	Cells   []FactorialCell `json:"cells"`
	// Effects of every factor, then of every pair of factors, metric by metric.
	Effects []Effect `json:"effects"`
	// Blocks in which every cell was run, with whatever outcome.
	Blocks int `json:"blocks"`
	// Comparisons is how many effects the confidence of all intervals together is
	// corrected for.
	Confidence  float64 `json:"confidence"`
	Comparisons int     `json:"comparisons"`
	// Answer has a statement for every effect worth a word.
	Answer  []Statement `json:"answer"`
	Caveats []Statement `json:"caveats,omitempty"`
}

// FactorLevels is one factor with the names of its levels.
type FactorLevels struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// FactorialCell is one combination of levels with all its runs.
type FactorialCell struct {
	// Levels are indices into those of each factor.
	Levels []int `json:"levels"`
	Runs   int   `json:"runs"`
	// Invalid runs are not used; Because says of one of them why. A cell that is
	// LeftOut has too few others: effects are estimated without it.
	Invalid int         `json:"invalid"`
	Because []Statement `json:"because,omitempty"`
	LeftOut bool        `json:"left_out,omitempty"`
	// Medians of the runs that are used, with intervals of 95 % each.
	PerS        Estimate   `json:"per_s"`
	ServerCPUNs Estimate   `json:"server_cpu_ns"`
	P99Ns       Estimate   `json:"p99_ns"`
	Bottleneck  Bottleneck `json:"bottleneck"`
}

// Decisions of an Effect, besides NoChange and CannotTell.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Effect is what one level of a factor does to a metric, against the factor's
// first level; or how one level of a second factor changes that.
type Effect struct {
	// Metric is "rps", "p99" or "server_cpu".
	Metric string `json:"metric"`
	// Factor, and the index of the level that is compared with level 0.
	Factor string `json:"factor"`
	Level  int    `json:"level"`
	// With is the second factor of an interaction, "" of a main effect, and
	// WithLevel the level of it that is compared with its level 0.
	With      string `json:"with,omitempty"`
	WithLevel int    `json:"with_level,omitempty"`
	// Pairs of cells that differ in this alone, and blocks that had them all.
	Pairs  int `json:"pairs"`
	Blocks int `json:"blocks"`
	// Relative is the ratio of the two levels − 1; of an interaction, the ratio of
	// the effects with and without it − 1. Over all pairs it is the geometric mean.
	Relative Estimate `json:"relative"`
	// Given are the effects of Factor with With at its level 0 and at WithLevel.
	Given []Estimate `json:"given,omitempty"`
	// Decision is Higher, Lower, NoChange or CannotTell.
	Decision string `json:"decision"`
	// Within is the ± share that "no change" was shown within, or is asked within
	// where it was not shown.
	Within float64 `json:"within"`
	// MoreBlocks is about how many more would settle it, 0 where that is not known.
	MoreBlocks int `json:"more_blocks,omitempty"`
	// Says is this as a statement.
	Says Statement `json:"says"`
	// PerBlock has ln(1 + Relative) of every block.
	PerBlock []float64 `json:"per_block"`
}
