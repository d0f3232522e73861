// The page of a report: everything is drawn from the JSON in #data, whose text is only ever set as text, never as HTML.
"use strict";
(() => {
const report = JSON.parse(document.getElementById("data").textContent);
const PAGE = 100, FEW = 20;  // rows of a table that are drawn at first
const STATUSES = ["failed", "inconclusive", "known", "passed", "not covered"];
const NON_FINITE = {inf: Infinity, "-inf": -Infinity, nan: NaN};

const $ = id => document.getElementById(id);
const value = x => typeof x === "string" && x in NON_FINITE ? NON_FINITE[x] : x;
const count = n => d3.format(",")(n);
const figure = x => {
  x = value(x);
  if (x === null || x === undefined) return "";
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return "0";
  // A figure next to 1 stays on its side of it.
  if (x > 1 && x < 1.005) return x.toPrecision(6);
  if (x < 1 && x >= 0.9995) return "0.999";
  return Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
};
const word = status => status.replace(" ", "-");

// Elements: make("td", {class: "number"}, "text", child, ...)
function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, v] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), v);
    else if (v !== undefined && v !== null) e.setAttribute(name, v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

// A name that may break after its underscores.
const breaking = name => { const e = make("span"); name.split(/(?<=_)/).forEach((part, n) => { if (n) e.append(make("wbr")); e.append(part); }); return e; };

// A sortable table. columns: {name, title, number, get(row) for sorting, draw(row) for the cell, html class}.
function table(into, columns, rows, options = {}) {
  const state = into.sortState || (into.sortState = {column: options.sort ?? -1, down: options.down ?? false, shown: options.shown ?? PAGE});
  const draw = focus => {
    const sorted = rows.slice();
    if (state.column >= 0) {
      const get = columns[state.column].get, sign = state.down ? -1 : 1;
      const rank = x => typeof x === "number" && Number.isNaN(x) ? Infinity : x;
      sorted.sort((a, b) => { const x = rank(get(a)), y = rank(get(b)); return sign * (typeof x === "string" ? x.localeCompare(y) : x < y ? -1 : x > y ? 1 : 0); });
    }
    const head = make("tr", {}, ...columns.map((c, n) => make("th", {
      scope: "col", class: c.number ? "number" : null, title: c.title, "aria-sort": state.column === n ? (state.down ? "descending" : "ascending") : null},
      make("button", {type: "button", onclick: () => {
        state.down = state.column === n ? !state.down : Boolean(c.number);
        state.column = n;
        draw(n);
      }}, c.name))));
    const body = make("tbody", {}, ...sorted.slice(0, state.shown).map(row => make("tr", {}, ...columns.map(c => {
      const cell = c.draw ? c.draw(row) : c.get(row);
      return make("td", {class: [c.number ? "number" : "", c.style ? c.style(row) : ""].join(" ").trim() || null}, cell instanceof Node ? cell : String(cell ?? ""));
    }))));
    const more = sorted.length - state.shown;
    into.replaceChildren(make("table", {}, options.caption ? make("caption", {class: "quiet"}, options.caption) : null, make("thead", {}, head), body),
      ...(more > 0 ? [make("button", {type: "button", class: "more", onclick: () => { state.shown += 10 * PAGE; draw(); }}, `Show more (${count(more)} left)`)] : []));
    if (focus !== undefined) into.querySelectorAll("th button")[focus].focus();
  };
  draw();
}

// ---- what the filter leaves
const all = report.runs.flatMap((run, n) => run.properties.map(p => ({run, n, p})));
const kernelName = run => run.kernel + (report.runs.filter(r => r.kernel === run.kernel).length > 1 ? ` (run ${report.runs.indexOf(run) + 1})` : "");
const filter = () => {
  const kernel = $("filter-kernel").value, property = $("filter-property").value.trim().toLowerCase(), status = $("filter-status").value;
  const run = r => kernel === "" || String(report.runs.indexOf(r)) === kernel;
  const name = p => p.toLowerCase().includes(property);
  return {
    property: ({run: r, p}) => run(r) && name(p.name) && (status === "" || p.status === status || status in p.dispositions),
    failure: (r, f) => run(r) && name(f.property) && (status === "" || status === "failed" || f.disposition === status),
  };
};

// ---- charts
const WIDTH = 460, HEIGHT = 260, MARGIN = {top: 18, right: 14, bottom: 46, left: 52};
function chart(title, note, label, height = HEIGHT) {
  const svg = d3.create("svg").attr("viewBox", `0 0 ${WIDTH} ${height}`).attr("role", "img").attr("aria-label", label);
  const figureElement = make("figure", {}, make("figcaption", {}, title, note ? make("span", {class: "quiet"}, ` ${note}`) : null), svg.node());
  return {svg, figure: figureElement};
}
function dataTable(head, rows) {
  return make("details", {class: "plain"}, make("summary", {}, "As a table"), make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Data of the chart"},
    make("table", {}, make("thead", {}, make("tr", {}, ...head.map(h => make("th", {scope: "col"}, h)))),
      make("tbody", {}, ...rows.map(r => make("tr", {}, ...r.map(x => make("td", {class: "number"}, x))))))));
}

// Counts by bucket; `marks`: {at: value, text}. Above 1 the bars have the colour of failures where `fails`.
function histogram(title, note, counts, marks, unit, fails) {
  const total = d3.sum(counts), names = report.buckets;
  const {svg, figure: out} = chart(title, note, `${title}: ${count(total)} ${unit}. ` + names.map((n, k) => counts[k] ? `${n}: ${count(counts[k])}` : "").filter(t => t).join(", "));
  if (total === 0) return make("figure", {}, make("figcaption", {}, title), make("p", {class: "quiet"}, "Nothing of this kind was judged."));
  const x = d3.scaleBand(d3.range(names.length), [MARGIN.left, WIDTH - MARGIN.right]).padding(0.12);
  const y = d3.scaleLog([0.7, Math.max(10, d3.max(counts))], [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const over = k => fails && k > 10;
  svg.append("g").attr("transform", `translate(0,${HEIGHT - MARGIN.bottom})`).call(d3.axisBottom(x).tickValues(d3.range(0, 21, 5).concat([22])).tickFormat(k => k === 22 ? "inf" : k === 0 ? "≤ 2⁻¹⁰" : k === 10 ? "1" : k < 10 ? "2⁻⁵" : k === 15 ? "2⁵" : "2¹⁰"));
  svg.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(d3.axisLeft(y).ticks(5, "~s"));
  svg.append("text").attr("x", WIDTH / 2).attr("y", HEIGHT - 8).attr("text-anchor", "middle").text(`${unit}, both axes logarithmic`);
  svg.selectAll("rect").data(counts).enter().filter(n => n > 0).append("rect").attr("class", "bar").each(function (n) { this.n = n; });
  let at = 0;
  svg.selectAll("rect").each(function () {
    while (counts[at] === 0) ++at;
    d3.select(this).classed("over", over(at)).attr("x", x(at)).attr("width", x.bandwidth()).attr("y", y(counts[at])).attr("height", y(0.7) - y(counts[at]))
      .append("title").text(`${names[at]}: ${count(counts[at])} ${unit}`);
    ++at;
  });
  // Bucket k ends at 2^(k-10).
  const position = v => x.step() * (Math.log2(v) + 11) + MARGIN.left;
  marks.forEach((m, n) => {
    const px = Math.min(position(m.at), WIDTH - MARGIN.right);
    svg.append("line").attr("class", "mark").attr("x1", px).attr("x2", px).attr("y1", MARGIN.top).attr("y2", HEIGHT - MARGIN.bottom);
    svg.append("text").attr("class", "mark-text").attr("x", px + 4).attr("y", MARGIN.top + 4 + 14 * n).text(m.text);
  });
  out.append(dataTable(["up to", unit], names.map((n, k) => [n, count(counts[k])]).filter((r, k) => counts[k] > 0)));
  return out;
}

// Largest and mean error of rows against the keys that they see, with sqrt(N) and N from the first point.
function errorsByKeys(properties) {
  const byType = new Map();
  for (const {p} of properties)
    for (const [type, points] of Object.entries(p.errors_by_keys))
      for (const point of points) {
        if (!byType.has(type)) byType.set(type, new Map());
        const of = byType.get(type), was = of.get(point.keys) || {keys: point.keys, rows: 0, sum: 0, largest: 0};
        const mean = value(point.mean), largest = value(point.largest);
        of.set(point.keys, {keys: point.keys, rows: was.rows + point.rows, sum: was.sum + Math.log2(mean) * point.rows, largest: Math.max(was.largest, Number.isFinite(largest) ? largest : was.largest)});
      }
  const types = [...byType.keys()].sort();
  const lines = types.map(t => ({type: t, points: [...byType.get(t).values()].filter(p => p.rows > 0 && Number.isFinite(p.sum)).map(p => ({...p, mean: Math.pow(2, p.sum / p.rows)})).sort((a, b) => a.keys - b.keys)})).filter(l => l.points.length);
  const title = "Error against the number of keys";
  if (!lines.length) return make("figure", {}, make("figcaption", {}, title), make("p", {class: "quiet"}, "No row with a finite output was judged."));
  const points = lines.flatMap(l => l.points);
  const {svg, figure: out} = chart(title, "geometric mean over rows of the largest error of O, in units in the last place", `${title}, by input type: ` +
    lines.map(l => `${l.type}: ` + l.points.map(p => `${p.keys} keys ${figure(p.mean)}`).join(", ")).join("; "), 300);
  const height = 300;
  const xs = d3.scaleLog([d3.min(points, p => p.keys), Math.max(2, d3.max(points, p => p.keys)) * 1.5], [MARGIN.left, WIDTH - MARGIN.right]).base(2);
  // A wrong kernel's errors have no limit; what lies above the axis is drawn at its end.
  const MOST = 1e6, low = Math.min(d3.min(points, p => p.mean), MOST / 64), high = Math.max(Math.min(d3.max(points, p => p.mean), MOST), low * 64);
  const ys = d3.scaleLog([low / 1.5, high * 1.5], [height - MARGIN.bottom, MARGIN.top]).clamp(true);
  const above = points.filter(p => p.mean > ys.domain()[1]).length;
  svg.append("g").attr("transform", `translate(0,${height - MARGIN.bottom})`).call(d3.axisBottom(xs).ticks(8, "~d"));
  svg.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(d3.axisLeft(ys).ticks(5, "~g"));
  svg.append("text").attr("x", WIDTH / 2).attr("y", height - 8).attr("text-anchor", "middle").text("visible keys N (from this many to twice as many)");
  const colours = d3.scaleOrdinal(["f32", "f16", "bf16"], ["#2f8f5b", "#b4632d", "#7a63c7"]);
  const symbols = d3.scaleOrdinal(["f32", "f16", "bf16"], [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle]);
  const first = {keys: xs.domain()[0], error: low};
  const curve = d3.line().x(p => xs(p[0])).y(p => ys(p[1]));
  for (const [name, power] of [["√N", 0.5], ["N", 1]]) {
    const steps = d3.range(0, 41).map(k => first.keys * Math.pow(xs.domain()[1] / first.keys, k / 40)).map(n => [n, first.error * Math.pow(n / first.keys, power)]).filter(p => p[1] <= ys.domain()[1]);
    svg.append("path").attr("class", "guide").attr("data-guide", name).attr("d", curve(steps));
    const end = steps[steps.length - 1];
    svg.append("text").attr("class", "mark-text").attr("x", xs(end[0]) - 4).attr("y", Math.max(ys(end[1]) - 4, MARGIN.top - 6)).attr("text-anchor", "end").text(name);
  }
  lines.forEach((l, n) => {
    svg.append("path").attr("class", "curve").attr("stroke", colours(l.type)).attr("d", curve(l.points.map(p => [p.keys, p.mean])));
    svg.append("g").selectAll("path").data(l.points).enter().append("path").attr("class", "point").attr("d", d3.symbol().type(symbols(l.type)).size(50)())
      .attr("transform", p => `translate(${xs(p.keys)},${ys(p.mean)})`).attr("fill", colours(l.type))
      .append("title").text(p => `${l.type}, from ${p.keys} keys: mean ${figure(p.mean)}, largest ${figure(p.largest)} of ${count(p.rows)} rows`);
    svg.append("path").attr("d", d3.symbol().type(symbols(l.type)).size(50)()).attr("transform", `translate(${MARGIN.left + 12},${MARGIN.top + 4 + 16 * n})`).attr("fill", colours(l.type));
    svg.append("text").attr("x", MARGIN.left + 22).attr("y", MARGIN.top + 8 + 16 * n).text(l.type);
  });
  if (above) out.append(make("p", {class: "quiet"}, `${above} points lie above the axis and are drawn at its end.`));
  out.append(dataTable(["type", "keys from", "rows", "mean", "largest"], lines.flatMap(l => l.points.map(p => [l.type, count(p.keys), count(p.rows), figure(p.mean), figure(p.largest)]))));
  return out;
}

function drawCharts(properties) {
  const sum = name => report.buckets.map((_, k) => d3.sum(properties, ({p}) => p.histograms[name][k]));
  const threshold = d3.min(properties, ({p}) => value(p.least_threshold));
  const marks = [{at: 1, text: "1"}];
  if (Number.isFinite(threshold)) marks.push({at: threshold, text: `least threshold ${figure(threshold)}`});
  $("charts").replaceChildren(
    histogram("Error / bound", "1 is the bound", sum("ratio"), [{at: 1, text: "1: the bound"}], "elements", true),
    histogram("Noise ratio R", "1 is what rounding explains", sum("noise"), marks, "rows", false),
    histogram("Noise ratio / threshold", "1 is the threshold of the row", sum("budget"), [{at: 1, text: "1: the threshold"}], "rows", true),
    errorsByKeys(properties));
}

// ---- tables
const least = p => { const n = Object.values(p.regimes); return n.length ? d3.min(n) : 0; };
const knownFailures = p => d3.sum(Object.values(p.known));
const statusCell = status => make("span", {class: word(status)}, status);
const propertyColumns = [
  {name: "Kernel", get: ({run}) => kernelName(run)},
  {name: "Property", get: ({p}) => p.name, style: () => "name", draw: ({p}) => make("span", {title: p.statement}, breaking(p.name))},
  {name: "Status", get: ({p}) => STATUSES.indexOf(p.status), draw: ({p}) => statusCell(p.status)},
  {name: "Cases", number: true, get: ({p}) => p.cases, draw: ({p}) => count(p.cases)},
  {name: "Violations", number: true, get: ({p}) => p.violations, draw: ({p}) => count(p.violations), style: ({p}) => p.violations > 0 ? "failed" : ""},
  {name: "Regimes", number: true, title: "regimes seen", get: ({p}) => Object.keys(p.regimes).length},
  {name: "Rarest", number: true, title: "cases of the rarest of them", get: ({p}) => least(p), draw: ({p}) => count(least(p))},
  {name: "Error / bound", number: true, title: "the largest", get: ({p}) => value(p.worst_ratio), draw: ({p}) => figure(p.worst_ratio), style: ({p}) => value(p.worst_ratio) > 1 ? "failed" : ""},
  {name: "R / threshold", number: true, title: "the largest noise ratio over its threshold", get: ({p}) => value(p.worst_budget_share), draw: ({p}) => figure(p.worst_budget_share), style: ({p}) => value(p.worst_budget_share) > 1 ? "failed" : ""},
  {name: "Seconds", number: true, get: ({p}) => p.seconds, draw: ({p}) => figure(p.seconds)},
  {name: "Note", get: ({p}) => p.not_covered || "", style: ({p}) => p.not_covered ? "long" : ""},
];

function drawMatrix(properties) {
  if (report.runs.length < 2) return;
  $("section-matrix").hidden = false;
  const runs = report.runs.filter(r => properties.some(x => x.run === r));
  const names = [...new Set(properties.map(({p}) => p.name))];
  const cells = new Map(properties.map(x => [`${x.n} ${x.p.name}`, x.p]));
  const cell = (run, name) => cells.get(`${report.runs.indexOf(run)} ${name}`);
  table($("matrix"), [
    {name: "Property", get: name => name, style: () => "name", draw: breaking},
    ...runs.map(run => ({
      name: kernelName(run), get: name => { const p = cell(run, name); return p ? STATUSES.indexOf(p.status) : 9; },
      draw: name => { const p = cell(run, name); return p ? make("span", {class: word(p.status)}, p.status === "failed" ? `failed ${count(p.violations)}` : p.status === "known" ? `known ${count(knownFailures(p))}` : p.status) : ""; }})),
  ], names);
}

function drawRegimes(properties) {
  const by = new Map();
  for (const {p} of properties)
    for (const [name, n] of Object.entries(p.regimes)) {
      const was = by.get(name) || {name, cases: 0, properties: 0, least: Infinity};
      by.set(name, {name, cases: was.cases + n, properties: was.properties + 1, least: Math.min(was.least, n)});
    }
  const rows = [...by.values()], most = d3.max(rows, r => r.cases) || 1;
  table($("regimes"), [
    {name: "Regime", get: r => r.name, style: () => "name", draw: r => breaking(r.name)},
    {name: "Cases", number: true, get: r => r.cases, draw: r => count(r.cases)},
    {name: "Share", get: r => r.cases, draw: r => make("span", {class: "meter", style: `width:${(10 * r.cases / most).toFixed(2)}rem`})},
    {name: "Properties", number: true, get: r => r.properties},
    {name: "Fewest in one", number: true, title: "cases in the property that has the fewest", get: r => r.least, draw: r => count(r.least)},
  ], rows, {sort: 1});
}

function drawMutants() {
  const mutants = report.mutants || [];
  if (!mutants.length) return;
  $("section-mutants").hidden = false;
  $("mutants-note").textContent = `${count(mutants.filter(m => m.check !== null).length)} of ${count(mutants.length)} mutants fail a property.`;
  const checks = [...new Set(mutants.map(m => m.check).filter(c => c !== null))].sort();
  const groups = [...new Set(mutants.map(m => m.group))].map(name => ({name, mutants: mutants.filter(m => m.group === name)}));
  const by = (g, check) => g.mutants.filter(m => m.check === check).length;
  table($("mutants"), [
    {name: "Group", get: g => g.name},
    {name: "Mutants", number: true, get: g => g.mutants.length},
    ...checks.map(c => ({name: c, number: true, get: g => by(g, c)})),
    {name: "Survive", number: true, get: g => by(g, null), style: g => by(g, null) > 0 ? "failed" : ""},
  ], groups);
}

// ---- failures
function drawFailures(keep) {
  const rows = report.runs.flatMap(run => run.failures.map(f => ({run, f}))).filter(({run, f}) => keep.failure(run, f));
  const total = d3.sum(report.runs, r => r.violations), listed = d3.sum(report.runs, r => r.failures.length);
  $("section-failures").hidden = total === 0;
  $("failures-note").textContent = listed < total ? `${count(listed)} of ${count(total)} failures are listed: the first of each property. The counts above are complete.` : `${count(total)} failures.`;
  table($("failures"), [
    {name: "Kernel", get: ({run}) => kernelName(run)},
    {name: "Property", get: ({f}) => f.property, style: () => "name", draw: ({f}) => breaking(f.property)},
    {name: "Case", number: true, get: ({f}) => f.index, draw: ({f}) => String(f.index)},
    {name: "Disposition", get: ({f}) => f.disposition},
    {name: "Check", get: ({f}) => f.check},
    {name: "Error / bound", number: true, get: ({f}) => value(f.worst_ratio), draw: ({f}) => figure(f.worst_ratio)},
    {name: "R / threshold", number: true, get: ({f}) => value(f.worst_budget_share), draw: ({f}) => figure(f.worst_budget_share)},
    {name: "Signature", get: ({f}) => f.signature, style: () => "long"},
  ], rows, {shown: FEW});
}

function copyBox(text, label) {
  const said = make("span", {"aria-live": "polite", class: "quiet"});
  const button = make("button", {type: "button", "aria-label": `Copy ${label}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch (e) {
      // From disk some browsers keep the clipboard shut: the text is selected, to be copied by hand.
      getSelection().selectAllChildren(box);
      said.textContent = document.execCommand("copy") ? "copied" : "selected";
      return;
    }
    said.textContent = "copied";
  }}, "Copy");
  const box = make("pre", {}, text);
  return make("div", {}, make("div", {class: "copy"}, box, button), said);
}

const keys = ([begin, end]) => end - begin === 1 ? String(begin) : `${begin}–${end - 1}`;
const differs = (a, b) => { a = value(a); b = value(b); return !(a === b || (Number.isNaN(b)) || Math.abs(a - b) <= 1e-3 * Math.max(Math.abs(a), Math.abs(b), 1e-30)); };

function stateTable(d) {
  const cell = (k, e) => make("td", {class: "number" + (k !== null && differs(k, e) ? " failed" : "")}, k === null ? "–" : figure(k));
  return make("table", {}, make("thead", {},
    make("tr", {}, ...["Keys", "m", "exact m", "l", "exact l", "scale", "exact scale"].map(h => make("th", {scope: "col", class: h === "Keys" ? null : "number"}, h)))),
    make("tbody", {}, ...d.states.map(s => make("tr", {}, make("th", {scope: "row"}, (d.states.some(t => t.split !== d.states[0].split) ? `split ${s.split}: ` : "") + keys(s.keys)),
      ...["m", "l", "scale"].flatMap(f => [cell(s.kernel ? s.kernel[f] : null, s.exact[f]), make("td", {class: "number"}, Number.isNaN(value(s.exact[f])) ? "any" : figure(s.exact[f]))])))));
}

// Masses of one row: expected beside got.
function massChart(d) {
  const {tiles, rows} = d.masses, r = rows.indexOf(d.place.row);
  const of = name => tiles.map((_, t) => value(d.masses[name][r * tiles.length + t]));
  if (r < 0 || of("expected").every(Number.isNaN)) return null;
  const got = of("got"), expected = of("expected"), known = !got.every(Number.isNaN);
  const {svg, figure: out} = chart("Mass of each tile", `row ${d.place.row}: expected, and got from V = indicators of the tiles`, "Mass of each tile, expected and got: " + tiles.map((t, n) => `keys ${keys(t)}: ${figure(expected[n])}, ${figure(got[n])}`).join("; "), 220);
  const height = 220;
  const x = d3.scaleBand(d3.range(tiles.length), [MARGIN.left, WIDTH - MARGIN.right]).padding(0.2), finite = got.concat(expected).filter(Number.isFinite);
  const y = d3.scaleLinear([Math.min(0, d3.min(finite)), Math.max(1e-3, d3.max(finite))], [height - MARGIN.bottom, MARGIN.top]).nice();
  const every = Math.ceil(tiles.length / 8);
  svg.append("g").attr("transform", `translate(0,${height - MARGIN.bottom})`).call(d3.axisBottom(x).tickValues(d3.range(0, tiles.length, every)).tickFormat(t => keys(tiles[t])));
  svg.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(d3.axisLeft(y).ticks(5, "~g"));
  svg.append("text").attr("x", WIDTH / 2).attr("y", height - 8).attr("text-anchor", "middle").text("keys of the tile; left bar expected, right bar got");
  const half = x.bandwidth() / 2;
  const bars = (values, shift, style) => svg.append("g").selectAll("rect").data(values).enter().append("rect").attr("class", style)
    .attr("x", (_, t) => x(t) + shift).attr("width", half).attr("y", v => Number.isFinite(v) ? y(Math.max(0, v)) : MARGIN.top).attr("height", v => Number.isFinite(v) ? Math.max(0.5, Math.abs(y(v) - y(0))) : height - MARGIN.bottom - MARGIN.top)
    .append("title").text((v, t) => `keys ${keys(tiles[t])}: ${figure(v)}`);
  bars(expected, 0, "bar expected");
  if (known) bars(got, half, "bar over got");
  out.append(dataTable(["keys", "expected", "got"], tiles.map((t, n) => [keys(t), figure(expected[n]), known ? figure(got[n]) : "not measured"])));
  return out;
}

// Rows by tiles, coloured by got - expected.
function massMap(d) {
  const {tiles, rows} = d.masses, expected = d.masses.expected.map(value), got = d.masses.got.map(value);
  const error = got.map((g, n) => g - expected[n]);
  if (!rows.length || got.every(Number.isNaN)) return null;
  const finite = error.filter(Number.isFinite).map(Math.abs), most = Math.max(1e-6, d3.max(finite) || 0);
  const size = Math.max(6, Math.min(26, Math.floor(300 / rows.length))), height = MARGIN.top + MARGIN.bottom + size * rows.length;
  const {svg, figure: out} = chart("Map of the error", `mass got less mass expected, rows by tiles of batch ${d.place.b}, head ${d.place.h}; full colour at ±${figure(most)}`,
    `Error of the mass over ${rows.length} rows and ${tiles.length} tiles, at most ${figure(most)}`, height);
  const x = d3.scaleBand(d3.range(tiles.length), [MARGIN.left, WIDTH - MARGIN.right]), y = d3.scaleBand(d3.range(rows.length), [MARGIN.top, height - MARGIN.bottom]);
  svg.append("g").attr("transform", `translate(0,${height - MARGIN.bottom})`).call(d3.axisBottom(x).tickValues(d3.range(0, tiles.length, Math.ceil(tiles.length / 8))).tickFormat(t => keys(tiles[t])));
  svg.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(d3.axisLeft(y).tickValues(d3.range(0, rows.length, Math.ceil(rows.length / 12))).tickFormat(r => rows[r]));
  svg.append("text").attr("x", WIDTH / 2).attr("y", height - 8).attr("text-anchor", "middle").text("keys of the tile");
  svg.append("text").attr("transform", `translate(12,${height / 2}) rotate(-90)`).attr("text-anchor", "middle").text("query row");
  const at = n => ({row: Math.floor(n / tiles.length), tile: n % tiles.length});
  const style = e => {
    if (Number.isNaN(e)) return "var(--line)";
    const share = Math.round(100 * Math.min(1, Math.abs(e) / most));
    return `color-mix(in srgb, var(${e > 0 ? "--high" : "--low"}) ${share}%, var(--mid))`;
  };
  svg.append("g").selectAll("rect").data(error).enter().append("rect").attr("class", "cell").attr("x", (_, n) => x(at(n).tile)).attr("y", (_, n) => y(at(n).row))
    .attr("width", Math.max(1, x.bandwidth() - 1)).attr("height", Math.max(1, y.bandwidth() - 1)).attr("style", e => `fill:${style(e)}`)
    .append("title").text((e, n) => `row ${rows[at(n).row]}, keys ${keys(tiles[at(n).tile])}: got ${figure(got[n])}, expected ${figure(expected[n])}`);
  out.append(make("p", {class: "quiet"}, "Red: too much. Blue: too little. Grey: nothing is promised for the row."));
  out.append(dataTable(["row", "keys", "expected", "got"], error.map((e, n) => ({e, n})).filter(({e}) => Number.isFinite(e) && Math.abs(e) > most / 100).slice(0, 200)
    .map(({n}) => [String(rows[at(n).row]), keys(tiles[at(n).tile]), figure(expected[n]), figure(got[n])])));
  return out;
}

function fillDetail(into, run, d) {
  const place = e => e.col < 0 ? `LSE[${e.b},${e.h},${e.row}]` : `O[${e.b},${e.h},${e.row},${e.col}]`;
  const list = make("dl", {});
  const say = (name, text) => { if (text) list.append(make("dt", {}, name), make("dd", {}, text)); };
  say("Must hold", d.statement);
  say("Between runs", d.relation);
  say("Seen", d.seen);
  say("Signature", d.signature);
  say("As found", d.found_file);
  if (!d.repeats) say("Repeats", "no: the case passed when it was run again");
  into.append(list, make("h3", {}, "Replay"), copyBox(d.replay, "the replay line"));
  if (d.diagnosis) into.append(make("h3", {}, "Diagnosis"), make("pre", {}, d.diagnosis.trimEnd()));
  into.append(...(d.case ? [make("h3", {}, d.shrunk ? "The shrunk case" : "The case"), make("pre", {}, d.case.trimEnd())] : []));
  if (d.states.length) {
    into.append(make("h3", {}, `State after each tile: batch ${d.place.b}, head ${d.place.h}, row ${d.place.row}`),
      make("p", {class: "quiet"}, d.states[0].kernel ? "Of the kernel's trace beside the exact one; what differs by more than 1/1000 is marked." : "The kernel gives no trace: the exact states alone."),
      make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "States"}, stateTable(d)));
  }
  if (d.nothing) into.append(make("p", {class: "quiet"}, `No states: ${d.nothing}.`));
  into.append(make("div", {class: "columns"}, ...[massChart(d), massMap(d)].filter(x => x)));
  if (d.worst.length) {
    const box = make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Worst elements"});
    into.append(make("h3", {}, `Worst elements as found (${count(d.elements_over_bound)} over their bound, ${count(d.rows_over_budget)} rows over the noise budget)`), box);
    const number = (name, of) => ({name, number: true, get: e => value(e[of]), draw: e => Number.isFinite(value(e[of])) ? String(Number(value(e[of]).toPrecision(9))) : String(e[of])});
    table(box, [{name: "Element", get: place}, number("Got", "got"), number("Exact", "exact"), {name: "Error / bound", number: true, get: e => value(e.ratio), draw: e => figure(e.ratio)},
      {name: "Units in the last place", number: true, get: e => value(e.ulps), draw: e => figure(e.ulps)}], d.worst);
  }
}

function drawDetails(keep) {
  const rows = report.runs.flatMap(run => run.details.map(d => ({run, d})));
  const signatures = d3.sum(report.runs, r => d3.sum(r.properties, p => Object.keys(p.signatures).length)), total = d3.sum(report.runs, r => r.violations);
  $("section-details").hidden = rows.length === 0;
  $("details-note").textContent = `${count(rows.length)} of ${count(total)} failures, each of another signature` + (signatures > rows.length ? `; details are capped, there are ${count(signatures)} signatures.` : ".");
  const drawn = $("details").drawn || ($("details").drawn = rows.map(({run, d}, n) => {
    const box = make("details", {id: `failure-${n + 1}`}, make("summary", {}, statusCell("failed"), ` ${kernelName(run)}, ${d.property}: ${d.disposition}, check ${d.check}, case ${d.index}`));
    // What is inside is drawn when it is first opened.
    box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) fillDetail(box, run, d); });
    return box;
  }));
  $("details").replaceChildren(...drawn.filter((_, n) => keep.failure(rows[n].run, rows[n].d)));
}

function drawEnvironment() {
  $("environment").replaceChildren(...report.runs.map(run => {
    const list = make("dl", {});
    for (const [name, text] of Object.entries(run.environment)) list.append(make("dt", {}, name), make("dd", {}, text));
    for (const [name, text] of [["contract", run.contract], ["seed", run.seed === null ? "none: the cases came from files" : String(run.seed)], ["rows judged", count(run.rows)],
      ["in cpp_dec_float", count(run.rows_exact)], ["out of range", `${count(run.rows_out_of_range)} (counted, not judged)`], ["loose elements", `${count(run.loose)} of ${count(run.elements)} (their bound cannot tell right from wrong)`],
      ["seconds", figure(run.seconds)]]) list.append(make("dt", {}, name), make("dd", {}, text));
    return make("div", {}, make("h3", {}, kernelName(run)), make("p", {}, run.verdict), copyBox(run.command, "the command that repeats the run"), list);
  }));
}

function draw() {
  const keep = filter(), properties = all.filter(keep.property);
  $("filter-count").textContent = `${properties.length} of ${all.length} properties`;
  drawMatrix(properties);
  drawDetails(keep);
  table($("properties"), propertyColumns, properties, {sort: 2});
  drawFailures(keep);
  drawCharts(properties);
  drawRegimes(properties);
  document.documentElement.dataset.drawn = Number(document.documentElement.dataset.drawn || 0) + 1;  // for who drives the page
}

report.runs.forEach((run, n) => $("filter-kernel").append(make("option", {value: n}, kernelName(run))));
const dispositions = new Set(all.flatMap(({p}) => Object.keys(p.dispositions)));
const offered = new Set([...STATUSES.filter(s => all.some(({p}) => p.status === s)), ...[...dispositions].sort()]);
for (const status of offered) $("filter-status").append(make("option", {value: status}, status));
$("what").textContent = report.runs.map(run => `${kernelName(run)} on ${run.device}: ` + Object.entries(run.status).filter(([, n]) => n > 0).map(([s, n]) => `${n} ${s}`).join(", ") + `; ${count(run.cases)} cases, ${count(run.violations)} violations`).join(" · ");
let waiting = 0;
const later = () => { clearTimeout(waiting); waiting = setTimeout(draw, 60); };
$("filter").addEventListener("input", later);
$("filter").addEventListener("reset", later);
draw();
drawMutants();
drawEnvironment();
const first = $("details").querySelector("details");
if (first) first.open = true;
document.documentElement.dataset.ready = "yes";
})();
