package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/durable"
)

// CalibrationSchema names the version of a Calibration.
const CalibrationSchema = "ceiling.calibration/2"

// Calibration is what one core of this machine's generator can do, measured against the cheapest
// server we know how to build. Later runs are compared with it to estimate the generator's
// headroom.
type Calibration struct {
	Schema  string    `json:"schema"`
	When    time.Time `json:"when"`
	Version string    `json:"version"` // version of the program that measured
	// Host, Kernel, CPUModel, CPUs, Engine and Version are what the figures are valid for; a run
	// that differs in one of them cannot be compared.
	Host     string `json:"host"`
	Kernel   string `json:"kernel"`
	CPUModel string `json:"cpu_model"`
	// CPUs that the generator could choose from, as a list.
	CPUs   string `json:"cpus"`
	Engine string `json:"engine"`
	// GeneratorCPUs and FloorCPUs are the CPU lists of the two sides.
	GeneratorCPUs string `json:"generator_cpus"`
	FloorCPUs     string `json:"floor_cpus"`
	// DurationS of each measurement, in seconds; every point has Repeats of them, interleaved.
	DurationS float64            `json:"duration_s"`
	Repeats   int                `json:"repeats"`
	Points    []CalibrationPoint `json:"points"`
	// Observing is what observing costs a server; nil: not measured.
	Observing *Observing `json:"observing,omitempty"`
	// Caveats say what makes the figures less certain than they look.
	Caveats []string `json:"caveats"`
}

// CalibrationPoint is one condition: a route and a number of requests in flight per connection.
type CalibrationPoint struct {
	Route       string `json:"route"`
	Connections int    `json:"connections"`
	Pipelining  int    `json:"pipelining"`
	// ResponseBytes is the mean size of a response on the wire, head and body.
	ResponseBytes float64 `json:"response_bytes"`
	// RatePerS is what the single thread reached, requests per second; Busy, the share of the
	// time, 0 to 1, that it ran on its CPU; RunDelay, the share that it waited for that CPU, -1
	// if the kernel does not keep it.
	RatePerS Repeated `json:"rate_per_s"`
	Busy     Repeated `json:"busy"`
	RunDelay Repeated `json:"run_delay"`
	// CPUNsPerRequest is the thread's CPU time over its requests, nanoseconds.
	CPUNsPerRequest Repeated `json:"cpu_ns_per_request"`
	// CapacityPerS is what one core can do: the rate if the generator was the limit, otherwise
	// (Derived) rate / busy, a lower bound.
	CapacityPerS Repeated `json:"capacity_per_s"`
	Derived      bool     `json:"derived"`
}

// Repeated is the median of several measurements with the minimum and the maximum.
type Repeated struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// RepeatedOf summarises measurements; without any it returns the zero value.
func RepeatedOf(values []float64) Repeated {
	n := len(values)
	if n == 0 {
		return Repeated{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Repeated{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}
}

// Spread returns (High - Low) / Median; 0 without a median.
func (r Repeated) Spread() float64 {
	if r.Median == 0 {
		return 0
	}
	return (r.High - r.Low) / r.Median
}

// Unfit says how the calibration differs from a run with this engine on this host; "" if it fits.
func (c *Calibration) Unfit(env *Environment, engine string) string {
	differs := func(of, was, is string) string {
		return fmt.Sprintf("the calibration is of %s (%s, now %s); run ceiling doctor --calibrate", of, orNone(was), orNone(is))
	}
	switch {
	case c.Host != env.Host:
		return differs("another host", c.Host, env.Host)
	case c.Kernel != env.Kernel:
		return differs("another kernel", c.Kernel, env.Kernel)
	case c.CPUModel != env.CPUModel:
		return differs("another CPU", c.CPUModel, env.CPUModel)
	case c.CPUs != env.CPUsAllowed:
		return differs("other CPUs", c.CPUs, env.CPUsAllowed)
	case c.Version != env.Version:
		return differs("another version of ceiling", c.Version, env.Version)
	case c.Engine != engine:
		return fmt.Sprintf("the calibration is of another engine (%s, now %s); run ceiling doctor --calibrate --engine %s", orNone(c.Engine),
			orNone(engine), orNone(engine))
	}
	return ""
}

// Method says briefly how it was measured.
func (c *Calibration) Method() string {
	return fmt.Sprintf("calibrated on %s with %s of %g s a point", c.When.Format(time.DateOnly), times(c.Repeats), c.DurationS)
}

func times(n int) string {
	if n == 1 {
		return "1 measurement"
	}
	return fmt.Sprintf("%d measurements", n)
}

func orNone(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// FitCalibration finds the calibration for a run with this engine on this host,
// or says why there is none.
func FitCalibration(all []Calibration, env *Environment, engine string) (*Calibration, string) {
	if len(all) == 0 {
		return nil, "this machine was not calibrated; run ceiling doctor --calibrate"
	}
	why, nearest := "", -1
	for i := range all {
		c := &all[i]
		unfit := c.Unfit(env, engine)
		if unfit == "" {
			return c, ""
		}
		// Report the reason of the calibration nearest to this run.
		near := 0
		if c.Host == env.Host {
			near = 1
			if c.Engine == engine {
				near = 2
			}
		}
		if near > nearest {
			why, nearest = unfit, near
		}
	}
	return nil, why
}

// reach is the factor beyond the measured sizes and pipelining up to which a calibration is
// trusted: a request's fixed cost and its cost per byte both still matter within a factor of two.
const reach = 2

// ObservingOf returns what observing costs on this host; nil if no calibration of it measured that.
func ObservingOf(all []Calibration, env *Environment) *Observing {
	for i := range all {
		if c := &all[i]; c.Observing != nil && c.Unfit(env, c.Engine) == "" {
			return c.Observing
		}
	}
	return nil
}

// CoreNsPerRequest returns the time that one core of the generator takes for a request: 1e9 /
// capacity, interpolated in the logarithms of response size and pipelining. Below the smallest
// size and above the deepest pipelining it uses the nearest figure, which is not too low; above
// the largest size it extrapolates the slope. More than a factor of 2 outside is an error.
func (c *Calibration) CoreNsPerRequest(pipelining int, responseBytes float64) (float64, error) {
	if pipelining < 1 || !(responseBytes > 0) || math.IsInf(responseBytes, 0) {
		return 0, fmt.Errorf("not a calibration condition: pipelining %d, responses of %g bytes", pipelining, responseBytes)
	}
	var depths []int
	for _, p := range c.Points {
		if !slices.Contains(depths, p.Pipelining) {
			depths = append(depths, p.Pipelining)
		}
	}
	slices.Sort(depths)
	if len(depths) == 0 {
		return 0, errors.New("the calibration has no points")
	}
	if least, most := depths[0], depths[len(depths)-1]; pipelining*reach < least || pipelining > most*reach {
		return 0, fmt.Errorf("pipelining of %d is too far from the %d to %d that were calibrated", pipelining, least, most)
	}
	above := max(slices.IndexFunc(depths, func(d int) bool { return d >= pipelining }), 0)
	if depths[len(depths)-1] < pipelining {
		above = len(depths) - 1
	}
	high, err := c.costAt(depths[above], responseBytes)
	if err != nil || above == 0 || depths[above] <= pipelining {
		return high, err
	}
	low, err := c.costAt(depths[above-1], responseBytes)
	if err != nil {
		return 0, err
	}
	return between(float64(pipelining), float64(depths[above-1]), low, float64(depths[above]), high), nil
}

// costAt interpolates over the sizes measured at one pipelining.
func (c *Calibration) costAt(pipelining int, bytes float64) (float64, error) {
	var at []CalibrationPoint
	for _, p := range c.Points {
		if p.Pipelining == pipelining {
			at = append(at, p)
		}
	}
	slices.SortFunc(at, func(a, b CalibrationPoint) int {
		switch {
		case a.ResponseBytes < b.ResponseBytes:
			return -1
		case a.ResponseBytes > b.ResponseBytes:
			return 1
		}
		return 0
	})
	first, last := at[0], at[len(at)-1]
	cost := func(p CalibrationPoint) float64 { return 1e9 / p.CapacityPerS.Median }
	switch {
	case bytes*reach < first.ResponseBytes || bytes > last.ResponseBytes*reach:
		return 0, fmt.Errorf("responses of %.0f bytes are too far from the %.0f to %.0f that were calibrated with a pipelining of %d", bytes,
			first.ResponseBytes, last.ResponseBytes, pipelining)
	case bytes <= first.ResponseBytes:
		return cost(first), nil
	}
	for i := 1; i < len(at); i++ {
		a, b := at[i-1], at[i]
		if bytes <= b.ResponseBytes {
			return between(bytes, a.ResponseBytes, cost(a), b.ResponseBytes, cost(b)), nil
		}
	}
	if len(at) == 1 {
		return cost(last), nil
	}
	before := at[len(at)-2]
	return max(cost(last), between(bytes, before.ResponseBytes, cost(before), last.ResponseBytes, cost(last))), nil
}

// between interpolates linearly between two points in logarithms.
func between(x, x1, y1, x2, y2 float64) float64 {
	if x1 == x2 {
		return max(y1, y2)
	}
	t := math.Log(x/x1) / math.Log(x2/x1)
	return math.Exp(math.Log(y1) + t*math.Log(y2/y1))
}

// check rejects a calibration with unusable numbers.
func (c *Calibration) check() error {
	if c.Host == "" || c.Engine == "" {
		return errors.New("a calibration names no host or no engine")
	}
	if len(c.Points) == 0 {
		return fmt.Errorf("the calibration of %.60q has no points", c.Host)
	}
	for i, p := range c.Points {
		for _, v := range []float64{p.ResponseBytes, p.CapacityPerS.Median} {
			// 1e-3 to 1e12 a second, or bytes: beyond anything real, and far from where a
			// quotient would overflow.
			if !(v >= 1e-3 && v <= 1e12) {
				return fmt.Errorf("point %d of the calibration of %.60q: %g is not a size or a rate", i+1, c.Host, v)
			}
		}
		if p.Pipelining < 1 || p.Pipelining > 1_000_000 {
			return fmt.Errorf("point %d of the calibration of %.60q: pipelining of %d", i+1, c.Host, p.Pipelining)
		}
	}
	return nil
}

// calibrationsSchema names a file of several: a home directory may be shared by hosts, and a host
// has two engines.
const calibrationsSchema = "ceiling.calibrations/2"

type calibrationFile struct {
	Schema       string        `json:"schema"`
	Calibrations []Calibration `json:"calibrations"`
}

// CalibrationFile returns where calibrations are stored: calibration.json beside the runs of
// DefaultStore.
func CalibrationFile(getenv func(string) string) (string, error) {
	dir, err := ownData(getenv)
	if err != nil {
		return "", fmt.Errorf("find the file of calibrations: %w", err)
	}
	return filepath.Join(dir, "calibration.json"), nil
}

// ReadCalibrations reads the file; a missing file has none. A damaged, foreign or newer file is a
// one-line error that says how to fix it.
func ReadCalibrations(path string) ([]Calibration, error) {
	data, err := readAll(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	all, err := parseCalibrations(data)
	if err != nil {
		return nil, fmt.Errorf("calibration: read %s: %w; move it away and run ceiling doctor --calibrate", path, err)
	}
	return all, nil
}

func parseCalibrations(data []byte) ([]Calibration, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if err := calibrationVersion(head.Schema, calibrationsSchema); err != nil {
		return nil, err
	}
	var f calibrationFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	for i := range f.Calibrations {
		c := &f.Calibrations[i]
		if err := calibrationVersion(c.Schema, CalibrationSchema); err != nil {
			return nil, err
		}
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	return f.Calibrations, nil
}

// calibrationVersion is checkSchema's rule for the two schemas of this file.
func calibrationVersion(schema, own string) error {
	name, version, _ := strings.Cut(schema, "/")
	ownName, ownVersion, _ := strings.Cut(own, "/")
	n, err := strconv.Atoi(version)
	top, ownErr := strconv.Atoi(ownVersion)
	switch {
	case name != ownName || err != nil || ownErr != nil || n < 1:
		return fmt.Errorf("its schema is %.40q, not %s", schema, own)
	case n > top:
		return fmt.Errorf("it needs a ceiling that reads %.40q; this one reads up to %s", schema, own)
	}
	return nil
}

// KeepCalibration writes c into the file, replacing an earlier one of the same host, CPUs and
// engine, and those from a previous configuration of its host. It replaces the file atomically
// and leaves an unreadable one alone.
func KeepCalibration(path string, c *Calibration) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	all, err := ReadCalibrations(path)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o Calibration) bool {
		return o.Host == c.Host && o.Engine == c.Engine &&
			(o.CPUs == c.CPUs || o.Kernel != c.Kernel || o.CPUModel != c.CPUModel || o.Version != c.Version)
	})
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	text, err := json.MarshalIndent(calibrationFile{calibrationsSchema, append(all, *c)}, "", "  ")
	if err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	if err := durable.Replace(path, append(text, '\n'), nil); err != nil {
		return fmt.Errorf("keep calibration: write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func readAll(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, documentMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > documentMax {
		return nil, fmt.Errorf("read %s: more than %d bytes", path, documentMax)
	}
	return data, nil
}
