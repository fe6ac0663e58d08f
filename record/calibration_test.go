package record

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// calibrated is a calibration with a cost, in ns, for every pipelining and size.
func calibrated(cost map[int]map[float64]float64) *Calibration {
	c := &Calibration{Schema: CalibrationSchema, Host: "h", Kernel: "6.1", CPUModel: "cpu", CPUs: "0-3", Version: "v1", Engine: "uring"}
	for depth, sizes := range cost {
		for bytes, ns := range sizes {
			c.Points = append(c.Points, CalibrationPoint{Pipelining: depth, ResponseBytes: bytes, CapacityPerS: Repeated{Median: 1e9 / ns}})
		}
	}
	return c
}

func TestCoreNsPerRequest(t *testing.T) {
	c := calibrated(map[int]map[float64]float64{
		1:   {100: 4000, 10_000: 8000},
		16:  {100: 400, 10_000: 4000},
		100: {100: 200, 10_000: 2000},
	})
	for _, k := range []struct {
		depth int
		bytes float64
		want  float64 // 0: an error
	}{
		{1, 100, 4000}, {1, 10_000, 8000}, {16, 100, 400}, {100, 10_000, 2000},
		{1, 1000, 4000 * math.Sqrt2},    // the middle in logarithms
		{4, 100, math.Sqrt(4000 * 400)}, // likewise
		{40, 100, math.Sqrt(400 * 200)},
		{1, 50, 4000}, {1, 49, 0}, // smaller: the nearest, within a factor of 2
		{16, 20_000, 4000 * math.Sqrt2}, {16, 20_001, 0}, // larger: the slope goes on
		{200, 100, 200}, {201, 100, 0},
		{0, 100, 0}, {-1, 100, 0}, {1, 0, 0}, {1, -5, 0}, {1, math.NaN(), 0}, {1, math.Inf(1), 0},
	} {
		got, err := c.CoreNsPerRequest(k.depth, k.bytes)
		if (err != nil) != (k.want == 0) || math.Abs(got-k.want) > 0.02*k.want {
			t.Errorf("pipelining %d, %g bytes: %g, %v; want %g", k.depth, k.bytes, got, err, k.want)
		}
	}
	if _, err := (&Calibration{}).CoreNsPerRequest(1, 100); err == nil {
		t.Error("no points, no error")
	}
}

func TestCostIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := []float64{rapid.Float64Range(50, 400).Draw(t, "small"), rapid.Float64Range(2000, 8000).Draw(t, "middle"),
			rapid.Float64Range(50_000, 200_000).Draw(t, "large")}
		cost := map[int]map[float64]float64{}
		for i, depth := range []int{1, 16, 100} {
			cost[depth] = map[float64]float64{}
			for j, bytes := range sizes {
				ns := rapid.Float64Range(100, 1e4).Draw(t, "ns")
				if j > 0 {
					ns += cost[depth][sizes[j-1]] // a longer answer costs more
				}
				if i > 0 {
					ns = min(ns, cost[[]int{1, 16}[i-1]][bytes]) // a deeper pipeline less
				}
				cost[depth][bytes] = ns
			}
		}
		c := calibrated(cost)
		a, b := rapid.Float64Range(sizes[0]/2, 2*sizes[2]).Draw(t, "a"), rapid.Float64Range(sizes[0]/2, 2*sizes[2]).Draw(t, "b")
		deep, deeper := rapid.IntRange(1, 200).Draw(t, "deep"), rapid.IntRange(1, 200).Draw(t, "deeper")
		at := func(depth int, bytes float64) float64 {
			ns, err := c.CoreNsPerRequest(depth, bytes)
			if err != nil {
				t.Fatalf("%d, %g: %v", depth, bytes, err)
			}
			return ns
		}
		const rounding = 1 + 1e-9
		if a, b := min(a, b), max(a, b); at(deep, a) > at(deep, b)*rounding {
			t.Errorf("%g bytes cost %g, %g bytes %g", a, at(deep, a), b, at(deep, b))
		}
		if d, e := min(deep, deeper), max(deep, deeper); within(sizes, a) && at(d, a)*rounding < at(e, a) {
			t.Errorf("pipelining %d costs %g, %d costs %g", d, at(d, a), e, at(e, a))
		}
	})
}

// within: beyond the largest size the slopes of two depths may cross.
func within(sizes []float64, bytes float64) bool { return bytes <= sizes[len(sizes)-1] }

func TestFitCalibration(t *testing.T) {
	env := Environment{Host: "h", Kernel: "6.1", CPUModel: "cpu", CPUsAllowed: "0-3", Version: "v1"}
	other := func(change func(*Calibration)) Calibration {
		c := *calibrated(nil)
		change(&c)
		return c
	}
	fits := other(func(*Calibration) {})
	for _, k := range []struct {
		name string
		all  []Calibration
		want string // "" fits
	}{
		{"none", nil, "run ceiling doctor --calibrate"},
		{"fits", []Calibration{fits}, ""},
		{"among others", []Calibration{other(func(c *Calibration) { c.Host = "x" }), other(func(c *Calibration) { c.Engine = "epoll" }), fits},
			""},
		{"host", []Calibration{other(func(c *Calibration) { c.Host = "x" })}, "another host (x, now h)"},
		{"kernel", []Calibration{other(func(c *Calibration) { c.Kernel = "5.4" }), other(func(c *Calibration) { c.Host = "x" })},
			"another kernel (5.4, now 6.1); run ceiling doctor --calibrate"},
		{"cpu", []Calibration{other(func(c *Calibration) { c.CPUModel = "" })}, "another CPU (unknown, now cpu)"},
		{"cpus", []Calibration{other(func(c *Calibration) { c.CPUs = "0" })}, "other CPUs (0, now 0-3)"},
		{"version", []Calibration{other(func(c *Calibration) { c.Version = "v0" })}, "another version of ceiling (v0, now v1)"},
		{"engine", []Calibration{other(func(c *Calibration) { c.Engine = "epoll" })}, "--engine uring"},
		{"the nearest", []Calibration{other(func(c *Calibration) { c.Engine = "epoll" }), other(func(c *Calibration) { c.Kernel = "5" })},
			"another kernel"},
	} {
		c, why := FitCalibration(k.all, &env, "uring")
		if (c != nil) != (k.want == "") || !strings.Contains(why, k.want) || c == nil && why == "" {
			t.Errorf("%s: %v, %q; want %q", k.name, c, why, k.want)
		}
	}
}

func TestKeepCalibration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "calibration.json")
	if all, err := ReadCalibrations(path); err != nil || len(all) != 0 {
		t.Fatalf("no file: %v, %v", all, err)
	}
	a := calibrated(map[int]map[float64]float64{1: {100: 4000}})
	b, c, d := *a, *a, *a
	b.Engine = "epoll"
	c.Kernel = "6.2"
	d.Kernel, d.CPUs = "6.2", "1" // as under taskset: beside the other
	for _, keep := range []*Calibration{a, &b, &c, &d} {
		if err := KeepCalibration(path, keep); err != nil {
			t.Fatal(err)
		}
	}
	all, err := ReadCalibrations(path)
	if err != nil {
		t.Fatal(err)
	}
	b.Caveats, c.Caveats, d.Caveats = nil, nil, nil
	if want := []Calibration{b, c, d}; !reflect.DeepEqual(all, want) {
		t.Errorf("kept %+v; want %+v", all, want)
	}
	if err := KeepCalibration(path, &Calibration{Host: "h", Engine: "uring"}); err == nil {
		t.Error("one without points was kept")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"truncated": string(whole[:len(whole)/2]), "empty": "", "foreign": `{"schema":"ceiling.run/3"}`,
		"newer": strings.Replace(string(whole), "calibrations/2", "calibrations/3", 1),
		"inner": strings.Replace(string(whole), "calibration/2", "calibration/9", 1),
		"zero":  strings.Replace(string(whole), `"median": 250000`, `"median": 0`, 1),
		"list":  `[]`,
	} {
		if text == string(whole) {
			t.Fatalf("%s: not changed", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{lastError(ReadCalibrations(path)), KeepCalibration(path, a)} {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "run ceiling doctor --calibrate") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func lastError(_ []Calibration, err error) error { return err }

func TestCalibrationFile(t *testing.T) {
	env := func(data, home string) func(string) string {
		return func(name string) string {
			return map[string]string{"XDG_DATA_HOME": data, "HOME": home}[name]
		}
	}
	for _, k := range []struct{ data, home, want string }{
		{"/data", "/home/a", "/data/ceiling/calibration.json"},
		{"", "/home/a", "/home/a/.local/share/ceiling/calibration.json"},
		{"relative", "/home/a", "/home/a/.local/share/ceiling/calibration.json"},
		{"", "", ""},
	} {
		got, err := CalibrationFile(env(k.data, k.home))
		if got != k.want || (err != nil) != (k.want == "") {
			t.Errorf("%q, %q: %q, %v", k.data, k.home, got, err)
		}
	}
}

func TestRepeatedOf(t *testing.T) {
	for _, k := range []struct {
		values []float64
		want   Repeated
		spread float64
	}{
		{nil, Repeated{}, 0}, {[]float64{4}, Repeated{4, 4, 4}, 0},
		{[]float64{3, 1, 2}, Repeated{2, 1, 3}, 1}, {[]float64{4, 2}, Repeated{3, 2, 4}, 2. / 3},
	} {
		if got := RepeatedOf(k.values); got != k.want || math.Abs(got.Spread()-k.spread) > 1e-12 {
			t.Errorf("%v: %v, %v", k.values, got, got.Spread())
		}
	}
}

// FuzzParseCalibrations: whatever is in the file, what is read can be
// calculated with.
func FuzzParseCalibrations(f *testing.F) {
	path := filepath.Join(f.TempDir(), "c.json")
	if err := KeepCalibration(path, calibrated(map[int]map[float64]float64{1: {100: 4000}, 16: {100: 400, 5000: 900}})); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, 3, 120.0)
	f.Add([]byte(`{"schema":"ceiling.calibrations/2","calibrations":[null]}`), 1, 1.0)
	f.Fuzz(func(t *testing.T, data []byte, depth int, bytes float64) {
		all, err := parseCalibrations(data)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v", err)
			}
			return
		}
		for i := range all {
			ns, err := all[i].CoreNsPerRequest(depth, bytes)
			if err == nil && !(ns > 0 && !math.IsInf(ns, 0)) {
				t.Errorf("%g ns of %s", ns, data)
			}
		}
	})
}

func TestObservingEffort(t *testing.T) {
	for _, k := range []struct{ share, low, want float64 }{
		{0.01, 0, 1}, {0.05, -0.01, 1}, {0.05, 0.019, 1}, {0.05, 0.04, 0.5}, {0.3, 0.2, 0.25},
	} {
		o := &Observing{ServerCPU: Growth{By: k.share, Low: k.low, High: 2 * k.share}}
		if want := fmt.Sprintf("%+.1f%% (%+.1f to %+.1f) CPU/request", 100*k.share, 100*k.low, 200*k.share); !strings.Contains(o.Brief(), want) {
			t.Errorf("%q lacks %q", o.Brief(), want)
		}
		if got := o.Effort(); got != k.want {
			t.Errorf("a cost of %g, at least %g: %g of the effort, want %g", k.share, k.low, got, k.want)
		}
		if less := strings.Contains(o.String(), "as often as usual"); less != (k.want < 1) {
			t.Errorf("%g, at least %g: %q", k.share, k.low, o)
		}
	}
	if e := (*Observing)(nil).Effort(); e != 1 {
		t.Errorf("not measured: %g of the effort", e)
	}
}

// The generator's headroom is the least of its busiest thread's, of the cores that its threads may
// use, and of what was calibrated: with threads above, at and below the cores, pinned, in a cgroup,
// and over agents.
func TestHeadroom(t *testing.T) {
	workers := func(n int, busy float64) []Worker { return slices.Repeat([]Worker{{Busy: busy}}, n) }
	for _, c := range []struct {
		name    string
		threads int
		busy    float64
		env     Environment
		pin     string
		want    float64
	}{
		{"120 threads on 2 cores", 120, .00725, Environment{CoresAllowed: 2}, "", 2 / (120 * .00725)},
		{"as many threads as cores", 2, .4, Environment{CoresAllowed: 2}, "", 2.5},
		{"fewer threads than cores", 1, .4, Environment{CoresAllowed: 8}, "", 2.5},
		{"pinned to one of two", 2, .3, Environment{CoresAllowed: 2}, "1", 1 / .6},
		{"pinned to as many", 2, .3, Environment{CoresAllowed: 8}, "1,3", 2 / .6},
		{"a quota of half a core", 2, .2, Environment{CoresAllowed: 2, CgroupCPUs: .5}, "", 1.25},
		{"used more than is allowed", 4, .6, Environment{CoresAllowed: 2}, "", 1},
		{"calibrated less", 1, .01, Environment{CoresAllowed: 2}, "", 31},
	} {
		r := Run{Load: Load{Threads: c.threads}, Environment: c.env}
		r.Spec.PinGenerator = c.pin
		r.Generator = Generator{BusiestWorker: c.busy, Headroom: 31, Workers: workers(c.threads, c.busy)}
		if got := r.Headroom(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.pin != "" {
			continue
		}
		fleet := Run{Generator: r.Generator, Agents: []Agent{
			{Load: r.Load, Environment: c.env, Generator: r.Generator},
			{Load: Load{Threads: 1}, Environment: Environment{CoresAllowed: 64}, Generator: Generator{BusiestWorker: .01, Headroom: 50}},
		}}
		if got := fleet.Headroom(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s, as an agent: %v, want %v", c.name, got, c.want)
		}
	}
	uncalibrated := Run{Generator: Generator{BusiestWorker: .5}}
	if h, use := uncalibrated.Headroom(), uncalibrated.RoomByUse(); h != 0 || use != 2 {
		t.Errorf("not calibrated: %v, by use %v", h, use)
	}
}
