// What the program tells is put on the page here. All words of it are put in
// as text: a server that is measured chooses some of them.

import { Chart, Together, element, ms, si } from "./chart.js";
import { planCharts } from "./plan.js";

const $ = id => document.getElementById(id);
const points = []; // [end s, width s, requests/s, failed, p50, p90, p99, max ms, flags, intervals, first step, counts …]
let paths = []; // [end s, width s, mean ms, [share of each box]]
let runs = [], state = null, announced = "", due = false, source = null, failures = 0;

const how = p => `${p[0].toFixed(2)} s` + (p[8] & 2 ? ", warm-up" : "") + (p[8] & 1 ? ", sampling gap" : "") +
  (p[9] > 1 ? `, worst of ${p[9]} intervals` : "");
const together = new Together($("rate-name").parentElement);
const rate = new Chart($("rate"), {
  together, name: "Requests per second", format: si, lines: [{ name: "completed", color: "--p50", at: p => p[2], fill: true }],
  says: p => `${how(p)}  ·  ${si(p[2])} req/s  ·  ${p[3]} errors`,
});
const times = new Chart($("times"), {
  together, cells: p => p.length > 10 ? p.slice(10) : null, name: "Response time", format: ms, logarithmic: true,
  lines: [["max", "--p90", 7], ["p99", "--p99", 6], ["p50", "--p50", 4]].map(([name, color, i]) => ({ name, color, at: p => p[i] })),
  says: p => `${how(p)}  ·  p50 ${ms(p[4])}, p90 ${ms(p[5])}, p99 ${ms(p[6])}, max ${ms(p[7])}`,
});

const pathTime = new Chart($("path-time"), {
  together, name: "The time of the mean request", format: ms,
  stack: { at: p => p[3].map(share => share * p[2]), color: i => `--s${state?.path.boxes[i]?.tone ?? i % 6}` },
  says: p => `${p[0].toFixed(2)} s, over ${+p[1].toPrecision(2)} s  ·  mean ${ms(p[2])}  ·  ` + p[3].map((share, i) => [share, state?.path.boxes[i]?.name])
    .toSorted((a, b) => b[0] - a[0]).slice(0, 3).map(([share, name]) => `${name} ${ms(share * p[2])} (${(100 * share).toFixed(0)}%)`).join(", "),
});

const drawPlan = planCharts($("plan-charts"));
let drawn = -1; // how many runs the pictures of the plan have

function connect() {
  source = new EventSource("events");
  source.addEventListener("open", () => link("live", "live"));
  source.addEventListener("history", e => {
    const all = JSON.parse(e.data);
    points.length = 0;
    runs = [];
    take(all);
  });
  source.addEventListener("more", e => take(JSON.parse(e.data)));
  source.addEventListener("path", e => {
    paths = JSON.parse(e.data);
    later();
  });
  source.addEventListener("state", e => {
    failures = 0;
    state = JSON.parse(e.data);
    later();
  });
  source.addEventListener("end", () => {
    source.close();
    if (state?.killed) link("killed", "lost");
    else link("ended", "ended");
  });
  source.addEventListener("error", lost);
}

function take(news) {
  for (const p of news.points) points.push(p);
  for (const r of news.runs) runs.push(r);
  later();
}

// lost: the browser reconnects; after 12 failures the page stops and
// shows a button. What is shown is old from the third on, and grey.
function lost() {
  if (source.readyState === EventSource.CLOSED) failures = 12;
  failures++;
  link("lost", failures < 12 ? "no connection" : "lost");
  later();
  if (failures < 12) {
    trouble("Connection lost. Reconnecting; no data will be missing.");
    return;
  }
  source.close();
  const again = element("button", "", "Retry");
  again.addEventListener("click", () => {
    failures = 0;
    connect();
  });
  const show = state?.id ? `ceiling show ${state.id}` : "ceiling list";
  trouble(`Lost connection to ceiling: the run has finished, or its process was killed. To see which: ${show} `, again);
}

function link(is, text) {
  $("link").dataset.state = is;
  put($("link"), text);
  if (is !== "lost") trouble("");
}

function trouble(text, ...more) {
  const box = $("trouble");
  if (box.textContent === text && !more.length) return;
  box.replaceChildren(text, ...more);
  box.hidden = !text;
}

// later draws once for all that arrives together, and not while the page is hidden.
function later() {
  if (due || document.hidden) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}
document.addEventListener("visibilitychange", later);

function draw() {
  if (!state) return;
  const s = state;
  text("title", s.title);
  text("load", s.load);
  text("id", s.id);
  text("doing", failures < 12 ? s.doing : "connection to ceiling lost");
  text("time", failures < 12 ? s.time : "");
  text("cost", s.cost);
  text("count", `${points.length} points received.`);
  document.title = (s.phase === "ended" ? "ended: " : "") + s.title + " · ceiling";
  progress($("progress"), s.share);
  $("plan").hidden = !s.plan;
  text("plan-says", s.plan);
  progress($("plan-progress"), s.plan_share);
  list($("tiles"), s.tiles, () => {
    const tile = element("div", "tile");
    tile.append(element("div", "name"), element("div", "value"), element("div", "note"));
    return tile;
  }, (tile, t) => [t.name, t.value, t.note].forEach((v, i) => put(tile.children[i], v)));
  verdict(s.verdict);
  path(s.path, s.verdict.evidence.length > 0);
  rate.show(points, s.begin_s, s.end_s, s.stalls);
  times.show(points, s.begin_s, s.end_s, s.stalls);
  $("path-over").hidden = !(paths.length && s.path.boxes.length);
  pathTime.show(paths.filter(p => p[3].length === s.path.boxes.length), s.begin_s, s.end_s, s.stalls);
  ends(s);
  $("agents-box").hidden = !s.agents?.length;
  endList("agents", s.agents ?? []);
  links(s.links);
  table();
  if (runs.length !== drawn) {
    drawn = runs.length;
    $("plan-box").hidden = !runs.length;
    drawPlan(runs, s.slo_p99_ms);
  }
  $("report").hidden = !(s.report && s.phase === "ended");
  const answered = runs.length > 0 && s.phase === "ended"; // then the plan's answer replaces the last run's verdict
  if (answered) $("plan-charts").before($("report"));
  $("tiles").hidden = answered;
  $("verdict-name").closest("section").hidden = answered && !s.verdict.outcome;
  $("path-name").closest("section").hidden = answered && !s.path.boxes.length;
  document.body.classList.toggle("killed", s.killed || failures > 2);
  text("plan-name", s.phase === "ended" ? "The plan" : "The plan so far");
  text("plan-answer", s.phase === "ended" ? s.answer : "");
  $("lost-box").hidden = !s.lost?.length;
  facts("lost", s.lost ?? []);
}

function verdict(v) {
  document.querySelector(".verdict").classList.toggle("forming", !v.final);
  text("verdict-name", v.name);
  text("basis", v.basis);
  const outcome = $("outcome");
  outcome.hidden = $("bottleneck-name").hidden = !v.outcome;
  put(outcome, v.outcome);
  outcome.dataset.is = v.outcome;
  text("bottleneck", v.bottleneck);
  text("because", v.because);
  const [, words, command] = (v.next ?? "").match(/^(?:(.*?): )?(\S*ceiling .*)$/s) ?? [];
  text("next", v.next && "Next: " + (command ? words ?? "" : v.next));
  $("next-box").hidden = !command;
  text("next-command", command ?? "");
  facts("evidence", v.evidence);
  $("caveats-box").hidden = !v.caveats.length;
  text("caveats-name", v.caveats.length === 1 ? "1 caveat" : `${v.caveats.length} caveats`);
  facts("caveats", v.caveats);
  const news = v.outcome && `${v.name}: ${v.outcome}, bottleneck ${v.bottleneck}`;
  if (news && news !== announced) text("announce", announced = news);
}

// path is the boxes of a request's path, each as wide as its part but for the words in it.
function path(p, proved) {
  text("path-mean", p.unknown || (p.mean ? `The path of a request, from left to right: mean ${p.mean}` : ""));
  $("bar").hidden = !p.boxes.length;
  list($("bar"), p.boxes, () => element("i"), (part, b) => {
    part.className = `s${b.tone}${b.limits ? " limits" : ""}`;
    part.style.flex = b.part + " 0 0";
  });
  list($("path"), p.boxes, boxOf, (item, b) => {
    const [name, time, share, use, limits] = item.children;
    item.className = b.limits ? "limits" : "";
    item.style.setProperty("--edge", `var(--s${b.tone})`);
    item.style.flexGrow = 100 * b.part;
    put(name, b.name);
    name.href = "#" + (["cores-name", "links-name", "path-time", "cores-name", "links-name", "path-time"][b.tone]);
    put(time, b.time || b.share);
    put(share.firstChild, b.times ? b.share + " " : "");
    put(share.lastChild, b.times);
    put(use, b.use);
    limits.hidden = !b.limits;
    if (proved) limits.firstChild.href = "#evidence";
    else limits.firstChild.removeAttribute("href");
  });
}

function boxOf() {
  const item = element("li"), share = element("span"), limits = element("em");
  share.append(element("span"), element("i"));
  limits.append(element("a", "", "bottleneck"));
  item.append(element("a"), element("b"), share, element("small"), limits);
  return item;
}

$("copy").hidden = !navigator.clipboard;
$("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText($("next-command").textContent);
  put($("copy"), "Copied");
});

// A box leads to what shows it over time. The address stays: it has what is zoomed into.
$("path").addEventListener("click", e => {
  const to = e.target.closest("a[href]")?.getAttribute("href").slice(1);
  if (!to) return;
  e.preventDefault();
  for (const one of document.querySelectorAll(".pointed")) one.classList.remove("pointed");
  const box = $(to).closest(".chart, .card");
  box.classList.add("pointed");
  box.scrollIntoView({ block: "nearest" });
});

function swatch() {
  const item = element("li");
  item.append(element("i"), element("span"), element("b"));
  return item;
}

function endList(id, all) {
  list($(id), all, () => {
    const item = element("li");
    item.append(element("b"), element("span"));
    return item;
  }, (item, e) => {
    put(item.children[0], e.name);
    put(item.children[1], " " + (e.of ? e.of + ": " : "") + e.says);
  });
}

function ends(s) {
  endList("ends", s.ends);
  list($("hosts"), s.hosts, () => {
    const box = element("div");
    box.append(element("h3"), element("ul", "cores"));
    return box;
  }, (box, h) => {
    put(box.children[0], h.name);
    list(box.children[1], h.cores ?? [], coreRow, fillCore);
  });
  list($("parts"), s.parts, swatch, (item, name, i) => {
    item.children[0].className = "u" + i;
    put(item.children[1], name);
  });
}

function coreRow() {
  const row = element("li"), strip = element("span", "strip");
  strip.setAttribute("aria-hidden", "true");
  row.append(element("span"), strip, element("span", "says"));
  return row;
}

function fillCore(row, c) {
  put(row.children[0], "cpu " + c.name);
  put(row.children[2], c.says);
  list(row.children[1], c.shares ?? [], () => element("i"), (part, share, i) => {
    part.className = "u" + i;
    part.style.flex = share + " 0 0";
  });
}

function links(all) {
  const box = $("links");
  if (!all.length) {
    if (!box.querySelector("p.none")) box.replaceChildren(element("p", "quiet none", "No network interface observed yet."));
    return;
  }
  box.querySelector("p.none")?.remove();
  list(box, all, () => {
    const one = element("div");
    one.append(element("h3"), element("div"), element("p", "quiet"));
    return one;
  }, (one, l) => {
    put(one.children[0], l.name);
    put(one.children[2], l.limit);
    list(one.children[1], l.ways, () => {
      const way = element("div", "way"), strip = element("div", "strip");
      strip.setAttribute("aria-hidden", "true");
      strip.append(element("i"));
      way.append(element("span"), element("span", "says"), strip);
      return way;
    }, (way, w) => {
      put(way.children[0], w.name);
      put(way.children[1], w.says);
      way.children[2].hidden = w.share < 0;
      way.children[2].firstChild.style.width = Math.min(Math.max(w.share, 0), 1) * 100 + "%";
    });
  });
}

function table() {
  $("runs-box").hidden = !runs.length;
  const most = Math.max(...runs.map(r => r.per_s), 1);
  list($("runs"), runs, () => {
    const row = element("tr"), cell = element("td"), strip = element("span", "strip");
    strip.append(element("i"));
    cell.append(strip);
    row.append(element("td"), element("td"), element("td", "n"), cell, element("td", "n"), element("td", "n"), element("td"), element("td"));
    return row;
  }, (row, r) => {
    [r.number, r.doing, r.rate, null, r.p50, r.p99, r.outcome, r.bottleneck + (r.stopped_early ? ` (ended early: ${r.stopped_early})` : "")]
      .forEach((v, i) => v !== null && put(row.children[i], v));
    row.children[3].firstChild.firstChild.style.width = r.per_s / most * 100 + "%";
  });
}

function progress(bar, share) {
  const known = share >= 0;
  bar.classList.toggle("unknown", !known);
  bar.firstElementChild.style.width = known ? share * 100 + "%" : "";
  if (known) bar.setAttribute("aria-valuenow", Math.round(share * 100));
  else bar.removeAttribute("aria-valuenow");
}

// list makes box have one child for each item, and fills them.
function list(box, items, make, fill) {
  while (box.children.length > items.length) box.lastElementChild.remove();
  items.forEach((item, i) => fill(box.children[i] ?? box.appendChild(make()), item, i));
}

function facts(id, items) { list($(id), items, () => element("li"), put); }
function text(id, value) { put($(id), value); }

// put changes a text only where it is another: what is unchanged costs nothing
// and is not read out again.
function put(where, value) {
  value = String(value ?? "");
  if (where.textContent !== value) where.textContent = value;
}

connect();
