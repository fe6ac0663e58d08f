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
		mux.Handle(pattern, guard(func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, f) }))
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

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Errorf(format, args...)}
}

func (p *Publisher) answer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
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
	_ = c.SetWriteDeadline(now.Add(uploadTime + commandTime))
	r.Body = http.MaxBytesReader(w, r.Body, p.Config().Publish.UploadBytes)
	v, err := f(r)
	var known refusal
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case errors.As(err, &known):
		http.Error(w, err.Error(), known.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // it fails if the client has left
	}
}

func (p *Publisher) site(r *http.Request) (*site, error) {
	id := r.PathValue("id")
	for _, s := range p.Config().Publish.Sites {
		if s.ID == id {
			return &site{s}, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "there is no site %q under [[publish.sites]]", id)
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
	if err := s.adopt(); err != nil {
		return nil, err
	}
	release, err := s.stage(r.Body, p.Config().Publish.UnpackedBytes)
	if err != nil {
		return nil, err
	}
	output, err := p.serve(r.Context(), s, release)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.path(release)))
	}
	return published{Release: release, Output: output}, s.prune()
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
		return nil, refuse(http.StatusConflict, "there is no release before %q", now)
	}
	output, err := p.serve(r.Context(), s, before)
	return published{Release: before, Output: output}, err
}

// serve activates a release and runs the command; if that fails, it reactivates the previous one.
func (p *Publisher) serve(ctx context.Context, s *site, release string) (output string, err error) {
	former := s.served()
	if err := s.point(release); err != nil {
		return "", err
	}
	if err = p.Reload(); err == nil {
		if output, err = s.command(ctx); err == nil {
			return output, nil
		}
	}
	err = refuse(http.StatusUnprocessableEntity, "%w: the former release stays\n%s", err, output)
	if former == "" {
		return output, errors.Join(err, os.Remove(s.Directory))
	}
	if e := s.point(former); e != nil {
		return output, errors.Join(err, e)
	}
	return output, errors.Join(err, p.Reload())
}

// command runs the command that follows a release, in its directory, in its own process group,
// which is killed as a whole.
func (s *site) command(ctx context.Context) (output string, err error) {
	if len(s.Command) == 0 {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Directory
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	b, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("command %q: %w", s.Command, err)
	}
	return string(b[:min(len(b), 64<<10)]), err
}

// region puts a region's file in place. If the resulting configuration is rejected, it restores
// the previous file.
func (p *Publisher) region(r *http.Request) (any, error) {
	dir, name := p.Config().Publish.Regions, r.PathValue("name")
	switch {
	case dir == "":
		return nil, refuse(http.StatusNotFound, "[publish] regions names no directory")
	case !strings.HasSuffix(name, ".toml") || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\*?[`) || name[0] == '.':
		return nil, refuse(http.StatusBadRequest, "%q is no name such as site.toml", name)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if _, err := config.Parse(name, text); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "the old configuration stays:\n%w", err)
	}
	file := filepath.Join(dir, name)
	former, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	fresh := err != nil
	if err := write(file, text); err != nil {
		return nil, err
	}
	if err := p.Reload(); err != nil {
		err = refuse(http.StatusUnprocessableEntity, "the old configuration stays:\n%w", err)
		if fresh {
			return nil, errors.Join(err, os.Remove(file))
		}
		return nil, errors.Join(err, write(file, former))
	}
	return published{Release: name}, nil
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
