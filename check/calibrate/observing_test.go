package calibrate

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/load"
	"ceiling/record"
)

// TestMeterFindsAPlantedCost: observed, a request costs the server a tenth more
// CPU and takes a fifth longer, and a twentieth fewer are answered, on a host
// whose speed halves while it measures.
func TestMeterFindsAPlantedCost(t *testing.T) {
	needs.Engine(t)
	var cpu float64
	at := time.Unix(0, 0)
	random := rand.New(rand.NewPCG(1, 2))
	m := &meter{clock: func() (int64, error) { return int64(cpu), nil }, random: random, time: func() time.Time { return at }}
	const blocks = 15
	observed := true
	for i := range blocks * turns * stretch {
		speed := (1 - float64(i)/(2*blocks*turns*stretch)) * (1 + 0.02*random.NormFloat64())
		rate, cost, response := 10_000*speed, 5000/speed, 1e6/speed
		if observed {
			rate, cost, response = rate*0.95, cost*1.1, response*1.2
		}
		one := load.Tally{StartNs: int64(i) * 1e8, EndNs: int64(i+1) * 1e8, Completed: uint64(rate)}
		for range 100 {
			one.Response.Record(int64(response))
		}
		cpu += math.Floor(rate) * cost
		at = at.Add(load.DefaultInterval)
		observed = m.interval(&one)
	}
	o, err := m.result()
	if err != nil {
		t.Fatal(err)
	}
	if o.Blocks != blocks {
		t.Errorf("%d blocks, not %d", o.Blocks, blocks)
	}
	for what, k := range map[string]struct {
		got  record.Growth
		want float64
	}{"rate": {o.Throughput, -0.05}, "CPU": {o.ServerCPU, 0.1}, "p99": {o.P99, 0.2}} {
		if k.got.Low > k.want || k.got.High < k.want || math.Abs(k.got.By-k.want) > 0.02 || k.got.High-k.got.Low > 0.05 {
			t.Errorf("%s: %+v; planted: %g", what, k.got, k.want)
		}
	}
	// 2 % of what is certain, nearly 10 %.
	if e := o.Effort(); e < 0.2 || e > 0.3 {
		t.Errorf("observing that costs a tenth goes on with %g of the effort", e)
	}
}

func TestObserving(t *testing.T) {
	needs.Quiet(t)
	allowed, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	p := divide(allowed, nil)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	o, err := observing(t.Context(), &Config{Engine: "auto", Observing: 1, Version: "test"}, server.Listener.Addr().String(), os.Getpid(), p)
	if err != nil {
		t.Fatal(err)
	}
	if o.Blocks != 1 || o.Throughput.By <= -1 || o.ServerCPU.By <= -1 {
		t.Errorf("%+v", o)
	}
}
