package page

import (
	"os"
	"testing"
	"time"

	"ceiling/internal/browser"
)

func TestShot(t *testing.T) {
	url := os.Getenv("SHOT")
	if url == "" {
		t.Skip()
	}
	p := browser.Start(t).Page()
	p.SetViewport(1240, 1060, 1, false)
	p.Open(url)
	wait := 6 * time.Second
	if w := os.Getenv("SHOTWAIT"); w != "" {
		wait, _ = time.ParseDuration(w)
	}
	time.Sleep(wait)
	os.WriteFile("/tmp/shot/light.png", p.Screenshot(true), 0o644)
	p.SetDark(true)
	time.Sleep(time.Second)
	os.WriteFile("/tmp/shot/dark.png", p.Screenshot(true), 0o644)
	p.SetViewport(390, 844, 2, true)
	time.Sleep(time.Second)
	os.WriteFile("/tmp/shot/phone.png", p.Screenshot(true), 0o644)
	t.Log(p.Errors(), p.Text("footer"))
}
