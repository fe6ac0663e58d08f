//go:build linux

package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"ceiling/internal/browser"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/verdict/prose"
)

// fileOf writes a report and answers its URL.
func fileOf(t *testing.T, runs ...chart.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(htmlOf(t, runs...)), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// quiet fails when the page complained or asked for anything but itself.
func quiet(t *testing.T, p *browser.Page) {
	t.Helper()
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("console: %s", <-p.Errors)
	}
	for len(p.Requests) > 0 {
		kind, to, _ := strings.Cut(<-p.Requests, " ")
		if kind != "Document" && !strings.HasPrefix(to, "data:image/png;base64,") {
			t.Errorf("the page asked for %.200s", to)
		}
	}
}

// drawn is one figure as the browser has it.
type drawn struct {
	ID     string
	Zoom   bool
	Paths  []int // points of each line of the picture that needs no script
	Drawn  int   // points of all lines that script drew
	Note   string
	Groups []struct {
		To    []float64
		Lines []struct{ Mid []*float64 }
	}
}

func figures(p *browser.Page) map[string]drawn {
	p.Wait(`[...document.querySelectorAll("figure[data-zoom]")].every(f => f.dataset.drawn)`)
	var list []drawn
	p.Eval(`[...document.querySelectorAll("figure[id]")].map(f => ({
		id: f.id, zoom: "zoom" in f.dataset, drawn: +(f.dataset.drawn || 0), note: f.querySelector(".note")?.innerText ?? "",
		paths: [...f.querySelectorAll(".plot .stroke:not(.halo)")].map(s => s.getAttribute("d").split("H").length - 1),
		groups: "zoom" in f.dataset ? JSON.parse(f.querySelector(".points").textContent).groups : [],
	}))`, &list)
	by := map[string]drawn{}
	for _, d := range list {
		by[d.ID] = d
	}
	return by
}

// expect holds a figure against the number of rows that the record has.
func (d drawn) expect(t *testing.T, rows, lines int) {
	t.Helper()
	points, text := rows, fmt.Sprintf("%d samples all drawn", rows)
	if rows > chart.Most {
		each := (rows + chart.Most - 1) / chart.Most
		points = (rows + each - 1) / each
		text = fmt.Sprintf("%d points for", points)
	}
	if len(d.Paths) != lines || !strings.Contains(strings.ReplaceAll(d.Note, ",", ""), text) {
		t.Errorf("%s: %d lines, note %q; want %d lines and %q", d.ID, len(d.Paths), d.Note, lines, text)
	}
	sum := 0
	for i, n := range d.Paths {
		if n != points {
			t.Errorf("%s: line %d of the picture has %d points, want %d", d.ID, i, n, points)
		}
		sum += n
	}
	if d.Zoom && d.Drawn != sum {
		t.Errorf("%s: script drew %d points, the picture has %d", d.ID, d.Drawn, sum)
	}
	for _, g := range d.Groups {
		if len(g.To) != points {
			t.Errorf("%s: %d points in the data, want %d", d.ID, len(g.To), points)
		}
	}
}

func rowsOf[R record.ObservedRow](rows []R, host string) int {
	n := 0
	for _, r := range rows {
		if r.Observed().Host == host {
			n++
		}
	}
	return n
}

func TestReportInABrowser(t *testing.T) {
	needs.Program(t, "chromium")
	tab := browser.Start(t)
	t.Run("points", func(t *testing.T) { testPoints(t, tab()) })
	t.Run("words", func(t *testing.T) { testWords(t, tab()) })
	t.Run("readable", func(t *testing.T) { testReadable(t, tab()) })
	t.Run("zoom", func(t *testing.T) { testZoom(t, tab()) })
	t.Run("flame", func(t *testing.T) { testFlame(t, tab()) })
	t.Run("without script", func(t *testing.T) { testWithoutScript(t, tab()) })
	t.Run("paper", func(t *testing.T) { testPaper(t, tab()) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, tab()) })
}

// Every chart has as many points as the record has rows, or as the page says.
func testPoints(t *testing.T, p *browser.Page) {
	for _, seconds := range []int{30, 300} {
		run := sampleRun(seconds, 2)
		p.Open(fileOf(t, run))
		by := figures(p)
		load := len(run.Series.Load)
		by["rate"].expect(t, load, 1)
		by["response"].expect(t, load, 3)
		by["errors-failures"].expect(t, load, 2)
		by["queues"].expect(t, rowsOf(run.Series.Observed.Sockets, "web1"), 3)
		for _, id := range []string{"link-1-bits", "link-1-packets", "link-2-bits", "link-2-packets"} {
			by[id].expect(t, rowsOf(run.Series.Observed.NetDevs, "load1"), 2)
		}
		if n := len(by["percentiles"].Paths); n != 3 || len(by) != 9 {
			t.Errorf("%d lines of percentiles, %d figures", n, len(by))
		}
		quiet(t, p)
	}
	// Several runs are laid over each other.
	a, c := sampleRun(12, 2), sampleRun(20, 2)
	p.Open(fileOf(t, a, c))
	rate := figures(p)["rate"]
	if len(rate.Paths) != 2 || rate.Paths[0] != len(a.Series.Load) || rate.Paths[1] != len(c.Series.Load) ||
		rate.Drawn != rate.Paths[0]+rate.Paths[1] {
		t.Errorf("rates of two runs: %v points, %d drawn; want %d and %d", rate.Paths, rate.Drawn, len(a.Series.Load), len(c.Series.Load))
	}
	quiet(t, p)
}

// The verdict is the first thing said, with all its parts, and the rest in the
// promised order.
func testWords(t *testing.T, p *browser.Page) {
	run := sampleRun(12, 2)
	p.Open(fileOf(t, run))
	text := p.Text("main")
	last := -1
	v := &run.Verdict
	order := []string{"FAIL", "82,", string(v.Bottleneck), "shop used 1.60 of the server's 2 cores", "Where the time goes",
		prose.Text(v.Evidence[0].Says), prose.Text(v.Evidence[1].Says),
		prose.Text(v.Against[0].Says), prose.Text(v.Missing[0]),
		prose.Text(v.Caveats[0]), prose.Text(v.NextBottleneck.Says), prose.Sentence(v.Next), "Headline figures", "Latency by percentile", "Rate over time", "softirq",
		"shop (390)",
		"The link", "Requests, statuses and errors", "ceiling run http://10.0.0.2:8080/read -c 64", "Not measured",
		"this kernel keeps no /proc/pressure"}
	for _, want := range order {
		at := strings.Index(text, want)
		if at <= last {
			t.Errorf("%q is missing, or before what shall come first", want)
		}
		last = max(at, last)
	}
	var first string
	p.Eval(`document.querySelector("main section").id`, &first)
	if first != "verdict" {
		t.Errorf("the first section is %s", first)
	}
	quiet(t, p)
}

// WCAG AA, in light and dark, wide and narrow, and nothing runs out of a narrow
// page.
func testReadable(t *testing.T, p *browser.Page) {
	one, two := fileOf(t, sampleRun(12, 2)), fileOf(t, sampleRun(12, 2), sampleRun(8, 1))
	for _, url := range []string{one, two} {
		for _, dark := range []bool{false, true} {
			p.SetMedia("", dark)
			p.SetViewport(1280, 900, 1, false)
			p.Open(url)
			p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
			for _, v := range p.Violations() {
				t.Errorf("dark %v: %s", dark, v)
			}
		}
		for _, width := range []int{390, 320} {
			p.SetViewport(width, 844, 2, true)
			p.Open(url)
			var wide int
			p.Eval(`document.documentElement.scrollWidth`, &wide)
			if wide > width {
				t.Errorf("at %d pixels the page is %d wide", width, wide)
			}
		}
		for _, v := range p.Violations() {
			t.Errorf("on a phone: %s", v)
		}
	}
	quiet(t, p)
}

// A zoom, with the keyboard alone, shows fewer points, in all charts and heat
// maps at once; and back.
func testZoom(t *testing.T, p *browser.Page) {
	p.Open(fileOf(t, sampleRun(30, 2)))
	whole := figures(p)
	var image float64
	wide := func() float64 {
		p.Eval(`document.querySelector(".heat-map img").getBoundingClientRect().width / document.querySelector(".heat-map").getBoundingClientRect().width`, &image)
		return image
	}
	p.Eval(`document.querySelector("#rate button[aria-label='Zoom in']").focus()`, nil)
	browser.Run(p, chromedp.KeyEvent(kb.Enter))
	p.Wait(fmt.Sprintf(`+document.querySelector("#rate").dataset.drawn < %d`, whole["rate"].Drawn))
	p.Wait(fmt.Sprintf(`+document.querySelector("#queues").dataset.drawn < %d`, whole["queues"].Drawn))
	zoomed := figures(p)["rate"].Drawn
	if share := float64(zoomed) / float64(whole["rate"].Drawn); math.Abs(share-.5) > .02 {
		t.Errorf("half of the time shows %.2f of the points", share)
	}
	if got := wide(); math.Abs(got-2) > .02 {
		t.Errorf("the heat map is %.2f times as wide", got)
	}
	// The address shows the same to who opens it.
	p.Wait(`location.hash.startsWith("#t=")`)
	var address string
	p.Eval(`location.href`, &address)
	p.Open("about:blank")
	p.Open(address)
	if again := figures(p)["rate"].Drawn; again != zoomed {
		t.Errorf("the address of %d points shows %d", zoomed, again)
	}
	p.Eval(`document.querySelector("#rate button[aria-label='Zoom in']").focus()`, nil)
	browser.Run(p, chromedp.KeyEvent(kb.Tab)) // zoom out
	browser.Run(p, chromedp.KeyEvent(kb.Tab)) // the whole
	browser.Run(p, chromedp.KeyEvent(kb.Enter))
	p.Wait(fmt.Sprintf(`+document.querySelector("#rate").dataset.drawn === %d`, whole["rate"].Drawn))
	if got := wide(); math.Abs(got-1) > .01 {
		t.Errorf("back again, the heat map is %.2f times as wide", got)
	}
	// Colours that change under an open page are drawn anew.
	p.SetMedia("", true)
	p.Wait(`matchMedia("(prefers-color-scheme: dark)").matches`)
	quiet(t, p)
}

// Without script everything can be read: the pictures are there, and nothing
// is left to be filled in.
func testWithoutScript(t *testing.T, p *browser.Page) {
	p.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	p.Open(fileOf(t, sampleRun(12, 2)))
	var seen []string
	p.Eval(`[...document.querySelectorAll("figure .plot")].filter(e => e.getBoundingClientRect().height < 100).map(e => e.closest("figure").id)`, &seen)
	if len(seen) > 0 {
		t.Errorf("these pictures are not to be seen: %v", seen)
	}
	var n int
	p.Eval(`document.querySelectorAll("figure .plot").length`, &n)
	if n != 9 {
		t.Errorf("%d pictures", n)
	}
	if text := p.Text("main"); !strings.Contains(text, "server CPU") {
		t.Error("the verdict is not there")
	}
}

// On paper the pictures are drawings, in light colours, and there is no button.
func testPaper(t *testing.T, p *browser.Page) {
	p.SetMedia("", true)
	p.Open(fileOf(t, sampleRun(12, 2)))
	figures(p)
	p.SetMedia("print", false)
	var state struct {
		Pictures, Canvases, Buttons int
		Ground                      string
	}
	p.Eval(`(() => { const seen = s => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length).length;
		return { pictures: seen("figure .plot"), canvases: seen("canvas"), buttons: seen("button"), ground: getComputedStyle(document.body).backgroundColor } })()`, &state)
	if state.Pictures != 9 || state.Canvases != 0 || state.Buttons != 0 || state.Ground != "rgb(255, 255, 255)" {
		t.Errorf("on paper: %+v", state)
	}
	pdf := browser.Run(p, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground(),
		chromedp.PDFPreferCSSPageSize()))
	if len(pdf) < 20_000 || !strings.HasPrefix(string(pdf[:5]), "%PDF-") {
		t.Errorf("%d bytes of PDF", len(pdf))
	}
}

// A hostile server's texts are text in a real browser too.
func testHostile(t *testing.T, p *browser.Page) {
	run := filledRun(hostile)
	p.Open(fileOf(t, run, sampleRun(2, 2)))
	p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
	figures(p)
	p.SetViewport(390, 844, 2, true)
	var wide int
	p.Eval(`document.documentElement.scrollWidth`, &wide)
	if wide > 390 {
		t.Errorf("on a phone the page is %d wide", wide)
	}
	var state map[string]json.RawMessage
	p.Eval(`({ pwned: typeof pwned, elements: document.querySelectorAll("x-hostile, [onhostile], [onerror], iframe, object, base, link, form").length,
		scripts: [...document.scripts].filter(s => s.type !== "application/json").length,
		images: [...document.images].filter(i => !i.src.startsWith("data:image/png;base64,")).length,
		links: [...document.links].filter(a => !a.getAttribute("href").startsWith("#")).length,
		text: document.body.innerText.includes("<x-hostile onhostile=1>") })`, &state)
	for name, want := range map[string]string{"pwned": `"undefined"`, "elements": "0", "scripts": "1", "images": "0", "links": "0",
		"text": "true"} {
		if got := string(state[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	quiet(t, p)
}

// squeezed is a PNG with its 256 most frequent colours, which are nearly all of
// a page's, and so in a third of the bytes.
func squeezed(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.Color]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			count[img.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	small := image.NewPaletted(img.Bounds(), colours[:min(len(colours), 256)])
	draw.Draw(small, small.Bounds(), img, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestScreenshots writes the pictures of docs/ anew from a real record:
// SCREENSHOTS=DIRECTORY go test ./report/page -run Screenshots
func TestScreenshots(t *testing.T) {
	dir := needs.Asking(t, "SCREENSHOTS")
	run, err := Open(record.File{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	// Debian without a desktop has one typeface, which nobody else sees.
	text := strings.Replace(htmlOf(t, run), "1rem/1.5 system-ui", "1rem/1.5 Inter, system-ui", 1)
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := browser.Start(t)()
	for _, shot := range []struct {
		name, at      string
		width, height int
		scale         float64
		dark          bool
	}{{"report-light.png", "", 1180, 1665, 1, false}, {"report-phone-dark.png", "time", 390, 1290, 2, true}} {
		p.SetViewport(shot.width, shot.height, shot.scale, shot.dark)
		p.SetMedia("", shot.dark)
		p.Open("file://" + path + "#" + shot.at)
		figures(p)
		picture := squeezed(t, browser.Run(p, chromedp.CaptureScreenshot()))
		if len(picture) > 200_000 {
			t.Errorf("%s has %d bytes", shot.name, len(picture))
		}
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "images", shot.name), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
