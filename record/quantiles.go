package record

import "ceiling/internal/hist"

// QuantilesOf is a histogram's figures as a Run keeps them, in nanoseconds;
// all 0 for an empty one. HDR is left empty: Hist.EncodeV2 has it for who asks.
func QuantilesOf(h *hist.Hist) Quantiles {
	return Quantiles{
		Count:  h.Count(),
		MeanNs: h.Mean(),
		P50Ns:  h.Quantile(.5),
		P90Ns:  h.Quantile(.9),
		P99Ns:  h.Quantile(.99),
		P999Ns: h.Quantile(.999),
		MinNs:  h.Min(),
		MaxNs:  h.Max(),
	}
}
