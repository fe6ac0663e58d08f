// Package compress has the codings of responses: which one a client prefers, which content is worth
// it, and encoders at levels that a loop can afford.
package compress

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"ceiling/proxy/config"
)

// Codings for responses, in order of preference; 0 is none.
var Codings = [...]string{"", "zstd", "br", "gzip"} // read-only

const (
	// Least is the size below which a body stays uncompressed: it fits into a packet
	// anyway.
	Least = 512
	// windowBits is log2 of the zstd and brotli window, which determines a stream's memory.
	windowBits = 17
)

// Level is a compression level; 0 compresses nothing.
type Level uint8

const (
	None Level = iota
	Fast
	Middle
	Small
	Smallest // for what is compressed once and served often: too slow for a loop
)

// levels has the level of each coding, by Level.
var levels = [...]struct {
	zstd zstd.EncoderLevel
	br   int
	gzip int
}{{}, {zstd.SpeedFastest, 1, 1}, {zstd.SpeedDefault, 4, 5}, {zstd.SpeedBetterCompression, 6, 9},
	{zstd.SpeedBestCompression, 11, 9}} // read-only

// LevelOf returns the level that a destination, or its location, asks for.
func LevelOf(whole bool, list []config.Transformer) Level {
	for _, t := range list {
		if t.Type == "compressResponse" {
			switch t.Options.Level {
			case 1:
				return Fast
			case 2:
				return Small
			}
			return Middle
		}
	}
	if whole {
		return Middle
	}
	return None
}

// Best returns the coding that an Accept-Encoding prefers; of equals, our first (RFC 9110,
// section 12.5.3).
func Best(field []byte) (best uint8) {
	most := 0.0
	for i := 1; i < len(Codings); i++ {
		if q := Weight(field, Codings[i]); q > most {
			best, most = uint8(i), q
		}
	}
	return best
}

// Weight returns the weight that a field gives a coding, by its name or by "*".
func Weight(field []byte, coding string) float64 {
	rest := 0.0
	for part := range bytes.SplitSeq(field, []byte{','}) {
		name, weight, weighed := bytes.Cut(part, []byte{';'})
		q := 1.0
		if weighed {
			var err error
			text, found := strings.CutPrefix(strings.ToLower(string(bytes.TrimSpace(weight))), "q=")
			if q, err = strconv.ParseFloat(text, 64); err != nil || !found || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
		switch name = bytes.TrimSpace(name); {
		case bytes.EqualFold(name, []byte(coding)):
			return q
		case string(name) == "*":
			rest = q
		}
	}
	return rest
}

// Packable reports whether a content type compresses well.
func Packable(kind []byte) bool {
	text := strings.ToLower(string(kind))
	text, _, _ = strings.Cut(text, ";")
	switch text = strings.TrimSpace(text); text {
	case "application/javascript", "application/json", "application/xml", "application/wasm", "application/x-javascript",
		"application/manifest+json", "application/rtf", "application/vnd.ms-fontobject", "font/ttf", "font/otf", "image/bmp", "image/x-icon",
		"image/vnd.microsoft.icon":
		return true
	}
	return strings.HasPrefix(text, "text/") || strings.HasSuffix(text, "+xml") || strings.HasSuffix(text, "+json")
}

// Encoder is the common interface of the three libraries.
type Encoder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// NewEncoder creates an encoder. The options are our constants, so an error is a bug.
func NewEncoder(coding uint8, level Level, to io.Writer) Encoder {
	switch Codings[coding] {
	case "zstd":
		e, err := zstd.NewWriter(to, zstd.WithEncoderLevel(levels[level].zstd), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(1<<windowBits), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("proxy: zstd: " + err.Error())
		}
		return e
	case "br":
		e, err := brrr.NewWriterOptions(to, levels[level].br, brrr.WriterOptions{LGWin: windowBits})
		if err != nil {
			panic("proxy: brotli: " + err.Error())
		}
		return e
	}
	e, err := gzip.NewWriterLevel(to, levels[level].gzip)
	if err != nil {
		panic("proxy: gzip: " + err.Error())
	}
	return e
}
