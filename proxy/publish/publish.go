// Package publish accepts new releases of sites, and new regions of the file, over the admin
// address. Nothing is served before it is complete: an upload is staged, checked, and put in
// place by one rename; if a later step fails, the change is undone.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ceiling/proxy/config"
)

// Publisher publishes one thing at a time.
type Publisher struct {
	// Config returns the current configuration.
	Config func() *config.Config
	// Reload rereads the proxy's file and switches to it if it is valid.
	Reload func() error

	mu sync.Mutex
}

// uploadTime bounds an upload, commandTime the command that follows.
const (
	uploadTime  = 10 * time.Minute
	commandTime = 5 * time.Minute
)

// Handle adds to the admin address, behind guard:
//
//	PUT  /sites/{id}           a zip becomes the site's release
//	POST /sites/{id}/rollback  the previous release is served again
//	GET  /sites/{id}           the releases, the served one marked
//	PUT  /regions/{name}       a region's file
func (p *Publisher) Handle(mux *http.ServeMux, guard func(http.HandlerFunc) http.Handler) {
	add := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.Handle(pattern, guard(func(w http.ResponseWriter, r *http.Request) {
			p.Exclusive(w, r, func(r *http.Request) error {
				v, err := f(r)
				if err == nil {
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(v) // it fails if the client has left
				}
				return err
			})
		}))
	}
	add("PUT /sites/{id}", p.put)
	add("POST /sites/{id}/rollback", p.rollback)
	add("GET /sites/{id}", p.list)
	add("PUT /regions/{name}", p.region)
}

// refusal is an error with an HTTP status.
type refusal struct {
	status int
	error
}

// Refuse returns an error with an HTTP status, see Respond.
func Refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Errorf(format, args...)}
}

// Exclusive runs f if nothing else is being published, with the time that an upload takes and a
// body of at most upload_bytes, and responds if it fails.
func (p *Publisher) Exclusive(w http.ResponseWriter, r *http.Request, f func(*http.Request) error) {
	if p.Config().Security.Credential == "" {
		http.Error(w, "publishing needs [security] credential in the proxy's file", http.StatusForbidden)
		return
	}
	if !p.mu.TryLock() {
		http.Error(w, "something else is being published", http.StatusConflict)
		return
	}
	defer p.mu.Unlock()
	c := http.NewResponseController(w)
	now := time.Now()
	_ = c.SetReadDeadline(now.Add(uploadTime)) // a server without deadlines keeps its own
	_ = c.SetWriteDeadline(now.Add(uploadTime + 2*commandTime))
	r.Body = http.MaxBytesReader(w, r.Body, p.Config().Publish.UploadBytes)
	if err := f(r); err != nil {
		Respond(w, err)
	}
}

// Respond responds with an error, and its status if it has one.
func Respond(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var known refusal
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
		err = fmt.Errorf("the upload has more than %d bytes; [publish] upload_bytes is the limit", large.Limit)
	case errors.As(err, &known):
		status = known.status
	}
	http.Error(w, err.Error(), status)
}

func (p *Publisher) site(r *http.Request) (*site, error) {
	id := r.PathValue("id")
	for _, s := range p.Config().Publish.Sites {
		if s.ID == id {
			return &site{s}, nil
		}
	}
	return nil, Refuse(http.StatusNotFound, "unknown site %q: not under [[publish.sites]]", id)
}

// published is the response body.
type published struct {
	Release  string   `json:"release,omitempty"`
	Releases []string `json:"releases,omitempty"`
	Output   string   `json:"output,omitempty"` // of the command
}

func (p *Publisher) list(r *http.Request) (any, error) {
	s, err := p.site(r)
	if err != nil {
		return nil, err
	}
	list, err := s.releases()
	return published{Release: s.served(), Releases: list}, err
}

func (p *Publisher) put(r *http.Request) (any, error) {
	s, err := p.site(r)
	if err != nil {
		return nil, err
	}
	release, err := Stage(s.Site, p.Config().Publish.UnpackedBytes)
	if err != nil {
		return nil, err
	}
	if err := release.Unzip(r.Body); err != nil {
		return nil, errors.Join(err, release.Discard())
	}
	output, err := p.Serve(r.Context(), release, nil)
	if err != nil {
		return nil, errors.Join(err, release.Discard())
	}
	return published{Release: release.name, Output: output}, nil
}

// Serve activates a release and runs what follows, which may be nil, and the site's command. If
// one fails, the former release is active again.
func (p *Publisher) Serve(ctx context.Context, r *Release, follows func() (string, error)) (output string, err error) {
	if err := r.complete(); err != nil {
		return "", err
	}
	if output, err = p.serve(ctx, &r.site, r.name, follows); err != nil {
		return output, err
	}
	r.dir = ""
	return output, r.site.prune()
}

func (p *Publisher) rollback(r *http.Request) (any, error) {
	s, err := p.site(r)
	if err != nil {
		return nil, err
	}
	list, err := s.releases()
	if err != nil {
		return nil, err
	}
	before, now := "", s.served()
	for _, one := range list { // sorted by time
		if one < now {
			before = one
		}
	}
	if before == "" {
		return nil, Refuse(http.StatusConflict, "no release before %q", now)
	}
	output, err := p.serve(r.Context(), s, before, nil)
	return published{Release: before, Output: output}, err
}

// serve activates a release and runs what follows; if that fails, it reactivates the former one.
func (p *Publisher) serve(ctx context.Context, s *site, release string, follows func() (string, error)) (output string, err error) {
	former, err := s.link()
	if err != nil {
		return "", err
	}
	if err := s.point(s.target(release)); err != nil {
		return "", err
	}
	if err = p.Reload(); err == nil && follows != nil {
		output, err = follows()
	}
	if err == nil && len(s.Command) > 0 {
		var more string
		if more, err = Run(ctx, s.Directory, s.Command, nil); err != nil {
			err = fmt.Errorf("command %q: %w", s.Command, err)
		}
		output += more
	}
	if err == nil {
		return output, nil
	}
	if former == "" {
		err = Refuse(http.StatusUnprocessableEntity, "%w: nothing is published\n%s", err, output)
		return output, errors.Join(err, os.Remove(s.Directory))
	}
	err = Refuse(http.StatusUnprocessableEntity, "%w: the former release stays\n%s", err, output)
	if e := s.point(former); e != nil {
		return output, errors.Join(err, e)
	}
	return output, errors.Join(err, p.Reload())
}

// Run runs a command in a directory, with the proxy's environment and more, in its own process
// group, which is killed as a whole after a time.
func Run(ctx context.Context, dir string, command, environment []string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	b, err := cmd.CombinedOutput()
	return string(b[:min(len(b), 64<<10)]), err
}

func (p *Publisher) region(r *http.Request) (any, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	return published{Release: name}, p.Region(name, text)
}

// RegionFile returns the path of a region's file.
func (p *Publisher) RegionFile(name string) (string, error) {
	dir := p.Config().Publish.Regions
	switch {
	case dir == "":
		return "", Refuse(http.StatusNotFound, "[publish] regions names no directory")
	case !strings.HasSuffix(name, ".toml") || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\*?[`) || name[0] == '.':
		return "", Refuse(http.StatusBadRequest, "invalid name %q; use one such as site.toml", name)
	}
	return filepath.Join(dir, name), nil
}

// Region puts a region's file in place. If the resulting configuration is rejected, it restores
// the previous file.
func (p *Publisher) Region(name string, text []byte) error {
	file, err := p.RegionFile(name)
	if err != nil {
		return err
	}
	if _, err := config.Parse(name, text); err != nil {
		return Refuse(http.StatusUnprocessableEntity, "the old configuration stays:\n%w", err)
	}
	former, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh := err != nil
	if err := write(file, text); err != nil {
		return err
	}
	if err := p.Reload(); err != nil {
		err = Refuse(http.StatusUnprocessableEntity, "the old configuration stays:\n%w", err)
		if fresh {
			return errors.Join(err, os.Remove(file))
		}
		return errors.Join(err, write(file, former))
	}
	return nil
}

// write replaces a file atomically: readers find the old or the new one, even after a crash.
func write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".publish-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o640), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
