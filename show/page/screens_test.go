//go:build linux

package page

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"ceiling/internal/browser"
)

// Screens are compared at a quarter of their size, where the edges of letters, which
// differ from one version of the browser to the next, have been averaged away.
const (
	screenScale   = 4
	channelWithin = 20   // of 255: a pixel that is farther off is another
	othersMost    = 0.05 // of all pixels
)

// testScreens holds the beginning of a run's and of a sweep's page, on a desk and on a
// phone, by day and by night, against pictures that a person has looked at. Make them
// anew with UPDATE_GOLDEN=1, and look at them.
func testScreens(t *testing.T, p *browser.Page) {
	for name, url := range map[string]string{"run": fileOf(t, sampleRun(30, 2)), "sweep": planFile(t, sampleSweep())} {
		for _, wide := range []int{1440, 390} {
			for scheme, dark := range map[string]bool{"light": false, "dark": true} {
				p.SetMedia("", dark)
				p.SetViewport(wide, 1000, 1, wide < 600)
				p.Open(url)
				p.Wait(`document.readyState === "complete"`)
				shot, err := png.Decode(bytes.NewReader(browser.Run(p, chromedp.CaptureScreenshot())))
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join("testdata", fmt.Sprintf("%s-%d-%s.png", name, wide, scheme))
				got := smaller(shot)
				if os.Getenv("UPDATE_GOLDEN") != "" {
					writePicture(t, path, got)
				}
				if others := offGolden(t, path, got); others > othersMost {
					kept := filepath.Join(os.TempDir(), filepath.Base(path))
					writePicture(t, kept, got)
					t.Errorf("%s: %.1f%% of the picture differ; this one is %s", path, 100*others, kept)
				}
			}
		}
	}
}

// smaller averages squares of pixels.
func smaller(from image.Image) *image.RGBA {
	size := from.Bounds().Size()
	to := image.NewRGBA(image.Rect(0, 0, size.X/screenScale, size.Y/screenScale))
	for y := range to.Rect.Dy() {
		for x := range to.Rect.Dx() {
			var sum [3]uint32
			for i := range screenScale * screenScale {
				r, g, b, _ := from.At(x*screenScale+i%screenScale, y*screenScale+i/screenScale).RGBA()
				sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+b>>8
			}
			mean := func(n int) uint8 { return uint8(sum[n] / (screenScale * screenScale)) }
			to.SetRGBA(x, y, color.RGBA{mean(0), mean(1), mean(2), 255})
		}
	}
	return to
}

// offGolden is the share of pixels that are others than in a file.
func offGolden(t *testing.T, path string, got *image.RGBA) float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if want.Bounds() != got.Bounds() {
		t.Errorf("%s has %v, this is %v", path, want.Bounds(), got.Bounds())
		return 1
	}
	others := 0
	for y := range got.Rect.Dy() {
		for x := range got.Rect.Dx() {
			r, g, b, _ := want.At(x, y).RGBA()
			c := got.RGBAAt(x, y)
			if apart(r, c.R) > channelWithin || apart(g, c.G) > channelWithin || apart(b, c.B) > channelWithin {
				others++
			}
		}
	}
	return float64(others) / float64(got.Rect.Dx()*got.Rect.Dy())
}

func apart(a uint32, b uint8) int {
	d := int(a>>8) - int(b)
	return max(d, -d)
}

func writePicture(t *testing.T, path string, m image.Image) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
