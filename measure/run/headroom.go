package run

import (
	"fmt"
	"math"
	"os"

	"ceiling/experiment/spec"
	"ceiling/internal/tlsconn"
	"ceiling/internal/unit"
	"ceiling/record"
)

// calibrated returns the generator's headroom by the user's stored calibration and how it was
// derived, or the reason why there is none.
func calibrated(r *record.Run) (times float64, by, why string) {
	all, err := calibrations()
	if err != nil {
		return 0, "", err.Error()
	}
	return headroom(r, all)
}

// observing returns what observing costs a server here; nil: not measured. A file that cannot be read
// is reported with the headroom.
func observing(env *record.Environment) *record.Observing {
	all, err := calibrations()
	if err != nil {
		return nil
	}
	return record.ObservingOf(all, env)
}

// calibrations returns the user's own.
func calibrations() ([]record.Calibration, error) {
	path, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		return nil, err
	}
	return record.ReadCalibrations(path)
}

// requestBytesMost is the mean request size up to which a request costs about as much as a
// calibration's, which sends 60 bytes: what fits into one page is one send into one buffer.
const requestBytesMost = 4 << 10

// headroom returns how many times this run's rate the generator could have reached, or 0 and the
// reason why that is unknown. It is the smaller of two: what the calibration says for this
// pipelining and response size, and what this run's own use of the CPU leaves. The second is the
// more conservative one below saturation, where a request costs more because fewer arrive together.
func headroom(r *record.Run, all []record.Calibration) (times float64, by, why string) {
	rate, busy := r.Rate.CompletedPerS, r.Generator.BusiestWorker
	switch {
	case !(rate > 0) || r.Requests.Completed == 0:
		return 0, "", "nothing was completed"
	case !(busy > 0):
		return 0, "", "the generator's own CPU was not measured"
	case r.Spec.Kind != spec.Requests:
		return 0, "", r.Spec.Kind.Many() + " are not calibrated, only requests"
	case r.Load.Engine == spec.EnginePortable:
		return 0, "", "the portable engine is not calibrated"
	case r.Spec.NewConnections > 0:
		return 0, "", "new connections are not calibrated"
	case r.Load.HTTP2 != nil:
		return 0, "", "requests over HTTP/2 are not calibrated"
	case r.Load.Threads < 1:
		return 0, "", "the number of the generator's threads is not known"
	}
	completed := float64(r.Requests.Completed)
	if size := float64(r.Bytes.Written) / completed; size > requestBytesMost {
		return 0, "", fmt.Sprintf("requests of %.0f bytes are not calibrated, only requests of up to %d", size, requestBytesMost)
	}
	c, why := record.FitCalibration(all, &r.Environment, r.Load.Engine)
	if c == nil {
		return 0, "", why
	}
	ns, err := c.CoreNsPerRequest(max(r.Load.Pipelining, 1), float64(r.Bytes.Read)/completed)
	if err != nil {
		return 0, "", err.Error()
	}
	by = c.Method()
	if r.Load.TLS != nil {
		extra, err := overTLS(r)
		if err != nil {
			return 0, "", err.Error()
		}
		by += fmt.Sprintf(" without TLS, and an estimate of %s a request for the cipher and the handshakes", unit.FormatNs(int64(extra)))
		ns += extra
	}
	capacity := r.GeneratorCores() * 1e9 / ns
	return math.Min(capacity/rate, r.RoomByUse()), by, ""
}

// overTLS returns what TLS adds to a request, in nanoseconds, which no calibration covers: the
// cipher's work on records of the run's sizes, timed now, and the share of the run's own
// handshakes.
func overTLS(r *record.Run) (ns float64, err error) {
	t, n := r.Load.TLS, r.Requests.Completed
	cipher, err := tlsconn.Cost(t.Cipher, int(r.Bytes.Written/n), int(r.Bytes.Read/n))
	return float64(cipher) + float64(t.CPUNs)/float64(n), err
}
