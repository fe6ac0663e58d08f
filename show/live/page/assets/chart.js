// A line chart on a canvas. Colours come from the style sheet, so that light
// and dark are told once; words are next to it as text.

const left = 58, right = 8, top = 10, bottom = 24;

// scales: where a value is between 0 and 1, and which values get a line.
const linear = {
  range: values => [0, niceAbove(Math.max(...values, 0))],
  at: (v, [, high]) => v / high,
  ticks: ([, high]) => [0, 1, 2, 3, 4].map(n => high * n / 4),
};
const log = {
  range: values => {
    const found = values.filter(v => v > 0);
    const low = Math.min(...found, 1), high = Math.max(...found, low * 10);
    return found.length ? [10 ** Math.floor(Math.log10(Math.min(...found))), 10 ** Math.ceil(Math.log10(Math.max(...found) * 1.0001))] : [low, high];
  },
  at: (v, [low, high]) => Math.log(Math.max(v, low) / low) / Math.log(high / low),
  ticks: ([low, high]) => {
    const list = [];
    for (let v = low; v <= high * 1.001; v *= 10) list.push(v);
    return list;
  },
};

// niceAbove is the next number that a person would choose, of which a quarter
// can be read too.
function niceAbove(v, choice = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10]) {
  if (!(v > 0)) return 4;
  const step = 10 ** Math.floor(Math.log10(v));
  return choice.map(n => n * step).find(n => n >= v);
}

// stepMs is where a step of the response times begins, milliseconds (hist.StepNs).
const stepMs = n => 2 ** (n / 4) / 1e6;

// Charts of the same points have one crosshair, and one stretch of time that is
// zoomed into. It is in the address, as in a report: #t=1.5,3 in seconds.
export class Together {
  // the button that shows the whole run again is put into box.
  constructor(box) {
    Object.assign(this, { charts: [], zoom: null });
    this.whole = element("button", "whole", "Whole run");
    this.whole.type = "button";
    this.whole.addEventListener("click", () => this.to(null));
    box.append(this.whole);
    addEventListener("hashchange", () => this.addressed());
    this.addressed();
  }

  addressed() {
    const [, from, to] = (location.hash.match(/^#t=(-?[\d.]+),(-?[\d.]+)$/) ?? []).map(Number);
    this.to(to > from ? [from, to] : null);
  }

  to(zoom) {
    this.zoom = zoom;
    this.whole.hidden = !zoom;
    if (zoom) history.replaceState(null, "", `#t=${+zoom[0].toFixed(3)},${+zoom[1].toFixed(3)}`);
    else if (location.hash.startsWith("#t=")) history.replaceState(null, "", location.pathname + location.search);
    for (const chart of this.charts) chart.draw();
  }

  // choose a moment, or null for none, in every chart.
  choose(t) {
    for (const chart of this.charts) chart.choose(t === null ? -1 : chart.nearest(t));
  }
}

export class Chart {
  // box is the element to fill; lines are {name, color (a custom property),
  // at: point => value or null, fill}; format makes a tick's text; cells answers
  // how the values of a point lie, [first step, count, …], drawn as a heat map;
  // stack answers by at the parts of a point, drawn on each other in the colours of color.
  constructor(box, { together, name, lines = [], stack, logarithmic, cells, format, says }) {
    Object.assign(this, { together, lines, stack, cells, format, says, scale: logarithmic ? log : linear, points: [], begin: 0, end: 0, stalls: [], chosen: -1 });
    together.charts.push(this);
    this.plot = element("div", "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.plot.setAttribute("aria-label", name + " over time. Arrow keys select points, + and − zoom, 0 shows the whole run.");
    this.canvas = element("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.plot.append(this.canvas);
    this.read = element("p", "read");
    this.read.setAttribute("role", "status");
    const legend = element("ul", "legend");
    const heat = cells ? [{ name: "responses, stronger: more", color: "--cell" }] : [];
    for (const line of [...lines, ...heat, { name: "sampling gap", color: "--late" }]) {
      const item = element("li"), swatch = element("i");
      swatch.style.background = `var(${line.color})`;
      item.append(swatch, line.name);
      legend.append(item);
    }
    box.append(this.plot, this.read);
    if (!stack) box.append(legend);
    this.plot.addEventListener("pointermove", e => this.point(e));
    this.plot.addEventListener("pointerleave", () => this.together.choose(null));
    this.plot.addEventListener("blur", () => this.together.choose(null));
    this.plot.addEventListener("pointerdown", e => {
      if (e.button === 0) this.drag = [e.offsetX, e.offsetX];
    });
    this.plot.addEventListener("pointerup", () => this.dragged());
    this.plot.addEventListener("pointercancel", () => { this.drag = null; });
    this.plot.addEventListener("dblclick", () => this.together.to(null));
    this.plot.addEventListener("keydown", e => this.key(e));
    new ResizeObserver(() => this.draw()).observe(this.plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // show draws points of a run whose time goes from begin to end, 0 not known, and
  // stretches without an answer.
  show(points, begin, end, stalls) {
    Object.assign(this, { points, begin, end, stalls });
    this.plot.dataset.points = points.length;
    this.draw();
  }

  // time at a place of the plot.
  time(x) { return this.from + (x - left) / (this.plot.clientWidth - left - right) * (this.to - this.from); }

  // dragged zooms into what was marked, where it is more than a slip of the hand.
  dragged() {
    const drag = this.drag;
    this.drag = null;
    if (drag && Math.abs(drag[1] - drag[0]) > 5) this.together.to(drag.map(x => this.time(x)).sort((a, b) => a - b));
    else this.draw();
  }

  // zoomed by a factor around what is chosen, or the middle.
  zoomed(by) {
    const p = this.points[this.chosen], at = p ? middle(p) : (this.from + this.to) / 2, half = (this.to - this.from) / 2 * by;
    this.together.to([at - half, at + half]);
  }

  point(e) {
    if (this.drag) {
      this.drag[1] = e.offsetX;
      this.draw();
    }
    this.together.choose(this.time(e.offsetX));
  }

  // nearest is the point whose middle is nearest to a time, -1 where there is none.
  nearest(t) {
    let best = -1;
    for (let i = 0; i < this.points.length; i++) {
      if (best < 0 || Math.abs(middle(this.points[i]) - t) < Math.abs(middle(this.points[best]) - t)) best = i;
    }
    return best;
  }

  key(e) {
    const zoom = { "+": () => this.zoomed(.5), "-": () => this.zoomed(2), 0: () => this.together.to(null) }[e.key];
    if (zoom) zoom();
    const last = this.points.length - 1;
    const to = { ArrowLeft: this.chosen < 0 ? last : this.chosen - 1, ArrowRight: this.chosen + 1, Home: 0, End: last, Escape: -1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const p = to < 0 ? null : this.points[Math.min(to, last)];
    this.together.choose(p ? middle(p) : null);
  }

  choose(i) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.read.textContent = i >= 0 && this.points[i] ? this.says(this.points[i]) : "";
    this.draw();
  }

  draw() {
    const { width, height } = this.plot.getBoundingClientRect();
    if (!width || !height) return;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale)) this.canvas.width = Math.round(width * scale);
    if (this.canvas.height !== Math.round(height * scale)) this.canvas.height = Math.round(height * scale);
    const c = this.canvas.getContext("2d"), style = getComputedStyle(this.plot);
    const color = name => style.getPropertyValue(name);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    this.area = { c, color, wide: width - left - right, high: height - top - bottom };
    this.times();
    const shown = this.points.filter(p => p[0] >= this.from && p[0] - p[1] <= this.to);
    this.range = this.scale.range(this.stack ? shown.map(p => p[2]) : shown.flatMap(p => this.lines.map(l => l.at(p) ?? 0)));
    this.grid();
    c.save();
    c.beginPath();
    c.rect(left, top - 4, width - left - right, height - top - bottom + 8);
    c.clip();
    if (this.cells) this.heat(shown);
    if (this.stack) this.stacked(shown);
    this.stretches();
    for (const line of this.lines) this.line(line);
    this.marks();
    c.restore();
  }

  // heat is how many responses lie where; shades are logarithmic, so that a single
  // one can be seen among thousands.
  heat(shown) {
    const { c, color } = this.area, usual = shown.map(p => p[1]).sort((a, b) => a - b)[shown.length >> 1];
    const all = shown.map(p => [p, this.cells(p)]).filter(([, cells]) => cells);
    const most = Math.log1p(Math.max(1, ...all.map(([p, [, ...counts]]) => Math.max(...counts) * usual / p[1])));
    c.fillStyle = color("--cell");
    for (const [p, [first, ...counts]] of all) {
      const x = this.x(p[0] - p[1]), wide = Math.max(this.x(p[0]) - x, 1);
      counts.forEach((n, i) => {
        if (!n) return;
        const y = this.y(stepMs(first + i + 1));
        c.globalAlpha = .12 + .88 * Math.log1p(n * usual / p[1]) / most;
        c.fillRect(x, y, wide, this.y(stepMs(first + i)) - y);
      });
    }
    c.globalAlpha = 1;
  }

  // stacked draws the parts of each point on each other.
  stacked(shown) {
    const { c, color } = this.area;
    for (const p of shown) {
      const x = this.x(p[0] - p[1]), wide = Math.max(this.x(p[0]) - x - .5, 1);
      let sum = 0;
      this.stack.at(p).forEach((v, i) => {
        const low = this.y(sum), high = this.y(sum += v);
        c.fillStyle = color(this.stack.color(i));
        c.fillRect(x, high, wide, low - high);
      });
    }
  }

  // stretches: where nothing was answered, and what is being marked.
  stretches() {
    const { c, color, high } = this.area;
    c.textAlign = "center";
    c.textBaseline = "top";
    const named = []; // a name that would run into one of a longer stall is left out
    for (const s of (this.stalls ?? []).toSorted((a, b) => (b.to - b.from) - (a.to - a.from))) {
      const x = this.x(s.from), wide = Math.max(this.x(s.to) - x, 1);
      c.fillStyle = color("--late");
      c.globalAlpha = .15;
      c.fillRect(x, top, wide, high);
      c.globalAlpha = 1;
      const half = c.measureText(s.name).width / 2, middle = Math.max(x + wide / 2, left + half);
      if (named.every(n => Math.abs(n.middle - middle) > n.half + half + 6)) {
        c.fillText(s.name, middle, top + 2);
        named.push({ middle, half });
      }
    }
    if (this.drag) {
      c.fillStyle = color("--quiet");
      c.globalAlpha = .2;
      c.fillRect(Math.min(...this.drag), top, Math.abs(this.drag[1] - this.drag[0]), high);
      c.globalAlpha = 1;
    }
  }

  // times: the axis is the whole run where its end is known, so that a reader
  // sees how much is still to come.
  times() {
    const first = this.points[0], last = this.points.at(-1);
    this.from = Math.min(this.begin, first ? first[0] - first[1] : 0);
    this.to = Math.max(this.end, last ? last[0] : 0, this.from + 1);
    const zoom = this.together.zoom;
    if (!zoom) return;
    const [from, to] = [Math.max(zoom[0], this.from), Math.min(zoom[1], this.to)];
    if (to - from > 1e-3) [this.from, this.to] = [from, to];
  }

  x(t) { return left + (t - this.from) / (this.to - this.from) * this.area.wide; }
  y(v) { return top + (1 - Math.min(Math.max(this.scale.at(v, this.range), 0), 1)) * this.area.high; }

  grid() {
    const { c, color, wide, high } = this.area;
    c.font = "12px " + getComputedStyle(document.body).fontFamily;
    c.lineWidth = 1;
    c.strokeStyle = color("--line");
    c.fillStyle = color("--quiet");
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (const v of this.scale.ticks(this.range)) {
      const y = Math.round(this.y(v)) + .5;
      c.beginPath();
      c.moveTo(left, y);
      c.lineTo(left + wide, y);
      c.stroke();
      c.fillText(this.format(v), left - 8, y);
    }
    if (this.from < 0) { // the warm-up
      c.fillStyle = color("--shade");
      c.fillRect(left, top, this.x(0) - left, high);
      c.fillStyle = color("--quiet");
    }
    c.textAlign = "center";
    c.textBaseline = "top";
    const step = niceAbove((this.to - this.from) / Math.max(wide / 70, 2), [1, 2, 5, 10]);
    for (let t = Math.ceil(this.from / step) * step; t <= this.to + step / 1e6; t += step) {
      const text = +t.toFixed(3) + " s", x = this.x(t), half = c.measureText(text).width / 2;
      if (x - half > left - 30 && x + half < left + wide + right) c.fillText(text, x, top + high + 7);
    }
  }

  // line draws each interval as a level stretch joined to the next. Where
  // nothing is known there is a gap.
  line({ color: name, at, fill }) {
    const { c, color, high } = this.area;
    const draw = close => {
      let open = false, x = 0;
      c.beginPath();
      for (const p of this.points) {
        const v = at(p);
        if (v === null) {
          if (close && open) c.lineTo(x, top + high);
          open = false;
          continue;
        }
        const from = this.x(p[0] - p[1]);
        if (!open && close) c.moveTo(from, top + high);
        if (!open && !close) c.moveTo(from, this.y(v));
        open = true;
        c.lineTo(this.x(middle(p)), this.y(v));
        x = this.x(p[0]);
      }
      if (open) c.lineTo(x, close ? top + high : this.y(at(this.points.at(-1))));
    };
    c.lineJoin = "round";
    c.lineWidth = 1.75;
    if (fill) {
      draw(true);
      c.globalAlpha = .12;
      c.fillStyle = color(name);
      c.fill();
      c.globalAlpha = 1;
    }
    draw(false);
    if (this.cells) { // a rim, to be told from the heat map
      c.strokeStyle = color("--card");
      c.lineWidth = 4;
      c.globalAlpha = .7;
      c.stroke();
      c.globalAlpha = 1;
      c.lineWidth = 1.75;
    }
    c.strokeStyle = color(name);
    c.stroke();
  }

  // marks: late intervals at the foot, and the point that is being read.
  marks() {
    const { c, color, high } = this.area;
    c.fillStyle = color("--late");
    for (const p of this.points) {
      if (p[8] & 1) c.fillRect(this.x(p[0] - p[1]), top + high, Math.max(this.x(p[0]) - this.x(p[0] - p[1]), 2), 4);
    }
    const p = this.points[this.chosen];
    if (!p) return;
    const x = Math.round(this.x(middle(p))) + .5;
    c.strokeStyle = color("--quiet");
    c.beginPath();
    c.moveTo(x, top);
    c.lineTo(x, top + high);
    c.stroke();
    for (const line of this.lines) {
      const v = line.at(p);
      if (v === null) continue;
      c.fillStyle = color(line.color);
      c.beginPath();
      c.arc(x, this.y(v), 4, 0, 7);
      c.fill();
    }
  }
}

// middle of an interval, seconds.
function middle(p) { return p[0] - p[1] / 2; }

export function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// si: three digits and a prefix, as in 164k.
export function si(v) {
  if (v === 0) return "0";
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.abs(v)) / 3), -2), 4);
  return +(v / 1000 ** power).toPrecision(3) + ["µ", "m", "", "k", "M", "G", "T"][power + 2];
}

// ms: a time of v milliseconds with three digits.
export function ms(v) {
  if (v === null) return "–";
  if (v < 1e-3) return +(v * 1e6).toPrecision(3) + " ns";
  if (v < 1) return +(v * 1e3).toPrecision(3) + " µs";
  return v < 1e3 ? +v.toPrecision(3) + " ms" : +(v / 1e3).toPrecision(3) + " s";
}
