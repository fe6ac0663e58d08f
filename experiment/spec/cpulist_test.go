package spec

import (
	"slices"
	"testing"
)

func TestParseCPUList(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
	}{
		{"0", []int{0}},
		{"0-3,8", []int{0, 1, 2, 3, 8}},
		{"8,0-3\n", []int{0, 1, 2, 3, 8}},
		{"1, 1,0-2", []int{0, 1, 2}},
		{"4095", []int{4095}},
	} {
		if got, err := ParseCPUList(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseCPUList(%q) = %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "an empty part"},
		{"0,,1", "an empty part"},
		{"3-1", "the first CPU is above the last"},
		{"4096", "not a CPU number from 0 to 4095"},
		{"0-65536", "not a CPU number"},
		{"a", "write numbers and ranges as in 0-3,8"},
		{"0-", "not a CPU number"},
		{"-1", "not a CPU number"},
		{"0-2:1/2", "not a CPU number"},
		{"0-4095,0-4095,0", "too many"},
	} {
		_, err := ParseCPUList(c.text)
		checkError(t, c.text, err, c.want)
	}
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUList(text)
		if err != nil {
			return
		}
		if len(cpus) == 0 || !slices.IsSorted(cpus) || cpus[0] < 0 || cpus[len(cpus)-1] >= cpuMax {
			t.Errorf("ParseCPUList(%q) = %v", text, cpus)
		}
	})
}
