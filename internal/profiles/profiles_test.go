package profiles

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"ceiling/internal/needs"
)

// made is a CPU profile of stacks "outermost;…;innermost", each with a value.
func made(stacks map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10,
	}
	functions := map[string]*profile.Location{}
	names := make([]string, 0, len(stacks))
	for text := range stacks {
		names = append(names, text)
	}
	slices.Sort(names)
	for _, text := range names {
		s := &profile.Sample{Value: []int64{1, stacks[text]}}
		for _, name := range slices.Backward(strings.Split(text, ";")) {
			loc := functions[name]
			if loc == nil {
				f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: name + ".go"}
				loc = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, loc)
				functions[name] = loc
			}
			s.Location = append(s.Location, loc)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestMergeKeepsProcessesAndBlocks(t *testing.T) {
	one, two := made(map[string]int64{"main;a": 30, "main;b": 10}), made(map[string]int64{"main;a": 60})
	p, err := Merge([]Part{{"11", 0, one}, {"12", 2, two}})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := Bytes(p)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = Parse(packed); err != nil {
		t.Fatal(err)
	}
	s := Summarize(p, 1, 3, Innermost)
	if s.Total != 100 || s.Processes["11"] != 40 || s.Processes["12"] != 60 || !slices.Equal(s.Blocks, []int64{40, 0, 60}) {
		t.Errorf("%+v", s)
	}
	if f := s.Functions[0]; f.Name != "a" || f.Self != 90 || f.Line != 7 || !slices.Equal(f.Blocks, []int64{30, 0, 60}) {
		t.Errorf("%+v", f)
	}
	if f := s.Functions[2]; f.Name != "main" || f.Self != 0 || f.Total != 100 {
		t.Errorf("%+v", f)
	}
	if got, want := string(Fold(p, 1)), "12;main;a 60\n11;main;a 30\n11;main;b 10\n"; got != want {
		t.Errorf("folded %q, want %q", got, want)
	}
}

func TestSinceLeavesOutWhatDidNotGrow(t *testing.T) {
	p, err := Since(made(map[string]int64{"main;a": 30, "main;b": 10}), made(map[string]int64{"main;a": 30, "main;b": 25, "main;c": 1}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(Fold(p, 1)), "main;b 15\nmain;c 1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWaitsAreBlamedOnTheCaller(t *testing.T) {
	s := Summarize(made(map[string]int64{"main.main;main.draw;sync.(*Mutex).Lock": 5, "runtime.gc": 1}), 1, 0, Waiting)
	if f := s.Functions[0]; f.Name != "main.draw" || f.Through != "sync.(*Mutex).Lock" || f.Self != 5 {
		t.Errorf("%+v", f)
	}
}

func TestWhoseAWaitIs(t *testing.T) {
	for _, c := range []struct {
		frames []Frame
		want   int
	}{
		{[]Frame{{Name: "runtime.gopark"}, {Name: "net.(*netFD).Read"}, {Name: "github.com/x/y.(*C).read"}, {Name: "main.main"}}, 2},
		{[]Frame{{Name: "runtime.gopark"}, {Name: "net/http.(*conn).serve"}}, 1},
		{[]Frame{{Name: "runtime.gopark"}, {Name: "slices.Sort[go.shape.struct { a/b.C int }]"}, {Name: "ceiling/server.draw"}}, 2},
		{[]Frame{{Name: "futex_wait", Object: "kernel"}, {Name: "pthread_mutex_lock", Object: "libc.so.6"}, {Name: "take", Object: "hog"}}, 2},
		{[]Frame{{Name: "runtime.gopark"}}, 0},
	} {
		if got := Waiting(c.frames); got != c.want {
			t.Errorf("%v: frame %d, want %d", c.frames, got, c.want)
		}
	}
}

func TestProfilersAreLeftOut(t *testing.T) {
	p := made(map[string]int64{"main;a": 1, "net/http.serve;net/http/pprof.Profile;runtime.chanrecv": 9})
	WithoutProfilers(p)
	if got := string(Fold(p, 1)); got != "main;a 1\n" {
		t.Errorf("%q", got)
	}
}

func TestTree(t *testing.T) {
	p := made(map[string]int64{"main;a;x": 50, "main;a": 10, "main;b": 39, "other": 1})
	p.Sample[0].Label = map[string][]string{Idle: {"yes"}} // main;a
	root := Tree(p, 1, 0.05)
	if root.Total != 90 || len(root.Calls) != 1 || root.Calls[0].Name != "main" || root.Calls[0].Calls[0].Name != "a" ||
		root.Calls[0].Calls[0].Total != 50 || root.Calls[0].Calls[0].Calls[0].Self != 50 {
		t.Errorf("%+v", root)
	}
}

func TestBadProfilesAreRefusedInOneLine(t *testing.T) {
	needs.Time(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range plainMax>>20 + 1 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text []byte
		says string
	}{
		"html":      {[]byte("<!doctype html>\nno profile here"), "not a profile in pprof's format"},
		"empty":     {nil, "empty"},
		"cut gzip":  {bomb.Bytes()[:40], "cannot be unpacked"},
		"huge":      {bomb.Bytes(), "more than 128 MB"},
		"gzip text": {packed("hello"), "not a profile in pprof's format"},
	} {
		_, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func FuzzParse(f *testing.F) {
	b, err := Bytes(made(map[string]int64{"main;a": 1}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("heap profile: 1: 1 [1: 1] @ heap/1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		for i := range p.SampleType {
			Summarize(p, i, 2, Waiting)
			Fold(p, i)
			Tree(p, i, 0)
		}
	})
}
