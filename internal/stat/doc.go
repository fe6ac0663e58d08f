// Package stat holds the statistics of runs. Everything is pure; what needs
// chance takes a seed and answers the same for the same seed.
package stat
