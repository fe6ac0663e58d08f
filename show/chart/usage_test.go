package chart_test

import (
	"math"
	"testing"
	"time"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/verdict"
)

// A server's CPU is one figure: that of the verdict, and the sum of the page's table. In an open loop
// the drain after the last due request belongs to neither, and a process that came in the middle of
// the window used nothing before.
func TestOneUseOfTheCPU(t *testing.T) {
	run := &record.Run{ElapsedS: 12, Subject: &record.Subject{Host: "h"}}
	run.Spec.Duration = 10 * time.Second
	run.Environment.Host = "h"
	run.Load.Mode = "open"
	series := &record.Series{}
	add := func(second, pid int, cores float64, role string) {
		head := record.ObservedHead{Kind: record.KindProcess, Host: "h", TNs: int64(second+1) * 1e9, WidthNs: 1e9}
		series.Observed.Add(&record.ProcessRow{ObservedHead: head, Role: role, PID: pid, StartTicks: uint64(pid), Comm: "srv",
			CPUNs: int64(cores * 1e9)})
	}
	for second := range 12 {
		cores := 0.8
		if second >= 10 {
			cores = 0 // the drain
		}
		add(second, 1, cores, record.RoleSubject)
		add(second, 9, .3, record.RoleGenerator)
		if second >= 5 && second < 10 {
			add(second, 2, .4, record.RoleSubject)
		}
	}
	for second := range 12 {
		head := record.ObservedHead{Kind: record.KindCPU, Host: "h", TNs: int64(second+1) * 1e9, WidthNs: 1e9}
		series.Observed.Add(&record.CPURow{ObservedHead: head,
			Cores: []record.CoreTicks{{CPU: 0, User: 50, Idle: 50}, {CPU: 1, User: 50, Idle: 50}}})
	}
	const want = .8 + .4/2
	judged := math.NaN()
	for _, u := range verdict.Judge(run, series).Uses {
		if u.Station == record.PlaceInServer && u.What == record.UseOfCores {
			judged = u.Used
		}
	}
	drawn := 0.0
	for _, p := range chart.Processes(&chart.Run{Run: run, Series: series}) {
		if p.Role == record.RoleSubject {
			drawn += p.Cores
		}
	}
	if math.Abs(judged-want) > 1e-9 || math.Abs(drawn-want) > 1e-9 {
		t.Errorf("the verdict has %v cores, the page %v, want %v", judged, drawn, want)
	}
}
