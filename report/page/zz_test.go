package page

import (
	"os"
	"testing"
	"time"

	"ceiling/internal/browser"
	"ceiling/report/chart"
)

func TestZTime(t *testing.T) {
	var url string
	if in := os.Getenv("ZSHOT"); in != "" {
		url = "file://" + in
	} else {
		start := time.Now()
		run := sampleRun(3600, 8)
		t.Log("sample", time.Since(start))
		start = time.Now()
		s := htmlOf(t, run)
		t.Log("html", time.Since(start), len(s))
		os.WriteFile("/tmp/rp/hour.html", []byte(s), 0o644)
		os.WriteFile("/tmp/rp/hour.md", []byte(markdownOf(t, run)), 0o644)
		url = "file:///tmp/rp/hour.html"
	}
	b := browser.Start(t)
	for range 5 {
		p := b.Page()
		start := time.Now()
		p.Open(url)
		p.Wait(`[...document.querySelectorAll("figure[data-zoom]")].every(f => f.dataset.drawn)`)
		took := time.Since(start)
		var v any
		p.Eval(`(()=>{const n=performance.getEntriesByType("navigation")[0]; return {dom:n.domContentLoadedEventEnd, load:n.loadEventEnd, paint: performance.getEntriesByType("paint").map(e=>e.name+" "+e.startTime), h: [...document.querySelectorAll("#rate, #rate .plot-size, #rate .live, #rate .uplot, #rate canvas, #rate .note")].map(e=>e.className+" "+e.tagName+" "+e.getBoundingClientRect().top.toFixed()+" "+e.getBoundingClientRect().height.toFixed())}})()`, &v)
		t.Log(took, v)
	}
	_ = chart.Most
}
