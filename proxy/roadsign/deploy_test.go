package roadsign_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDeployFiles: each upload is what is served, and the script runs before that.
func TestDeployFiles(t *testing.T) {
	b := start(t, settings, example)
	if got := b.page("/"); got != "zero" {
		t.Fatal(got)
	}
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "one", "assets/old.txt", "old")))
	if b.page("/") != "one" || b.page("/assets/old.txt") != "old" {
		t.Error(b.page("/"), b.page("/assets/old.txt"))
	}
	b.deploy(200, "central/www?mimetype=application/zip", field{"attachments", "dist.zip", "application/octet-stream", zipped(t, "index.html", "two")},
		field{name: "post-deploy-script", text: "cat index.html >built.txt; echo $NAME >>built.txt; cat " + b.dir + "/www/index.html >>built.txt"},
		field{name: "post-deploy-environment", text: "NAME=a value\nOTHER=x"}, field{name: "unknown", text: "x"})
	if b.page("/") != "two" || b.page("/built.txt") != "twoa value\none" || b.page("/assets/old.txt") != "Not Found" {
		t.Error(b.page("/"), b.page("/built.txt"), b.page("/assets/old.txt"))
	}
	b.deploy(200, "central/www?overwrite=false", field{"attachments", "plain.txt", "text/plain", "plain"})
	if b.page("/") != "two" || b.page("/plain.txt") != "plain" {
		t.Error(b.page("/"), b.page("/plain.txt"))
	}
	b.deploy(200, "central/www?overwrite=false", field{name: "post-deploy-script", text: "echo script >index.html"})
	if b.page("/") != "script\n" || b.page("/plain.txt") != "plain" {
		t.Error(b.page("/"), b.page("/plain.txt"))
	}
	if got := b.names("www.releases"); len(got) != 3 {
		t.Error(got)
	}
}

// TestBadDeploys: none of these changes what is served, and nothing of them stays.
func TestBadDeploys(t *testing.T) {
	b := start(t, settings, example)
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "good")))
	good := zipped(t, "index.html", "bad")
	file := func(name string) field { return field{"attachments", name, "text/plain", "x"} }
	for name, k := range map[string]struct {
		status int
		to     string
		want   string
		fields []field
	}{
		"unknown region": {404, "none/www", `unknown region "none"`, []field{attached(good)}},
		"unknown site":   {404, "central/none", `no destination and no application "none"`, []field{attached(good)}},
		"no files":       {422, "central/never", "no files", []field{attached(good)}},
		"no directory":   {422, "central/homeless", "no workdir", []field{attached(good)}},
		"no attachments": {400, "central/www", "no file named attachments", nil},
		"only a script":  {400, "central/www", "no file named attachments", []field{{name: "post-deploy-script", text: "true"}}},
		"no file":        {400, "central/www", "no file named attachments", []field{{name: "attachments", text: good}}},
		"overwrite":      {400, "central/www?overwrite=maybe", "true and false", []field{attached(good)}},
		"not a zip file": {422, "central/www", "not a zip file", []field{attached("hello")}},
		"cut zip":        {422, "central/www", "not a zip file", []field{attached(good[:len(good)/2])}},
		"zip slip":       {422, "central/www", "leads out", []field{attached(zipped(t, "index.html", "bad", "../evil", "x"))}},
		"absolute":       {422, "central/www", "leads out", []field{attached(zipped(t, "/evil", "x"))}},
		"backslash":      {422, "central/www", "leads out", []field{attached(zipped(t, `..\evil`, "x"))}},
		"file name":      {422, "central/www", "leads out", []field{file(`..\\evil`)}},
		"dots":           {422, "central/www", "leads out", []field{file("..")}},
		"twice":          {422, "central/www", "two files", []field{file("a"), file("a")}},
		"a good one too": {422, "central/www", "not a zip file", []field{attached(good), attached("hello")}},
		"too large": {413, "central/www", "[publish] upload_bytes", []field{{"attachments", "a", "text/plain",
			strings.Repeat("x", 150_001)}}},
		"unpacks to more": {413, "central/www", "[publish] unpacked_bytes", []field{attached(zipped(t, "a", strings.Repeat("x", 200_001)))}},
		"in two zips": {413, "central/www", "[publish] unpacked_bytes", []field{attached(zipped(t, "a", strings.Repeat("x", 150_000))),
			attached(zipped(t, "b", strings.Repeat("x", 150_000)))}},
		"script fails": {422, "central/www", "post-deploy-script: exit status 3: the former release stays\nwhy\n",
			[]field{attached(good), {name: "post-deploy-script", text: "echo why; exit 3"}}},
		"environment": {400, "central/www", "NAME=value", []field{attached(good), {name: "post-deploy-environment", text: "A=b\nnonsense"}}},
		"long script": {413, "central/www", "more than 102400 bytes", []field{{name: "post-deploy-script", text: strings.Repeat("#", 102_401)}}},
	} {
		text := b.deploy(k.status, k.to, k.fields...)
		if !strings.Contains(text, k.want) {
			t.Errorf("%s: %q, want %q", name, text, k.want)
		}
		if b.page("/") != "good" || len(b.names("www.releases")) != 2 || len(b.names("")) != 6 {
			t.Errorf("%s: %s, %v, %v", name, b.page("/"), b.names("www.releases"), b.names(""))
		}
	}
	for _, kind := range []string{"", "application/zip", "multipart/form-data", "multipart/form-data; boundary=x"} {
		q := b.request("PUT", "/webhooks/publish/central/www", strings.NewReader(good))
		q.Header.Set("Content-Type", kind)
		if status, text := b.do(q); status != 400 || !strings.Contains(text, "form") {
			t.Errorf("%q: %d %s", kind, status, text)
		}
	}
	body, kind := formOf(t, attached(good))
	q := b.request("PUT", "/webhooks/publish/central/www", strings.NewReader(body[:len(body)/2]))
	q.Header.Set("Content-Type", kind)
	if status, text := b.do(q); status != 400 || !strings.Contains(text, "incomplete upload form") {
		t.Errorf("cut: %d %s", status, text)
	}
	if b.page("/") != "good" || len(b.names("www.releases")) != 2 {
		t.Errorf("%s, %v", b.page("/"), b.names("www.releases"))
	}
}

// TestDeployApplication: it is stopped, replaced and started; its data stays, and a failure
// brings the former release back.
func TestDeployApplication(t *testing.T) {
	b := start(t, settings, example)
	until(t, "it runs", func() bool { return b.read("runs") == "runs 0\n" })
	b.write("app/stale", "x")
	b.deploy(200, "central/web", attached(zipped(t, "version", "1", "data/new", "new")))
	until(t, "the new release runs", func() bool { return b.read("runs") == "runs 0\nruns 1\n" })
	if b.read("app/data/db") != "precious" || b.read("app/data/new") != "new" || b.read("app/stale") != "" {
		t.Error(b.names("app"), b.names("app/data"))
	}
	if text := b.deploy(422, "central/web", attached(zipped(t, "version", "2")),
		field{name: "post-deploy-script", text: "cat version; exit 1"}); !strings.Contains(text, "the former release stays\n2") {
		t.Error(text)
	}
	until(t, "the former release runs", func() bool { return b.read("runs") == "runs 0\nruns 1\nruns 1\n" })
	b.ask(200, "POST", "/cgi/applications/web/stop", "")
	b.deploy(422, "central/web", attached(zipped(t, "version", "2")), field{name: "post-deploy-script", text: "exit 1"})
	if status, _ := b.status("web"); status != exited {
		t.Errorf("it was stopped, and is %d", status)
	}
	b.deploy(200, "central/web?overwrite=false", attached(zipped(t, "added", "x")),
		field{name: "post-deploy-script", text: `echo 3 >version; test "$(pwd)" = ` + b.dir + "/app"})
	until(t, "it runs again", func() bool { return b.read("runs") == "runs 0\nruns 1\nruns 1\nruns 3\n" })
	if b.read("app/added") != "x" || b.read("app/data/db") != "precious" {
		t.Error(b.names("app"), b.names("app/data"))
	}
}

// TestOwnDirectories: a directory that has others of the proxy is not taken away with its release.
func TestOwnDirectories(t *testing.T) {
	b := start(t, settings, example+`
[[locations]]
id = "outer"
hosts = ["outer.example"]
[[locations.destinations]]
id = "config"
uri = "files://DIR"
[[locations.destinations]]
id = "working"
uri = "files://."
`)
	for _, id := range []string{"config", "working"} {
		if text := b.deploy(422, "central/"+id, attached(zipped(t, "index.html", "bad"))); !strings.Contains(text, "which the proxy needs") {
			t.Error(text)
		}
	}
	b.write("www/inner/index.html", "inner")
	b.ask(200, "PUT", "/webhooks/sync/inner", "[[locations]]\nhosts = [\"inner.example\"]\n[[locations.destinations]]\nuri = \"files://"+b.dir+"/www/inner\"\n")
	if text := b.deploy(409, "central/www", attached(zipped(t, "index.html", "bad"))); !strings.Contains(text, b.dir+"/www/inner is served too") {
		t.Error(text)
	}
	b.deploy(200, "central/www?overwrite=false", attached(zipped(t, "more.html", "more")))
	if b.page("/") != "zero" || b.page("/more.html") != "more" || b.page("/inner/") != "inner" {
		t.Error(b.page("/"), b.page("/more.html"), b.page("/inner/"))
	}
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "good", "inner/index.html", "new")))
	if b.page("/") != "good" || b.page("/inner/") != "new" {
		t.Error(b.page("/"), b.page("/inner/"))
	}
}

// TestSharedDirectory: all applications that work in a directory move to its next release, whichever
// is deployed to; one that is stopped stays so.
func TestSharedDirectory(t *testing.T) {
	b := start(t, settings, strings.ReplaceAll(example, "DIR/app", "DIR/www")+`
[[applications]]
id = "worker"
workdir = "DIR/www/data"
command = ["/bin/sh", "-c", "echo $(cat new) >>DIR/worker; exec sleep 1000"]
[[applications]]
id = "stopped"
workdir = "DIR/www"
command = ["/bin/sleep", "1000"]
`)
	b.ask(200, "POST", "/cgi/applications/stopped/stop", "")
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "one", "version", "1", "data/new", "first")))
	until(t, "they run in the release", func() bool { return strings.HasSuffix(b.read("runs"), "runs 1\n") && b.read("worker") == "first\n" })
	b.deploy(200, "central/web", attached(zipped(t, "index.html", "two", "version", "2")))
	until(t, "they run in the next", func() bool {
		return strings.HasSuffix(b.read("runs"), "runs 2\n") && b.read("worker") == "first\nfirst\n"
	})
	if status, _ := b.status("stopped"); status != exited || b.page("/") != "two" {
		t.Error(status, b.page("/"))
	}
}

// TestConfiguredSite: a directory of [[publish.sites]] keeps that site's rules.
func TestConfiguredSite(t *testing.T) {
	b := start(t, settings, example)
	b.write("settings.toml", settings+"[[publish.sites]]\nid = \"www\"\ndirectory = \""+b.dir+"/www/\"\nkeep = 1\n"+
		"command = [\"/bin/sh\", \"-c\", \"test $(cat index.html) != bad\"]\n")
	b.ask(200, "POST", "/cgi/reload", "")
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "one")))
	b.deploy(422, "central/www", attached(zipped(t, "index.html", "bad")))
	b.deploy(200, "central/www", attached(zipped(t, "index.html", "two")))
	if b.page("/") != "two" || len(b.names("www.releases")) != 1 {
		t.Error(b.page("/"), b.names("www.releases"))
	}
}

// TestForeignLink: a site that another tool has linked to its release goes back to it.
func TestForeignLink(t *testing.T) {
	b := start(t, settings, example)
	www := filepath.Join(b.dir, "www")
	b.write("mine/5/index.html", "five")
	if err := os.RemoveAll(www); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("mine/5", www); err != nil {
		t.Fatal(err)
	}
	b.ask(200, "POST", "/cgi/reload", "")
	b.deploy(422, "central/www", attached(zipped(t, "index.html", "bad")), field{name: "post-deploy-script", text: "exit 1"})
	b.write("config/broken.toml", "[[locations]]\n")
	b.deploy(422, "central/www", attached(zipped(t, "index.html", "bad")))
	if to, err := os.Readlink(www); err != nil || to != "mine/5" || b.page("/") != "five" {
		t.Error(to, err, b.page("/"))
	}
	if err := os.Remove(filepath.Join(b.dir, "config/broken.toml")); err != nil {
		t.Fatal(err)
	}
	b.deploy(200, "central/www?overwrite=false", attached(zipped(t, "more.html", "more")))
	if b.page("/") != "five" || b.page("/more.html") != "more" || !slices.Equal(b.names("mine/5"), []string{"index.html"}) {
		t.Error(b.page("/"), b.page("/more.html"), b.names("mine/5"))
	}
}
