// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"stowage.dev/stowage/test/perf/result"
)

// Sizes in points.
const (
	panelWidth   = 300
	panelHeight  = 250
	singleWidth  = 480
	columns      = 2
	margin       = 10
	legendHeight = 32 // above all panels
	labelWidth   = 16 // of the y axis, left of all panels
)

// style is how a curve looks. Colours are distinct for the colour-blind,
// shapes on black and white paper.
type style struct {
	color  color.RGBA
	glyph  draw.GlyphDrawer
	dashed bool
}

// styleNumber is one of five styles.
func styleNumber(n int) style {
	return []style{
		{color: color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, glyph: draw.BoxGlyph{}},
		{color: color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, glyph: draw.CircleGlyph{}},
		{color: color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, glyph: draw.PyramidGlyph{}},
		{color: color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, glyph: draw.CrossGlyph{}},
		{color: color.RGBA{R: 0x70, G: 0x70, B: 0x70, A: 0xff}, glyph: draw.PlusGlyph{}, dashed: true},
	}[n]
}

// styleOf is an arm's style, the same in all drawings.
func styleOf(arm result.Arm) style {
	switch arm {
	case result.Stock:
		return styleNumber(0)
	case result.Direct:
		return styleNumber(1)
	case result.PVController:
		return styleNumber(2)
	case result.Ceiling:
		return styleNumber(4)
	}
	return styleNumber(3)
}

// cutGlyph is the hollow point of an arm that was cut off.
type cutGlyph struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (cutGlyph) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetColor(color.White)
	draw.CircleGlyph{}.DrawGlyph(c, s, at)
	draw.RingGlyph{}.DrawGlyph(c, s, at)
}

// svg draws a chart that has panels.
func (c chart) svg(w io.Writer) error {
	cols := min(columns, len(c.panels))
	rows := (len(c.panels) + cols - 1) / cols
	width := vg.Length(cols*panelWidth + labelWidth)
	if cols == 1 {
		width = singleWidth
	}
	canvas := vgsvg.New(width, vg.Length(rows*panelHeight+legendHeight))
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())

	plots, err := c.plots(rows, cols)
	if err != nil {
		return err
	}
	tiles := draw.Tiles{Rows: rows, Cols: cols, PadRight: margin, PadBottom: margin, PadX: 2 * margin, PadY: margin}
	fields := draw.Crop(whole, margin+labelWidth, 0, 0, -legendHeight)
	for row, line := range plot.Align(plots, tiles, fields) {
		for col, field := range line {
			if p := plots[row][col]; p != nil {
				p.Draw(field)
			}
		}
		c.yName(whole, plots[row][0].DataCanvas(line[0]))
	}
	c.legend(draw.Crop(whole, margin, -margin, whole.Max.Y-legendHeight, -margin))
	return writeSVG(canvas, w)
}

// plots are the panels row by row; fields that are left over are nil.
func (c chart) plots(rows, cols int) ([][]*plot.Plot, error) {
	plots := make([][]*plot.Plot, rows)
	for row := range plots {
		plots[row] = make([]*plot.Plot, cols)
		for col := range plots[row] {
			i := row*cols + col
			if i == len(c.panels) {
				break
			}
			p, err := c.plot(c.panels[i])
			if err != nil {
				return nil, err
			}
			plots[row][col] = p
		}
	}
	return plots, nil
}

// yName writes the name of the y axis upwards, left of the panels of a row. (A
// plot's own name of its axis takes room above the panel as well.)
func (c chart) yName(whole, data draw.Canvas) {
	s := plot.New().Y.Label.TextStyle
	setFont(&s, 10)
	s.Rotation = math.Pi / 2
	s.XAlign, s.YAlign = text.XCenter, text.YTop
	whole.FillText(s, vg.Point{X: whole.Min.X + margin, Y: (data.Min.Y + data.Max.Y) / 2}, c.yLabel)
}

// writeSVG writes a drawing whose letters look alike where its font is missing.
func writeSVG(canvas *vgsvg.Canvas, w io.Writer) error {
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	family := []byte("font-family:Liberation Sans")
	_, err := w.Write(bytes.ReplaceAll(svg.Bytes(), family, append(family, ",Arial,Helvetica,sans-serif"...)))
	return err
}

// plot makes the field of a panel.
func (c chart) plot(field panel) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = field.title
	p.X.Label.Text, p.X.Label.Padding = c.xLabel, vg.Points(4)
	setFont(&p.Title.TextStyle, 11)
	setFont(&p.X.Label.TextStyle, 10)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		setFont(&axis.Tick.Label, 9)
		axis.Tick.Length = vg.Points(4)
		axis.Scale = plot.LogScale{}
		axis.Padding = 0
	}
	x, y := c.extents()

	grid := plotter.NewGrid()
	grid.Horizontal.Color = color.Gray{Y: 0xdd}
	grid.Vertical.Color = color.Gray{Y: 0xee}
	p.Add(grid)
	for _, line := range field.curves {
		if err := line.addTo(p); err != nil {
			return nil, err
		}
	}
	// Last, because plotters widen the axes.
	p.X.Min, p.X.Max, p.X.Tick.Marker = x.least, x.most, c.nodeTicks(x)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = y.least, y.most, y.ticks(c.unit)
	return p, nil
}

func (c curve) addTo(p *plot.Plot) error {
	xys := make(plotter.XYs, 0, len(c.points))
	for _, at := range c.points {
		xys = append(xys, plotter.XY{X: at.x, Y: at.y})
	}
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.LineStyle = c.style.line()
	points, err := plotter.NewScatter(xys)
	if err != nil {
		return err
	}
	points.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		if c.points[i].cut {
			return c.style.points(cutGlyph{})
		}
		return c.style.points(c.style.glyph)
	}
	p.Add(line, points)
	return nil
}

func (s style) line() draw.LineStyle {
	line := draw.LineStyle{Color: s.color, Width: vg.Points(1.5)}
	if s.dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return line
}

func (s style) points(glyph draw.GlyphDrawer) draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.color, Radius: vg.Points(3), Shape: glyph}
}

// legend names the curves of all panels in one row.
func (c chart) legend(row draw.Canvas) {
	var named []string
	entry := func(name string, thumbs ...plot.Thumbnailer) {
		if slices.Contains(named, name) {
			return
		}
		named = append(named, name)
		l := plot.NewLegend()
		l.Top, l.Left = true, true
		l.ThumbnailWidth = vg.Points(22)
		l.YPosition = draw.PosCenter
		setFont(&l.TextStyle, 10)
		l.Add(name, thumbs...)
		l.Draw(row)
		extent := l.Rectangle(row)
		row.Min.X += extent.Max.X - extent.Min.X + vg.Points(20)
	}
	for _, field := range c.panels {
		for _, line := range field.curves {
			entry(line.name, &plotter.Line{LineStyle: line.style.line()},
				&plotter.Scatter{GlyphStyle: line.style.points(line.style.glyph)})
		}
	}
	if slices.ContainsFunc(c.points(), func(at point) bool { return at.cut }) {
		entry("cut off early", &plotter.Scatter{GlyphStyle: style{color: color.RGBA{A: 0xff}}.points(cutGlyph{})})
	}
}

func setFont(s *text.Style, size vg.Length) {
	s.Font.Variant = "Sans"
	s.Font.Size = font.Points(float64(size))
}
