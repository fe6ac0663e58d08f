// The runs of a plan that are over, as marks over the load: requests per second
// above, p99 below. They come one by one, so the picture grows; the run in
// progress is not in it.

import { element, ms, si } from "./chart.js";

const wide = 1000, high = 220, inset = 40;
const outcomes = ["valid", "pass", "fail", "invalid"];

// over chooses what the runs differ in: the target rate, or the connections.
function over(runs) {
  if (runs.some(r => r.asked_per_s > 0)) return { name: "target requests per second", at: r => r.asked_per_s, format: si };
  if (new Set(runs.map(r => r.connections)).size > 1) return { name: "connections", at: r => r.connections, format: String };
  return { name: "run", at: r => r.number, format: String };
}

export class PlanChart {
  // box is the element to fill; says receives what is known of the run that is
  // pointed at.
  constructor(box, { name, value, format, logarithmic }) {
    Object.assign(this, { name, value, format, logarithmic });
    this.box = box;
    this.head = element("h3", "", name);
    this.plot = element("div", "plan-plot");
    this.plot.setAttribute("role", "img");
    this.up = element("div", "plan-up");
    this.across = element("div", "plan-across");
    box.append(this.head, this.up, this.plot, this.across);
  }

  show(all, limit) {
    const x = over(all);
    const runs = all.filter(r => x.at(r) > 0 && this.value(r) > 0 && !r.warmup);
    this.box.hidden = runs.length === 0;
    if (this.box.hidden) return;
    const xs = runs.map(x.at), values = runs.map(this.value).concat(limit > 0 ? [limit] : []);
    const logX = Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) >= 8;
    const [fromX, toX] = reach(xs, logX), [low, high_] = this.logarithmic ? decades(values) : [0, 1.05 * Math.max(...values)];
    const px = v => inset + place(v, fromX, toX, logX) * (wide - 2 * inset);
    const py = v => high - place(v, low, high_, this.logarithmic) * high;
    const ticks = this.logarithmic ? powers(low, high_) : rounds(high_);
    fill(this.up, ticks, v => this.format(v), (label, v) => { label.style.bottom = 100 * (1 - py(v) / high) + "%"; });
    const places = [...new Set(xs)].sort((a, b) => a - b);
    let last = -wide;
    const shown = places.filter(v => px(v) - last >= 70 && (last = px(v)) !== null);
    fill(this.across, shown, x.format, (label, v) => { label.style.left = 100 * px(v) / wide + "%"; });
    this.across.dataset.name = x.name;
    fill(this.plot, runs, () => "", (mark, r) => {
      mark.className = "mark" + (r.stopped_early ? " early" : "");
      mark.dataset.is = outcomes.includes(r.outcome) ? r.outcome : "invalid";
      mark.style.left = 100 * px(x.at(r)) / wide + "%";
      mark.style.bottom = 100 * (1 - py(this.value(r)) / high) + "%";
      mark.title = `run ${r.number}: ${r.doing}\n${r.rate}, p99 ${r.p99}, ${r.outcome}, ${r.bottleneck}` +
        (r.stopped_early ? `\nended early: ${r.stopped_early}` : "");
    });
    for (const v of ticks) {
      const line = this.plot.appendChild(element("span", "grid"));
      line.style.bottom = 100 * (1 - py(v) / high) + "%";
    }
    if (limit > 0) {
      const line = this.plot.appendChild(element("span", "limit"));
      line.append(element("b", "", "SLO"));
      line.style.bottom = 100 * (1 - py(limit) / high) + "%";
    }
    this.plot.setAttribute("aria-label", `${this.name} of ${runs.length} runs over ${x.name}; the table below has the figures`);
  }
}

// fill gives box one child for each item.
function fill(box, items, text, dress) {
  box.replaceChildren(...items.map(item => {
    const child = element("i", "", text(item));
    dress(child, item);
    return child;
  }));
}

const place = (v, from, to, log) => log ? Math.log(Math.max(v, from) / from) / Math.log(to / from) : (v - from) / (to - from);
const decades = values => [10 ** Math.floor(Math.log10(Math.min(...values))), 10 ** Math.ceil(Math.log10(Math.max(...values) * 1.0001))];

function reach(values, log) {
  const low = Math.min(...values), most = Math.max(...values);
  if (log || low === most) return [low / (log ? 1 : 2), low === most ? most * 2 : most];
  return low > most / 3 ? [low, most] : [0, most];
}

// rounds are round values from 0 up to most, four or so.
function rounds(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4)), step = [1, 2, 5, 10].map(n => n * power).find(n => n >= most / 4);
  const list = [];
  for (let i = 0; i * step <= most; i++) list.push(i * step);
  return list;
}

function powers(low, most) {
  const list = [];
  for (let v = low; v <= most * 1.001; v *= 10) list.push(v);
  return list;
}

export const planCharts = box => {
  const rate = element("div"), p99 = element("div");
  box.append(rate, p99);
  const charts = [
    new PlanChart(rate, { name: "Requests per second", value: r => r.per_s, format: si }),
    new PlanChart(p99, { name: "p99 of the response time", value: r => r.p99_ms, format: ms, logarithmic: true }),
  ];
  return (runs, limitMs) => charts.forEach((c, i) => c.show(runs, i === 1 ? limitMs : 0));
};
