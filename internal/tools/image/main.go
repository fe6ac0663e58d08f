// Command image makes a container image of static programs and nothing else, as an archive that
// `docker load`, `podman load` and `skopeo copy docker-archive:` read:
//
//	image -o ceiling.tar -tag ceiling:1.2.0 -arch amd64 -date 2026-11-28T03:31:55Z PROGRAM...
//
// No container engine is needed, and the same programs give the same image.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nobody is the user that the programs run as: nobody in particular, and not root.
const nobody = "65532:65532"

func main() {
	out := flag.String("o", "image.tar", "archive to write")
	tag := flag.String("tag", "ceiling:latest", "name of the image")
	arch := flag.String("arch", "amd64", "of the programs")
	date := flag.String("date", "", "creation time, RFC 3339: that of the commit")
	flag.Parse()
	if err := write(*out, *tag, *arch, *date, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(out, tag, arch, date string, programs []string) error {
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	files, err := layer(programs, at)
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "internal/tools/image"}})
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, configOf(image, arch, at, programs[0]))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(out, ref, image)
}

func configOf(image v1.Image, arch string, at time.Time, first string) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		panic(err) // it was made here
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Created = arch, "linux", v1.Time{Time: at}
	c.Config.User, c.Config.Entrypoint = nobody, []string{"/" + filepath.Base(first)}
	c.Config.Env = []string{"PATH=/", "HOME=/tmp"}
	c.Config.WorkingDir = "/tmp"
	return c
}

// layer is the file system: the programs in /, and a /tmp for records.
func layer(programs []string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: at}); err != nil {
		return nil, err
	}
	for _, program := range programs {
		data, err := os.ReadFile(program)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.Base(program), Mode: 0o755, Size: int64(len(data)), ModTime: at}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
