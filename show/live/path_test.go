package live

import (
	"math"
	"slices"
	"testing"

	"ceiling/record"
	"ceiling/record/recordtest"
)

// The path over time begins at the window's beginning and has no gap but where nobody
// looked; its parts come to the whole: the mean of all rows, and the shares of the verdict.
func TestStretchesComeToTheWhole(t *testing.T) {
	r, s := fixture(t, 2999e6)
	b := NewBoard()
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	whole := repeated(s, 6)
	load, observed := 0, 0
	for _, until := range []int64{1500e6, 9e9, math.MaxInt64} { // looked at now and then
		part := recordtest.Until(whole, until)
		rows := part.Observed.All()
		b.Rows(&record.Series{Load: part.Load[load:]})
		for _, row := range rows[observed:] {
			b.Observed(row)
		}
		load, observed = len(part.Load), len(rows)
		if !b.Form() {
			t.Fatal("nothing was formed")
		}
	}
	list, _ := b.Stretches()
	var n, sum, all float64
	shares := map[string]float64{}
	at := int64(0)
	for i, one := range list {
		if one.TNs-one.WidthNs != at || one.WidthNs < stretchNs || one.WidthNs >= 2*stretchNs {
			t.Errorf("stretch %d is from %d on for %d ns, the one before it ends at %d", i, one.TNs-one.WidthNs, one.WidthNs, at)
		}
		at = one.TNs
		n, sum = n+float64(one.Requests), sum+float64(one.Requests)*one.MeanNs
		for _, st := range one.Stations {
			shares[st.Name] += st.Share * float64(one.Requests) * one.MeanNs
			all += st.Share * float64(one.Requests) * one.MeanNs
		}
	}
	var rows, times float64
	for i := range whole.Load {
		if row := &whole.Load[i]; !row.Warmup {
			rows, times = rows+float64(row.Completed), times+float64(row.Completed)*row.ServiceMeanNs
		}
	}
	if last := whole.Load[len(whole.Load)-1].TNs; at != last || n != rows || math.Abs(sum-times) > 1e-9*times || math.Abs(all-sum) > 1e-6*sum {
		t.Errorf("%g requests for %g ns until %d, %g at places; the rows have %g for %g ns until %d", n, sum, at, all, rows, times, last)
	}
	snapshot := b.Snapshot()
	p := snapshot.Path()
	if len(p.Places) != 6 || math.Abs(p.MeanNs-times/rows) > 1e-9*p.MeanNs || p.Places[0].Known || !p.Places[3].Limits {
		t.Errorf("the path: %+v", p)
	}
	for _, place := range p.Places {
		if got := shares[place.Name] / sum; math.Abs(got-place.Share) > .03 {
			t.Errorf("%s: %.3f over time, %.3f of the whole", place.Name, got, place.Share)
		}
	}
	version := b.over.version
	b.Began(record.Start{ID: "another"})
	if list, next := b.Stretches(); len(list) != 0 || next == version {
		t.Error("another run has the path of the last one")
	}
}

// However long a run takes there are not too many, and what they come to stays.
func TestStretchesAreBounded(t *testing.T) {
	var s stretches
	var times, server float64
	for i := range int64(5000) {
		mean, share := float64(1000+i), float64(i%10)/10
		s.add([]Stretch{{TNs: (i + 1) * 1e9, WidthNs: 1e9, MeanNs: mean, Requests: 7,
			Stations: []record.Station{{Name: record.PlaceGenerator, Share: 1 - share}, {Name: record.PlaceInServer, Share: share}}}}, (i+1)*1e9)
		times, server = times+7*mean, server+7*mean*share
	}
	if n := len(s.list); n > StretchesMost || n < StretchesMost/2 {
		t.Errorf("%d stretches", n)
	}
	var gotTimes, gotServer float64
	at := int64(0)
	for _, one := range s.list {
		if one.TNs-one.WidthNs != at {
			t.Errorf("a gap at %d", at)
		}
		at = one.TNs
		gotTimes += float64(one.Requests) * one.MeanNs
		gotServer += float64(one.Requests) * one.MeanNs * one.Stations[1].Share
	}
	if math.Abs(gotTimes-times) > 1e-9*times || math.Abs(gotServer-server) > 1e-9*times || at != 5000e9 {
		t.Errorf("%g of %g ns in the server until %d, want %g of %g", gotServer, gotTimes, at, server, times)
	}
	s.add([]Stretch{{TNs: 1e9, WidthNs: 1e9, Stations: s.list[0].Stations}}, 1e9)
	if s.list[len(s.list)-1].TNs != 5000e9 {
		t.Error("what was there already is taken again")
	}
}

// Where samples are few a stretch is longer; where there are none it is a gap, and nothing
// is tried for ever.
func TestFewSamples(t *testing.T) {
	r, s := fixture(t, 2999e6)
	for keep, want := range map[int]func(Stretch) bool{
		4: func(one Stretch) bool { return one.WidthNs > stretchNs && one.WidthNs < stretchMostNs+stretchNs },
		0: nil,
	} {
		whole, n := repeated(s, 6), 0
		whole.Observed.Times = nil
		whole.Observed.Sockets = slices.DeleteFunc(whole.Observed.Sockets, func(*record.SocketsRow) bool {
			n++
			return keep == 0 || n%keep != 0
		})
		b := NewBoard()
		b.Began(record.Start{ID: r.ID, Spec: r.Spec})
		b.Rows(whole)
		if !b.Form() {
			t.Fatal("nothing was formed")
		}
		list, _ := b.Stretches()
		if (len(list) == 0) != (want == nil) {
			t.Errorf("%d stretches of every %dth sample", len(list), keep)
		}
		for _, one := range list {
			if !want(one) {
				t.Errorf("a stretch of %d ns of every %dth sample", one.WidthNs, keep)
			}
		}
		if keep > 0 && b.over.toNs < 10e9 {
			t.Errorf("every %dth sample: nothing behind %d ns was looked at", keep, b.over.toNs)
		}
	}
}
