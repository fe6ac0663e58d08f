package chart

import (
	_ "embed"
	"strings"
)

// The library that lets a reader zoom: uPlot 1.6.32, MIT. Of the small ones it
// alone draws thousands of points in milliseconds, and asks for nothing else.

//go:embed uplot/uPlot.iife.min.js
var uplotScript string

//go:embed uplot/uPlot.min.css
var uplotStyle string

//go:embed uplot/LICENSE
var uplotLicence string

//go:embed plot.js
var plotScript string

//go:embed plot.css
var plotStyle string

// Script is what a page with plots runs: uPlot with its licence, and plot.js,
// which replaces the pictures of all figures that carry their points.
func Script() string {
	licence := "/* uPlot 1.6.32, https://github.com/leeoniya/uPlot\n" + strings.ReplaceAll(uplotLicence, "*/", "") + "\n*/\n"
	return licence + uplotScript + "\n" + plotScript
}

// Style is what plots, heat maps and small lines look like, in light and dark.
// The page sets the variables that it begins with.
func Style() string { return uplotStyle + "\n" + plotStyle + graphStyle }
