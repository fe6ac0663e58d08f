package roadsign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/proxy/apps"
	"ceiling/proxy/config"
	"ceiling/proxy/publish"
)

// Bounds of texts: of a region's file, and of a form's field, which becomes an argument of a
// shell: the kernel's limit of one is 128 KiB.
const (
	mostRegion = 1 << 20
	mostField  = 100 << 10
)

// target is what can be deployed to: the directory of a files:// destination, or the work
// directory of an application.
type target struct {
	site        config.Site
	application string   // "" for a destination
	working     []string // applications with a work directory inside the site's
}

// deploy makes an upload the next release. Applications that work in its directory are stopped
// before and started again after it.
func (a *API) deploy(r *http.Request) error {
	overwrite, err := choice(r, "overwrite", true)
	if err != nil {
		return err
	}
	t, err := a.target(r.PathValue("site"), r.PathValue("slug"))
	if err != nil {
		return err
	}
	release, err := publish.Stage(t.site, a.Config().Publish.UnpackedBytes)
	if err != nil {
		return err
	}
	f := form{release: release}
	err = f.read(r)
	switch {
	case err != nil:
	case f.files == 0 && overwrite:
		err = publish.Refuse(http.StatusBadRequest, "the upload has no file named attachments")
	case len(t.working) > 0:
		err = a.replace(r.Context(), t, &f, overwrite)
	default:
		err = a.serve(r.Context(), t, &f, overwrite)
	}
	return errors.Join(err, release.Discard())
}

// serve puts a release in place of the files that a destination serves. The script has run
// before.
func (a *API) serve(ctx context.Context, t target, f *form, overwrite bool) error {
	if !overwrite {
		if err := f.release.Carry(false); err != nil {
			return err
		}
	}
	if output, err := f.script.run(ctx, f.release.Dir()); err != nil {
		return publish.Refuse(http.StatusUnprocessableEntity, "%w: the former release stays\n%s", err, output)
	}
	if lost := a.lost(t.site.Directory, f.release.Dir()); lost != "" {
		return publish.Refuse(http.StatusConflict, "%s is served too, and the upload does not have it: add it, or deploy with ?overwrite=false", lost)
	}
	_, err := a.Publisher.Serve(ctx, f.release, nil)
	return err
}

// lost returns another destination's directory that is inside a directory and not inside its next
// release.
func (a *API) lost(directory, release string) string {
	for _, r := range a.Config().Regions {
		for _, l := range r.Locations {
			for _, d := range l.Destinations {
				to, err := config.ParseURI(d.URI)
				if err != nil || to.Scheme != config.Files {
					continue
				}
				below, inside := within(directory, to.Address)
				_, now := os.Stat(to.Address)
				_, next := os.Stat(filepath.Join(release, below))
				if inside && now == nil && next != nil {
					return filepath.Join(directory, below)
				}
			}
		}
	}
	return ""
}

// within reports whether a directory is another one, or inside it, and where.
func within(outer, inner string) (below string, inside bool) {
	full, err := filepath.Abs(inner)
	if err != nil {
		return "", false
	}
	below, err = filepath.Rel(outer, full)
	return below, err == nil && filepath.IsLocal(below)
}

// replace stops the applications that work in a directory, puts a release in its place and starts
// them. Directories that the release lacks stay: they may have the applications' data. The script
// runs in the directory itself, whose path may be written into what it installs.
func (a *API) replace(ctx context.Context, t target, f *form, overwrite bool) (err error) {
	var stopped []string
	defer func() {
		for _, id := range stopped {
			err = errors.Join(err, a.Supervisor.Restart(id))
		}
	}()
	for _, id := range t.working {
		state, err := a.state(id)
		if err != nil {
			return err
		}
		if state == apps.Stopped {
			continue
		}
		if err := a.Supervisor.Stop(id); err != nil {
			return err
		}
		stopped = append(stopped, id)
	}
	if err := f.release.Carry(overwrite); err != nil {
		return err
	}
	_, err = a.Publisher.Serve(ctx, f.release, func() (string, error) { return f.script.run(ctx, t.site.Directory) })
	if err == nil && t.application != "" && !slices.Contains(stopped, t.application) {
		stopped = append(stopped, t.application)
	}
	return err
}

// target finds what the client means.
func (a *API) target(id, slug string) (target, error) {
	known := false
	for _, r := range a.Config().Regions {
		if r.ID != id {
			continue
		}
		known = true
		for _, app := range r.Applications {
			if app.ID == slug && app.Workdir == "" {
				return target{}, publish.Refuse(http.StatusUnprocessableEntity, "application %q has no workdir to deploy to", slug)
			}
			if app.ID == slug {
				return a.at(app.Workdir, target{application: slug})
			}
		}
		for _, l := range r.Locations {
			for _, d := range l.Destinations {
				if to, err := config.ParseURI(d.URI); d.ID == slug && err == nil {
					if to.Scheme != config.Files {
						return target{}, publish.Refuse(http.StatusUnprocessableEntity,
							"destination %q has no files: deploy to the application behind it, or to a destination with files://", slug)
					}
					return a.at(to.Address, target{})
				}
			}
		}
	}
	if !known {
		return target{}, publish.Refuse(http.StatusNotFound, "unknown region %q", id)
	}
	return target{}, publish.Refuse(http.StatusNotFound, "region %q has no destination and no application %q", id, slug)
}

// at completes a target with its directory, which becomes a link to the release. The proxy's own
// directories must not be moved with it.
func (a *API) at(directory string, t target) (target, error) {
	full, err := filepath.Abs(directory)
	if err != nil {
		return t, err
	}
	own, err := os.Getwd()
	if err != nil {
		return t, err
	}
	for _, one := range []string{own, a.Config().Publish.Regions} {
		if _, inside := within(full, one); inside && one != "" {
			return t, publish.Refuse(http.StatusUnprocessableEntity, "%s contains %s, which the proxy needs: deploy to a separate directory", full, one)
		}
	}
	t.site = config.Site{Directory: full, Keep: config.DefaultKeep}
	for _, s := range a.Config().Publish.Sites {
		if at, err := filepath.Abs(s.Directory); err == nil && at == full {
			t.site = s
		}
	}
	for _, r := range a.Config().Regions {
		for _, app := range r.Applications {
			if _, inside := within(full, app.Workdir); inside && app.Workdir != "" {
				t.working = append(t.working, app.ID)
			}
		}
	}
	return t, nil
}

// form is an upload: files for the release, and a script.
type form struct {
	release *publish.Release
	files   int
	script  script
}

func (f *form) read(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return publish.Refuse(http.StatusBadRequest, "the upload is not a form: %w", err)
	}
	for {
		p, err := parts.NextPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return publish.Refuse(http.StatusBadRequest, "incomplete upload form: %w", err)
		}
		err = f.part(p, r.URL.Query().Get("mimetype"))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = publish.Refuse(http.StatusBadRequest, "incomplete upload form: %w", err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.FormName(), err)
		}
	}
}

// part reads one field of the form; others than these are ignored.
func (f *form) part(p *multipart.Part, kind string) error {
	switch p.FormName() {
	case "attachments":
		if p.FileName() == "" {
			return nil
		}
		f.files++
		if kind == "" {
			kind = p.Header.Get("Content-Type")
		}
		if kind, _, err := mime.ParseMediaType(kind); err == nil && kind == "application/zip" {
			return f.release.Unzip(p)
		}
		return f.release.Add(p.FileName(), p)
	case "post-deploy-script":
		text, err := read(p, mostField)
		f.script.text = string(text)
		return err
	case "post-deploy-environment":
		text, err := read(p, mostField)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			if line != "" && strings.IndexByte(line, '=') < 1 {
				return publish.Refuse(http.StatusBadRequest, "a line is not NAME=value")
			}
			if line != "" {
				f.script.environment = append(f.script.environment, line)
			}
		}
	}
	return nil
}

// read reads a text of bounded length.
func read(from io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, publish.Refuse(http.StatusRequestEntityTooLarge, "the text has more than %d bytes", most)
	}
	return text, err
}

// script is what the client runs after the upload.
type script struct {
	text        string
	environment []string
}

func (s *script) run(ctx context.Context, dir string) (output string, err error) {
	if s.text == "" {
		return "", nil
	}
	output, err = publish.Run(ctx, dir, []string{"/bin/sh", "-c", s.text}, s.environment)
	if err != nil {
		err = fmt.Errorf("post-deploy-script: %w", err)
	}
	return output, err
}
