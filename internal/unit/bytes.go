package unit

import (
	"errors"
	"fmt"
	"strings"

	"ceiling/internal/text"
)

// BitsPerSecond is the unit of link speeds. String and ParseBits round-trip.
type BitsPerSecond uint64

// BytesPerSecond is the unit of transfers.
type BytesPerSecond uint64

// Bytes converts b to bytes per second, rounded down.
func (b BitsPerSecond) Bytes() BytesPerSecond { return BytesPerSecond(b / 8) }

// Bits converts b to bits per second. It saturates from 2^61 bytes per second at the largest
// multiple of 8.
func (b BytesPerSecond) Bits() BitsPerSecond {
	const most = 1<<61 - 1
	return BitsPerSecond(min(b, most)) * 8
}

// String formats b exactly, with the largest prefix that divides it: 50 Gbit/s.
func (b BitsPerSecond) String() string {
	digits, prefix := shorten(uint64(b))
	return fmt.Sprintf("%d %sbit/s", digits, prefix)
}

// String formats b exactly, with the largest prefix that divides it: 125 MB/s.
func (b BytesPerSecond) String() string {
	digits, prefix := shorten(uint64(b))
	return fmt.Sprintf("%d %sB/s", digits, prefix)
}

// ParseBits parses a link speed in bits per second: 50Gbps, 10Gbit, 2.5Gbit/s, 100M. It rejects
// bytes (MB/s) and binary prefixes (Mibit): links use neither, and a factor of 8 or 1.07 would go
// unnoticed.
func ParseBits(s string) (BitsPerSecond, error) {
	b, err := parseBits(s)
	if err != nil {
		return 0, fmt.Errorf("invalid link speed %s: %w (e.g. 50Gbps, 10Gbit, 100M, in bits per second)", text.Quote(s), err)
	}
	return b, nil
}

func parseBits(s string) (BitsPerSecond, error) {
	n, rest, ok := cutNumber(s)
	if !ok {
		return 0, errors.New("it does not begin with a number")
	}
	unit := strings.TrimPrefix(rest, " ")
	if strings.Contains(unit, "i") && !strings.Contains(unit, "bit") || strings.Contains(unit, "ibit") {
		return 0, errors.New("its prefix is binary")
	}
	if strings.Contains(unit, "B") || strings.Contains(strings.ToLower(unit), "byte") {
		return 0, errors.New("its B is bytes, one byte is 8 bits")
	}
	for _, name := range [...]string{"bit/s", "bits", "bit", "bps", "b/s"} {
		if short, ok := strings.CutSuffix(unit, name); ok {
			unit = short
			break
		}
	}
	factor := prefix(unit)
	if factor == 0 {
		return 0, fmt.Errorf("unknown unit %s", text.Quote(rest))
	}
	b, ok := n.times(factor)
	if !ok {
		return 0, errors.New("it is not a whole number of bits below 2^64")
	}
	return BitsPerSecond(b), nil
}

// FormatBits formats a speed with three significant digits: 9.41 Gbit/s.
func FormatBits(b BitsPerSecond) string {
	return scaled(float64(b), 1000, " bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s")
}

// FormatBytesSI formats n bytes with three significant digits and a decimal prefix: 512 B, 4.50
// kB, 1.07 MB (1 MB = 10^6 bytes).
func FormatBytesSI(n int64) string {
	if magnitude(n) < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	return sign(n) + scaled(float64(magnitude(n)), 1000, " B", " kB", " MB", " GB", " TB", " PB", " EB")
}

// FormatBytesIEC formats n bytes with three significant digits and a binary prefix: 512 B, 4.39
// KiB, 1.02 MiB (1 MiB = 2^20 bytes). 1000 to 1023 have four digits.
func FormatBytesIEC(n int64) string {
	if magnitude(n) < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return sign(n) + scaled(float64(magnitude(n)), 1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
}

// TransferNote explains the units of FormatTransfer, to be printed with it.
const TransferNote = "1 KB = 10^3, 1 MB = 10^6, 1 GB = 10^9 bytes"

// FormatTransfer formats the figure of a Transfer/sec line in wrk's spelling: 12.34MB, two
// decimals, no blank, capital K. wrk itself divides by 1024 and calls the result MB, which has
// repeatedly been compared with links in decimal bits; ours are powers of 1000, so the same
// transfer reads up to 7 % higher than wrk's.
func FormatTransfer(b BytesPerSecond) string {
	x := float64(b)
	for _, unit := range [...]string{"B", "KB", "MB", "GB"} {
		if text := fmt.Sprintf("%.2f", x); len(text) <= len("999.99") {
			return text + unit
		}
		x /= 1000
	}
	return fmt.Sprintf("%.2fTB", x)
}
