package page

import (
	"testing"

	"ceiling/show/chart"
)

func TestInterruptTable(t *testing.T) {
	t.Parallel()
	table := interruptTable([]chart.Interrupt{{IRQ: 41, Name: "eth0-Tx-Rx-1", PerS: 1250, CPUs: []chart.InterruptShare{
		{CPU: 2, Share: .6}, {CPU: 3, Share: .1}, {CPU: 4, Share: .1}, {CPU: 5, Share: .1}, {CPU: 6, Share: .05}, {CPU: 7, Share: .05}}}})
	var got string
	for _, c := range table.Rows[0] {
		got += c.Text + "|"
	}
	if want := "41|eth0-Tx-Rx-1|1.25k|CPU 2 60%, CPU 3 10%, CPU 4 10%, CPU 5 10%, 2 more|"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
