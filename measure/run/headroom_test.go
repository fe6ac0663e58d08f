//go:build linux

package run

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/record"
)

// oneCore is a calibration in which a request costs 4 µs at 100 bytes, twice
// that at 10,000, and a tenth with 16 in flight.
func oneCore() record.Calibration {
	point := func(depth int, bytes, ns float64) record.CalibrationPoint {
		return record.CalibrationPoint{Pipelining: depth, ResponseBytes: bytes, CapacityPerS: record.Repeated{Median: 1e9 / ns}}
	}
	return record.Calibration{
		Schema: record.CalibrationSchema, Host: "h", Kernel: "6.1", CPUModel: "cpu", Engine: "uring",
		Points: []record.CalibrationPoint{point(1, 100, 4000), point(1, 10_000, 8000), point(16, 100, 400), point(16, 10_000, 800)},
	}
}

// finished is a run of one thread with answers of 100 bytes at 50,000 a second,
// for which the calibration has five times as much.
func finished() record.Run {
	return record.Run{
		Environment: record.Environment{Host: "h", Kernel: "6.1", CPUModel: "cpu", CoresAllowed: 4},
		Load:        record.Load{Threads: 1, Pipelining: 1, Engine: "uring"},
		Requests:    record.Requests{Completed: 100_000},
		Rate:        record.Rate{CompletedPerS: 50_000},
		Bytes:       record.Bytes{Read: 10_000_000, Written: 6_000_000},
		Generator:   record.Generator{BusiestWorker: 0.1},
	}
}

func TestHeadroom(t *testing.T) {
	for _, k := range []struct {
		name   string
		change func(*record.Run)
		want   float64
		why    string
	}{
		{"calibrated", func(*record.Run) {}, 5, ""},
		{"own busy time", func(r *record.Run) { r.Generator.BusiestWorker = 0.5 }, 2, ""},
		{"full", func(r *record.Run) { r.Generator.BusiestWorker = 1 }, 1, ""},
		{"beyond the calibration", func(r *record.Run) { r.Rate.CompletedPerS = 500_000 }, 0.5, ""},
		{"larger answers", func(r *record.Run) { r.Bytes.Read = 1_000_000_000 }, 2.5, ""},
		{"two threads", func(r *record.Run) { r.Load.Threads = 2 }, 10, ""},
		{"more threads than CPUs", func(r *record.Run) { r.Load.Threads, r.Environment.CoresAllowed = 4, 2 }, 10, ""},
		{"pinned", func(r *record.Run) { r.Load.Threads, r.Spec.PinGenerator = 2, "3" }, 5, ""},
		{"quota", func(r *record.Run) { r.Load.Threads, r.Environment.CgroupCPUs = 2, 1.5 }, 7.5, ""},
		{"answers too large", func(r *record.Run) { r.Bytes.Read = 5_000_000_000 }, 0, "50000 bytes are too far"},
		{"answers too small", func(r *record.Run) { r.Bytes.Read = 1_000_000 }, 0, "too far"},
		{"pipelining too deep", func(r *record.Run) { r.Load.Pipelining = 40 }, 0, "pipelining of 40"},
		{"large requests", func(r *record.Run) { r.Bytes.Written = 1 << 30 }, 0, "not calibrated"},
		{"nothing", func(r *record.Run) { r.Requests.Completed, r.Rate.CompletedPerS = 0, 0 }, 0, "nothing was completed"},
		{"busy unknown", func(r *record.Run) { r.Generator.BusiestWorker = 0 }, 0, "not measured"},
		{"new connections", func(r *record.Run) { r.Spec.NewConnections = 1 }, 0, "not calibrated"},
		{"no threads", func(r *record.Run) { r.Load.Threads = 0 }, 0, "threads"},
		{"other kernel", func(r *record.Run) { r.Environment.Kernel = "6.2" }, 0, "another kernel (6.1, now 6.2); run ceiling doctor --calibrate"},
		{"other host", func(r *record.Run) { r.Environment.Host = "x" }, 0, "another host"},
		{"other CPU", func(r *record.Run) { r.Environment.CPUModel = "x" }, 0, "another CPU"},
		{"other engine", func(r *record.Run) { r.Load.Engine = "epoll" }, 0, "--engine epoll"},
		{"TLS 1.2", func(r *record.Run) { r.Load.TLS = &record.TLS{Cipher: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"} }, 0, "only ciphers of TLS 1.3"},
		{"no answer read", func(r *record.Run) { r.Bytes.Read = 0 }, 0, "0 bytes"},
	} {
		r := finished()
		k.change(&r)
		got, by, why := headroom(&r, []record.Calibration{oneCore()})
		if math.Abs(got-k.want) > 1e-6 || !strings.Contains(why, k.why) || (got == 0) != (why != "") || (got == 0) != (by == "") {
			t.Errorf("%s: %g, %q; want %g, %q", k.name, got, why, k.want, k.why)
		}
	}
	r := finished()
	if got, _, why := headroom(&r, nil); got != 0 || !strings.Contains(why, "run ceiling doctor --calibrate") {
		t.Errorf("without a calibration: %g, %q", got, why)
	}
}

func TestHeadroomIsBounded(t *testing.T) {
	all := []record.Calibration{oneCore()}
	rapid.Check(t, func(t *rapid.T) {
		r := finished()
		r.Rate.CompletedPerS = rapid.Float64Range(1, 1e7).Draw(t, "rate")
		r.Generator.BusiestWorker = rapid.Float64Range(0.001, 1).Draw(t, "busy")
		r.Load.Threads = rapid.IntRange(1, 16).Draw(t, "threads")
		r.Load.Pipelining = rapid.IntRange(1, 32).Draw(t, "pipelining")
		r.Environment.CoresAllowed = rapid.IntRange(1, 16).Draw(t, "cores")
		r.Bytes.Read = r.Requests.Completed * rapid.Uint64Range(50, 20_000).Draw(t, "bytes")
		got, _, why := headroom(&r, all)
		if why != "" || !(got > 0) {
			t.Fatalf("%g, %q", got, why)
		}
		if got > 1/r.Generator.BusiestWorker {
			t.Errorf("%g times the rate, though %g busy", got, r.Generator.BusiestWorker)
		}
		no := func(name string, change func(*record.Run)) {
			other := r
			change(&other)
			if more, _, why := headroom(&other, all); why != "" || more > got*(1+1e-9) {
				t.Errorf("%s: %g after %g (%s)", name, more, got, why)
			}
		}
		no("a higher rate leaves more", func(o *record.Run) { o.Rate.CompletedPerS *= 1.5 })
		no("a busier worker leaves more", func(o *record.Run) { o.Generator.BusiestWorker = (1 + o.Generator.BusiestWorker) / 2 })
		no("fewer cores leave more", func(o *record.Run) { o.Environment.CoresAllowed = 1 })
		no("a quota leaves more", func(o *record.Run) { o.Environment.CgroupCPUs = 0.5 })
		no("larger answers leave more", func(o *record.Run) { o.Bytes.Read = o.Requests.Completed * 20_000 })
		no("less pipelining leaves more", func(o *record.Run) { o.Load.Pipelining = 1 })
	})
}

// TestRunShowsItsHeadroom: what is kept reaches the result, and its absence
// too.
func TestRunShowsItsHeadroom(t *testing.T) {
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	path := filepath.Join(data, "ceiling", "calibration.json")
	do := func() *record.Run {
		w, err := record.Store{Dir: filepath.Join(data, "runs")}.Create(record.NewID(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		r := finished()
		if err := w.Start(record.Start{Environment: &r.Environment}); err != nil {
			t.Fatal(err)
		}
		var why string
		if r.Generator.Headroom, r.Generator.HeadroomBy, why = calibrated(&r); why != "" {
			n := record.NotMeasured{What: record.GeneratorHeadroom, Why: why}
			w.AppendNotMeasured(n)
			r.NotMeasured = append(r.NotMeasured, n)
		}
		if err := w.Finish(&r); err != nil {
			t.Fatal(err)
		}
		kept, series, err := record.Open(w.File())
		if err != nil {
			t.Fatal(err)
		}
		if len(series.NotMeasured) != len(kept.NotMeasured) {
			t.Errorf("series %v, result %v", series.NotMeasured, kept.NotMeasured)
		}
		return kept
	}
	missing := func(r *record.Run) string {
		if len(r.NotMeasured) != 1 || r.NotMeasured[0].What != record.GeneratorHeadroom || r.Generator.Headroom != 0 {
			t.Fatalf("headroom %g, not measured %v", r.Generator.Headroom, r.NotMeasured)
		}
		return r.NotMeasured[0].Why
	}
	if why := missing(do()); !strings.Contains(why, "not calibrated; run ceiling doctor --calibrate") {
		t.Error(why)
	}
	c := oneCore()
	if err := record.KeepCalibration(path, &c); err != nil {
		t.Fatal(err)
	}
	if r := do(); math.Abs(r.Generator.Headroom-5) > 1e-6 || len(r.NotMeasured) != 0 {
		t.Errorf("headroom %g, not measured %v", r.Generator.Headroom, r.NotMeasured)
	}
	if err := os.WriteFile(path, []byte(`{"schema":"ceil`), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := missing(do()); !strings.Contains(why, path) {
		t.Error(why)
	}
}

// TestHeadroomOverTLS: it is less than without, by the cipher's work on a request and by
// the handshakes, and says that this is an estimate.
func TestHeadroomOverTLS(t *testing.T) {
	all := []record.Calibration{oneCore()}
	r := finished()
	plain, _, _ := headroom(&r, all)
	r.Load.TLS = &record.TLS{Cipher: "TLS_AES_128_GCM_SHA256"}
	got, by, why := headroom(&r, all)
	if !(got > 0 && got < plain) || why != "" || !strings.Contains(by, "an estimate of") {
		t.Errorf("%g of %g, %q, %q", got, plain, by, why)
	}
	r.Load.TLS.CPUNs = int64(r.Requests.Completed) * 1e5 // a handshake in every tenth request or so: 100 µs for each
	if more, _, _ := headroom(&r, all); more > 1e9/1e5/r.Rate.CompletedPerS {
		t.Errorf("%g times the rate, though handshakes alone take 100 µs of each request", more)
	}
}
