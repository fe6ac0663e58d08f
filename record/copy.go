package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// CopyOptions say what a copy of a record contains.
type CopyOptions struct {
	// SeriesMost is the largest series, in bytes, that the copy of a single run keeps; it never
	// has the series of a plan's runs, nor attachments.
	SeriesMost int64
	// SeriesWhy and AttachmentWhy give the reasons to readers of the copy.
	SeriesWhy, AttachmentWhy string
}

// Copy writes a finished record to a new compressed file as o says, with a note of what it omits.
// It returns that and the size of the file.
func Copy(path string, f File, o CopyOptions) ([]Omission, int64, error) {
	src, err := f.open()
	if err != nil {
		return nil, 0, err
	}
	defer src.Close()
	left, seriesStays, err := leave(src, &o)
	if err == nil {
		err = src.seek(place{})
	}
	if err != nil {
		return nil, 0, err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, 0, err
	}
	counted := &written{Writer: out}
	read, write := io.Pipe()
	go func() { write.CloseWithError(copyLines(write, src, left, seriesStays)) }()
	err = pack(counted, read)
	read.CloseWithError(err) // so that the other side ends too
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return nil, 0, errors.Join(err, os.Remove(path))
	}
	return left, counted.n, nil
}

// leave chooses what to omit.
func leave(src *source, o *CopyOptions) (left []Omission, seriesStays bool, err error) {
	in, plan := newLines(src), false
	series, attached := int64(0), map[string]int{}
	for {
		l, err := in.line()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
		size := int64(len(l.text) + 1)
		switch {
		case l.kind == kindPlan:
			plan = true
		case l.kind == kindAttachment:
			name := attachmentName(l.text)
			i, there := attached[name]
			if !there {
				i = len(left)
				attached[name] = i
				left = append(left, Omission{What: name, Why: o.AttachmentWhy})
			}
			left[i].Bytes += size
		case l.kind == kindLeftOut: // a copy of a copy
			var note leftOutLine
			if err := json.Unmarshal(l.text, &note); err != nil {
				return nil, false, err
			}
			left = append(left, note.LeftOut...)
		case !isTailed(l.kind):
			series += size
		}
	}
	if seriesStays = !plan && series <= o.SeriesMost; !seriesStays && series > 0 {
		left = append([]Omission{{What: "series", Bytes: series, Why: o.SeriesWhy}}, left...)
	}
	return left, seriesStays, nil
}

// copyLines writes what stays, and after the head what does not.
func copyLines(to io.Writer, src *source, left []Omission, seriesStays bool) error {
	out, in := bufio.NewWriter(to), newLines(src)
	for first := true; ; first = false {
		l, err := in.line()
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		if l.kind == kindAttachment || l.kind == kindLeftOut || !isTailed(l.kind) && !seriesStays {
			continue
		}
		out.Write(l.text)
		if err := out.WriteByte('\n'); err != nil { // a bufio.Writer keeps its first error
			return err
		}
		if first && len(left) > 0 {
			note, err := marshalLine(kindLeftOut, &leftOutLine{left})
			if err != nil {
				return err
			}
			out.Write(note)
		}
	}
}
