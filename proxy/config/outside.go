package config

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Check is Read, and also checks what the file refers to on this machine: what would fail at
// startup is an error, with its line, and what would fail requests is one of Notes.Warnings, which
// is set even if there are errors. It changes nothing and looks up only the names of destinations:
// only a start shows whether an address is free.
func Check(path string) (*Config, error) {
	c, err := read(path, true)
	if err != nil {
		return c, err
	}
	locations, applications := 0, 0
	for _, r := range c.Regions {
		locations += len(r.Locations)
		applications += len(r.Applications)
	}
	if locations == 0 && applications == 0 && c.Publish.Regions == "" {
		return nil, Errors{{path, 0, "no location in it or in what it includes: every request would be answered with 404"}}
	}
	return c, nil
}

// beside checks what the file refers to outside of regions.
func (k *checker) beside(c *Config, at *places) {
	if !k.outside {
		return
	}
	k.twice(c, at)
	var certificates []*x509.Certificate
	own := len(c.TLS.Certificates) - len(c.certificates)
	for i, p := range c.TLS.Certificates {
		key := fmt.Sprintf("tls.certificates.%d", i)
		if i >= own {
			key = fmt.Sprintf("hypertext.certificate.%d", i-own)
			if _, many := c.Hypertext.Certificate.([]any); !many {
				key = "hypertext.certificate"
			}
		}
		if p.PEM == "" || p.Key == "" {
			continue
		}
		if leaf := k.certificate(p, at, key); leaf != nil {
			certificates = append(certificates, leaf)
		}
	}
	if len(certificates) == len(c.TLS.Certificates) {
		k.covered(&c.TLS, certificates)
	}
	k.resolve()
	if a := c.TLS.ACME; a != nil {
		k.authority(a, at)
	}
	if name := c.Log.Access; name != "off" && name != "-" {
		if err := canAppend(name); err != nil {
			k.add(at, "log.access", "access: %v", err)
		}
	}
}

// twice finds addresses listened on twice.
func (k *checker) twice(c *Config, at *places) {
	seen := map[string]bool{}
	look := func(key, address string) {
		if _, port, err := net.SplitHostPort(address); err == nil && port == "0" {
			return
		}
		if seen[address] {
			k.add(at, key, "%s: duplicate listen address", address)
		}
		seen[address] = true
	}
	for i, a := range c.Listen {
		look(fmt.Sprintf("listen.%d", i), a)
	}
	for i, a := range c.TLS.Listen {
		look(fmt.Sprintf("tls.listen.%d", i), a)
	}
	if c.Admin != "" {
		look("admin", c.Admin)
	}
}

func (k *checker) authority(a *ACME, at *places) {
	if a.Roots != "" {
		if _, _, err := ReadCAs(a.Roots); err != nil {
			k.add(at, "tls.acme.roots", "acme: roots: %v", err)
		}
	}
	if a.Cache != "" {
		if err := canMake(a.Cache); err != nil {
			k.add(at, "tls.acme.cache", "acme: cache: %v", err)
		}
	}
}

// below warns of a directory that has nothing at the location's path: paths are appended to it whole,
// as by nginx's root.
func (k *checker) below(l *Location, d *Destination, at *places, key string) {
	target, err := ParseURI(d.URI)
	if !k.outside || err != nil || target.Scheme != Files || len(d.Transformers) > 0 || target.Options.Get("fallback") != "" {
		return
	}
	root, err := os.OpenRoot(target.Address)
	if err != nil {
		return // there has said so
	}
	for _, path := range l.Paths {
		prefix := strings.Trim(strings.TrimSuffix(path, "/*"), "/")
		if prefix == "" || path[0] != '/' || strings.ContainsAny(prefix, `^$*+?()[]{}\|`) {
			continue
		}
		inside := filepath.Join(strings.Trim(target.Options.Get("prefix"), "/"), prefix)
		if _, err := root.Stat(inside); err != nil {
			k.warn(at, key+".uri", "uri: files: requests for %s look for %s, which is not there; to serve %s itself below /%s, add "+
				`transformers = [{ type = "replacePath", options = { pattern = "/%s", value = "" } }]`,
				path, filepath.Join(target.Address, inside), target.Address, prefix, prefix)
		}
	}
	if err := root.Close(); err != nil {
		k.warn(at, key+".uri", "uri: files: %v", err)
	}
}

// there checks what a destination needs on this machine.
func (k *checker) there(d *Destination, target Target, at *places, key string) {
	if !k.outside {
		return
	}
	if d.MaxConnections > 0 && d.MaxConnections < k.workers {
		k.add(at, key+".max_connections", "max_connections: %d for %d workers; each needs one", d.MaxConnections, k.workers)
	}
	switch target.Scheme {
	case Files:
		root, err := os.OpenRoot(target.Address)
		if err == nil {
			err = root.Close()
		}
		if err != nil {
			k.warn(at, key+".uri", "uri: files: %v; create it, or correct the path: until then its requests get 404", err)
		}
		if age := target.Options.Get("maxAge"); age != "" {
			if n, err := strconv.Atoi(age); err != nil || n < 0 {
				k.add(at, key+".uri", "uri: maxAge=%s: must be a number of seconds", age)
			}
		}
	case HTTP, HTTPS:
		host, _, err := net.SplitHostPort(target.Address)
		if _, literal := netip.ParseAddr(host); err == nil && literal != nil {
			k.names = append(k.names, named{host, at, key + ".uri"})
		}
	case Unix:
		// A missing socket may appear later. An existing file that is not a socket will not
		// become one.
		if info, err := os.Stat(target.Address); err == nil && info.Mode()&fs.ModeSocket == 0 {
			k.add(at, key+".uri", "uri: %s is not a socket", target.Address)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.add(at, key+".uri", "uri: %v", err)
		}
	}
}

// lookUpWithin bounds the time of all look-ups.
const lookUpWithin = 5 * time.Second

// resolve warns of destinations' names that do not resolve.
func (k *checker) resolve() {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpWithin)
	defer cancel()
	failed := make([]error, len(k.names))
	var all sync.WaitGroup
	for i, n := range k.names {
		all.Go(func() {
			if IsService(n.name) {
				_, _, failed[i] = net.DefaultResolver.LookupSRV(ctx, "", "", n.name)
				return
			}
			_, failed[i] = net.DefaultResolver.LookupHost(ctx, n.name)
		})
	}
	all.Wait()
	for i, n := range k.names {
		if failed[i] != nil {
			k.warn(n.at, n.key, "uri: %s does not resolve: %v; correct the name, or its DNS record: until then its requests get 502",
				n.name, failed[i])
		}
	}
}

// loops returns how many there would be.
func (c *Config) loops() int {
	if c.Workers > 0 {
		return c.Workers
	}
	return runtime.NumCPU()
}

const mayWrite, mayEnter = 2, 1 // of access(2)

// canAppend checks that a file could be opened for appending, without opening it.
func canAppend(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", name)
	case err == nil:
		return access(name, mayWrite)
	case errors.Is(err, fs.ErrNotExist):
		return canMake(filepath.Dir(name)) // a start makes it
	}
	return err
}

// canMake checks that a directory exists and is writable, or could be created.
func canMake(name string) error {
	for dir := filepath.Clean(name); ; dir = filepath.Dir(dir) {
		err := isDirectory(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// isDirectory checks that name is a directory in which files can be created.
func isDirectory(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", name)
	}
	return access(name, mayWrite|mayEnter)
}

func access(name string, mode uint32) error {
	if err := syscall.Access(name, mode); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

func relativeTo(file, pattern string) string {
	if filepath.IsAbs(pattern) {
		return pattern
	}
	return filepath.Join(filepath.Dir(file), pattern)
}

// byteOrderMark is what some editors put in front of UTF-8, without a meaning.
var byteOrderMark = []byte("\ufeff") // read-only
