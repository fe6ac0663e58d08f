package chart

import (
	_ "embed"
	"strings"
)

// uPlot 1.6.32 (MIT) provides zooming. It has no dependencies, and is the only small library that
// draws thousands of points in milliseconds.

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

// Script is the JavaScript of a page with plots: uPlot with its licence, and plot.js, which
// replaces the static picture of every figure that carries its points.
func Script() string {
	licence := "/* uPlot 1.6.32, https://github.com/leeoniya/uPlot\n" + strings.ReplaceAll(uplotLicence, "*/", "") + "\n*/\n"
	return licence + uplotScript + "\n" + plotScript
}

// Style is the CSS of plots, heat maps and sparklines, light and dark. The page defines the
// variables listed at its top.
func Style() string { return uplotStyle + "\n" + plotStyle + graphStyle }
