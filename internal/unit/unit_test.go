package unit

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	quoting "ceiling/internal/text"
)

// refused checks that err names text and gives an example holding want.
func refused(t *testing.T, text string, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%q is accepted", text)
	case !strings.Contains(err.Error(), quoting.Quote(text)) || !strings.Contains(err.Error(), "(e.g. ") || !strings.Contains(err.Error(), want):
		t.Errorf("%q: error %q does not name it, or lacks an example or %q", text, err, want)
	}
}

func TestParseCount(t *testing.T) {
	check := func(text string, want int64) {
		t.Helper()
		if got, err := ParseCount(text); got != want || err != nil {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
	check("0", 0)
	check("20000", 20000)
	check("1k", 1000)
	check("1K", 1000)
	check("1.5k", 1500)
	check("1.500M", 1_500_000)
	check("2G", 2_000_000_000)
	check("9223372036854775807", math.MaxInt64)
	for _, text := range []string{"", "-1", "+1", "k", "1.5", "1.5005k", "1e3", "1,000", "1_000", " 1", "1 ", "1 k", "0x10", "1kk", "1Ki",
		"1KB", "1T", "1.", ".5k", "1.2.3k", "NaN", "٣",
		"9223372036854775808", "99999999999999999999", "9999999999G", "1.0000000000000000001G"} {
		_, err := ParseCount(text)
		refused(t, text, err, "20k")
	}
	_, err := ParseCount("5m")
	refused(t, "5m", err, "a million is M")
	_, err = ParseCount(strings.Repeat("9", 100000))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("a long text gives an error of %d bytes", len(err.Error()))
	}
}

func TestParseDuration(t *testing.T) {
	check := func(text string, want time.Duration) {
		t.Helper()
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%q = %v, %v, want %v", text, got, err, want)
		}
	}
	check("30s", 30*time.Second)
	check("30", 30*time.Second)
	check("0", 0)
	check("1.5", 1500*time.Millisecond)
	check("500us", 500*time.Microsecond)
	check("500µs", 500*time.Microsecond)
	check("2m", 2*time.Minute)
	check("1h30m", 90*time.Minute)
	check("0.5ms", 500*time.Microsecond)
	for _, text := range []string{"", "s", "-1s", "+1s", "-1", ".5s", "1d", "10sec", "2min", "1e3s", "30 s", "1S", "10000000h", "99999999999",
		"１s"} {
		_, err := ParseDuration(text)
		refused(t, text, err, "500us")
	}
	_, err := ParseDuration("10000000h")
	refused(t, "10000000h", err, "292 years")
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SampledFrom([]time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "step")
		d := steps * time.Duration(rapid.Int64Range(0, int64(math.MaxInt64/steps)).Draw(t, "n"))
		text := FormatDuration(d)
		if back, err := ParseDuration(text); back != d || err != nil {
			t.Fatalf("%d ns prints as %q, which reads as %d, %v", d, text, back, err)
		}
	})
	check := func(d time.Duration, want string) {
		t.Helper()
		if got := FormatDuration(d); got != want {
			t.Errorf("%d ns = %q, want %q", d, got, want)
		}
	}
	check(0, "0s")
	check(2*time.Minute, "2m")
	check(10*time.Second, "10s")
	check(10*time.Minute, "10m")
	check(time.Hour, "1h")
	check(10*time.Hour, "10h")
	check(90*time.Minute, "1h30m")
	check(time.Hour+5*time.Second, "1h0m5s")
	check(1500*time.Millisecond, "1.5s")
	check(500*time.Microsecond, "500us")
}

func TestParseRate(t *testing.T) {
	check := func(text string, want Rate, constant bool, perSecond float64, printed string) {
		t.Helper()
		got, err := ParseRate(text)
		if got != want || err != nil || got.Constant() != constant || got.PerSecond() != perSecond || got.String() != printed {
			t.Errorf("%q = %+v, %v, constant %v, %v /s, %q", text, got, err, got.Constant(), got.PerSecond(), got)
		}
	}
	flat := func(count, perNs uint64) Rate {
		return Rate{From: Frequency{count, perNs}, To: Frequency{count, perNs}}
	}
	check("1000", flat(1000, 1e9), true, 1000, "1k")
	check("10k", flat(10000, 1e9), true, 10000, "10k")
	check("1500", flat(1500, 1e9), true, 1500, "1500")
	check("50/1s", flat(50, 1e9), true, 50, "50")
	check("50/10s", flat(50, 10e9), true, 5, "50/10s")
	check("10/ms", flat(10, 1e6), true, 10000, "10/ms")
	check("600/m", flat(600, 60e9), true, 10, "600/m")
	check("1k/1m30s", flat(1000, 90e9), true, 1000*1e9/90e9, "1k/1m30s")
	check("0.5", flat(1, 2e9), true, 0.5, "1/2s")
	check("2.5/m", flat(5, 120e9), true, 2.5/60, "5/2m")
	check("1.5k", flat(1500, 1e9), true, 1500, "1500")
	check("0.0005k", flat(1, 2e9), true, 0.5, "1/2s")
	check("1G", flat(1e9, 1e9), true, 1e9, "1G")
	check("1/ns", flat(1, 1), true, 1e9, "1/ns")
	check("100:10k", Rate{From: Frequency{100, 1e9}, To: Frequency{10000, 1e9}}, false, 5050, "100:10k")
	check("0:1k", Rate{From: Frequency{0, 1e9}, To: Frequency{1000, 1e9}}, false, 500, "0:1k")
	check("10/ms:0", Rate{From: Frequency{10, 1e6}, To: Frequency{0, 1e9}}, false, 5000, "10/ms:0")
	check("60/m:1", Rate{From: Frequency{60, 60e9}, To: Frequency{1, 1e9}}, true, 1, "60/m:1")
	check("5:5", flat(5, 1e9), true, 5, "5")
	for _, text := range []string{"", "0", "0:0", "0/s", "-1", "+1", "k", "1/", "/s", "1/0s", "1/-1s", "1/10", "1/x", "1/s/s", "1:2:3", ":",
		"1:", ":1", "1 req/s", "1e3", "2G", "2/ns", "1000000001", "1/3000000h",
		"99999999999999999999", "99999999999T", "0.0000000000000000001", "0.1/277778h", "1Ki"} {
		_, err := ParseRate(text)
		refused(t, text, err, "600/m")
	}
	_, err := ParseRate("5m")
	refused(t, "5m", err, "a minute /m")
}

func drawFrequency(t *rapid.T, name string, least uint64) Frequency {
	per := rapid.OneOf(rapid.SampledFrom([]uint64{1, 1e3, 1e6, 1e9, 60e9, 3600e9, 10e9}), rapid.Uint64Range(1, math.MaxInt64)).Draw(t,
		name+" per")
	// At most 10^9 a second, which is one per nanosecond.
	return Frequency{rapid.Uint64Range(least, per).Draw(t, name+" count"), per}
}

func TestRateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{From: drawFrequency(t, "from", 0), To: drawFrequency(t, "to", 1)}
		if rapid.Bool().Draw(t, "constant") {
			r.From = r.To
		}
		if back, err := ParseRate(r.String()); back != r || err != nil {
			t.Fatalf("%+v prints as %q, which reads as %+v, %v", r, r, back, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back Rate
		if err := json.Unmarshal(text, &back); back != r || err != nil {
			t.Fatalf("%+v is %s in JSON, which reads as %+v, %v", r, text, back, err)
		}
	})
	var zero Rate
	text, err := json.Marshal(zero)
	back := Rate{To: Frequency{1, 1}}
	if err2 := json.Unmarshal(text, &back); err != nil || err2 != nil || !back.IsZero() {
		t.Errorf("no rate is %s in JSON, which reads as %+v: %v, %v", text, back, err, err2)
	}
}

func TestParseBits(t *testing.T) {
	check := func(text string, want BitsPerSecond) {
		t.Helper()
		if got, err := ParseBits(text); got != want || err != nil {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
	check("50Gbps", 50e9)
	check("10Gbit", 10e9)
	check("2.5Gbit/s", 2.5e9)
	check("100M", 100e6)
	check("100Mbits", 100e6)
	check("100Mb/s", 100e6)
	check("50 Gbit/s", 50e9)
	check("9600", 9600)
	check("9600bps", 9600)
	for text, hint := range map[string]string{
		"": "number", "Gbps": "number", "-1G": "number", "1.0001bit": "whole number", "99999999999T": "whole number", "10X": "unit",
		"10  G": "unit", "10m": "unit",
		"10MB/s": "8 bits", "10MBps": "8 bits", "10Mbytes": "8 bits", "10GiB": "binary", "10Gi": "binary", "10Gibit": "binary",
		"10Gibps": "binary",
	} {
		_, err := ParseBits(text)
		refused(t, text, err, hint)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := BitsPerSecond(rapid.OneOf(rapid.Uint64(), rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Range(0, 999).Draw(t, "n") * pow10(rapid.IntRange(0, 16).Draw(t, "zeros"))
		})).Draw(t, "bits"))
		if back, err := ParseBits(b.String()); back != b || err != nil {
			t.Fatalf("%d prints as %q, which reads as %d, %v", uint64(b), b, uint64(back), err)
		}
		if b%8 == 0 && b.Bytes().Bits() != b {
			t.Fatalf("%d bits are not %d bytes", uint64(b), uint64(b.Bytes()))
		}
	})
	if got := BytesPerSecond(math.MaxUint64).Bits(); got != math.MaxUint64-7 {
		t.Errorf("bits of the largest byte rate: %d", uint64(got))
	}
	if got := BytesPerSecond(125e6).String(); got != "125 MB/s" {
		t.Errorf("125e6 B/s prints as %q", got)
	}
}

func TestFormatNumbers(t *testing.T) {
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(FormatNs(0), "0 ns")
	check(FormatNs(999), "999 ns")
	check(FormatNs(1000), "1.00 µs")
	check(FormatNs(1005), "1.01 µs")
	check(FormatNs(83_200), "83.2 µs")
	check(FormatNs(9_995), "10.0 µs")
	check(FormatNs(999_499), "999 µs")
	check(FormatNs(999_500), "1.00 ms")
	check(FormatNs(1_070_000), "1.07 ms")
	check(FormatNs(2_500_000_000), "2.50 s")
	check(FormatNs(999e9), "999 s")
	check(FormatNs(1000e9), "16.7 min")
	check(FormatNs(3*3600e9), "180 min")
	check(FormatNs(1000*60e9), "16.7 h")
	check(FormatNs(math.MaxInt64), "2562048 h")
	check(FormatNs(math.MinInt64), "-2562048 h")
	check(FormatNs(-83_200), "-83.2 µs")

	check(FormatCount(0), "0")
	check(FormatCount(999), "999")
	check(FormatCount(1000), "1,000")
	check(FormatCount(164012), "164,012")
	check(FormatCount(-1234567), "-1,234,567")
	check(FormatCount(math.MinInt64), "-9,223,372,036,854,775,808")

	check(FormatSI(0), "0")
	check(FormatSI(12.34), "12.3")
	check(FormatSI(999.4), "999")
	check(FormatSI(999.6), "1.00k")
	check(FormatSI(164012), "164k")
	check(FormatSI(1_064_012), "1.06M")
	check(FormatSI(999_960), "1.00M")
	check(FormatSI(-5e9), "-5.00G")
	check(FormatSI(0.001234), "0.00123")
	check(FormatSI(1e18), "1000P")
	check(FormatSI(math.NaN()), "NaN")
	check(FormatSI(math.Inf(-1)), "-Inf")

	check(FormatRate(164012.4), "164,012 req/s")
	check(FormatRate(99.96), "100 req/s")
	check(FormatRate(12.34), "12.3 req/s")
	check(FormatRate(0), "0 req/s")

}

func TestFormatBytes(t *testing.T) {
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(FormatBytesSI(512), "512 B")
	check(FormatBytesSI(4500), "4.50 kB")
	check(FormatBytesSI(999_999), "1.00 MB")
	check(FormatBytesSI(-1_070_000), "-1.07 MB")
	check(FormatBytesSI(math.MaxInt64), "9.22 EB")
	check(FormatBytesIEC(1000), "1000 B")
	check(FormatBytesIEC(1024), "1.00 KiB")
	check(FormatBytesIEC(4500), "4.39 KiB")
	check(FormatBytesIEC(1023<<10), "1023 KiB")
	check(FormatBytesIEC(1<<20-1), "1.00 MiB")
	check(FormatBytesIEC(math.MinInt64), "-8.00 EiB")
	check(FormatBits(9_412_000_000), "9.41 Gbit/s")
	check(FormatBits(64), "64.0 bit/s")

	check(FormatTransfer(0), "0.00B")
	check(FormatTransfer(12_340_000), "12.34MB")
	check(FormatTransfer(1_048_576), "1.05MB")
	check(FormatTransfer(999_994), "999.99KB")
	check(FormatTransfer(999_996), "1.00MB")
	check(FormatTransfer(1_234_000_000_000_000), "1234.00TB")
}

// TestFormatNsIsClose reads the figure back: three digits are within half a per cent.
func TestFormatNsIsClose(t *testing.T) {
	ns := map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Int64Range(0, 1<<rapid.IntRange(1, 62).Draw(t, "bits")).Draw(t, "ns")
		text := FormatNs(x)
		figure, unit, _ := strings.Cut(text, " ")
		shown, err := strconv.ParseFloat(figure, 64)
		if err != nil || ns[unit] == 0 || math.Abs(shown*ns[unit]-float64(x)) > float64(x)*0.005001 {
			t.Fatalf("%d ns is shown as %q", x, text)
		}
		if digits := len(strings.Replace(figure, ".", "", 1)); x >= 1000 && digits != 3 && unit != "h" {
			t.Fatalf("%d ns is shown as %q, %d digits", x, text, digits)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"1000", "10k", "50/1s", "10/ms", "600/m", "0.5", "100:10k", "1.5M/1h30m:0", "-1", "1//s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRate(text)
		if err != nil {
			refused(t, text, err, "")
			return
		}
		if r.From.PerNs == 0 || r.To.PerNs == 0 || r.PerSecond() <= 0 || r.PerSecond() > 1e9 {
			t.Fatalf("%q reads as %+v", text, r)
		}
		if back, err := ParseRate(r.String()); back != r || err != nil {
			t.Fatalf("%q reads as %+v, prints as %q, which reads as %+v, %v", text, r, r, back, err)
		}
	})
}

func FuzzParseOthers(f *testing.F) {
	for _, s := range []string{"1k", "20000", "1.5M", "30s", "500us", "30", "1h30m", "50Gbps", "10 Gbit/s", "100M", "-1", "1KiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseCount(text); err != nil {
			refused(t, text, err, "")
		} else if back, err := ParseCount(strconv.FormatInt(n, 10)); n < 0 || back != n || err != nil {
			t.Fatalf("count %q reads as %d", text, n)
		}
		if d, err := ParseDuration(text); err != nil {
			refused(t, text, err, "")
		} else if back, err := ParseDuration(FormatDuration(d)); d < 0 || back != d || err != nil {
			t.Fatalf("time %q reads as %d, prints as %q, which reads as %d, %v", text, d, FormatDuration(d), back, err)
		}
		if b, err := ParseBits(text); err != nil {
			refused(t, text, err, "")
		} else if back, err := ParseBits(b.String()); back != b || err != nil {
			t.Fatalf("speed %q reads as %d, prints as %q, which reads as %d, %v", text, uint64(b), b, uint64(back), err)
		}
	})
}

// TestSteps: steps keep their text, mean and rates.
func TestSteps(t *testing.T) {
	r, err := ParseRate("1k+5k+0+1/2s")
	if err != nil || r.String() != "1k+5k+0+1/2s" || r.Constant() || r.IsZero() || len(r.Each()) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if mean := r.PerSecond(); mean != 6000.5/4 || r.Most() != 5000 {
		t.Errorf("mean %g, at most %g", mean, r.Most())
	}
	for share, want := range map[float64]float64{0: 1000, .24: 1000, .26: 5000, .6: 0, .99: .5, 1: .5} {
		if got := r.At(share); got != want {
			t.Errorf("at %g: %g, want %g", share, got, want)
		}
	}
	var again Rate
	if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
		t.Errorf("%+v, %v", again, err)
	}
	for text, want := range map[string]string{
		"1k+": `"" must be a number`, "-5": `"-5" is below 0`, "0+0": "nothing would be sent", "1k+1:5": "one rate, not a ramp",
		strings.Repeat("1+", 100) + "1": "101 steps; at most 100",
	} {
		if _, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
}
