//go:build linux

package load

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
)

// filled puts another value into every exported field of a struct, however deep,
// so that one which the wire forgets is missed.
func filled(v reflect.Value, rng *rand.Rand) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + rng.Int64N(1<<30))
	case reflect.Uint16:
		v.SetUint(1 + rng.Uint64N(1<<16-1))
	case reflect.Uint32:
		v.SetUint(1 + rng.Uint64N(1<<32-1))
	case reflect.Uint64:
		v.SetUint(1 + rng.Uint64()>>rng.IntN(60))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", rng.Int()))
	case reflect.Array:
		v.Index(rng.IntN(v.Len())).SetUint(1 + rng.Uint64()>>1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			filled(key, rng)
			filled(value, rng)
			if key.Kind() == reflect.Int {
				key.SetInt(100 + key.Int()%900)
			}
			v.SetMapIndex(key, value)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			filled(v.Index(i), rng)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), rng)
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *hist.Hist:
			p.Reset()
			for range rng.IntN(50) {
				p.RecordN(rng.Int64N(1<<40), 1+rng.Uint64N(1000))
			}
		case *time.Time:
			*p = time.Unix(rng.Int64N(1<<40), rng.Int64N(1e9))
		default:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					filled(v.Field(i), rng)
				}
			}
		}
	default:
		panic(v.Kind())
	}
}

func wideTally(rng *rand.Rand) *Tally {
	t := newTally(3)
	filled(reflect.ValueOf(t).Elem(), rng)
	t.Warmup = rng.IntN(2) == 0
	t.StartNs = rng.Int64N(1 << 40)
	t.EndNs = t.StartNs + rng.Int64N(1<<40)
	if t.Warmup {
		t.StartNs, t.EndNs = -t.EndNs, -t.StartNs
	}
	return t
}

// TestWireIsExact: every exported field of a tally and of a result comes back,
// into memory that had another.
func TestWireIsExact(t *testing.T) {
	needs.Engine(t)
	tally, result := newTally(3), NewResult(3)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		want := wideTally(rng)
		b, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tally.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(tally, want) {
			t.Fatalf("another tally came back: %v", err)
		}
		account := &Result{Total: *wideTally(rng)}
		total := account.Total
		filled(reflect.ValueOf(account).Elem(), rng)
		account.Total = total
		account.StartLateNs, account.Workers[0].RunDelay = -1, -1
		account.Errors[0].Status, account.Errors[1].Status = 404, 500 // ascending
		account.Waiting.Targets[0].Target, account.Waiting.Targets[1].Target = 0, 2
		if b, err = account.AppendBinary(b[:0]); err != nil {
			t.Fatal(err)
		}
		if err := result.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(result, account) {
			t.Fatalf("another result came back: %v\n%+v", err, result.Workers)
		}
	}
	b, _ := NewResult(1).AppendBinary(nil)
	if empty := NewResult(1); empty.UnmarshalBinary(b) != nil || !empty.Started.IsZero() {
		t.Errorf("an empty one began at %v", empty.Started)
	}
}

// TestWireOfErrors: bytes that are no response have status 0, and one status may have several conditions.
func TestWireOfErrors(t *testing.T) {
	sent := NewResult(1)
	sent.Errors = []ErrorResponse{{Line: "SSH-2.0"}, {Status: 200, Check: "body == x", Line: "y"}, {Status: 200, Check: "bytes > 9"}, {Status: 404}}
	b, _ := sent.AppendBinary(nil)
	got := NewResult(1)
	if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got.Errors, sent.Errors) {
		t.Errorf("%v: %+v", err, got.Errors)
	}
}

// TestWireRefuses: cut anywhere, with something left over, of another version and
// of another number of targets; and what is refused leaves nothing behind.
func TestWireRefuses(t *testing.T) {
	needs.Engine(t)
	rng := rand.New(rand.NewPCG(1, 7))
	tally, account := wideTally(rng), NewResult(3)
	account.Total, account.Engine = *tally, "uring"
	small, _ := tally.AppendBinary(nil)
	large, _ := account.AppendBinary(nil)
	got, gotResult := newTally(3), NewResult(3)
	refused := func(what, says string, b, c []byte) {
		t.Helper()
		if err := got.UnmarshalBinary(b); err == nil || !strings.Contains(err.Error(), says) || !reflect.DeepEqual(got, newTally(3)) {
			t.Errorf("tally %s: %v", what, err)
		}
		if err := gotResult.UnmarshalBinary(c); err == nil || !strings.Contains(err.Error(), says) ||
			!reflect.DeepEqual(gotResult, NewResult(3)) {
			t.Errorf("result %s: %v", what, err)
		}
	}
	for n := range 40 {
		refused("cut", "damaged", small[:len(small)*n/40], large[:len(large)*n/40])
	}
	refused("with more", "damaged", append(bytes.Clone(small), 0), append(bytes.Clone(large), 0))
	small[0], large[0] = 99, 99
	refused("of another version", "version 99", small, large)
	small[0], large[0] = tallyVersion, resultVersion
	got, gotResult = newTally(2), NewResult(2)
	if err := got.UnmarshalBinary(small); err == nil || !strings.Contains(err.Error(), "a run with 3 targets, this one has 2") {
		t.Error(err)
	}
	if err := gotResult.UnmarshalBinary(large); err == nil || !strings.Contains(err.Error(), "a run with 3 targets, this one has 2") {
		t.Error(err)
	}
	for what, change := range map[string]func(*Tally){
		"ends before it begins": func(k *Tally) { k.EndNs = k.StartNs - 1 },
		"warm-up in the window": func(k *Tally) { k.Warmup, k.StartNs, k.EndNs = true, -5, 5 },
		"window in the warm-up": func(k *Tally) { k.Warmup, k.StartNs, k.EndNs = false, -5, 5 },
		"before all times":      func(k *Tally) { k.Warmup, k.StartNs, k.EndNs = true, math.MinInt64, 0 },
		"no number":             func(k *Tally) { k.Busy = math.NaN() },
		"less than nothing":     func(k *Tally) { k.BatchNs = -1 },
		"nobody is connected":   func(k *Tally) { k.Connected = -1 },
	} {
		k := wideTally(rng)
		change(k)
		b, _ := k.AppendBinary(nil)
		if newTally(3).UnmarshalBinary(b) == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestWireOfARun: what a real run tells, and its result, survive; and how large
// they are.
func TestWireOfARun(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x"))))
	c := config(t, s, "", 0)
	c.Connections, c.Warmup, c.Duration = 64, 100*time.Millisecond, 500*time.Millisecond
	most, all, rows := 0, 0, 0
	r, err := Run(context.Background(), c, &watcher{t: t, sum: newTally(1), onRow: func(k *Tally) {
		b, _ := k.AppendBinary(nil)
		most, all, rows = max(most, len(b)), all+len(b), rows+1
		back := newTally(1)
		if err := back.UnmarshalBinary(b); err != nil || back.Sent != k.Sent || back.Response != k.Response {
			t.Errorf("a row does not come back: %v", err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := r.AppendBinary(nil)
	back := NewResult(1)
	if err := back.UnmarshalBinary(b); err != nil || back.Total.Service != r.Total.Service || !back.Started.Equal(r.Started) ||
		len(back.Workers) != len(r.Workers) {
		t.Errorf("the result does not come back: %v", err)
	}
	if most == 0 || most > 16<<10 {
		t.Errorf("a row of 64 connections takes %d bytes", most)
	}
	t.Logf("a row takes %d bytes, up to %d, the result %d", all/rows, most, len(b))
}

func FuzzWireTally(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 7))
	for range 3 {
		b, _ := wideTally(rng).AppendBinary(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, again := newTally(3), newTally(3)
		if k.UnmarshalBinary(b) != nil {
			return
		}
		out, _ := k.AppendBinary(nil)
		if err := again.UnmarshalBinary(out); err != nil || !reflect.DeepEqual(again, k) {
			t.Fatalf("does not come back: %v", err)
		}
		m := NewMerger(1, 3, time.Second, &watcher{t: t, sum: newTally(3)})
		_ = m.Take(0, again) // must not panic, whatever it says
		m.Lost(0)
	})
}

func FuzzWireResult(f *testing.F) {
	r := NewResult(3)
	b, _ := r.AppendBinary(nil)
	f.Add(b)
	r.Total = *wideTally(rand.New(rand.NewPCG(1, 7)))
	r.Workers, r.EngineFeatures = make([]WorkerReport, 2), []string{"a", "b"}
	r.Waiting = &Waiting{Response: r.Total.Lag, Targets: []TargetWaiting{{2, 5, 1}}}
	r.Unloaded = &Unloaded{ServiceNs: []int64{5, 1 << 40}, RestNs: []int64{0, 1 << 30}, Connections: 4}
	r.First, r.Edges = &r.Total.Lag, &Edges{-1, 1 << 40}
	b, _ = r.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		k, again := NewResult(3), NewResult(3)
		if k.UnmarshalBinary(b) != nil {
			return
		}
		out, _ := k.AppendBinary(nil)
		if err := again.UnmarshalBinary(out); err != nil || !reflect.DeepEqual(again, k) {
			t.Fatalf("does not come back: %v", err)
		}
	})
}
